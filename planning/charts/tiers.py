"""Why a tier is as fast and as dear as it is: a step's time by cause, speed and cost against batch, and the premium.

A tier without a cheaper one on the same chips shows what more wafers would change instead, if it runs on wafers.
"""

from math import inf, nan
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from planning.charts import FAINT, INK, PALETTE, look, panels
from service.errors import PlotError
from service.explain import Explanation, Physics
from service.explain.point import Series
from service.explain.premium import Implied, Premium
from service.explain.stepping import Operation

SPEED, COST, SESSIONS = PALETTE[:3]
PANEL = 5.4  # inches
BEYOND = 1.25  # of the speed-up and of the highest ratio: as far as the premium is drawn


@look
def draw(explained: Explanation) -> Figure:
    """Raises PlotError: the pool was measured, and there is nothing to draw."""
    physics = explained.physics
    if physics is None:
        raise PlotError(f"the pool {explained.pool} was measured: nothing is derived that could be plotted")
    layout = "ABC" if physics.premium or physics.wafers else "AB"
    width = PANEL * len(layout)
    figure, axes = panels(layout, width, 5.2)
    _step(axes["A"], explained, physics)
    _speed(axes["B"], explained, physics)
    if physics.premium:
        _premium(axes["C"], physics.premium)
    elif physics.wafers:
        _wafers(axes["C"], physics)
    what = f"{explained.model} at {explained.tier}: {explained.deployment}"
    assumed = f"derived; assumed among the inputs: {physics.operation.cost_output.assumes or 'nothing'}"
    wrapped = (fill(line, round(15 * width)) for line in (what, assumed))
    figure.suptitle("\n".join(wrapped), x=0.005, ha="left", fontsize=9)
    return figure


def _step(axis: Axes, explained: Explanation, physics: Physics) -> None:
    batches = _values(physics.curve.batch)
    parts = {cause: _values(series) for cause, series in physics.curve.causes.items()}
    steps = [sum(times) for times in zip(*parts.values(), strict=True)]
    shares = [[100 * time / step for time, step in zip(times, steps, strict=True)] for times in parts.values()]
    axis.stackplot(batches, *shares, labels=list(parts), colors=PALETTE, alpha=0.85, linewidth=0)
    for tier, at in _at_work(explained, physics):
        if tier == explained.tier or physics.premium:
            axis.axvline(at.batch.value, color=INK, linewidth=1, linestyle=(0, (4, 3)))
            label = f"{tier}\n{at.step.value:.3g} ms"
            axis.annotate(label, (at.batch.value, 97), xytext=(4, 0), textcoords="offset points", fontsize=8, va="top")
    axis.set(xscale="log", xlim=(batches[0], batches[-1]), ylim=(0, 100), ylabel="% of a step")
    axis.set_title("where the time of a step goes")
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=4, columnspacing=1.2)
    _batches(axis)


def _speed(axis: Axes, explained: Explanation, physics: Physics) -> None:
    curve = physics.curve
    batches = _values(curve.batch)
    costs = axis.twinx()
    axis.plot(batches, _values(curve.speed), color=SPEED)
    costs.plot(batches, _values(curve.cost_output), color=COST, linestyle=(0, (5, 2)))
    end = batches[-1]
    for tier, at in _at_work(explained, physics):
        axis.plot(at.batch.value, at.speed.value, "o", color=SPEED, markersize=7)
        costs.plot(at.batch.value, at.cost_output.value, "s", color=COST, markersize=6, zorder=4)
        left = at.batch.value > end**0.75
        costs.annotate(  # above both curves and below the marks
            f"{tier}: {_number(at.speed.value)} tok/s,\n{at.cost_output.value:.2g} $/MTok",
            (at.batch.value, at.speed.value),
            xycoords=axis.transData,
            zorder=3,
            xytext=(-8, 8) if left else (8, 8),
            textcoords="offset points",
            ha="right" if left else "left",
            fontsize=8,
            bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 1},
        )
    if end == curve.kv_end.value:
        axis.axvline(end, color=FAINT, linewidth=2)
        axis.annotate(
            f"KV cache full at {end:,.0f}",
            (end, 0.97),
            xycoords=("data", "axes fraction"),
            xytext=(-9, 0),
            textcoords="offset points",
            rotation=90,
            va="top",
            ha="center",
            fontsize=8,
        )
    axis.set(xscale="log", xlim=(1, 1.25 * end), ylim=(0, None), ylabel="tok/s of a request (solid)")
    costs.set(yscale="log", ylabel="$/MTok to serve, decode alone (dashed)")
    _second(axis, costs, SPEED, COST)
    _decades(costs.yaxis, "{:g}")
    axis.set_title(f"speed and cost, {physics.operation.context.value:,.0f} tokens of context each")
    _batches(axis)


