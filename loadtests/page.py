"""A load test as one HTML file: tables and plots, nothing from elsewhere, for a phone as well as for paper."""

from collections.abc import Sequence
from html import escape
from io import StringIO
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console

from loadtests import charts, show
from loadtests.records import Record
from loadtests.result import Result
from service.errors import ScenarioError

_WIDTH = 170  # columns of the tables, which scroll where there is no room for them
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #22262b; margin: 0 auto; max-width: 72rem; padding: 1rem; }
h1 { font-size: 1.4rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin-top: 2rem; } p { margin: .4rem 0; }
pre { font: 12px/1.35 ui-monospace, Menlo, Consolas, monospace; overflow-x: auto; }
figure { margin: 1rem 0; break-inside: avoid; } svg { width: 100%; height: auto; max-width: 42rem; }
.verdict { border-left: 4px solid #2a6fbb; padding: .2rem .8rem; font-size: 1.05rem; }
.warning { border-left: 4px solid #d9632b; padding: .2rem .8rem; }
@media print { body { max-width: none; padding: 0; } pre { font-size: 7px; white-space: pre-wrap; } }
"""


def write(path: Path, result: Result, records: Sequence[Record]) -> None:
    """Raises ScenarioError."""
    try:
        path.write_text(page(result, records), encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be written: {error.strerror}") from error


def page(result: Result, records: Sequence[Record]) -> str:
    comparison = result.comparison
    figures: list[Figure] = []
    if result.sweep:
        figures.append(charts.sweeps(result.sweep))
    if comparison is not None:
        figures += [charts.tasks(comparison), charts.break_even(comparison.pairs, comparison.worths)]
    if any(record.ok for record in records):
        figures += [charts.latencies(records), charts.over_time(records, result.seconds)]
    parts = [
        f"<h1>{escape(result.scenario)}: {escape(result.model)}</h1>",
        f"<p>{escape(result.about)}</p>",
        *([f'<p class="verdict">{escape(comparison.verdict)}</p>'] if comparison is not None else []),
        *([f'<p class="warning">{escape(result.client.warning)}</p>'] if result.client.warning else []),
        *(f"<figure>{_svg(figure)}</figure>" for figure in figures),
        "<h2>Figures</h2>",
        f"<pre>{escape(_text(result))}</pre>",
        f"<p>Measured {escape(result.made)}; percentiles over completed requests, intervals of 95 % by bootstrap.</p>",
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    title = f"<title>{escape(result.scenario)}: {escape(result.model)}</title>"
    head += f"{title}<style>{_STYLE}</style>"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(parts)}</body></html>\n"


def _svg(figure: Figure) -> str:
    written = StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    text = written.getvalue()
    return text[text.index("<svg") :]


def _text(result: Result) -> str:
    written = StringIO()
    show.result(Console(file=written, width=_WIDTH, highlight=False, color_system=None), result)
    return written.getvalue().strip("\n")
