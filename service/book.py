"""The book that the ledger is kept in: a SQLite file. Each entry is in it once, by its job; days are those of UTC.

Every call takes as long as a disk does, and may be made in any thread.
"""

import csv
import io
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from service.entries import Entry
from service.errors import FastmodeError, InvalidRequest

BY = ("account", "model", "tier", "day")
SUMS = ("requests", "prompt", "cached", "written", "completion", "reasoning", "cost")

_TABLE = """CREATE TABLE IF NOT EXISTS entries (
    job TEXT PRIMARY KEY, at REAL, day TEXT, account TEXT, model TEXT, requested TEXT, tier TEXT, outcome TEXT,
    prompt INTEGER, cached INTEGER, written INTEGER, completion INTEGER, reasoning INTEGER,
    cost_input INTEGER, cost_cached INTEGER, cost_written INTEGER, cost_output INTEGER, cost INTEGER
) WITHOUT ROWID"""
_INSERT = "INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SUM = "COUNT(*), SUM(prompt), SUM(cached), SUM(written), SUM(completion), SUM(reasoning), SUM(cost)"


class BookError(FastmodeError):
    """The file cannot be used."""


class Book:
    """Raises BookError when the file cannot be used."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, entries: Sequence[Entry]) -> None:
        with self._open() as book, book:
            book.executemany(_INSERT, map(_row, entries))

    def usage(self, by: Sequence[str], account: str | None = None, since: str = "") -> list[dict[str, Any]]:
        """Sums for each combination of `by`, dearest first; of one account only, and from a day on."""
        assert set(by) <= set(BY)
        told = "".join(f"{name}, " for name in by)
        groups = f" GROUP BY {', '.join(by)}" if by else ""
        query = f"SELECT {told}{_SUM} FROM entries WHERE day >= ? AND (? IS NULL OR account = ?){groups} ORDER BY SUM(cost) DESC"  # noqa: S608, E501 - names of BY
        with self._open() as book:
            rows = book.execute(query, [since, account, account]).fetchall()
        return [dict(zip((*by, *SUMS), row, strict=True)) for row in rows if row[len(by)]]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=5)) as book:
                book.execute("PRAGMA journal_mode = WAL")
                book.execute(_TABLE)
                yield book
        except sqlite3.Error as error:
            raise BookError(f"the ledger {self._path} cannot be used: {error}") from error


def by_words(text: str) -> tuple[str, ...]:
    """What sums are to be told apart by, from a text such as account,model. Raises InvalidRequest."""
    words = tuple(filter(None, map(str.strip, text.split(","))))
    if not set(words) <= set(BY) or len(set(words)) < len(words):
        known = ", ".join(BY)
        raise InvalidRequest(f"group_by: {text[:100]!r} must name some of {known}, each once.", param="group_by")
    return words


def as_csv(rows: Sequence[Mapping[str, Any]], by: Sequence[str]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, [*by, *SUMS], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _row(entry: Entry) -> tuple[Any, ...]:
    """`cost_written` is of both kinds, `cost_output` with reasoning."""
    bill, used, parts = entry.bill, entry.usage, entry.parts
    day = datetime.fromtimestamp(bill.at, UTC).strftime("%Y-%m-%d")
    return (
        *(bill.job, bill.at, day, bill.account, bill.model, bill.requested, bill.tier, entry.outcome),
        *(used.prompt, used.cached, used.written, used.completion, used.reasoning),
        *(parts.input, parts.cached_input, parts.written + parts.written_long, parts.output + parts.reasoning),
        parts.total,
    )
