"""How fast tokens may go out: a contract rate, with a bounded burst. Pure; times are arguments, in seconds.

The generic cell rate algorithm (ITU-T I.371): instead of a level that has to be filled up, the time at which the next
token would come if all came at the rate. Who looks late finds ready what has become due by then, so that the rate holds
however late a timer is; a burst is for tokens that come after a silence.
"""

from math import floor, inf


class Shaper:
    """`rate` in tokens per second; `burst` tokens may go out at once after a silence."""

    __slots__ = ("_gap", "_next", "_slack")

    def __init__(self, rate: float, burst: float) -> None:
        assert rate > 0
        assert burst >= 1
        self._gap = 1 / rate
        self._slack = (burst - 1) / rate
        self._next = -inf  # when the next token would come, if all came at the rate

    def ready(self, since: float, now: float) -> int:
        """How many tokens that have been there `since` then may go by now."""
        late = now + self._slack - max(self._next, since)
        return max(0, 1 + floor(late / self._gap + 1e-9))

    def take(self, tokens: int, since: float) -> None:
        """So many of these go; not more than are ready."""
        self._next = max(self._next, since) + tokens * self._gap

    def due(self, since: float) -> float:
        """When the first of them may go."""
        return max(since, self._next - self._slack)
