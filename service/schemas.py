"""JSON Schemas that clients send: read once, bounded, with a validator; and what strict modes ask of one.

Whatever passes `read` can be walked and validated in bounded time. A schema that names no dialect is read as 2020-12,
which the providers' documents use, and as draft 7 or 4 if it is not valid as that. Nothing is fetched: a reference
leads into the document or is refused. Formats are asserted, so that what is generated is right under either reading.

Knows nothing of dialects' error texts, or of how a value is made up.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
import orjson

Node = dict[str, Any] | bool
Parts = jsonschema_rs.ValidatorMap

# More than OpenAI's structured outputs allow (5,000 properties, ten levels, 1,000 enum values), so that a schema fails
# for what a dialect says of it first.
BYTES_MAX = 1 << 20
DEPTH_MAX = 128  # levels of the document
NODES_MAX = 50_000  # objects and arrays
WORK_MAX = 20_000  # subschemas that one value has to be held against, references followed

_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=20_000, size_limit=1 << 20, dfa_size_limit=1 << 20)
_DIALECTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-04/schema#",
)
_OPTIONS: dict[str, Any] = {"validate_formats": True, "offline": True, "pattern_options": _PATTERNS}

# Keywords whose subschemas are held against the very value that their own schema is held against.
IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
IN_PLACE = ("not", "if", "then", "else")
_BELOW_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependencies")
_BELOW = (
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class InvalidSchema(ValueError):
    """It is no JSON Schema, or one beyond the bounds. The message says where."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A document that is a valid JSON Schema, and what validates a value under it. `named` has its dialect, too."""

    document: Node
    named: Node
    validator: jsonschema_rs.Validator
    anchors: Mapping[str, Node] = field(default_factory=dict)  # $anchor and $id -> subschema

    def valid(self, value: Any) -> bool:
        return self.validator.is_valid(value)

    def parts(self) -> Parts | None:
        """Validators of all subschemas, by JSON Pointer in a fragment (`#/properties/name`).

        None where the library takes something for a subschema that is none, and finds it invalid.
        """
        try:
            return jsonschema_rs.validator_map_for(self.named, **_OPTIONS)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
            return None

    def resolve(self, reference: str) -> Node:
        """Raises InvalidSchema: it leads nowhere."""
        if reference in self.anchors:
            return self.anchors[reference]
        base, _, fragment = reference.partition("#")
        node: Any = self._base(base) if base else self.document
        try:
            for step in unquote(fragment).split("/")[1:] if fragment.startswith("/") else ():
                key = step.replace("~1", "/").replace("~0", "~")
                node = node[int(key)] if isinstance(node, list) else node[key]
        except (KeyError, IndexError, ValueError, TypeError):
            raise InvalidSchema(f"the reference {reference!r} leads nowhere") from None
        if (fragment and not fragment.startswith("/")) or not isinstance(node, dict | bool):
            raise InvalidSchema(f"the reference {reference!r} leads to no schema")
        return node

    def _base(self, name: str) -> Node:
        """The part of the document that has the name, which may be a relative one. Raises InvalidSchema."""
        tail = f"/{name.removeprefix('./').removeprefix('/')}"
        for known, node in self.anchors.items():
            if known.removesuffix("#") == name or (":" not in name and known.removesuffix("#").endswith(tail)):
                return node
        raise InvalidSchema(f"the reference {name!r} leads out of the schema")


@lru_cache(maxsize=512)
def read(text: bytes) -> Schema:
    """The schema, once it is known to be one. Raises InvalidSchema."""
    if len(text) > BYTES_MAX:
        raise InvalidSchema(f"the schema is longer than {BYTES_MAX} bytes")
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidSchema(f"the schema is not JSON: {error}") from None
    if not isinstance(document, dict | bool):
        raise InvalidSchema("a schema is an object or a boolean")
    anchors = _bounded(document)
    schema = Schema(document, *_validator(document), anchors)
    _work(schema)
    return schema


@lru_cache(maxsize=128)
def contradiction(text: bytes) -> str | None:
    """Where it is proven that no value satisfies a valid schema; None: that is not proven. For when none is found."""
    try:
        found = jsonschema_rs.canonical.find_unsatisfiable(read(text).named, pattern_options=_PATTERNS, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError, jsonschema_rs.canonical.CanonicalizationError):
        return None
    if "" not in found:
        return None
    pointer = max(found, key=lambda pointer: pointer.count("/"))
    reason = found[pointer]
    causes = getattr(reason, "causes", None) or [cause for cause in (getattr(reason, "cause", None),) if cause]
    keywords = " and ".join(sorted({keyword for cause in causes for keyword in cause.keywords}))
    why = f": {keywords} contradict each other" if " and " in keywords else f": {keywords}" if keywords else ""
    return f"at {pointer or 'its root'}{why}"


