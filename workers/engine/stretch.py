"""A run of steps between two changes of the batch, in closed form.

While the batch keeps its members, each step takes a constant b longer than the one before, because every context grows
at a constant rate. Boundary j (after j steps) is at  start + a*j + b*j*(j - 1)/2.  The inverse is the root of that
quadratic, in a form that holds for b = 0, corrected by comparing boundaries themselves: so boundary(j), steps_by(t) and
first_from(t) never contradict each other, whatever was rounded.

Knows nothing about sequences.
"""

from bisect import bisect_left, bisect_right
from math import sqrt


class Stretch:
    """Starts at `start` (s); its first step takes `first` seconds, and each further one `increment` more."""

    __slots__ = ("first", "increment", "start")

    def __init__(self, start: float, first: float, increment: float) -> None:
        self.start = start
        self.first = first
        self.increment = increment

    def boundary(self, steps: int) -> float:
        return self.start + (self.first * steps + self.increment * (steps * (steps - 1) // 2))

    def steps_by(self, time: float, limit: int) -> int:
        """The most steps, at most `limit`, that are complete at `time`."""
        guess = self._estimate(time, limit)
        if self.boundary(guess) <= time and (guess == limit or time < self.boundary(guess + 1)):
            return guess
        return max(0, bisect_right(range(limit + 1), time, key=self.boundary) - 1)

    def first_from(self, time: float, limit: int) -> int:
        """The first boundary at or after `time`; `limit` if that comes sooner."""
        guess = min(limit, self._estimate(time, limit) + 1)
        if (time <= self.boundary(guess) or guess == limit) and self.boundary(guess - 1) < time:
            return guess
        return bisect_left(range(limit), time, key=self.boundary)

    def _estimate(self, time: float, limit: int) -> int:
        elapsed = time - self.start
        if elapsed <= 0:
            return 0
        increment = self.increment
        head = self.first - increment / 2
        speed = head + sqrt(head * head + 2 * increment * elapsed)
        return int(2 * elapsed / speed) if 2 * elapsed < limit * speed else limit
