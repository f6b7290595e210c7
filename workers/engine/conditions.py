"""What holds for a replica at a time: how many ambient sequences there are, and how slow its steps are.

Piecewise constant. A drawn ambient load is a birth-death process (each sequence stays for an exponential time, others
come at random around the mean); what came of it becomes visible at whole seconds, so that a replica does not change its
batch for each one.

Knows nothing about steps or sequences.
"""

from collections.abc import Callable, Iterable, Iterator
from math import ceil, floor, inf
from random import Random
from typing import NamedTuple

from service.conditions import Ambient, Incident, Recurring, Slowdown, windows

ROUNDING = 1e-9  # of a part of a profile


class Condition(NamedTuple):
    """Holds until the time `until` (s): `sequences` of `context` tokens each; steps take `slowdown` times as long."""

    until: float
    sequences: float
    context: float
    slowdown: float


class Conditions:
    """Of one replica. `start` and `day` are what the pool's clock and that of the profile read when it starts (s).

    `slowdowns` are Slowdowns, or Recurring ones.
    """

    def __init__(
        self,
        ambient: Ambient,
        slowdowns: Iterable[Incident | Recurring] = (),
        start: float = 0.0,
        day: float = 0.0,
    ) -> None:
        self.peak = ambient.peak
        self.context = ambient.context
        self._ambient = ambient
        self._slowdowns = [_Slow(windows(slowdown), start) for slowdown in slowdowns]
        self._day = day % ambient.period
        self._drawn = _Drawn(ambient, self._factor, self._factor_until) if ambient.stay is not None else None

    def at(self, time: float) -> Condition:
        """What holds at `time` seconds after the start, to be asked in the order of time."""
        sequences, until = self._steady(time) if self._drawn is None else self._drawn.at(time)
        slowdown = 1.0
        for slow in self._slowdowns:
            factor, change = slow.at(time)
            slowdown *= factor
            until = min(until, change)
        return Condition(until, sequences, self.context, slowdown)

    def _steady(self, time: float) -> tuple[float, float]:
        return min(self._ambient.sequences * self._factor(time), self.peak), self._factor_until(time)

    def _factor(self, time: float) -> float:
        profile = self._ambient.profile
        return profile[self._part(time) % len(profile)] if profile else 1.0

    def _factor_until(self, time: float) -> float:
        if not self._ambient.profile:
            return inf
        return (self._part(time) + 1) * self._ambient.period / len(self._ambient.profile) - self._day

    def _part(self, time: float) -> int:
        """Counted from when the profile's clock reads 0. When a part ends, by rounding or not, the next one holds."""
        return floor((self._day + time) * len(self._ambient.profile) / self._ambient.period + ROUNDING)


STEADY = Ambient()


class _Slow:
    """One slowdown, over and over if it recurs; `start` is what the clock of its windows reads at time 0."""

    def __init__(self, windows: Iterator[Incident], start: float) -> None:
        self._windows = windows
        self._start = start
        self._next()

    def at(self, time: float) -> tuple[float, float]:
        """The factor on step times, and when it changes."""
        while self._window is not None and self._window.end - self._start <= time:
            self._next()
        if self._window is None:
            return 1.0, inf
        if time < self._window.start - self._start:
            return 1.0, self._window.start - self._start
        return self._window.factor, self._window.end - self._start

    def _next(self) -> None:
        window = next(self._windows, None)
        assert window is None or isinstance(window, Slowdown)
        self._window = window


class _Drawn:
    """A number of sequences around a mean that comes and goes with `factor`."""

    def __init__(self, ambient: Ambient, factor: Callable[[float], float], until: Callable[[float], float]) -> None:
        assert ambient.stay is not None
        assert ambient.most is not None
        self._random = Random(ambient.seed)
        self._stay = ambient.stay
        self._mean = ambient.sequences
        self._most = int(ambient.most)
        self._factor = factor
        self._factor_until = until
        self._now = 0.0  # of the last birth, death or change of their rates
        self._count = min(round(ambient.sequences), self._most)
        self._next, self._change = self._draw()

    def at(self, time: float) -> tuple[float, float]:
        """How many there were at the last whole second, and the whole second at which that may be different."""
        second = floor(time)
        while self._next <= second:
            self._now = self._next
            self._count += self._change
            self._next, self._change = self._draw()
        return self._count, (inf if self._next == inf else float(ceil(self._next)))

    def _draw(self) -> tuple[float, int]:
        """The time of the next birth (+1) or death (-1), or (0) of a change of their rates that comes before it.

        From there on it is drawn anew: exponential times have no memory.
        """
        until = self._factor_until(self._now)
        births = self._mean * self._factor(self._now) / self._stay if self._count < self._most else 0.0
        deaths = self._count / self._stay
        rate = births + deaths
        time = self._now + self._random.expovariate(rate) if rate else inf
        if time >= until:
            return until, 0
        return time, 1 if self._random.random() * rate < births else -1
