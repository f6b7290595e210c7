"""How far the step-time formula is from a file of measurements, as tables."""

from collections import Counter

from rich.console import Console
from rich.table import Table

from fastmode.show import table
from planning.accuracy import CALIBRATED_AT, Accuracy, Measurements, Score

HEADINGS = (">n", ">MAPE", ">median", ">bias", ">median\nbias")
NOTES = """\
Errors are those of tok/s/user, predicted / measured - 1; bias above 0: predicted too fast. All constants are global.
Not validated: AMD, TPU, Groq, pipelined GPUs, contexts above 9k, prefix-cache hits. Two engines on one GPU differ by
17-39 %, repeats of one and the same configuration by 9.6 %."""


def accuracy(out: Console, measurements: Measurements, scores: Accuracy) -> None:
    """The whole file, then its parts, then what was left out."""
    out.print(_overall(scores))
    for column, parts in scores.by.items():
        made = _table(column.capitalize(), *HEADINGS, ">calibrated\nn", ">MAPE", ">median")
        for value, (plain, calibrated) in parts.items():
            made.add_row(value, *_cells(plain), *(_cells(calibrated)[:3] if calibrated else ("", "", "")))
        out.print(made)
    out.print(NOTES)
    if measurements.skipped:
        out.print(_skipped(measurements))


def _overall(scores: Accuracy) -> Table:
    made = table("Prediction", *HEADINGS, ">MAPE\nof TPOT", title="Speed of one user's stream against measurements")
    made.add_row("this formula, global constants", *_cells(scores.overall), _percent(scores.overall.mape_time))
    if scores.calibrated is not None:
        curves = f"{scores.calibrated_curves} of {scores.curves} curves"
        name = f"  one point of each curve calibrated (batch {CALIBRATED_AT}; {curves})"
        made.add_row(name, *_cells(scores.calibrated), _percent(scores.calibrated.mape_time))
    if scores.active_bytes is not None:
        cells = _cells(scores.active_bytes)
        made.add_row("naive: active bytes / bandwidth", *cells, _percent(scores.active_bytes.mape_time))
    name = f"naive: {scores.seconds_per_layer * 1e6:.0f} us a layer, fitted to this file"
    made.add_row(name, *_cells(scores.per_layer), _percent(scores.per_layer.mape_time))
    return made


def _table(*headings: str) -> Table:
    return table(*headings, title=f"By {headings[0].lower()}")


def _cells(score: Score) -> tuple[str, ...]:
    signed = (f"{bias:+.1%}" for bias in (score.bias, score.median_bias))
    return f"{score.n:,}", _percent(score.mape), _percent(score.median), *signed


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 10 else f"{share:,.0%}"


def _skipped(measurements: Measurements) -> Table:
    made = table("Rows left out, and why", ">rows", ">first line", title="Not predicted")
    first: dict[str, int] = {}
    for row in measurements.skipped:
        first.setdefault(row.why, row.line)
    for why, times in Counter(row.why for row in measurements.skipped).most_common():
        made.add_row(why, str(times), str(first[why]))
    return made
