"""A TOML file read key by key: every key is known, typed and within its bounds, or the error names it and its line.

Knows TOML and nothing of what a catalog means.
"""

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from service.errors import CatalogError

KeyPath = tuple[str, ...]

_KEY = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*\[\s*({_DOTTED})\s*\]")
_ELEMENT = re.compile(rf"\s*\[\[\s*({_DOTTED})\s*\]\]")
_ASSIGNMENT = re.compile(rf"\s*({_DOTTED})\s*=")
_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class Document:
    """One TOML file. `lines` maps a key's path to its line; keys in `everywhere` may stand in any table."""

    name: str
    values: Mapping[str, Any]
    lines: Mapping[KeyPath, int]
    everywhere: frozenset[str]

    @classmethod
    def read(cls, path: Path, everywhere: Sequence[str] = ()) -> "Document":
        """Raises CatalogError: the file cannot be read or is not TOML."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CatalogError(f"{path}: cannot be read as TOML: {error}") from error
        return cls(path.name, _values(str(path), text), _index(text), frozenset(everywhere))

    @classmethod
    def of(cls, name: str, text: str) -> "Document":
        """As `read`, of a text that is in no file; `name` is what errors call it."""
        return cls(name, _values(name, text), _index(text), frozenset())

    def root(self) -> "Table":
        return Table(self, (), self.values)

    def error(self, path: KeyPath, why: str) -> CatalogError:
        """An error that names the key, the reasoning and the nearest line known."""
        known = (self.lines[path[:size]] for size in range(len(path), 0, -1) if path[:size] in self.lines)
        line = next(known, None)
        place = f"{self.name}:{line}" if line else self.name
        return CatalogError(f"{place}: {dotted(path)}: {why}")


@dataclass(slots=True)
class Table:
    """One table. Reading a key marks it as known; `done` raises for the keys that nobody asked for."""

    document: Document
    path: KeyPath
    values: Mapping[str, Any]
    _known: set[str] = field(default_factory=set)

    def error(self, key: str, why: str) -> CatalogError:
        return self.document.error((*self.path, key), why)

    def only(self, *keys: str) -> None:
        """Refuse any other key before those that are missing: a misspelt one is the better explanation."""
        self._known.update(keys)
        self.done()

    def done(self) -> None:
        unknown = [key for key in self.values if key not in self._known | self.document.everywhere]
        if unknown:
            raise self.error(unknown[0], f"unknown key; known here are {', '.join(sorted(self._known))}")

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def text(self, key: str, default: Any = _MISSING) -> str:
        value = self._get(key, default)
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f"is {value!r}; it must be a text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        values = self._get(key, _MISSING)
        if not isinstance(values, list) or not values or not all(isinstance(value, str) and value for value in values):
            raise self.error(key, f"is {values!r}; it must be a list of at least one text")
        if len(set(values)) < len(values):
            raise self.error(key, "names the same thing twice")
        return tuple(values)

    def one_of(self, key: str, known: Sequence[str], default: Any = _MISSING) -> str:
        value = self.text(key, default)
        if value not in known:
            raise self.error(key, f"is {value!r}; known are {', '.join(known)}")
        return value

    def decimal(
        self,
        key: str,
        default: Any = _MISSING,
        *,
        above: float | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> Decimal:
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not Decimal(value).is_finite():
            raise self.error(key, f"is {value!r}; it must be a number")
        if above is not None and value <= above:
            raise self.error(key, f"is {value}; it must be above {above:g}")
        if at_least is not None and value < at_least:
            raise self.error(key, f"is {value}; it must be at least {at_least:g}")
        if at_most is not None and value > at_most:
            raise self.error(key, f"is {value}; it must be at most {at_most:g}")
        return Decimal(value)

    def number(self, key: str, default: Any = _MISSING, **bounds: float) -> float:
        return float(self.decimal(key, default, **bounds))

    def numbers(self, key: str, **bounds: float) -> list[float]:
        """At least one."""
        values = self._get(key, _MISSING)
        if not isinstance(values, list) or not values:
            raise self.error(key, f"is {values!r}; it must be a list of at least one number")
        return [Table(self.document, self.path, {key: value}).number(key, **bounds) for value in values]

    def integer(self, key: str, default: Any = _MISSING, **bounds: float) -> int:
        value = self.decimal(key, default, **bounds)
        if value != int(value):
            raise self.error(key, f"is {value}; it must be a whole number")
        return int(value)

    def boolean(self, key: str, default: Any = _MISSING) -> bool:
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"is {value!r}; it must be true or false")
        return value

    def day(self, key: str) -> date:
        value = self._get(key, _MISSING)
        if not isinstance(value, date):
            raise self.error(key, f"is {value!r}; it must be a date such as 2026-02-12")
        return value

    def table(self, key: str) -> "Table":
        value = self._get(key, _MISSING)
        if not isinstance(value, dict):
            raise self.error(key, f"is {value!r}; it must be a table")
        return Table(self.document, (*self.path, key), value)

    def tables(self, key: str) -> dict[str, "Table"]:
        """The named tables below `key`, in the order of the file; none if the key is absent."""
        self._known.add(key)
        if key not in self.values:
            return {}
        parent = self.table(key)
        return {name: parent.table(name) for name in parent.values}

    def items(self, key: str) -> list["Table"]:
        """The tables of an array, numbered from 1 in the paths of errors; none if the key is absent."""
        values = self._get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise self.error(key, f"is {values!r}; it must be a list of tables")
        return [Table(self.document, (*self.path, key, str(n)), value) for n, value in enumerate(values, start=1)]

    def any(self, key: str, default: Any = _MISSING) -> Any:
        """The value as it is, for whoever accepts several types."""
        return self._get(key, default)

    def _get(self, key: str, default: Any) -> Any:
        self._known.add(key)
        if key in self.values:
            return self.values[key]
        if default is _MISSING:
            similar = difflib.get_close_matches(key, self.values, n=1)
            raise self.error(key, f"is missing; is {similar[0]!r} meant for it?" if similar else "is missing")
        return default


def dotted(path: KeyPath) -> str:
    return ".".join(key if re.fullmatch(r"[\w-]+", key) else f'"{key}"' for key in path)


def _values(place: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text, parse_float=Decimal)  # exact: prices become integers
    except tomllib.TOMLDecodeError as error:
        raise CatalogError(f"{place}: cannot be read as TOML: {error}") from error


def _index(text: str) -> dict[KeyPath, int]:
    lines: dict[KeyPath, int] = {}
    elements: dict[KeyPath, int] = {}  # of each array of tables, those begun so far
    header: KeyPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _ELEMENT.match(line):
            array = _numbered(_split(found[1]), elements)
            elements[array] = elements.get(array, 0) + 1
            header = (*array, str(elements[array]))
            lines.setdefault(header, number)
        elif found := _HEADER.match(line):
            header = _numbered(_split(found[1]), elements)
            lines.setdefault(header, number)
        elif found := _ASSIGNMENT.match(line):
            lines.setdefault(header + _split(found[1]), number)
    return lines


def _numbered(keys: KeyPath, elements: Mapping[KeyPath, int]) -> KeyPath:
    """The path of a header: one below an array of tables belongs to its last element."""
    path: KeyPath = ()
    for key in keys[:-1]:
        path = (*path, key)
        path = (*path, str(elements[path])) if path in elements else path
    return (*path, keys[-1])


def _split(key: str) -> KeyPath:
    return tuple(part.strip("\"'") for part in re.findall(_KEY, key))
