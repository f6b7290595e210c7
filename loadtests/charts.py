"""Plots of a load test: how latencies are spread, what happened over time, what tasks cost, where tiers break even."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from loadtests.records import Record
from loadtests.result import Sweep
from loadtests.worth import STEPS, Comparison, Pair, Worth
from planning.charts import FAINT, INK, PALETTE, look, panels

_WIDTH = 5.2  # inches: what can be read on a phone
_PARTS = 60  # of the time


@look
def latencies(records: Sequence[Record]) -> Figure:
    """Shares of requests that took no longer, by tier; TPOT where there is any."""
    tiers = _by_tier(records)
    values = {
        "TTFT, s": [[r.ttft for r in of] for _, of in tiers],
        "TPOT, ms": [[1e3 * r.tpot for r in of if r.tpot > 0] for _, of in tiers],
    }
    shown = [unit for unit, of in values.items() if any(of)]
    figure, axes = panels(";".join("AB"[: len(shown)]), _WIDTH, 2.6 * len(shown))
    for name, unit in zip("AB", shown, strict=False):
        for number, (tier, _) in enumerate(tiers):
            ordered = np.sort(values[unit][number])
            if len(ordered):
                shares = np.arange(1, len(ordered) + 1) / len(ordered)
                axes[name].step(ordered, shares, color=PALETTE[number], label=tier)
        axes[name].set_xlabel(unit)
        axes[name].set_ylim(0, 1.02)
    axes["A"].set_title("Share of requests that took no longer")
    axes["A"].legend()
    return figure


@look
def over_time(records: Sequence[Record], seconds: float) -> Figure:
    """Output and requests under way, and when each TTFT was seen."""
    figure, axes = panels("A;B", _WIDTH, 5)
    end = max((record.ended for record in records if record.ok), default=seconds)
    edges = np.linspace(0, end, _PARTS + 1)
    for number, (tier, of) in enumerate(_by_tier(records)):
        rates = sum((_rate(record, edges) for record in of), np.zeros(_PARTS))
        axes["A"].plot(edges[1:], rates, color=PALETTE[number], label=tier)
        axes["B"].plot([r.due for r in of], [r.ttft for r in of], ".", markersize=3, color=PALETTE[number], label=tier)
    axes["A"].set_title("Output, tok/s")
    axes["B"].set_title("TTFT, s, by when a request was due")
    axes["B"].set_xlabel("seconds")
    for at in axes.values():
        at.set_xlim(0, end)
    axes["A"].legend()
    return figure


def _rate(record: Record, edges: Any) -> Any:
    """Tokens of an answer in each part of the time, as if they had come evenly."""
    last = max(record.last, record.first + 1e-6)
    share = np.clip((edges - record.first) / (last - record.first), 0, 1)
    return np.diff(share) * record.output / np.diff(edges)


@look
def tasks(comparison: Comparison) -> Figure:
    """Time and money of a successful task."""
    figure, axes = panels("A", _WIDTH, 3.2)
    at = axes["A"]
    for number, worth in enumerate(comparison.worths):
        seconds, dollars = worth.success_seconds, worth.success_dollars
        if not (isfinite(seconds.value) and isfinite(dollars.value)):
            continue
        at.errorbar(
            seconds.value,
            dollars.value,
            xerr=[[seconds.value - seconds.low], [seconds.high - seconds.value]] if isfinite(seconds.high) else None,
            yerr=[[dollars.value - dollars.low], [dollars.high - dollars.value]] if isfinite(dollars.high) else None,
            fmt="o",
            color=PALETTE[number],
            label=worth.tier,
        )
    at.set_title("A successful task")
    at.set_xlabel("seconds")
    at.set_ylabel("dollars")
    at.set_ylim(bottom=0)
    at.set_xlim(left=0)
    at.legend()
    return figure


@look
def break_even(pairs: Sequence[Pair], worths: Sequence[Worth]) -> Figure:
    """Error rates up to which a faster tier is quicker, or cheaper, by steps of a task; and what was measured."""
    figure, axes = panels("A;B", _WIDTH, 5.6)
    for number, pair in enumerate(pairs):
        for name, curve in (("A", pair.by_time), ("B", pair.by_cost)):
            steps = [n for n, value in curve.items() if isfinite(value)]
            axes[name].plot(
                steps, [100 * curve[n] for n in steps], color=PALETTE[number], label=f"{pair.tier} over {pair.over}"
            )
    measured: dict[tuple[float, float], list[str]] = {}
    for worth in worths:
        if isfinite(worth.unseen):
            measured.setdefault((worth.steps, 100 * worth.unseen), []).append(worth.tier)
    for place, tiers in measured.items():
        for at in axes.values():
            at.plot(*place, "o", color=INK, markersize=4)
            at.annotate(", ".join(tiers), place, (4, 4), textcoords="offset points", fontsize=7)
    for name, title in (("A", "Quicker below, % of steps wrong"), ("B", "Cheaper below, % of steps wrong")):
        axes[name].set_title(title)
        axes[name].set_xscale("log")
        axes[name].set_xticks(STEPS, list(map(str, STEPS)))
        axes[name].set_xlabel("steps of a task")
        axes[name].axhline(0, color=FAINT, linewidth=0.8)
    axes["A"].legend()
    return figure


@look
def sweeps(of: Sequence[Sweep]) -> Figure:
    """Throughput against the speed of each, from level to level."""
    figure, axes = panels("A", _WIDTH, 3.6)
    at = axes["A"]
    for number, sweep in enumerate(of):
        able = [point for point in sweep.points if point.tier.ok]
        at.plot(
            [point.tier.speed.value for point in able],
            [point.tier.throughput for point in able],
            "o-",
            color=PALETTE[number],
            label=sweep.tier,
        )
        for point in able:
            mark = f"{point.level:g}" + (" knee" if point.level == sweep.knee else "")
            at.annotate(
                mark, (point.tier.speed.value, point.tier.throughput), (4, 4), textcoords="offset points", fontsize=7
            )
    at.set_title("All, tok/s, against the speed of one stream")
    at.set_xlabel("tok/s of a stream")
    at.set_ylabel("tok/s in all")
    at.set_ylim(bottom=0)
    at.set_xlim(left=0)
    at.legend()
    return figure


def _by_tier(records: Sequence[Record]) -> list[tuple[str, list[Record]]]:
    tiers = dict.fromkeys(record.tier for record in records)
    return [(tier, [record for record in records if record.tier == tier and record.ok]) for tier in tiers]
