"""What the requests of a run come to: by tier, percentiles, shares, rates and money, with intervals of confidence.

Percentiles are those of all completed requests of a tier. Intervals are 95 % of a bootstrap over its requests (1,000
draws with a seed), so they say how much chance is in a figure, not whether the load was like another.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import Any

import numpy as np

from loadtests.records import Gaps, Record
from loadtests.scenario import Objective

DRAWS = 1000
RANKS = (50.0, 90.0, 99.0)
_SEED = 1
_CELLS = 1_000_000  # drawn at once
_LATE = 0.05  # s; a client that sends, or wakes up, later than that in one of a hundred cases could not keep up


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its interval of confidence; NaN where nothing is known."""

    value: float = nan
    low: float = nan
    high: float = nan

    @property
    def known(self) -> bool:
        return not isnan(self.value)


UNKNOWN = Estimate()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Seconds, tokens per second, dollars. `goodput` in requests a second that met the objective."""

    tier: str
    requests: int
    ok: int
    errors: Mapping[str, int]
    served: Mapping[str, int]  # ok requests, by the tier that served them
    ttft: Mapping[str, Estimate]  # p50, p90, p99
    tpot: Mapping[str, Estimate]
    itl: Mapping[str, float]
    e2e: Mapping[str, Estimate]
    queued: Mapping[str, float]
    speed: Estimate  # tok/s of a stream, median
    throughput: float  # output tok/s in all
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    met: Estimate  # share of ended requests
    goodput: float
    cost: Estimate  # of a request, mean
    dollars: float
    mistakes: Mapping[str, int]
    seen: int  # mistakes that whoever runs the tools saw


@dataclass(frozen=True, slots=True)
class Lateness:
    """Of the client, in seconds."""

    p50: float
    p99: float

    @property
    def warning(self) -> str | None:
        if self.p99 <= _LATE:
            return None
        return (
            f"The client could not keep up: one in a hundred of its sends and timers was {self.p99 * 1e3:.0f} ms late"
            " or more. Its figures are worse than the endpoint's: use fewer clients, or another machine."
        )


def lateness(late: Sequence[float]) -> Lateness:
    if not late:
        return Lateness(0.0, 0.0)
    p50, p99 = np.percentile(np.array(late), (50, 99)).tolist()
    return Lateness(p50, p99)


def summary(
    records: Sequence[Record], gaps: Mapping[str, Gaps], objective: Objective, seconds: float, times: int = 1
) -> list[Tier]:
    """In the order in which tiers were first asked for. `seconds`: how long requests came.

    Where `records` are of so many `times` that the same was done, numbers and sums are those of one time, in the mean.
    """
    tiers = dict.fromkeys(record.tier for record in records)
    found = [_tier(tier, [r for r in records if r.tier == tier], gaps.get(tier), objective, seconds) for tier in tiers]
    return [_of_one(tier, times) for tier in found] if times > 1 else found


def _of_one(tier: Tier, times: int) -> Tier:
    whole = ("requests", "ok", "prompt_tokens", "cached_tokens", "output_tokens", "seen")
    parts = ("throughput", "goodput", "dollars")
    return replace(
        tier,
        **{name: round(getattr(tier, name) / times) for name in whole},
        **{name: getattr(tier, name) / times for name in parts},
    )


def _tier(tier: str, records: Sequence[Record], gaps: Gaps | None, objective: Objective, seconds: float) -> Tier:
    ok = [record for record in records if record.ok]
    ended = [record for record in records if record.outcome != "unfinished"]
    met = np.array([_met(record, objective) for record in ended], dtype=float)
    costs = _known(record.cost / 1e9 for record in ok if record.cost is not None)
    waits = _known(record.queued for record in ok if record.queued is not None)
    until = max((record.ended for record in ok), default=seconds)
    output = sum(record.output for record in ok)
    tpots = _known(record.tpot for record in ok)
    return Tier(
        tier=tier,
        requests=len(records),
        ok=len(ok),
        errors=Counter(record.error or record.outcome for record in records if not record.ok),
        served=Counter(record.served for record in ok if record.served),
        ttft=_percentiles(_known(record.ttft for record in ok)),
        tpot=_percentiles(tpots),
        itl=dict(zip(map(_name, RANKS), gaps.percentiles(RANKS) if gaps else [nan] * len(RANKS), strict=True)),
        e2e=_percentiles(_known(record.e2e for record in ok)),
        queued={_name(rank): float(np.percentile(waits, rank)) if len(waits) else nan for rank in RANKS},
        speed=estimate(1 / tpots[tpots > 0], np.median),
        throughput=output / max(seconds, until) if ok else 0.0,
        prompt_tokens=sum(record.prompt for record in ok),
        cached_tokens=sum(record.cached for record in ok),
        output_tokens=output,
        met=estimate(met, np.mean),
        goodput=float(met.sum()) / seconds if seconds else 0.0,
        cost=estimate(costs, np.mean),
        dollars=float(costs.sum()),
        mistakes=Counter(record.mistake for record in records if record.mistake),
        seen=sum(record.seen for record in records),
    )


def estimate(values: Any, figure: Callable[..., Any]) -> Estimate:
    """A figure of values with its interval. `figure` takes an axis."""
    if not len(values):
        return UNKNOWN
    random = np.random.default_rng(_SEED)
    at_once = max(1, min(DRAWS, _CELLS // len(values)))
    drawn: list[Any] = []
    for begin in range(0, DRAWS, at_once):
        size = (min(at_once, DRAWS - begin), len(values))
        drawn.append(figure(values[random.integers(0, len(values), size)], axis=1))
    low, high = np.percentile(np.concatenate(drawn), (2.5, 97.5), method="nearest").tolist()  # some may be infinite
    return Estimate(float(figure(values, axis=0)), low, high)


def _percentiles(values: Any) -> dict[str, Estimate]:
    return {_name(rank): estimate(values, _percentile(rank)) for rank in RANKS}


def _percentile(rank: float) -> Callable[..., Any]:
    return lambda values, axis: np.percentile(values, rank, axis=axis)


def _name(rank: float) -> str:
    return f"p{rank:g}"


def _known(values: Any) -> Any:
    found = np.array(list(values), dtype=float)
    return found[~np.isnan(found)]


def _met(record: Record, objective: Objective) -> bool:
    return record.ok and record.ttft <= objective.ttft and not record.tpot > objective.tpot
