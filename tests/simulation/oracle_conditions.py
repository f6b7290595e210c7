"""What holds for a replica at a time, written the obvious way: every birth and every death one after another, from the
beginning, and every slowdown looked at.

Shares the data classes of service.conditions with the engine, and the order in which chance is asked; nothing else.
"""

from functools import cache
from math import ceil, floor, inf
from random import Random

from service.conditions import Ambient, Recurring, Slowdown


class PlainConditions:
    """`start` and `day` are what the pool's clock and that of the profile read when the replica starts (s)."""

    def __init__(self, ambient: Ambient, slowdowns: tuple[Slowdown | Recurring, ...], start: float, day: float) -> None:
        self.ambient = ambient
        self.slowdowns = slowdowns
        self.start = start
        self.day = day
        self.drawn_at = cache(self.draw_up_to)

    def sequences(self, time: float) -> float:
        """Ambient sequences, `time` seconds after the start. A drawn number shows itself at whole seconds."""
        if self.ambient.stay is not None:
            return self.drawn_at(floor(time))
        return min(self.ambient.sequences * self.factor(time), self.ambient.peak)

    def slowdown(self, time: float) -> float:
        """How many times as long a step takes: the product of all windows that are open."""
        product = 1.0
        for slowdown in self.slowdowns:
            for begin, end, factor in windows(slowdown, until=ceil(self.start + time)):
                if begin - self.start <= time < end - self.start:
                    product *= factor
        return product

    def factor(self, time: float) -> float:
        """Of the profile: one for each of equal parts of its period, over and over."""
        profile = self.ambient.profile
        return profile[self.part(time) % len(profile)] if profile else 1.0

    def part(self, time: float) -> int:
        """Which part of the profile, a hair before its beginning included: its end is computed, and may be rounded."""
        return floor((self.day + time) * len(self.ambient.profile) / self.ambient.period + 1e-9)

    def draw_up_to(self, second: int) -> int:
        """How many sequences there are after all births and deaths up to `second`.

        While a part of the profile holds, the rates are constant but for the number of sequences. Where it ends, what
        has not happened yet is drawn anew.
        """
        assert self.ambient.stay is not None
        assert self.ambient.most is not None
        random = Random(self.ambient.seed)
        most = int(self.ambient.most)
        count = min(round(self.ambient.sequences), most)
        time = 0.0
        while time <= second:
            before = count
            births = self.ambient.sequences * self.factor(time) / self.ambient.stay if count < most else 0.0
            deaths = count / self.ambient.stay
            drawn = time + random.expovariate(births + deaths) if births + deaths else inf
            if drawn < self.part_ends(time):
                time = drawn
                count += 1 if random.random() * (births + deaths) < births else -1
            else:
                time = self.part_ends(time)
        return before

    def part_ends(self, time: float) -> float:
        """When the factor of the profile is the next one."""
        if not self.ambient.profile:
            return inf
        return (self.part(time) + 1) * self.ambient.period / len(self.ambient.profile) - self.day


@cache
def windows(slowdown: Slowdown | Recurring, until: int) -> list[tuple[float, float, float]]:
    """Beginning, end and factor of a slowdown, or of all that began by `until`: each as long after the one before."""
    if isinstance(slowdown, Slowdown):
        return [(slowdown.start, slowdown.end, slowdown.factor)]
    assert isinstance(slowdown.example, Slowdown)
    random = Random(slowdown.seed)
    drawn = []
    end = 0.0
    while end <= until:
        begin = end + random.expovariate(1 / slowdown.every)
        end = begin + random.expovariate(1 / slowdown.lasting)
        drawn.append((begin, end, slowdown.example.factor))
    return drawn
