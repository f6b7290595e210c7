"""JSON Schemas that clients send are known to be schemas, and bounded, before anything is done with them."""

import json
import re
from typing import Any

import pytest
from tool_schemas import TOOLS

from service.schemas import BYTES_MAX, InvalidSchema, contradiction, matches, read, strict_fault


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


TEXT = {"type": "string"}


@pytest.mark.parametrize("name", TOOLS)
def test_schemas_that_are_met_are_read(name: str) -> None:
    assert read(json.dumps(TOOLS[name]).encode()).document == TOOLS[name]


def doubled(levels: int) -> dict[str, Any]:
    steps = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{levels}": {}}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "object or a boolean"),
        ('{"type": "strin"}', "type"),
        ('{"required": true}', "required"),
        ('{"properties": {"a": {"type": 5}}}', "properties"),
        ('{"$ref": "#/$defs/a"}', "does not exist"),
        ('{"$ref": "#"}', "itself"),
        ('{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}', "itself"),
        ('{"$ref": "http://127.0.0.1:9/schema.json"}', "disabled"),
        ('{"pattern": "(("}', "regex"),
        (json.dumps(doubled(40)), "subschemas"),
        ('{"a":' * 1000 + "{}" + "}" * 1000, "levels"),
        (json.dumps({"enum": [[]] * 60_000}), "parts"),
        (json.dumps({"description": "x" * BYTES_MAX}), "bytes"),
    ],
)
def test_what_is_no_schema_or_beyond_all_bounds_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidSchema, match=words):
        read(text.encode())


def test_a_reference_outside_is_never_fetched() -> None:
    """Whether or not anything would answer there."""
    for reference in ("https://json-schema.org/draft/2020-12/schema", "file:///etc/passwd", "other.json"):
        with pytest.raises(InvalidSchema):
            read(json.dumps({"properties": {"a": {"$ref": reference}}}).encode())


def test_what_only_looks_like_a_reference_is_data() -> None:
    for schema in (
        {"const": {"$ref": "#/nowhere"}},
        {"properties": {"$ref": {"type": "string"}}},
        {"default": {"$ref": "#"}, "examples": [{"$ref": "#/nowhere"}]},
    ):
        assert read(json.dumps(schema).encode()).document == schema


def test_recursion_through_members_is_fine() -> None:
    tree = {"properties": {"children": {"type": "array", "items": {"$ref": "#"}}}, "required": ["children"]}
    schema = read(json.dumps(tree).encode())
    assert schema.valid({"children": [{"children": []}]})
    assert not schema.valid({"children": [{}]})


def test_an_undeclared_dialect_is_the_first_in_which_the_schema_is_valid() -> None:
    assert not read(b'{"minimum": 3, "exclusiveMinimum": true}').valid(3)
    assert not read(b'{"items": [{"type": "string"}], "additionalItems": false}').valid(["a", 1])
    assert read(b'{"$schema": "https://example.com/unknown", "prefixItems": [{"type": "null"}]}').valid([None])


def test_formats_are_asserted() -> None:
    assert not read(b'{"format": "date"}').valid("yesterday")
    assert read(b'{"format": "date"}').valid("2026-12-01")


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        (closed(["a"], a=TEXT), None),
        (closed(["a"], a=closed(["b"], b={"anyOf": [TEXT, {"type": "null"}]})), None),
        ({"type": "object", "properties": {}}, r"context=\(\), 'additionalProperties'"),
        (closed([], a=TEXT), "every key in properties. Missing 'a'"),
        (closed(["a"], a=closed([], b=TEXT)), r"context=\('properties', 'a'\), 'required'"),
        (closed(["a"], a={"type": "array", "items": {"type": "object"}}), r"\('properties', 'a', 'items'\)"),
        (closed(["a", "z"], a=TEXT), "'z'"),
        ({"anyOf": [closed([])]}, "type"),
        ({**closed([]), "anyOf": [closed([])]}, "union"),
        ({**closed([]), "$defs": {"x": {"type": "object"}}}, r"\('\$defs', 'x'\)"),
        (True, "type"),
    ],
)
def test_strict_schemas_require_all_and_allow_nothing_else(document: Any, fault: str | None) -> None:
    found = strict_fault(document)
    assert (found is None) if fault is None else re.search(fault, str(found))


def test_a_contradiction_is_proven_with_its_place_or_not_at_all() -> None:
    conflict = closed(["n"], n={"type": "integer", "minimum": 5, "maximum": 3})
    assert "/properties/n" in str(contradiction(json.dumps(conflict).encode()))
    assert contradiction(json.dumps(TOOLS["create_payment"]).encode()) is None


def test_patterns_match_as_schemas_have_it() -> None:
    assert matches(r"\d+$", "a1")
    assert not matches(r"^\d+$", "a1")
    assert not matches("^(a+)+$", "a" * 5_000 + "b")
