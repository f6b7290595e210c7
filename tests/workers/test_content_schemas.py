"""Values that satisfy JSON Schemas: each one made up is valid, whatever the schema, and plausible if it can be."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tool_schemas import TOOLS

from service import schemas
from workers.content import Unsatisfiable
from workers.content.draws import Draws
from workers.content.hints import Hints, said
from workers.content.instances import dumped, instance, valid
from workers.content.instances.needs import same
from workers.content.instances.patterns import Unsupported, matching

SEEDS = st.integers(0, 2**32)
MESSAGE = "What about Paris and London? Use name: Bob, and 12 of them."

NAMES = st.sampled_from(["name", "city", "count", "tags", "a", "user_id", "email", "x y", "ü", "$ref"])
LETTERS = st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-1000, 1000)
    | st.floats(-1e3, 1e3).map(lambda number: round(number, 2))
    | st.text(LETTERS, max_size=12)
)
VALUES = st.recursive(
    SCALARS, lambda each: st.lists(each, max_size=4) | st.dictionaries(NAMES, each, max_size=4), max_leaves=8
)
KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
Draw = st.DrawFn


def make(schema: Any, seed: int = 0, message: str = "") -> Any:
    return instance(json.dumps(schema).encode(), Random(seed), said(message) if message else Hints())


@st.composite
def accepting(draw: Draw, value: Any, depth: int = 0) -> Any:
    """A schema that the value satisfies."""
    deeper = depth + 1
    match draw(st.integers(0, 9)) if depth < 4 else 9:
        case 0:
            others = draw(st.lists(SCALARS, max_size=3))
            return {"const": value} if draw(st.booleans()) else {"enum": [*others, value]}
        case 1:
            branches = [draw(accepting(value, deeper)), draw(st.sampled_from([False, {"type": "null"}]))]
            return {"anyOf": draw(st.permutations(branches))}
        case 2:
            return {"allOf": [draw(accepting(value, deeper)), draw(accepting(value, deeper))]}
        case 3:
            return {"if": draw(accepting(value, depth + 2)), "then": draw(accepting(value, deeper)), "else": False}
        case 4:
            return {"allOf": [draw(accepting(value, depth + 2))], "not": {"const": "impossible"}}
        case 5:
            return draw(st.sampled_from([True, {}]))
    kind = KINDS.get(type(value), "null")
    kinds = [kind, *({"null", "string"} - {kind})]
    schema = {"type": draw(st.sampled_from([kind, kinds[:2], kinds]))}
    return schema | (draw(FURTHER[kind](value, deeper)) if kind in FURTHER else {})


def some(draw: Draw, keywords: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in keywords.items() if value is not None and draw(st.booleans())}


@st.composite
def number(draw: Draw, value: Any, _: int) -> dict[str, Any]:
    low, high = draw(st.integers(0, 5)), draw(st.integers(0, 5))
    steps = abs(value) if value and isinstance(value, int) else None
    bounds = {"minimum": value - low, "maximum": value + high, "exclusiveMinimum": value - 1, "multipleOf": steps}
    return some(draw, bounds)


@st.composite
def string(draw: Draw, value: str, _: int) -> dict[str, Any]:
    pattern = draw(st.sampled_from(["^.*$", f".{{{len(value)},}}", r"^[^\x00]*$"]))
    return some(draw, {"minLength": len(value), "maxLength": len(value) + 2, "pattern": pattern})


@st.composite
def array(draw: Draw, value: list[Any], depth: int) -> dict[str, Any]:
    least = draw(st.integers(0, len(value)))
    distinct = not any(same(one, other) for at, one in enumerate(value) for other in value[:at])
    schema = some(draw, {"minItems": least, "maxItems": len(value) + 1, "uniqueItems": distinct or None})
    if not value:
        return schema
    parts = [draw(accepting(each, depth)) for each in value]
    items = {"prefixItems": parts, "items": draw(st.booleans())} if draw(st.booleans()) else {"items": {"anyOf": parts}}
    contains = some(draw, {"contains": draw(accepting(value[0], depth + 1))})
    return schema | items | contains


@st.composite
def mapping(draw: Draw, value: dict[str, Any], depth: int) -> dict[str, Any]:
    names = list(value)
    named = [name for name in names if draw(st.booleans())]
    schema = {
        "properties": {name: draw(accepting(value[name], depth)) for name in named},
        "required": [name for name in names if draw(st.booleans())],
    }
    schema |= some(draw, {"minProperties": len(value), "maxProperties": len(value) + 1})
    schema |= some(draw, {"propertyNames": {"maxLength": 12}})
    if len(named) == len(names):
        schema |= draw(st.sampled_from([{}, {"additionalProperties": False}, {"unevaluatedProperties": False}]))
    if len(names) > 1:
        schema |= some(draw, {"dependentRequired": {names[0]: [names[1]]}})
    return schema


FURTHER: dict[str, Any] = {
    "integer": number,
    "number": number,
    "string": string,
    "array": array,
    "object": mapping,
}


def test_whatever_is_made_up_is_valid_and_nearly_every_schema_has_its_value_found() -> None:
    """Under schemas that some value satisfies, of nearly every keyword."""
    missed = []

    @given(VALUES.flatmap(accepting), SEEDS)
    @settings(max_examples=150)
    def attempt(schema: Any, seed: int) -> None:
        text = json.dumps(schema).encode()
        try:
            value = make(schema, seed, MESSAGE)
        except Unsatisfiable:
            missed.append(schema)
            assert schemas.contradiction(text) is None
        else:
            assert valid(text, value)
            assert json.loads(dumped(value)) == value

    attempt()
    assert len(missed) <= 4, missed


@pytest.mark.parametrize("name", TOOLS)
def test_arguments_of_the_tools_that_are_met_are_valid(name: str) -> None:
    text = json.dumps(TOOLS[name]).encode()
    for seed in range(6):
        for message in (
            "",
            MESSAGE,
            "Fix src/app.py, then mail bob@example.com about https://example.com/a by 2026-12-24",
        ):
            assert valid(text, make(TOOLS[name], seed, message))


def test_a_value_depends_on_schema_message_and_seed_alone() -> None:
    values = {dumped(make(TOOLS["create_event"], seed, MESSAGE)) for seed in range(8)}
    assert len(values) > 1
    assert values == {dumped(make(TOOLS["create_event"], seed, MESSAGE)) for seed in range(8)}


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        (
            {"type": "object", "properties": {"n": {"minimum": 5, "maximum": 3, "type": "integer"}}, "required": ["n"]},
            "/n",
        ),
        ({"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"]}, "no end"),
        ({"not": {}}, "not"),
        (False, "root"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "Length"),
        ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}, "exclusive"),
        ({"enum": ["a", "b"], "type": "integer"}, "root"),
        ({"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 3}, "uniqueItems"),
        ({"type": "string", "minLength": 10**9}, "characters"),
        ({"type": "array", "items": {"type": "null"}, "minItems": 10**9}, "items"),
        ({"type": "nonsense"}, "not usable"),
        ({"$ref": "https://example.com/elsewhere.json"}, "not usable"),
        ({"$ref": "#/$defs/missing"}, "missing"),
    ],
)
def test_a_schema_that_nothing_satisfies_is_refused_with_the_place(schema: Any, where: str) -> None:
    with pytest.raises(Unsatisfiable, match=where):
        make(schema)


def exponential(levels: int, width: int) -> dict[str, Any]:
    """Each level has several members of the next one, so that the least value has width^levels parts."""
    names = [f"p{index}" for index in range(width)]
    levels_ = {
        f"l{level}": {
            "type": "object",
            "properties": {name: {"$ref": f"#/$defs/l{level + 1}"} for name in names},
            "required": names,
        }
        for level in range(levels)
    }
    return {"$ref": "#/$defs/l0", "$defs": {**levels_, f"l{levels}": {"type": "null"}}}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


DOUBLED = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(40)} | {"d40": {"type": "null"}}


@pytest.mark.parametrize(
    "schema",
    [
        exponential(14, 5),
        nested(70),
        nested(400),
        {"$ref": "#/$defs/d0", "$defs": DOUBLED},
        {"$ref": "#"},
        {"type": "string", "pattern": "^(a+)+(?=b)$", "minLength": 60},
        {"type": "string", "pattern": "^((a{90}){90}){90}$"},
        {"type": "object", "additionalProperties": {"$ref": "#"}, "minProperties": 1},
        {
            "allOf": [
                {"anyOf": [{"properties": {f"a{at}": {"const": n}}, "required": [f"a{at}"]} for n in range(20)]}
                for at in range(20)
            ],
            "type": "object",
            "not": {"type": "object"},
        },
    ],
    ids=["exponential", "deep", "deeper", "doubled", "self", "backtracking", "repeated", "endless map", "many choices"],
)
def test_nasty_schemas_end_in_a_refusal_and_not_in_a_hang(schema: Any) -> None:
    with pytest.raises(Unsatisfiable):
        make(schema)


@pytest.mark.parametrize(
    ("schema", "check"),
    [
        ({"type": "string", "minLength": 2000}, lambda value: len(value) >= 2000),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 500}, lambda value: len(value) >= 500),
        (nested(30), lambda value: "a" in value),
        ({"type": "object", "minProperties": 120}, lambda value: len(value) >= 120),
        ({"type": "object", "properties": {f"p{at}": {} for at in range(2000)}}, lambda value: len(value) < 40),
        ({"type": "integer", "minimum": 10**25}, lambda value: value >= 10**25),
        ({"$id": "https://e.com/s", "$defs": {"x": {"$id": "x", "const": 8}}, "$ref": "x"}, lambda value: value == 8),
        ({"$defs": {"x": {"$anchor": "here", "const": 7}}, "$ref": "#here"}, lambda value: value == 7),
        ({"properties": {"type": {}, "$ref": {}}, "required": ["type", "$ref"]}, lambda value: len(value) == 2),
    ],
)  # fmt: skip
def test_large_and_unusual_schemas_are_served(schema: Any, check: Any) -> None:
    assert check(make(schema))


@pytest.mark.parametrize(
    ("message", "schema", "expected"),
    [
        ("What's the weather in Paris?", TOOLS["get_weather"], {"location": "Paris"}),
        ("weather for Oslo in celsius", TOOLS["get_weather"], {"location": "Oslo", "unit": "celsius"}),
        ("Add 2 and 40.5", TOOLS["add"], {"a": 2, "b": 40.5}),
        (
            "Book a flight from New York to San Francisco on 2026-12-24 for 2 people",
            TOOLS["book_flight"],
            {"from": "New York", "to": "San Francisco", "date": "2026-12-24", "passengers": 2},
        ),
        ("Read src/app.py", TOOLS["Read"], {"file_path": "src/app.py"}),
        ('Search the web for "rust release notes"', TOOLS["search_web"], {"query": "rust release notes"}),
        ("Open https://example.com/docs?page=2 please", TOOLS["browser_navigate"], {"url": "https://example.com/docs?page=2"}),
        ("John Doe is 42 years old.", TOOLS["pydantic_optional"], {"name": "John Doe"}),
        ("name: Bob, age: 33", TOOLS["pydantic_optional"], {"name": "Bob", "age": 33}),
    ],
)  # fmt: skip
def test_what_the_user_says_finds_its_place(message: str, schema: Any, expected: dict[str, Any]) -> None:
    for seed in range(5):
        value = make(schema, seed, message)
        assert {key: value.get(key) for key in expected} == expected


def test_descriptions_and_names_make_values_plausible() -> None:
    described = {make(TOOLS["get_weather"], seed)["location"] for seed in range(30)}
    assert "San Francisco, CA" in described
    assert all(1 <= len(place) < 40 for place in described)
    schema = {"type": "object", "properties": {"userEmail": {"type": "string"}, "age": {"type": "integer"}}}
    person = make(schema | {"required": ["userEmail", "age"]})
    assert "@" in person["userEmail"]
    assert 18 <= person["age"] <= 75


PATTERNS = [
    r"^[a-z0-9-]+$",
    r"^\d{4}-\d{2}-\d{2}$",
    r"^(?:\+?1[-.\s]?)?\(?\d{3}\)?[-.\s]?\d{3}[-.\s]?\d{4}$",
    r"^#(?:[0-9a-fA-F]{3}){1,2}$",
    r"^[^\s@]+@[^\s@]+\.[a-z]{2,}$",
    r"\p{Lu}\p{Ll}+",
    r"^(a|b)\1$",
    r"^(?<first>[xyz])-\1$",
    r"^(?=.*[A-Z])(?=.*\d)[A-Za-z\d]{8,}$",
    r"^[\w.-]+\/[\w.-]+$",
    r"^v?\d+(\.\d+){2}(-[a-z]+)?$",
    r"^\u0041\x42[\u00e4-\u00fc]$",
    r"^$",
    r"foo|bar",
    r"^[\s\S]*$",
    r"^\{\}$",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_strings_are_drawn_that_a_pattern_matches(pattern: str) -> None:
    for seed in range(20):
        found = matching(pattern, Draws(Random(seed)))
        assert found is not None
        assert schemas.matches(pattern, found)


@given(st.text(alphabet=r"ab01\^$.|?*+()[]{},-dwpuLk<>=!", max_size=30), SEEDS)
@settings(max_examples=200)
def test_any_pattern_is_read_or_refused(pattern: str, seed: int) -> None:
    try:
        found = matching(pattern, Draws(Random(seed)))
    except Unsupported:
        return
    assert found is None or len(found) < 21_000


@given(VALUES)
@settings(max_examples=50)
def test_dumped_json_is_compact_and_reads_as_the_value(value: Any) -> None:
    assert json.loads(dumped(value)) == value
    assert "\n" not in dumped(value)