@lru_cache(maxsize=512)
def _matcher(pattern: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.Draft202012Validator({"pattern": pattern}, **_OPTIONS)


def matches(pattern: str, text: str) -> bool:
    """Whether a regular expression of a valid schema matches somewhere in the text."""
    return _matcher(pattern).is_valid(text)


def strict_fault(document: Node) -> str | None:
    """What keeps a schema from being used in strict mode; None: nothing does.

    The rules of OpenAI's structured outputs ("Supported schemas"): the root is an object and no union, and each object
    lists all of its properties as required and allows no others.
    """
    if not isinstance(document, dict) or document.get("type") != "object":
        return "In context=(), schema must have a 'type' key with the value 'object'."
    if "anyOf" in document:
        return "In context=(), schema must be an object, and not a union of them."
    for path, node in _subschemas(document, ()):
        if isinstance(node, dict) and (node.get("type") == "object" or "properties" in node):
            fault = _object_fault(node)
            if fault is not None:
                return f"In context={path}, {fault}"
    return None


def _object_fault(node: dict[str, Any]) -> str | None:
    if node.get("additionalProperties") is not False:
        return "'additionalProperties' is required to be supplied and to be false."
    properties, required = node.get("properties", {}), node.get("required", [])
    missing = next((name for name in properties if name not in required), None)
    if missing is not None:
        return (
            "'required' is required to be supplied and to be an array including every key in properties. "
            f"Missing {missing!r}."
        )
    extra = next((name for name in required if name not in properties), None)
    return None if extra is None else f"'required' names {extra!r}, which is no property."


def _subschemas(node: Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Node]]:
    yield path, node
    if not isinstance(node, dict):
        return
    for key in ("properties", "$defs", "definitions"):
        for name, child in node.get(key, {}).items():
            yield from _subschemas(child, (*path, key, name))
    for key in ("anyOf", "allOf", "oneOf"):
        for index, child in enumerate(node.get(key, ())):
            yield from _subschemas(child, (*path, key, str(index)))
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from _subschemas(node[key], (*path, key))


def _bounded(document: Node) -> dict[str, Node]:
    """Raises InvalidSchema. The anchors that the document defines."""
    anchors: dict[str, Node] = {}
    layer: list[Any] = [] if isinstance(document, bool) else [document]
    nodes = depth = 0
    while layer:
        nodes, depth = nodes + len(layer), depth + 1
        if depth > DEPTH_MAX or nodes > NODES_MAX:
            raise InvalidSchema(f"the schema has more than {DEPTH_MAX} levels or {NODES_MAX} parts")
        below: list[Any] = []
        for node in layer:
            if isinstance(node, dict):
                for key, prefix in (("$anchor", "#"), ("$dynamicAnchor", "#"), ("$id", ""), ("id", "")):
                    if isinstance(node.get(key), str):
                        anchors.setdefault(prefix + node[key], node)
            children = node.values() if isinstance(node, dict) else node
            below += [child for child in children if isinstance(child, dict | list)]
        layer = below
    return anchors


def _validator(document: Node) -> tuple[Node, jsonschema_rs.Validator]:
    """And the document with the dialect in which it is valid. Raises InvalidSchema."""
    readings = [document]
    if isinstance(document, dict):
        readings += [{**document, "$schema": dialect} for dialect in _DIALECTS]
    fault: Exception | None = None
    for reading in readings:
        try:
            return reading, jsonschema_rs.validator_for(reading, **_OPTIONS)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            fault = fault or error
    path = "".join(f"[{step!r}]" for step in getattr(fault, "instance_path", ()))
    raise InvalidSchema(f"{getattr(fault, 'message', str(fault))}{f' (in schema{path})' if path else ''}") from None


def _work(schema: Schema) -> None:
    """Raises InvalidSchema: holding one value against it is endless, or as good as."""
    weights: dict[int, int] = {}
    waiting: list[Node] = [schema.document]
    try:
        while waiting:
            node = waiting.pop()
            if isinstance(node, dict) and id(node) not in weights:
                _weigh(schema, node, weights, set())
                waiting += [*in_place(schema, node), *below(node)]
    except RecursionError:
        raise InvalidSchema("its references lead on too long") from None


def _weigh(schema: Schema, node: Node, weights: dict[int, int], entered: set[int]) -> int:
    if not isinstance(node, dict):
        return 1
    if id(node) in entered:
        raise InvalidSchema("a reference leads back to itself")
    if id(node) not in weights:
        entered.add(id(node))
        weight = 1 + sum(_weigh(schema, child, weights, entered) for child in in_place(schema, node))
        if weight > WORK_MAX:
            raise InvalidSchema(f"a value has to be held against more than {WORK_MAX} subschemas")
        entered.discard(id(node))
        weights[id(node)] = weight
    return weights[id(node)]


def in_place(schema: Schema, node: dict[str, Any]) -> Iterator[Node]:
    """The subschemas that are held against the same value as the node is."""
    for key in REFERENCES:
        if isinstance(node.get(key), str):
            yield schema.resolve(node[key])
    for key in IN_PLACE_LISTS:
        if isinstance(node.get(key), list):
            yield from (child for child in node[key] if isinstance(child, dict | bool))
    for key in IN_PLACE:
        if isinstance(node.get(key), dict | bool):
            yield node[key]
    if isinstance(node.get("dependentSchemas"), dict):
        yield from (child for child in node["dependentSchemas"].values() if isinstance(child, dict | bool))


def below(node: dict[str, Any]) -> Iterator[Node]:
    """The subschemas that are held against parts of the value, and those that only wait to be referred to."""
    for key in _BELOW_NAMED:
        if isinstance(node.get(key), dict):
            yield from (child for child in node[key].values() if isinstance(child, dict | bool))
    for key in _BELOW:
        child = node.get(key)
        if isinstance(child, dict | bool):
            yield child
        elif isinstance(child, list):
            yield from (each for each in child if isinstance(each, dict | bool))
