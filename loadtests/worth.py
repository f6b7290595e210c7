"""Which tier is worth its price? What tasks took and cost at each, and from which price of time, or of
mistakes, another is better. Pure.

A task is a session: it succeeds if all its requests did and no mistake was left in it. What whoever runs the tools saw
was asked for again, and is in its time and cost; what nobody saw is found when the task is checked at the end, and then
it is done again. So with n the mean of one try, and p the share that succeeds, a success takes n / p.

For N steps of T seconds each, of which a share e goes wrong unseen, and V seconds to check what came of them, that is
(N*T + V) / (1 - e)^N. Two tiers are equal where

    1 - e1 = (1 - e2) * ((N*T1 + V) / (N*T2 + V))^(1 / N)   break-even error rate of the faster one; likewise of cost
    c_h = (C2 - C1) / (T1 - T2)                             price of an hour of waiting from which the dearer one pays
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan, nan
from typing import Any

import numpy as np

from loadtests.records import Record
from loadtests.summary import DRAWS, UNKNOWN, Estimate, estimate

STEPS = (1, 2, 3, 5, 8, 12, 20, 30, 50)  # of the curves
_ASSUMPTIONS = (
    "Retries go wrong as often as first tries, and no two mistakes have to do with each other.",
    "Mistakes are those that the service says it made (x-fastmode-mistake) and those that a tool cannot run with.",
    "Prices are list prices of the tier that served; the time of the tool and of whoever checks costs nothing.",
)

Task = list[Record]  # the requests of one session
Drawn = tuple[Any, Any]  # seconds and dollars of a success, in draws of the tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """Of one tier. Seconds and dollars; `unseen`: mistakes left in what was answered, by step; `steps` of a task."""

    tier: str
    tasks: int
    successes: int
    steps: float = nan
    step_seconds: float = nan  # with the tool's time, and all that was asked for again
    step_dollars: float = nan
    task_seconds: Estimate = UNKNOWN
    task_dollars: Estimate = UNKNOWN
    success_seconds: Estimate = UNKNOWN
    success_dollars: Estimate = UNKNOWN
    unseen: float = nan
    seen: float = nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A tier against another. `hour`: dollars that an hour of waiting has to be worth for the first to pay; NaN: it is
    cheaper as well, or not faster. Error rates at which both are equal for the steps that tasks had, and by number of
    steps.
    """

    tier: str
    over: str
    faster: Estimate = UNKNOWN  # times, by success
    dearer: Estimate = UNKNOWN  # times, by success
    hour: Estimate = UNKNOWN
    break_even_time: float = nan
    break_even_cost: float = nan
    by_time: Mapping[int, float]
    by_cost: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    worths: Sequence[Worth]
    pairs: Sequence[Pair]
    verdict: str
    assumptions: Sequence[str]


def compare(of: Mapping[str, Sequence[Task]], tool: float, check: float) -> Comparison:
    """Tasks by tier; `tool`: seconds of a step in which its tool runs; `check`: seconds to check a task at its end."""
    worths = [worth(tier, tasks, tool, check) for tier, tasks in of.items()]
    drawn = [_drawn(tasks, check, number) for number, tasks in enumerate(of.values())]
    pairs = [
        pair(worths[tier], worths[over], check, drawn[tier], drawn[over])
        for over in range(len(worths))
        for tier in range(over + 1, len(worths))
    ]
    return Comparison(worths=worths, pairs=pairs, verdict=verdict(worths, pairs), assumptions=_assumed(check))


def worth(tier: str, tasks: Sequence[Task], tool: float, check: float) -> Worth:
    records = [record for task in tasks for record in task]
    seconds, dollars, good = _tries(tasks)
    steps = np.array([max(r.turn for r in task) + 1 for task in tasks], dtype=float)
    priced = any(record.cost is not None for record in records)
    answered = [record for record in records if record.ok and not record.seen]
    done = float(steps.sum()) if len(steps) else nan
    return Worth(
        tier=tier,
        tasks=len(tasks),
        successes=int(good.sum()),
        steps=float(steps.mean()) if len(tasks) else nan,
        step_seconds=float(seconds.sum() + tool * len(tasks)) / done if len(tasks) else nan,
        step_dollars=float(dollars.sum()) / done if priced and len(tasks) else nan,
        task_seconds=estimate(seconds, np.mean),
        task_dollars=estimate(dollars, np.mean) if priced else UNKNOWN,
        success_seconds=estimate(np.stack([seconds + check, good], axis=1), _per_success),
        success_dollars=estimate(np.stack([dollars, good], axis=1), _per_success) if priced else UNKNOWN,
        unseen=sum(bool(record.mistake) for record in answered) / len(answered) if answered else nan,
        seen=sum(record.seen for record in records) / len(records) if records else nan,
    )


def pair(tier: Worth, over: Worth, check: float, own: Drawn, other: Drawn) -> Pair:
    """`tier` is the faster one, or meant to be. `own`, `other`: what a success took in draws of their tasks."""
    t, c, t2, c2 = (
        each.value for each in (tier.success_seconds, tier.success_dollars, over.success_seconds, over.success_dollars)
    )
    by_time = {n: break_even(n, tier.step_seconds, over.step_seconds, over.unseen, check) for n in STEPS}
    by_cost = {n: break_even(n, tier.step_dollars, over.step_dollars, over.unseen) for n in STEPS}
    return Pair(
        tier=tier.tier,
        over=over.tier,
        faster=_interval(_ratio(t2, t), _ratio(other[0], own[0])),
        dearer=_interval(_ratio(c, c2), _ratio(own[1], other[1])),
        hour=_interval(_hour(t, c, t2, c2), _hour(*own, *other)),
        break_even_time=break_even(over.steps, tier.step_seconds, over.step_seconds, over.unseen, check),
        break_even_cost=break_even(over.steps, tier.step_dollars, over.step_dollars, over.unseen),
        by_time=by_time,
        by_cost=by_cost,
    )


