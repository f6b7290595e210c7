"""How many tokens each decode step of a sequence yields.

With k drafts a step yields 1..k+1 tokens (Leviathan et al. 2023). A client sees them as bursts, so they are drawn; but
independent draws would make the rate of a short stream wander by several per cent, which no client could tell from a
wrong step time. So their variance is reduced, and their sums are known without drawing:

- One table of PERIOD outcomes serves all sequences. It holds each outcome as often as its probability says, in an order
  drawn at random among those in which the sum never strays from its mean by more than half a burst, (k + 1)/2 tokens.
  Hence any run of steps yields its mean within one burst.
- A sequence reads the table round and round, from a place its seed picks. What a number of steps yields, and how many
  steps a number of tokens takes, follow from prefix sums; nothing is drawn when a sequence arrives.

Knows nothing about sequences, steps or time.
"""

from array import array
from bisect import bisect, bisect_left
from collections import Counter
from functools import lru_cache
from itertools import accumulate
from math import ceil
from random import Random

PERIOD = 4096
SCATTER = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: neighbouring seeds land far apart (Knuth, multiplicative hashing)


class Bursts:
    """The draws of all sequences of one deployment. `emission` is P(1), ..., P(k + 1) tokens in a step."""

    def __init__(self, emission: tuple[float, ...]) -> None:
        self.outcomes = _table(emission)
        self._period = len(self.outcomes)
        # One more than a period, for the sake of bisection; compact, since it is read at random.
        self._sums = array("i", accumulate(self.outcomes, initial=0))
        self._total = self._sums[-1]
        strays = (abs(i - tokens * self._period // self._total) for i, tokens in enumerate(self._sums))
        self._stray = 2 + max(strays)  # steps between where a sum is and where the mean would put it
        mean = sum(tokens * probability for tokens, probability in enumerate(emission, start=1))
        ahead = [mean * steps - tokens for steps, tokens in enumerate(self._sums)]
        self._excess = mean - 1 + max(ahead) - min(ahead)
        self._drift = max(0.0, mean * self._period - self._total)

    def place(self, seed: int) -> int:
        """The index at which a sequence of this seed starts to read."""
        return (seed * SCATTER % 2**64 * self._period) >> 64

    def sum(self, index: int) -> int:
        """The sum of all outcomes before `index`, counted from the beginning of the first round."""
        period = self._period
        return index // period * self._total + self._sums[index % period]

    def reaches(self, tokens: int) -> int:
        """The first index before which the sum of all outcomes is at least `tokens`."""
        periods, rest = divmod(tokens, self._total)
        near = rest * self._period // self._total  # no sum strays far from the mean
        below, above = max(0, near - self._stray), min(self._period, near + self._stray)
        return periods * self._period + bisect_left(self._sums, rest, below, above)

    def slack(self, tokens: int) -> int:
        """By how much the mean growth over the steps that yield `tokens` can exceed `tokens`, at most. 0 if k = 0."""
        return ceil(self._excess + self._drift * (tokens // self._total + 1))


@lru_cache(maxsize=64)
def _table(emission: tuple[float, ...]) -> tuple[int, ...]:
    if len(emission) == 1:
        return (1,)
    edges = list(accumulate(emission))[:-1]
    left = Counter(1 + bisect(edges, (i + 0.5) / PERIOD) for i in range(PERIOD))
    mean = sum(tokens * times for tokens, times in left.items()) / PERIOD
    bound = len(emission) / 2
    random = Random(PERIOD)
    table: list[int] = []
    ahead = 0.0
    for _ in range(PERIOD):
        near = [tokens for tokens in left if abs(ahead + tokens - mean) <= bound]
        # Near the end the outcomes that lead back to the mean may be used up: then the nearest that is left.
        choice = near or [min(left, key=lambda tokens: abs(ahead + tokens - mean))]
        tokens = random.choices(choice, [left[tokens] for tokens in choice])[0]
        left[tokens] -= 1
        if not left[tokens]:
            del left[tokens]
        ahead += tokens - mean
        table.append(tokens)
    return tuple(table)
