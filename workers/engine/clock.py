"""From a replica's own seconds to those of its caller, whose clock may show so many that digits are lost."""

from math import nextafter


def outside(start: float, time: float) -> float:
    """`time` seconds after `start` on the caller's clock: the earliest that has not fallen short of it by rounding."""
    if not start:
        return time
    seen = start + time
    while seen - start < time:
        seen = nextafter(seen, float("inf"))
    return seen
