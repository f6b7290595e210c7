"""What has been used and what it cost, as people look at it."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from fastmode.show import table
from service.offers import NANODOLLARS_PER_DOLLAR

_FIGURES = ("requests", "prompt", "cached", "written", "completion", "reasoning")


def usage(out: Console, rows: Sequence[Mapping[str, Any]], by: Sequence[str]) -> None:
    if not rows:
        out.print("Nothing has been used.")
        return
    shown = table(*map(str.capitalize, by), *(f">{name.capitalize()}" for name in _FIGURES), ">Cost")
    for row in rows:
        shown.add_row(
            *(row[name] or "–" for name in by), *(f"{row[name]:,}" for name in _FIGURES), _dollars(row["cost"])
        )
    if len(rows) > 1:
        sums = (f"{sum(row[name] for row in rows):,}" for name in _FIGURES)
        total = _dollars(sum(row["cost"] for row in rows))
        shown.add_section()
        shown.add_row(*("all" if not number else "" for number in range(len(by))), *sums, total)
    out.print(shown)


def _dollars(nanodollars: int) -> str:
    return f"${nanodollars / NANODOLLARS_PER_DOLLAR:,.6f}"
