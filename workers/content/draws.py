"""Draws from a seeded generator. Only `random.random` is used, whose sequence Python promises to keep.

Knows nothing of what is drawn.
"""

from collections.abc import Sequence
from math import cos, exp, log, pi, sqrt
from random import Random
from typing import TypeVar

T = TypeVar("T")

_EXACT = 2**53  # a float in [0, 1) tells no more integers apart


class Draws:
    """`random` may go on being used beside it."""

    __slots__ = ("_draw",)

    def __init__(self, random: Random) -> None:
        self._draw = random.random

    def share(self) -> float:
        """Of [0, 1)."""
        return self._draw()

    def chance(self, probability: float) -> bool:
        return self._draw() < probability

    def below(self, bound: int) -> int:
        """Of 0 to `bound` - 1, and of the first 2^53 of them if there are more."""
        return int(self._draw() * min(bound, _EXACT))

    def between(self, first: int, last: int) -> int:
        """Both included."""
        return first + self.below(last - first + 1)

    def one(self, of: Sequence[T]) -> T:
        return of[int(self._draw() * len(of))]

    def order(self, of: Sequence[T]) -> list[T]:
        """All of them, the order drawn."""
        rest = list(of)
        return [rest.pop(int(self._draw() * len(rest))) for _ in range(len(rest))]

    def lognormal(self, median: float, sigma: float) -> float:
        """By Box and Muller, since Python promises nothing of its own normal variates."""
        radius = sqrt(-2 * log(1 - self._draw()))
        return median * exp(sigma * radius * cos(2 * pi * self._draw()))
