"""What is known of a schema before a value is drawn: validators of its parts, and how deep their least values are.

Made once for each schema. Knows nothing of draws.
"""

from functools import lru_cache
from math import inf
from typing import Any

from service import schemas
from service.schemas import REFERENCES, Node, Schema

_ROUNDS = 64  # of the search for heights: a least value is no deeper


class Plan:
    """Of one schema. `recursive`: some part refers to another, so that values may be endlessly deep."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._parts: schemas.Parts | None = None
        self._pointers: dict[int, str] = {}
        self._heights: dict[int, float] = {}
        nodes = _reachable(schema)
        self.recursive = any(key in node for node in nodes for key in REFERENCES)
        if self.recursive:
            self._measure(nodes)

    def valid(self, node: dict[str, Any], value: Any) -> bool:
        """Under one part of the schema. True for parts that have no place in the document."""
        if node is self.schema.document:
            return self.schema.valid(value)
        if not self._pointers:
            self._parts = self.schema.parts()
            self._point(self.schema.document, "#")
        validator = self._parts.get(self._pointers.get(id(node), "")) if self._parts is not None else None
        return validator is None or validator.is_valid(value)

    def height(self, node: Node) -> float:
        """Levels below the least value that satisfies the node; infinite if there is no finite one."""
        if isinstance(node, bool):
            return 0 if node else inf
        return self._heights.get(id(node), 0)

    def _point(self, root: Any, pointer: str) -> None:
        waiting = [(root, pointer)]
        while waiting:
            node, pointer = waiting.pop()
            if isinstance(node, dict):
                self._pointers[id(node)] = pointer
            items = node.items() if isinstance(node, dict) else enumerate(node)
            waiting += [
                (child, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")
                for key, child in items
                if isinstance(child, dict | list)
            ]

    def _measure(self, nodes: list[dict[str, Any]]) -> None:
        self._heights = dict.fromkeys(map(id, nodes), inf)
        for _ in range(_ROUNDS):
            changed = False
            for node in nodes:
                height = self._height(node)
                if height < self._heights[id(node)]:
                    self._heights[id(node)] = height
                    changed = True
            if not changed:
                return

    def _height(self, node: dict[str, Any]) -> float:
        if "const" in node or "enum" in node:
            return 0
        parts = [self.schema.resolve(node[key]) for key in REFERENCES if isinstance(node.get(key), str)]
        heights = [self.height(part) for part in parts + node.get("allOf", [])]
        heights += [min(map(self.height, node[key])) for key in ("anyOf", "oneOf") if node.get(key)]
        kinds = node.get("type")
        if kinds in ("object", ["object"]):
            properties, rest = node.get("properties", {}), node.get("additionalProperties", True)
            heights += [1 + self.height(properties.get(name, rest)) for name in node.get("required", ())]
            if node.get("minProperties", 0) > len(properties) and "patternProperties" not in node:
                heights.append(1 + self.height(rest))
        items = node.get("items", True)
        if kinds in ("array", ["array"]) and node.get("minItems", 0) and not isinstance(items, list):
            heights.append(1 + self.height(items))
        return max(heights, default=0)


@lru_cache(maxsize=256)
def plan(text: bytes) -> Plan:
    """Of a schema as JSON. Raises service.schemas.InvalidSchema."""
    return Plan(schemas.read(text))


def _reachable(schema: Schema) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    waiting: list[Node] = [schema.document]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict) and id(node) not in found:
            found[id(node)] = node
            waiting += [*schemas.in_place(schema, node), *schemas.below(node)]
    return list(found.values())
