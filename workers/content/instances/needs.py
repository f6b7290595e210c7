"""What one value has to satisfy: the keywords of all subschemas that are held against it, put together.

`Need.add` takes one subschema after another, follows references and allOf, and raises Dead as soon as two of them
contradict each other. What has to be chosen (anyOf, oneOf, if) is left in `choices`.
Knows nothing of how values are drawn.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from service.schemas import REFERENCES, Node, Schema, matches

TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")

# Keywords of schemas that are not built up to, but checked.
_CHECKED = frozenset(
    (
        *("not", "oneOf", "if", "const", "pattern", "format", "multipleOf", "uniqueItems"),
        *("contains", "minContains", "maxContains", "unevaluatedItems", "unevaluatedProperties"),
        *("dependentSchemas", "dependencies", "propertyNames", "patternProperties", "maxProperties"),
    )
)
_EXACT = 2**53
_IMPLIED = {
    "object": "properties required additionalProperties patternProperties minProperties maxProperties propertyNames "
    "dependentRequired dependentSchemas unevaluatedProperties",
    "array": "items prefixItems contains minItems maxItems uniqueItems unevaluatedItems",
    "string": "pattern minLength maxLength format contentMediaType",
    "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
}


class Dead(Exception):
    """No value is found this way. The message says why."""


@dataclass(frozen=True, slots=True)
class Members:
    """The keywords on members of an object that belong together: `additional` is of those not named beside it."""

    properties: dict[str, Node]
    patterns: dict[str, Node]
    additional: Node


@dataclass(frozen=True, slots=True)
class Elements:
    """Likewise of an array."""

    prefix: list[Node]
    rest: Node


@dataclass(slots=True)
class Need:
    """All that holds for one value. Bounds include their ends unless `open` says otherwise."""

    schema: Schema
    nodes: list[dict[str, Any]] = field(default_factory=list)  # what was put together
    checks: list[dict[str, Any]] = field(default_factory=list)  # those of them a value is held against
    types: frozenset[str] | None = None
    values: list[Any] | None = None  # of enum and const
    low: Fraction | None = None
    low_open: bool = False
    high: Fraction | None = None
    high_open: bool = False
    steps: list[Fraction] = field(default_factory=list)
    shortest: int = 0
    longest: int | None = None
    patterns: list[str] = field(default_factory=list)
    format: str | None = None
    items_min: int = 0
    items_max: int | None = None
    elements: list[Elements] = field(default_factory=list)
    contains: list[tuple[Node, int]] = field(default_factory=list)
    unique: bool = False
    members: list[Members] = field(default_factory=list)
    names: list[Node] = field(default_factory=list)
    required: dict[str, None] = field(default_factory=dict)
    properties_min: int = 0
    properties_max: int | None = None
    needs_too: dict[str, list[str]] = field(default_factory=dict)  # a member that is there -> further ones
    schemas_too: dict[str, list[Node]] = field(default_factory=dict)  # a member that is there -> what else holds
    closed: bool = False  # members beyond those that are named are not evaluated by anything
    choices: list[list[Node]] = field(default_factory=list)

    def add(self, node: Node) -> None:
        """Raises Dead."""
        if isinstance(node, bool):
            if not node:
                raise Dead("false allows nothing")
            return
        if any(node is known for known in self.nodes):
            return
        self.nodes.append(node)
        if not _CHECKED.isdisjoint(node):
            self.checks.append(node)
        for reference in REFERENCES:
            if isinstance(node.get(reference), str):
                self.add(self.schema.resolve(node[reference]))
        for each in _list(node, "allOf"):
            self.add(each)
        self._type(node)
        self._number(node)
        self._string(node)
        self._array(node)
        self._object(node)
        self._choice(node)

    def member(self, name: str) -> list[Node]:
        """The subschemas of a member of that name."""
        found: list[Node] = []
        for members in self.members:
            own = [members.properties[name]] if name in members.properties else []
            own += [each for pattern, each in members.patterns.items() if matches(pattern, name)]
            found += own or [members.additional]
        return found

    def element(self, index: int) -> list[Node]:
        return [each.prefix[index] if index < len(each.prefix) else each.rest for each in self.elements]

    def named(self) -> Iterator[str]:
        """Members that the schema names, in order."""
        seen: set[str] = set()
        for name in (name for members in self.members for name in members.properties):
            if name not in seen:
                seen.add(name)
                yield name

    def kinds(self) -> list[str]:
        """The types that a value may have, the likelier first."""
        if self.types is not None:
            return [each for each in TYPES if each in self.types]
        implied = [
            kind
            for kind, words in _IMPLIED.items()
            if any(word in node for node in self.nodes for word in words.split())
        ]
        return implied or ["string", "integer", "boolean", "number", "object", "array", "null"]

    def _type(self, node: dict[str, Any]) -> None:
        given = node.get("type")
        if given is not None:
            types = frozenset([given] if isinstance(given, str) else given)
            types |= {"integer"} if "number" in types else frozenset()
            self.types = types if self.types is None else self.types & types
            if not self.types:
                raise Dead("its types exclude each other")
        for values in ([node["const"]] if "const" in node else None, node.get("enum")):
            if values is not None:
                known = self.values
                self.values = (
                    values if known is None else [each for each in known if any(same(each, it) for it in values)]
                )
                if not self.values:
                    raise Dead("its enumerations have nothing in common")

    def _number(self, node: dict[str, Any]) -> None:
        low, high = node.get("minimum"), node.get("maximum")
        over, under = node.get("exclusiveMinimum"), node.get("exclusiveMaximum")
        for bound, is_open in ((low, over is True), (None if isinstance(over, bool) else over, True)):
            if bound is not None and (self.low is None or (_exact(bound), is_open) > (self.low, self.low_open)):
                self.low, self.low_open = _exact(bound), is_open
        for bound, is_open in ((high, under is True), (None if isinstance(under, bool) else under, True)):
            if bound is not None and (self.high is None or (-_exact(bound), is_open) > (-self.high, self.high_open)):
                self.high, self.high_open = _exact(bound), is_open
        if "multipleOf" in node:
            self.steps.append(_exact(node["multipleOf"]))

    def _string(self, node: dict[str, Any]) -> None:
        self.shortest = max(self.shortest, int(node.get("minLength", 0)))
        self.longest = _least(self.longest, node.get("maxLength"))
        if "pattern" in node:
            self.patterns.append(node["pattern"])
        encoded = "byte" if node.get("contentEncoding") == "base64" else None
        self.format = self.format or node.get("format") or encoded

    def _array(self, node: dict[str, Any]) -> None:
        self.items_min = max(self.items_min, int(node.get("minItems", 0)))
        self.items_max = _least(self.items_max, node.get("maxItems"))
        self.unique |= node.get("uniqueItems") is True
        items = node.get("items", True)
        prefix, rest = (items, node.get("additionalItems", True)) if isinstance(items, list) else ([], items)
        rest = node["unevaluatedItems"] if rest is True and "unevaluatedItems" in node else rest
        if "items" in node or "prefixItems" in node or "unevaluatedItems" in node:
            self.elements.append(Elements(node.get("prefixItems", prefix), rest))
        if "contains" in node:
            self.contains.append((node["contains"], int(node.get("minContains", 1))))

    def _object(self, node: dict[str, Any]) -> None:
        self.required.update(dict.fromkeys(_list(node, "required")))
        self.properties_min = max(self.properties_min, int(node.get("minProperties", 0)))
        self.properties_max = _least(self.properties_max, node.get("maxProperties"))
        if "propertyNames" in node:
            self.names.append(node["propertyNames"])
        if "properties" in node or "patternProperties" in node or "additionalProperties" in node:
            self.members.append(
                Members(
                    node.get("properties", {}),
                    node.get("patternProperties", {}),
                    node.get("additionalProperties", True),
                )
            )
        self.closed |= node.get("unevaluatedProperties") is False
        for key in ("dependentRequired", "dependentSchemas", "dependencies"):
            for name, then in node.get(key, {}).items() if isinstance(node.get(key), dict) else ():
                if isinstance(then, list):
                    self.needs_too.setdefault(name, []).extend(then)
                else:
                    self.schemas_too.setdefault(name, []).append(then)

    def _choice(self, node: dict[str, Any]) -> None:
        self.choices += [node[key] for key in ("anyOf", "oneOf") if isinstance(node.get(key), list)]
        if "if" in node:
            met = {"allOf": [node["if"], node.get("then", True)]}
            self.choices.append([met, node.get("else", True)])


def same(one: Any, other: Any) -> bool:
    """Equality as JSON Schema has it: 1 and 1.0 are the same, 1 and true are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def _list(node: dict[str, Any], key: str) -> list[Any]:
    value = node.get(key)
    return value if isinstance(value, list) else []


def _least(known: int | None, given: float | None) -> int | None:
    if given is None:
        return known
    return int(given) if known is None else min(int(given), known)


def _exact(number: float) -> Fraction:
    """As it is written: 0.1 is a tenth; but as it is where floats are coarser than integers."""
    return Fraction(str(number)) if isinstance(number, float) and abs(number) < _EXACT else Fraction(number)
