"""What people look at in a terminal: consoles, tables, and numbers with the mark of what they rest on.

Each module of this package lays out one thing; the figures are computed elsewhere.
"""

import os
from collections.abc import Collection

from rich import box
from rich.console import Console
from rich.table import Table

from service.figures import Figure
from service.provenance import Kind

MARKS: dict[Kind, str] = {"measured": "ᵐ", "derived": "ᵈ", "assumed": "ᵃ"}
LEGEND = "ᵐ measured (published)  ᵈ derived (computed)  ᵃ assumed (chosen)"
WIDTH_OF_FILES = 160  # columns, where no terminal says how many there are


def console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH_OF_FILES
    return console


def table(*headings: str, title: str | None = None, wordy: Collection[str] = ()) -> Table:
    """`>` in front of a heading: a column of numbers. Only `wordy` columns may wrap."""
    made = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title=f"\n{title}\n" if title else None,
        title_justify="left",
        title_style="bold",
        show_edge=False,
    )
    for heading in headings:
        name = heading.removeprefix(">")
        made.add_column(name, justify="right" if name != heading else "left", no_wrap=name not in wordy)
    return made


def marked(figure: Figure | None) -> str:
    """With the mark of its kind, and a second one if it is derived from something assumed."""
    return "–" if figure is None else number(figure) + MARKS[figure.kind] + (MARKS["assumed"] if figure.assumes else "")


def number(figure: Figure) -> str:
    """Three significant digits of what is derived, and what is given as it was given."""
    return f"{figure.value:.3g}" if figure.kind == "derived" and figure.value < 1000 else f"{figure.value:,.10g}"
