"""One value drawn after what is needed of it, top down.

Whatever turns out impossible raises Dead, and the nearest level that has other draws tries them. Fuel, which every
attempt at every level takes, bounds the whole.
Knows nothing of where schemas and hints come from.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from math import inf
from typing import Any

from service.schemas import Node, matches
from workers.content import plausible
from workers.content.draws import Draws
from workers.content.hints import Hints, key
from workers.content.instances import numbers, strings
from workers.content.instances.needs import TYPES, Dead, Need, same
from workers.content.instances.plans import Plan

FUEL = 3_000  # attempts at values and alternatives, for one answer
DEPTH_MAX = 48
_SHALLOW = 3  # levels with members and items beyond the necessary
_TRIES = 5
_TRUE = 0.3  # of the flags about which nothing is said
_OPTIONAL = 0.2  # of the members that need not be there
_OPTIONAL_MEAN = 4  # of them, however many there are
_ITEMS_MAX = 1_000
_OTHERS = ("note", "label", "key", "extra", "value", "item", "part", "field")
_PLAIN = frozenset(
    [
        "type",
        "enum",
        "const",
        "description",
        "title",
        "default",
        "examples",
        "$ref",
        "$defs",
        "definitions",
        "deprecated",
    ]
)


class Maker:
    """Makes one value. `_used` are hints that have found their place."""

    def __init__(self, plan: Plan, draws: Draws, hints: Hints, fuel: int) -> None:
        self._plan = plan
        self._draws = draws
        self._hints = hints
        self.fuel = fuel
        self._used: set[str | int | float] = set()
        self._path: list[str] = []

    def root(self) -> Any:
        """Raises Dead."""
        if self._plan.height(self._plan.schema.document) == inf:
            raise Dead("its values have no end: each contains another one")
        return self._value([self._plan.schema.document], "", 0)

    def _value(self, nodes: Sequence[Node], name: str, variety: int) -> Any:
        """`variety`: how many attempts were in vain before; the more, the less plausible a value may be."""
        if len(self._path) > DEPTH_MAX:
            raise Dead("its values are too deep")
        used = set(self._used)
        dead = Dead(f"nothing that was drawn for {self._where()} is valid")
        for attempt in range(variety, variety + _TRIES):
            self._spend()
            try:
                need = self._need(nodes, name)
                value = self._of(need, name, attempt)
            except Dead as reason:
                dead = reason if reason.args[0].startswith("at ") else Dead(f"at {self._where()}, {reason}")
            else:
                if all(self._plan.valid(node, value) for node in need.checks):
                    return value
            self._used = set(used)
        raise dead

    def _spend(self) -> None:
        self.fuel -= 1
        if self.fuel < 0:
            raise Dead(f"at {self._where()}, after {FUEL} attempts")

    def _where(self) -> str:
        return "/" + "/".join(self._path) if self._path else "the root"

    def _need(self, nodes: Sequence[Node], name: str) -> Need:
        need = Need(self._plan.schema)
        for node in nodes:
            need.add(node)
        while need.choices:
            need = self._choose(need, need.choices.pop(), key(name) in self._hints.facts)
        return need

    def _choose(self, need: Need, options: list[Node], known: bool) -> Need:
        for option in self._ordered(options, known):
            self._spend()
            chosen = _copy(need)
            try:
                chosen.add(option)
                for name in chosen.required:
                    part = Need(self._plan.schema)
                    for node in chosen.member(name):
                        part.add(node)
            except Dead:
                continue
            return chosen
        raise Dead("none of its alternatives is possible")

    def _ordered(self, options: list[Node], known: bool) -> list[Node]:
        """The order in which alternatives are tried: deep in a value, those that end it soonest come first.

        Nothing comes last where something is known, and mostly otherwise.
        """
        order = self._draws.order(options)
        if self._plan.recursive and len(self._path) >= _SHALLOW:
            return sorted(order, key=self._plan.height)
        if known or not self._draws.chance(0.1):
            order.sort(key=lambda node: isinstance(node, dict) and node.get("type") == "null")
        return order

    def _of(self, need: Need, name: str, attempt: int) -> Any:
        if need.values is not None:
            return self._enumerated(need, attempt)
        kinds = need.kinds() if need.types is not None or attempt < 2 else list(TYPES)
        if len(kinds) > 1:
            likely_null = attempt > 1 or self._draws.chance(0.1)
            kinds = kinds if likely_null else [each for each in kinds if each != "null"]
            kinds = [each for each in kinds if each != "integer"] if "number" in kinds else kinds
        kind = kinds[0] if attempt == 0 and need.types is None else self._draws.one(kinds)
        match kind:
            case "string":
                return self._string(need, name, attempt)
            case "integer" | "number":
                return self._number(need, name, kind == "integer", attempt)
            case "boolean":
                return self._boolean(need, name)
            case "array":
                return self._array(need, name)
            case "object":
                return self._object(need)
        return None

    def _enumerated(self, need: Need, attempt: int) -> Any:
        values = [each for each in need.values or () if self._fits(need, each)]
        if not values:
            raise Dead("no value of its enumeration is valid")
        if attempt == 0:
            said = self._hints.text.lower()
            mentioned = [each for each in values if isinstance(each, str) and len(each) > 2 and each.lower() in said]
            values = mentioned or [each for each in values if each is not None] or values
        return self._draws.one(values)

    def _fits(self, need: Need, value: Any) -> bool:
        """Under every node of a need that says more than which values there are."""
        return (need.types is None or bool(_kinds_of(value) & need.types)) and all(
            self._plan.valid(node, value) for node in need.nodes if not _PLAIN.issuperset(node)
        )

    def _samples(self, need: Need) -> list[Any]:
        """Values that the schema itself offers: its default, and its examples."""
        found = [node["default"] for node in need.nodes if "default" in node]
        for node in need.nodes:
            found += node["examples"] if isinstance(node.get("examples"), list) else ()
        return [each for each in found if self._fits(need, each)] if found else []

    def _take(self, value: Any) -> Any:
        self._used.add(value)
        return value

    def _string(self, need: Need, name: str, attempt: int) -> str:
        if attempt == 0:
            offers = strings.offers(need, name, self._hints)
            offer = next((each for each in offers if each not in self._used and strings.fits(each, need)), None)
            if offer is not None and self._fits(need, offer):
                return str(self._take(offer))
        samples = [each for each in self._samples(need) if isinstance(each, str)]
        if samples and attempt < 2:
            return str(self._draws.one(samples))
        return strings.drawn(self._draws, need, name, attempt)

    def _number(self, need: Need, name: str, integer: bool, attempt: int) -> int | float:
        if attempt == 0:
            fact = self._hints.facts.get(key(name))
            offers = [fact] if isinstance(fact, int | float) and not isinstance(fact, bool) else []
            offers += [each for each in self._hints.numbers if each not in self._used]
            offer = next((each for each in offers if numbers.fits(each, need, integer)), None)
            if offer is not None:
                return self._take(offer)  # type: ignore[no-any-return]
            samples = [each for each in self._samples(need) if isinstance(each, int | float) and each is not True]
            if samples:
                return self._draws.one(samples)
        low, high = plausible.bounds(name) or (1, 10)
        reach = 10**attempt if attempt > 1 else 0  # where plausible ones are not wanted, others may be
        return numbers.drawn(self._draws, need, integer, (low - reach, high + reach))

    def _boolean(self, need: Need, name: str) -> bool:
        offers = [self._hints.facts.get(key(name)), *self._samples(need)]
        return next((each for each in offers if isinstance(each, bool)), self._draws.chance(_TRUE))

    def _array(self, need: Need, name: str) -> list[Any]:
        name = name[:-1] if name.endswith("s") and not name.endswith("ss") else name
        count = self._length(need, name)
        contained = self._contained(need, count)
        value: list[Any] = []
        for index in range(count):
            nodes = need.element(index) + contained.get(index, [])
            try:
                value.append(self._item(nodes, name, value if need.unique else []))
            except Dead:
                if index < max(need.items_min, *(place + 1 for place in contained), 0):
                    raise
                break
        return value

    def _contained(self, need: Need, count: int) -> dict[int, list[Node]]:
        """What has to be contained, by the places drawn for it: apart from each other if there is room."""
        contained: dict[int, list[Node]] = {}
        places: list[int] = []
        apart = sum(least for _, least in need.contains) <= count and self._draws.chance(0.7)
        for node, least in need.contains:
            if not apart or not places:
                places = self._draws.order(range(count))
            for place in places[:least]:
                contained.setdefault(place, []).append(node)
            places = places[least:]
        return contained

    def _item(self, nodes: list[Node], name: str, others: list[Any]) -> Any:
        self._path.append("*")
        try:
            for variety in range(2 * _TRIES if others else 1):
                value = self._value(nodes, name, variety)
                if not any(same(value, other) for other in others):
                    return value
        finally:
            self._path.pop()
        raise Dead("its items cannot be unique")

    def _length(self, need: Need, name: str) -> int:
        least = max(need.items_min, *(least for _, least in need.contains), 0)
        if least > _ITEMS_MAX:
            raise Dead(f"it asks for more than {_ITEMS_MAX} items")
        prefix = max((len(each.prefix) for each in need.elements), default=0)
        count = max(least, prefix)
        if need.contains and self._draws.chance(0.7):
            count = max(count, sum(least for _, least in need.contains))
        if len(self._path) < _SHALLOW and not prefix:
            offers = [each for each in plausible.offers(name, self._hints) if each not in self._used]
            count = max(count, min(len(offers), 5) or self._draws.between(1, 2))
        if need.items_max is not None:
            count = min(count, need.items_max)
        closed = next((index for index in range(count) if False in need.element(index)), count)
        if closed < least:
            raise Dead("its items are not allowed")
        return closed

    def _object(self, need: Need) -> dict[str, Any]:
        value: dict[str, Any] = {}
        optional = self._optional(need)
        for name in self._wanted(need, optional):
            self._member(need, value, name, must=name in need.required)
        more = self._more(need, [name for name in optional if name not in value], value, need.properties_min + 64)
        while len(value) < need.properties_min:
            further = next(more, None)
            if further is None:
                raise Dead("it asks for more members than there can be")
            self._member(need, value, further, must=False)
        return value

    def _member(self, need: Need, value: dict[str, Any], name: str, must: bool) -> None:
        self._path.append(name)
        try:
            value[name] = self._value(need.member(name), name, 0)
        except Dead:
            if must:
                raise
        finally:
            self._path.pop()

    def _optional(self, need: Need) -> list[str]:
        return [
            name
            for name in need.named()
            if name not in need.required and False not in need.member(name) and self._may_be_named(need, name)
        ]

    def _may_be_named(self, need: Need, name: str) -> bool:
        return all(node is True or (node is not False and self._plan.valid(node, name)) for node in need.names)

    def _wanted(self, need: Need, optional: list[str]) -> list[str]:
        """Members in order: those that are required, some others, and what these bring with them."""
        names = dict.fromkeys(need.required)
        room = len(optional) if need.properties_max is None else need.properties_max - len(names)
        for name in optional:
            if len(names) < room + len(need.required) and self._draws.chance(self._likely(need, name, len(optional))):
                names[name] = None
        if not names and optional and room > 0 and not (self._plan.recursive and len(self._path) >= _SHALLOW):
            names[optional[0]] = None
        if not names and not optional and len(self._path) < _SHALLOW and room >= 0 and self._is_map(need):
            names.update((name, None) for name in self._more(need, [], {}, 1) if need.properties_max != 0)
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            for node in need.schemas_too.pop(name, ()):
                need.add(node)
            need.required.update(dict.fromkeys(need.needs_too.get(name, ())))
            brought = [each for each in need.required if each not in names]
            names.update(dict.fromkeys(brought))
            waiting += brought
        known = [name for name in need.named() if name in names]
        return known + [name for name in names if name not in known]

    def _likely(self, need: Need, name: str, count: int) -> float:
        if len(self._path) >= _SHALLOW:
            return 0.0
        if key(name) in self._hints.facts:
            return 1.0
        kind = plausible.kind(name)
        offered = {
            "url": self._hints.urls,
            "email": self._hints.emails,
            "path": self._hints.paths,
            "date": self._hints.dates,
        }
        if kind in offered and any(each not in self._used for each in offered[kind]):
            return 1.0
        said = self._hints.text.lower()
        values = [each for node in need.member(name) if isinstance(node, dict) for each in node.get("enum", ())]
        if any(isinstance(each, str) and len(each) > 2 and each.lower() in said for each in values):
            return 1.0
        return min(_OPTIONAL if not self._path else _OPTIONAL / 2, _OPTIONAL_MEAN / count)

    def _is_map(self, need: Need) -> bool:
        """Members of any name have values of some kind."""
        return any(isinstance(each.additional, dict) or each.patterns for each in need.members) and not need.closed

    def _more(self, need: Need, optional: list[str], value: dict[str, Any], count: int) -> Iterator[str]:
        """Names of further members: those that are optional, then such as the schema lets any member have."""
        yield from optional
        patterns = [pattern for members in need.members for pattern in members.patterns]
        for index in range(count):
            name = f"{_OTHERS[index % len(_OTHERS)]}{index // len(_OTHERS) + 1 if index >= len(_OTHERS) else ''}"
            if need.names:
                self._path.append("*")
                name = str(self._value([{"type": "string"}, *need.names], "", index))
                self._path.pop()
            elif patterns and (need.closed or False in need.member(name) or self._draws.chance(0.5)):
                name = strings.drawn_from(self._draws, patterns[index % len(patterns)])
            allowed = False not in need.member(name) and (
                not need.closed or any(matches(each, name) for each in patterns)
            )
            if name not in value and allowed:
                yield name


def _copy(need: Need) -> Need:
    copy = Need(need.schema)
    for each in fields(need):
        value = getattr(need, each.name)
        setattr(copy, each.name, value.copy() if isinstance(value, list | dict) else value)
    return copy


def _kinds_of(value: Any) -> set[str]:
    match value:
        case None:
            return {"null"}
        case bool():
            return {"boolean"}
        case int():
            return {"integer", "number"}
        case float():
            return {"number", "integer"} if value.is_integer() else {"number"}
        case str():
            return {"string"}
        case list():
            return {"array"}
    return {"object"}
