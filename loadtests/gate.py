"""Bounds on figures, for whoever runs load tests in CI: `fast.ttft.p99 > 0.5`, `spark.met < 0.99`. Pure."""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan

from loadtests.result import Result
from loadtests.summary import Estimate, Tier
from service.errors import ScenarioError

_COMPARE: dict[str, Callable[[float, float], bool]] = {"<": operator.lt, ">": operator.gt}
_PERCENTILES = ("ttft", "tpot", "itl", "e2e", "queued")
_PLAIN = ("requests", "ok", "errors", "speed", "throughput", "met", "goodput", "cost", "dollars", "seen")
_WORDS = re.compile(
    rf"\s*(?:([\w-]+)\.)?(?:({'|'.join(_PERCENTILES)})\.(p50|p90|p99)|({'|'.join(_PLAIN)}))"
    r"\s*([<>])\s*(\d+\.?\d*(?:e-?\d+)?)\s*"
)


@dataclass(frozen=True, slots=True)
class Bound:
    """`tier` empty: every tier."""

    text: str
    tier: str
    figure: str
    rank: str
    relation: str
    value: float


def parse(text: str) -> Bound:
    """Raises ScenarioError."""
    found = _WORDS.fullmatch(text)
    if found is None:
        ranked = ", ".join(f"{name}.p99" for name in _PERCENTILES)
        raise ScenarioError(
            f"{text!r} is no bound; say for example 'fast.ttft.p99 > 0.5'. Figures: {ranked} (or p50, p90), "
            f"{', '.join(_PLAIN)}"
        )
    return Bound(text, found[1] or "", found[2] or found[4], found[3] or "", found[5], float(found[6]))


def broken(result: Result, bounds: Sequence[Bound]) -> list[str]:
    """Which bounds fail, and how. A figure that is not known fails, too."""
    failures = []
    for bound in bounds:
        tiers = [tier for tier in result.tiers if not bound.tier or tier.tier == bound.tier]
        if not tiers:
            failures.append(f"{bound.text}: there is no tier {bound.tier!r} in this run")
        for tier in tiers:
            seen = _figure(tier, bound)
            if isnan(seen) or _COMPARE[bound.relation](seen, bound.value):
                failures.append(f"{bound.text}: at {tier.tier} it is {seen:g}")
    return failures


def _figure(tier: Tier, bound: Bound) -> float:
    found = getattr(tier, bound.figure)
    if bound.rank:
        found = found.get(bound.rank, float("nan"))
    if bound.figure == "errors":
        return float(sum(found.values()))
    return found.value if isinstance(found, Estimate) else float(found)
