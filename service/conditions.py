"""What a replica lives under while it serves: other people's requests, and what goes wrong, over time. Data only.

Times are seconds of one clock of the pool: it reads 0 when its worker starts, or when a trace does. An ambient profile
alone may be read from elsewhere, such as the time of day.

Knows nothing about engines: workers.engine.conditions says what holds at a time, workers.replicas takes replicas away.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambient:
    """Other people's requests: `sequences` in flight on each replica in the mean, with `context` tokens each.

    `stay` None: always as many as the mean. Otherwise they come and go one by one, each staying `stay` seconds in the
    mean: a birth-death process around the mean (M/M/infinity, cut off at `most`), drawn from `seed`.

    `profile` are factors on the mean for equal parts of `period` seconds, over and over; empty: none.
    """

    sequences: float = 0.0
    context: float = 0.0
    stay: float | None = None
    most: float | None = None  # sequences at any time; None: the peak of the mean, or for a drawn number no bound
    seed: int = 0
    profile: tuple[float, ...] = ()
    period: float = 86_400.0

    def __post_init__(self) -> None:
        if self.sequences < 0 or self.context < 0:
            raise ValueError("an ambient load cannot be negative")
        if self.stay is not None and self.stay <= 0:
            raise ValueError(f"an ambient sequence cannot stay {self.stay} s")
        if any(factor < 0 for factor in self.profile) or self.period <= 0:
            raise ValueError("a profile has factors of at least 0, and a period above 0 s")
        if self.stay is not None and self.most is None:
            raise ValueError("a number that is drawn needs a bound: most")

    @property
    def peak(self) -> float:
        """The most sequences there ever are."""
        mean = self.sequences * max(self.profile, default=1.0)
        if self.most is None:
            return mean
        return self.most if self.stay is not None else min(self.most, mean)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """From `start` to `end` every step takes `factor` times as long: a brown-out."""

    start: float
    end: float
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """From `start` to `end`, and for `cold_start` s after it, the first `replicas` replicas of a pool serve nobody.

    Their requests go on elsewhere, with their contexts to be recomputed; what they had cached is lost.
    """

    start: float
    end: float
    replicas: int
    cold_start: float = 0.0


Incident = Slowdown | Outage


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurring:
    """Incidents like `example`, at random: `every` s apart and `lasting` s long in the mean, both exponential."""

    example: Incident
    every: float
    lasting: float
    seed: int


def windows(incident: Incident | Recurring) -> Iterator[Incident]:
    """When it happens, in the order of time. Without end for what recurs."""
    if not isinstance(incident, Recurring):
        yield incident
        return
    random = Random(incident.seed)
    end = 0.0
    while True:
        start = end + random.expovariate(1 / incident.every)
        end = start + random.expovariate(1 / incident.lasting)
        yield replace(incident.example, start=start, end=end)
