"""Plots: one look for all of them, and saving by a file's ending. Each module of this package draws one thing.

Figures are made without pyplot: nothing is global, and nothing needs a screen. Equal figures give equal files.
"""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from service.errors import PlotError

FORMATS = ("svg", "png", "pdf")
INK, FAINT = "#22262b", "#b9bec6"
PALETTE = ("#2a6fbb", "#d9632b", "#3f9a5b", "#8a5bb0", "#c2a21e", "#c0456b", "#4aa3a8", "#7a6a58", "#6b7682", "#9fb43a")

_LOOK: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e9ed",
    "grid.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "svg.hashsalt": "fastmode",
    "svg.fonttype": "none",
}


look = mpl.rc_context(_LOOK)  # decorates whatever draws


@look
def panels(layout: str, width: float, height: float) -> tuple[Figure, dict[str, Axes]]:
    """A figure of `width` x `height` inches and its axes; `layout` has a letter for each cell, rows apart by `;`."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplot_mosaic(layout)


@look
def save(figure: Figure, path: Path) -> None:
    """As SVG, PNG or PDF, whichever the ending says. Raises PlotError."""
    check(path)
    undated: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    ending = path.suffix.removeprefix(".")
    try:
        figure.savefig(path, format=ending, dpi=150, metadata=undated[ending])
    except OSError as error:
        raise PlotError(f"{path}: the plot cannot be written: {error.strerror}") from error


def check(path: Path) -> None:
    """Before long work: whether a plot can be saved as that. Raises PlotError."""
    if path.suffix.removeprefix(".") not in FORMATS:
        raise PlotError(f"{path}: a plot is saved as {', '.join(FORMATS)}; name a file that ends so")
    if not path.parent.is_dir():
        raise PlotError(f"{path}: there is no directory {path.parent}; make it first")