def break_even(steps: float, one: float, other: float, error: float, check: float = 0.0) -> float:
    """The error rate at which steps of `one` second, or dollar, are worth as much as of `other` with `error`."""
    if not steps or isnan(steps) or not other or isnan(one) or isnan(other):
        return nan
    ratio = (steps * one + check) / (steps * other + check)
    return 1 - (1 - error) * float(ratio ** (1 / steps))


def verdict(worths: Sequence[Worth], pairs: Sequence[Pair]) -> str:
    """Two sentences."""
    able = [each for each in worths if each.successes]
    if not able:
        return "No task succeeded at any tier. There is nothing to compare."
    quick = min(able, key=lambda each: each.success_seconds.value)
    cheap = min(able, key=lambda each: each.success_dollars.value if each.success_dollars.known else 0.0)
    first = f"A successful task is quickest at {quick.tier} ({quick.success_seconds.value:.1f} s)"
    if cheap.success_dollars.known:
        first += f" and cheapest at {cheap.tier} (${cheap.success_dollars.value:.4f})"
    waiting = "an hour of waiting"
    hours = [f"{p.tier} pays over {p.over} from ${p.hour.value:.2f} {waiting}" for p in pairs if p.hour.value > 0]
    both = [f"{tier} is both quicker and cheaper than {' and '.join(over)}" for tier, over in _better(pairs).items()]
    risky = [each for each in worths if each.unseen > 0]
    second = "; ".join([*hours, *both]) or "no tier is worth more than the one it is dearer than"
    if risky:
        worst = max(risky, key=lambda each: each.unseen)
        bounds = [each for each in pairs if each.tier == worst.tier]
        if bounds:
            limit = min(each.break_even_time for each in bounds)
            where = "below" if worst.unseen < limit else "above"
            second += (
                f"; {worst.tier} leaves {100 * worst.unseen:.1f} % of its steps wrong unseen, {where} the"
                f" {100 * limit:.1f} % up to which it is quicker"
            )
    return f"{first}. {second[0].upper()}{second[1:]}."


def _assumed(check: float) -> list[str]:
    found = f"in {check:g} s" if check else "in no time"
    return [f"A mistake that nobody saw is found at the end, {found}, and the task is done again.", *_ASSUMPTIONS]


def _better(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Which tiers are both quicker and cheaper than which others."""
    found: dict[str, list[str]] = {}
    for each in pairs:
        if each.faster.value > 1 and each.dearer.value <= 1:
            found.setdefault(each.tier, []).append(each.over)
    return found


def tasks(records: Sequence[Record], whole: Collection[int]) -> list[Task]:
    """The requests of each session that came to an end of its own."""
    sessions: dict[int, Task] = defaultdict(list)
    for record in records:
        if record.session in whole:
            sessions[record.session].append(record)
    return list(sessions.values())


def _succeeded(task: Sequence[Record]) -> bool:
    last = {record.turn: record for record in task}
    return all(record.ok and not record.mistake for record in last.values())


def _per_success(values: Any, axis: int) -> Any:
    """Of (value, whether it succeeded): the sum of one by that of the other; infinite without a success."""
    sums = values.sum(axis=axis)
    with np.errstate(divide="ignore", invalid="ignore"):
        return sums[..., 0] / sums[..., 1]


def _tries(tasks: Sequence[Task]) -> tuple[Any, Any, Any]:
    """Seconds, dollars, and whether it succeeded, of each."""
    seconds = np.array([max(r.ended for r in task) - min(r.due for r in task) for task in tasks])
    dollars = np.array([sum((r.cost or 0) for r in task) / 1e9 for task in tasks])
    return seconds, dollars, np.array([_succeeded(task) for task in tasks], dtype=float)


def _drawn(tasks: Sequence[Task], check: float, seed: int) -> Drawn:
    """What a success takes and costs, in as many draws of the tasks as for any interval."""
    if not tasks:
        return np.full(DRAWS, nan), np.full(DRAWS, nan)
    seconds, dollars, good = _tries(tasks)
    places = np.random.default_rng((seed, len(tasks))).integers(0, len(tasks), (DRAWS, len(tasks)))
    return tuple(_per_success(np.stack([of[places], good[places]], axis=2), 1) for of in (seconds + check, dollars))


def _interval(value: Any, draws: Any) -> Estimate:
    """Of a figure of two tiers; a draw in which there is no such figure counts as beyond any."""
    if not isfinite(value):
        return UNKNOWN
    low, high = np.percentile(np.nan_to_num(draws, nan=inf, posinf=inf), (2.5, 97.5), method="nearest").tolist()
    return Estimate(float(value), low, high)


def _hour(t: Any, c: Any, t2: Any, c2: Any) -> Any:
    """Dollars of an hour for which the dearer and faster one pays; NaN where it is not both."""
    with np.errstate(divide="ignore", invalid="ignore"):
        price = 3600 * np.subtract(c, c2) / np.subtract(t2, t)
        return np.where(np.greater(t2, t) & np.greater(c, c2), price, nan)


def _ratio(one: Any, other: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.divide(one, other)
