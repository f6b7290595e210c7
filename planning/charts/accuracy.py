"""Predicted against measured speeds, and how speed falls with batch, as measured and as predicted."""

from collections import Counter
from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from planning.accuracy import CALIBRATED_AT, Accuracy, Point, calibrations
from planning.charts import FAINT, INK, PALETTE, look, panels

CURVES = 8  # shown one by one
BAND = 0.25  # the dashed lines beside the identity


@look
def draw(points: Sequence[Point], accuracy: Accuracy) -> Figure:
    """All points in one scatter, and the curves that have most points, one for each model first."""
    figure, axes = panels("AABB;cdef;ghij", 13.0, 9.6)
    _scatter(axes["A"], points, accuracy)
    _errors(axes["B"], accuracy)
    factors = calibrations(points)
    shown = dict(zip("cdefghij", _most_telling(points), strict=False))
    for place in "cdefghij":
        if place in shown:
            of_curve = [point for point in points if point.curve == shown[place]]
            _curve(axes[place], of_curve, factors.get(shown[place]))
        else:
            axes[place].set_visible(False)
    return figure


def _scatter(axis: Axes, points: Sequence[Point], accuracy: Accuracy) -> None:
    for colour, chip in zip(PALETTE, sorted({point.accelerator.name for point in points}), strict=False):
        of_chip = [point for point in points if point.accelerator.name == chip]
        measured, predicted = ([1 / getattr(p, name) for p in of_chip] for name in ("measured", "predicted"))
        axis.scatter(measured, predicted, s=7, alpha=0.55, linewidths=0, color=colour, label=f"{chip} ({len(of_chip)})")
    speeds = [speed for point in points for speed in (1 / point.measured, 1 / point.predicted)]
    ends = [0.8 * min(speeds), 1.25 * max(speeds)]
    axis.plot(ends, ends, color=INK, linewidth=1)
    for factor in (1 - BAND, 1 + BAND):
        axis.plot(ends, [factor * end for end in ends], color=INK, linewidth=0.7, linestyle=(0, (4, 4)))
    axis.set(
        xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="measured tok/s/user", ylabel="predicted tok/s/user"
    )
    _plain(axis)
    overall = accuracy.overall
    axis.set_title(f"{overall.n:,} points: MAPE {overall.mape:.1%}, median {overall.median:.1%}; dashed: ±{BAND:.0%}")
    axis.legend(loc="lower right", markerscale=2)


def _errors(axis: Axes, accuracy: Accuracy) -> None:
    names = [(column, value) for column in ("accelerator", "engine", "model") for value in accuracy.by[column]]
    names.reverse()
    for place, (column, value) in enumerate(names):
        plain, calibrated = accuracy.by[column][value]
        axis.barh(
            place + 0.18, plain.mape, height=0.34, color=PALETTE[0], label="global constants" if not place else None
        )
        if calibrated is not None:
            label = f"one point calibrated (batch {CALIBRATED_AT})" if not place else None
            axis.barh(place - 0.18, calibrated.mape, height=0.34, color=PALETTE[1], label=label)
    axis.set_yticks(
        range(len(names)), [f"{value} ({accuracy.by[column][value][0].n})" for column, value in names], fontsize=7.5
    )
    axis.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axis.set_title("Mean absolute error of tok/s/user")
    axis.grid(visible=False, axis="y")
    axis.legend(loc="center right")


def _most_telling(points: Sequence[Point]) -> list[tuple[str, ...]]:
    """The curves with most batches: of each model its longest first, then the longest of all."""
    batches: dict[tuple[str, ...], set[float]] = {}
    for point in points:
        batches.setdefault(point.curve, set()).add(point.batch)
    longest = sorted(
        (curve for curve in batches if len(batches[curve]) > 1), key=lambda curve: (-len(batches[curve]), curve)
    )
    nth: Counter[str] = Counter()
    ranked = []
    for place, curve in enumerate(longest):
        nth[curve[0]] += 1
        ranked.append((nth[curve[0]], place, curve))
    return [curve for _, _, curve in sorted(ranked)[:CURVES]]


def _curve(axis: Axes, points: Iterable[Point], factor: float | None) -> None:
    points = sorted(points, key=lambda point: point.batch)
    batches = [point.batch for point in points]
    predicted = [1 / point.predicted for point in points]
    axis.plot(batches, predicted, color=PALETTE[0], label="predicted")
    if factor is not None:
        calibrated = [speed / factor for speed in predicted]
        axis.plot(batches, calibrated, color=PALETTE[1], linestyle=(0, (5, 2)), label=f"calibrated at {CALIBRATED_AT}")
    axis.plot(batches, [1 / point.measured for point in points], "o", color=INK, markersize=3.5, label="measured")
    one = points[0]
    layout = f"tp{one.deployment.tensor_parallel} {one.labels['precision']}".strip()
    axis.set_title(f"{one.architecture.name}\n{one.accelerator.name} {layout} {one.labels['engine']}", fontsize=8)
    axis.set(xscale="log", ylim=(0, None), xlabel="batch")
    axis.set_ylabel("tok/s/user")
    axis.set_xticks(sorted(set(batches)), minor=False)
    axis.minorticks_off()
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.tick_params(labelsize=7.5)
    axis.grid(color=FAINT, alpha=0.35)
    axis.legend(fontsize=7)


def _plain(axis: Axes) -> None:
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter(ScalarFormatter())
