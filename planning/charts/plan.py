"""How long requests wait for their first token and for each further one, and how full the pools are meanwhile.

For a solution also how many replicas each limit of the batch needs.
"""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from planning.charts import FAINT, INK, PALETTE, look, panels
from planning.plan import Run
from planning.solve import Solution
from planning.tally import Objective

_POINTS = 500  # of a distribution
_PARTS = 120  # of the time axis
_ROW = 2.9  # inches
_DASHES = (0, (4, 3))


@look
def draw(runs: Sequence[Run], solutions: Sequence[Solution] = ()) -> Figure:
    """Distributions of TTFT and TPOT by tier, sequences in flight over time, the queue if there is one."""
    queued = any(any(samples.waiting) for run in runs for samples in run.samples.values())
    rows = ["AB", "CC", *(["DD"] if queued else []), *(["EE"] if solutions else [])]
    figure, axes = panels(";".join(rows), 11.0, _ROW * len(rows))
    figure.suptitle(str(runs[0].scenario.workload), fontsize=9, x=0.01, ha="left")
    tallies = [tally for run in runs for tally in run.tallies]
    tiers, objectives = [tally.offer.tier for tally in tallies], [tally.objective for tally in tallies]
    samples = [tally.samples() for tally in tallies]
    ttft, tpot = [sample["ttft"] for sample in samples], [1e3 * sample["tpot"] for sample in samples]
    _distributions(axes["A"], tiers, ttft, [objective.ttft for objective in objectives], objectives)
    _distributions(axes["B"], tiers, tpot, [1e3 * objective.tpot for objective in objectives], objectives)
    axes["A"].set(title="Share of requests by TTFT", xlabel="s, the front end's assumed term included")
    axes["B"].set(title="Share of requests by TPOT", xlabel="ms")
    _in_flight(axes["C"], runs)
    if queued:
        _queue(axes["D"], runs)
    if solutions:
        _frontier(axes["E"], solutions)
    return figure


def _distributions(
    axis: Axes, tiers: Sequence[str], values: Sequence[Any], bounds: Sequence[float], objectives: Sequence[Objective]
) -> None:
    shares = np.linspace(0, 1, _POINTS)
    for colour, tier, of_tier in zip(PALETTE, tiers, values, strict=False):
        if len(of_tier):
            axis.plot(np.quantile(of_tier, shares), shares, color=colour, label=tier)
    alike = len(set(bounds)) == 1
    for colour, bound, objective in zip(PALETTE, bounds, objectives, strict=False):
        if bound < inf:
            axis.axvline(bound, color=INK if alike else colour, linewidth=1, linestyle=_DASHES)
            axis.axhline(objective.share, color=FAINT, linewidth=0.8, linestyle=_DASHES)
    if min(bounds) < inf:
        axis.plot([], [], color=INK, linewidth=1, linestyle=_DASHES, label="SLO")
    axis.set(xscale="log", ylim=(0, 1.01))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_minor_formatter(FuncFormatter(_two_or_five))
    axis.legend(loc="upper left")


def _two_or_five(value: float, _: object) -> str:
    return f"{value:g}" if f"{value:e}"[0] in "25" else ""


def _in_flight(axis: Axes, runs: Sequence[Run]) -> None:
    """Means over equal parts of the time, of each pool, as a share of the slots that the ambient load leaves."""
    pools = [(run, name) for run in runs for name in run.samples]
    for colour, (run, name) in zip(PALETTE, pools, strict=False):
        pool = run.scenario.pools[name]
        edges = np.linspace(0, run.span, _PARTS + 1)
        passed = np.zeros(_PARTS + 1)  # sequence-seconds before each edge
        for tally in run.tallies:
            if tally.offer.pool == name and tally.completed:
                table = tally.table()
                passed += _spent(table[:, 1], edges) - _spent(table[:, 6], edges)
        shares = np.diff(passed) / np.diff(edges) / (pool.replicas * pool.slots)
        axis.stairs(shares, edges / 60, color=colour, linewidth=1.3, baseline=None, label=f"pool {name}")
    axis.set(title="Slots in use, of those that the ambient load leaves", xlabel="minutes")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
    axis.set_ylim(bottom=0)
    axis.margins(x=0.01)
    axis.legend(loc="upper right")


def _spent(begun: Any, edges: Any) -> Any:
    """Seconds since each beginning, in sum over those before the edge, for each edge."""
    begun = np.sort(begun)
    before = np.searchsorted(begun, edges)
    return before * edges - np.concatenate(([0.0], np.cumsum(begun)))[before]


def _queue(axis: Axes, runs: Sequence[Run]) -> None:
    pools = ((name, samples) for run in runs for name, samples in run.samples.items())
    for colour, (name, samples) in zip(PALETTE, pools, strict=False):
        minutes = np.arange(len(samples.waiting)) * samples.every / 60
        axis.plot(minutes, samples.waiting, color=colour, linewidth=1.3, label=f"pool {name}")
    axis.set(title="Requests in the queue", xlabel="minutes")
    axis.set_ylim(bottom=0)
    axis.margins(x=0.01)
    axis.legend(loc="upper right")


def _frontier(axis: Axes, solutions: Sequence[Solution]) -> None:
    for colour, solution in zip(PALETTE, solutions, strict=False):
        limits = [point.max_batch for point in solution.frontier]
        replicas = [point.replicas for point in solution.frontier]
        axis.plot(limits, replicas, "o-", color=colour, markersize=4, label=f"pool {solution.pool}")
        if solution.best is not None:
            best = solution.best
            axis.plot(best.max_batch, best.replicas, "o", color=INK, markersize=8, fillstyle="none")
            axis.annotate(
                f"{best.replicas} x batches of {best.max_batch}",
                (best.max_batch, best.replicas),
                xytext=(8, 4),
                textcoords="offset points",
            )
    axis.set(xscale="log", yscale="log", xlabel="limit of the batch", title="Fewest replicas that meet the SLO")
    axis.margins(x=0.12, y=0.12)
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        side.set_minor_formatter(FuncFormatter(_two_or_five))
    axis.legend(loc="upper right")
