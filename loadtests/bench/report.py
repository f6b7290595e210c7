"""Figures with their unit, their aim and the setting they come from; as tables for people and as JSON for programs."""

import json
import operator
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table

_COMPARE = {"<=": operator.le, ">=": operator.ge}
_WIDTH_OF_FILES = 140


@dataclass(frozen=True, slots=True)
class Aim:
    """What a figure should be."""

    relation: Literal["<=", ">="]
    bound: float


@dataclass(frozen=True, slots=True)
class Figure:
    """`floor` is the same of the bare server, measured in the same run."""

    name: str
    value: float
    unit: str
    aim: Aim | None = None
    floor: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.value / self.floor if self.floor else None

    @property
    def met(self) -> bool | None:
        return bool(_COMPARE[self.aim.relation](self.value, self.aim.bound)) if self.aim else None


@dataclass(frozen=True, slots=True)
class Sheet:
    """Figures of one measurement. `setting` says how they were taken."""

    section: str
    title: str
    setting: str
    figures: Sequence[Figure]


def machine() -> dict[str, Any]:
    """What the figures depend on beside the code."""
    return {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load_average": round(os.getloadavg()[0], 2),
    }


def console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH_OF_FILES
    return console


def show(out: Console, sheet: Sheet) -> None:
    out.print(f"\n[bold]{sheet.title}[/bold]   python -m loadtests.bench --only {sheet.section}", soft_wrap=True)
    out.print(sheet.setting, style="dim", soft_wrap=True)
    out.print(_table(sheet))


def _table(sheet: Sheet) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    compared = any(figure.floor is not None for figure in sheet.figures)
    numbers = ("Value", "Floor", "Ratio") if compared else ("Value",)
    for heading in ("Figure", *numbers, "Unit", "Aim", ""):
        table.add_column(heading, justify="right" if heading in numbers else "left", no_wrap=True)
    for figure in sheet.figures:
        values = (figure.value, figure.floor, figure.ratio)[: len(numbers)]
        verdict = "" if figure.met is None else "met" if figure.met else "missed"
        table.add_row(figure.name, *map(_number, values), figure.unit, _aim(figure) or "", verdict)
    return table


def write(path: Path, about: dict[str, Any], sheets: Sequence[Sheet]) -> None:
    """Raises OSError."""
    path.write_text(json.dumps({"machine": about, "sheets": [_plain(sheet) for sheet in sheets]}, indent=2) + "\n")


def _plain(sheet: Sheet) -> dict[str, Any]:
    return {
        "section": sheet.section,
        "title": sheet.title,
        "setting": sheet.setting,
        "figures": [
            {
                "name": figure.name,
                "value": figure.value,
                "unit": figure.unit,
                "floor": figure.floor,
                "aim": _aim(figure),
                "met": figure.met,
            }
            for figure in sheet.figures
        ],
    }


def _aim(figure: Figure) -> str | None:
    return f"{figure.aim.relation} {figure.aim.bound:g}" if figure.aim else None


def _number(value: float | None) -> str:
    """Four significant digits: more than a shared machine repeats."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