def _premium(axis: Axes, premium: Premium) -> None:
    curve, speedup = premium.curve, premium.speedup.value
    axis.plot(_values(curve.speedup), _values(curve.premium), color=SPEED, label="output token, from the step time")
    _lemma(axis, curve.speedup, premium.implied[0])
    for place, row in enumerate(premium.implied):
        marker, colour = "s^D"[place], PALETTE[place + 1]
        axis.plot(
            speedup, row.ratio.value, marker, color=colour, markersize=7, label=f"{row.of}: {row.ratio.value:.3g}x"
        )
    axis.axvline(speedup, color=FAINT, linewidth=1)
    highest = max(value for value in _values(curve.premium))
    axis.set(yscale="log", xlim=(1, BEYOND * speedup), ylim=(0.9, BEYOND * highest))
    axis.set(xlabel=f"speed-up over {premium.base}", ylabel=f"premium over {premium.base}")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    _decades(axis.yaxis, "{:g}x")
    axis.legend(loc="upper left")
    axis.set_title("what speed costs on the same chips")


def _lemma(axis: Axes, speedups: Series, implied: Implied) -> None:
    """Where the floor lies below the speed there is no bound: the band is open to the top."""
    places = _values(speedups)
    high = [min(value, 1e6) for value in _values(implied.curve_if_floor_lower, inf)]
    label = f"affine step time, floor {implied.floor_speed.value:.0f} tok/s; band: ±10 % of it"
    axis.fill_between(places, _values(implied.curve_if_floor_higher, 1e6), high, color=COST, alpha=0.16, linewidth=0)
    axis.plot(places, _values(implied.curve), color=COST, linestyle=(0, (5, 2)), label=label)


def _wafers(axis: Axes, physics: Physics) -> None:
    counts = [row.wafers for row in physics.wafers]
    axis.bar(counts, [row.sessions.value for row in physics.wafers], color=SESSIONS, alpha=0.6, width=0.55)
    for row in physics.wafers:
        label, top = f"{row.sessions.value:,.0f}", (row.wafers, row.sessions.value / 2)
        axis.annotate(label, top, ha="center", va="center", fontsize=8)
    axis.set(xticks=counts, xlabel="wafers", ylabel="sessions that the KV cache holds (bars)")
    fitting = [(row.wafers, row.speed_alone.value) for row in physics.wafers if row.speed_alone]
    speeds = axis.twinx()
    if fitting:
        speeds.plot(*zip(*fitting, strict=True), "o-", color=SPEED)
        speeds.set(ylim=(0, 1.15 * max(speed for _, speed in fitting)))
    speeds.set(ylabel="tok/s of a request alone (line)")
    speeds.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    _second(axis, speeds, SESSIONS, SPEED)
    axis.set_title("more wafers hold more sessions; the hop is assumed")


def _at_work(explained: Explanation, physics: Physics) -> list[tuple[str, Operation]]:
    found = [(explained.tier, physics.operation)]
    if physics.base and physics.base_operation:
        found.append((physics.base, physics.base_operation))
    return found


def _second(axis: Axes, other: Axes, colour: str, other_colour: str) -> None:
    axis.yaxis.label.set_color(colour)
    other.yaxis.label.set_color(other_colour)
    other.grid(visible=False)
    other.spines["right"].set_visible(True)


def _batches(axis: Axes) -> None:
    axis.set_xlabel("requests in flight on a replica")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _decades(axis: Axis, form: str) -> None:
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: form.format(value)))
    axis.set_minor_formatter(NullFormatter())


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _values(series: Series, missing: float = nan) -> list[float]:
    return [missing if value is None else value for value in series.values]
