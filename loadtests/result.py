"""A run as a document: what was done, what came of it, what was predicted. JSON, version 1, written and read here.

Seconds, tokens, dollars and shares; what is not known is left out. `tiers` are as loadtests.summary has them,
`predicted` likewise of the same work in virtual time, `comparison` as in loadtests.worth.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from math import isfinite, nan
from pathlib import Path
from typing import Any

import msgspec

from loadtests.summary import Lateness, Tier
from loadtests.worth import Comparison
from service.errors import ScenarioError

SCHEMA = "fastmode-load/1"
FLAGGED = 0.05  # a measurement that is further than that from its prediction
_COMPARED = ("ttft", "tpot", "e2e")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One level of a sweep: so many clients at once, or so many sessions a second."""

    level: float
    tier: Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Points of one tier, by level. `knee`: the level beyond which more load adds less than it takes from each."""

    tier: str
    by: str
    points: Sequence[Point]
    knee: float = nan
    best: float = nan  # level with the most goodput


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    scenario: str
    about: str
    model: str
    dialect: str
    mix: Mapping[str, float]
    seed: int
    made: str  # ISO 8601
    seconds: float
    interrupted: bool
    client: Lateness
    tiers: Sequence[Tier]
    predicted: Sequence[Tier] = ()
    comparison: Comparison | None = None
    sweep: Sequence[Sweep] = ()
    schema: str = SCHEMA


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure, measured and predicted; `off` relative to the prediction. `low`, `high`: the interval of what was
    measured, where it has one.
    """

    tier: str
    figure: str
    unit: str
    measured: float
    predicted: float
    low: float = nan
    high: float = nan

    @property
    def chance(self) -> bool:
        """The prediction lies in the interval."""
        return self.low <= self.predicted <= self.high

    @property
    def off(self) -> float:
        return self.measured / self.predicted - 1 if self.predicted else float("nan")

    @property
    def flagged(self) -> bool:
        return abs(self.off) > FLAGGED


def differences(result: Result) -> Iterator[Difference]:
    """Of medians and throughput."""
    planned = {tier.tier: tier for tier in result.predicted}
    for tier in result.tiers:
        twin = planned.get(tier.tier)
        if twin is None or not twin.ok or not tier.ok:
            continue
        for name in _COMPARED:
            seen, foreseen = (getattr(each, name)["p50"] for each in (tier, twin))
            if seen.known and foreseen.known:
                yield Difference(tier.tier, f"{name} p50", "s", seen.value, foreseen.value, seen.low, seen.high)
        yield Difference(tier.tier, "throughput", "tok/s", tier.throughput, twin.throughput)


def write(path: Path, result: Result) -> None:
    """Raises ScenarioError."""
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(_plain(result)), indent=2) + b"\n")
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be written: {error.strerror}") from error


def read(path: Path) -> Result:
    """Raises ScenarioError."""
    try:
        result = msgspec.json.decode(path.read_bytes(), type=Result, strict=False)
    except (OSError, msgspec.MsgspecError) as error:
        raise ScenarioError(f"{path} is not the JSON of a run: {error}") from error
    if result.schema != SCHEMA:
        raise ScenarioError(f"{path} is of version {result.schema!r}; this reads {SCHEMA}")
    return result


def schema() -> dict[str, Any]:
    """Of the document, as JSON Schema."""
    return msgspec.json.schema(Result)


def _plain(value: Any) -> Any:
    """Without what is not known."""
    if is_dataclass(value):
        return _plain({field.name: getattr(value, field.name) for field in fields(value)})
    if isinstance(value, Mapping):
        found = {str(key): _plain(each) for key, each in value.items()}
        return {key: each for key, each in found.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    return value
