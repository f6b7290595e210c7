"""Where every number of a catalog comes from: who says so, since when, and whether it is measured, derived or assumed.

A table names its `source`; the tables below it inherit that; `source_of` names another one for single keys:

    source = "vendor-sheet"
    source_of = { dollars_per_hour = "ownership-study" }

A number without a source is an error, and so is a source that no number uses.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from service.toml_table import Document, KeyPath, Table

Kind = Literal["measured", "derived", "assumed"]
KEYS = ("source", "source_of")  # may stand in any table of a catalog


@dataclass(frozen=True, slots=True)
class Source:
    """`measured`: published by who made or sells it, or measured by somebody; `derived`: computed from such figures;
    `assumed`: chosen, for the reason that `reference` gives. `date` is YYYY-MM or YYYY-MM-DD."""

    name: str
    kind: Kind
    date: str
    reference: str


Provenance = Mapping[KeyPath, Source]  # path of a number -> its source


def read_sources(root: Table) -> dict[str, Source]:
    """The `sources` table of a catalog. Raises CatalogError."""
    return {name: _read_source(name, table) for name, table in root.tables("sources").items()}


def trace(document: Document, own: Mapping[str, Source], inherited: Mapping[str, Source]) -> dict[KeyPath, Source]:
    """The source of every number of the document. Raises CatalogError: a number has none, or a source has no number."""
    known = {**inherited, **own}
    found: dict[KeyPath, Source] = {}
    for path, name in _numbers(document, (), document.values, None):
        if name is None:
            raise document.error(path, "a number needs a source: name one in `source` of its table")
        if name not in known:
            raise document.error(path, f"its source {name!r} is not defined in [sources]")
        found[path] = known[name]
    for name in own:
        if own[name] not in found.values():
            raise document.error(("sources", name), "no number comes from this source")
    return found


def _read_source(name: str, table: Table) -> Source:
    kind = cast(Kind, table.one_of("kind", get_args(Kind)))
    date = table.text("date")
    if not re.fullmatch(r"\d{4}-\d{2}(-\d{2})?", date):
        raise table.error("date", f"is {date!r}; it must be YYYY-MM or YYYY-MM-DD")
    reference = table.text("reference")
    table.done()
    return Source(name, kind, date, reference)


def _numbers(
    document: Document, path: KeyPath, values: Mapping[str, Any], source: str | None
) -> Iterator[tuple[KeyPath, str | None]]:
    """Every leaf that is not of texts, with the name of its source. A list of numbers is one."""
    here = values.get("source", source)
    single = values.get("source_of", {})
    if not isinstance(single, dict):
        raise document.error((*path, "source_of"), "must be a table: key = source")
    for key in single:
        if key not in values:
            raise document.error((*path, "source_of", key), "names a key that is not in this table")
    for key, value in values.items():
        if key in KEYS or (not path and key == "sources"):
            continue
        if isinstance(value, dict):
            yield from _numbers(document, (*path, key), value, single.get(key, here))
        elif not all(isinstance(each, str) for each in (value if isinstance(value, list) else [value])):
            yield (*path, key), single.get(key, here)
