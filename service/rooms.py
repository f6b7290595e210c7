"""What a request takes of what its account may use, and what is left. Values; nothing here counts."""

from dataclasses import dataclass
from typing import Literal

import msgspec

from service.messages import Usage

Reason = Literal["", "limit", "parallel", "budget"]


class Draw(msgspec.Struct, array_like=True, frozen=True):
    """So much of a bucket into which `capacity` flows in a minute. Its name ends with the kind that it counts.

    Where nothing is drawn (0), it must not be empty; where it is only looked at (-1), it may be.
    """

    bucket: str
    capacity: int
    amount: int


class Way(msgspec.Struct, array_like=True, frozen=True):
    """What it takes to serve a request in one way; `reserve` in nano-dollars."""

    draws: tuple[Draw, ...]
    reserve: int = 0


@dataclass(frozen=True, slots=True)
class Room:
    """What is left in a bucket, after `amount` was drawn or would have been."""

    bucket: str
    capacity: int
    level: float
    amount: int

    @property
    def full_in(self) -> float:
        """Seconds."""
        return 60 * (self.capacity - self.level) / self.capacity if self.capacity else 0.0

    @property
    def enough_in(self) -> float:
        """Seconds until what did not fit does; infinity: never."""
        if max(self.amount, 1) > self.capacity:
            return float("inf")
        return max(0.0, 60 * (max(self.amount, 1) - self.level) / self.capacity)


@dataclass(frozen=True, slots=True)
class Held:
    """`way` is the number of that which is taken, from 0; None: there is no room, for a `reason`.

    `rooms` are those of the buckets of that way, or of the first.
    """

    way: int | None
    reason: Reason
    rooms: tuple[Room, ...]


def amounts(usage: Usage) -> dict[str, int]:
    """What was used of each kind of tokens that limits count."""
    return {
        "tokens": usage.prompt + usage.completion,
        "input_tokens": usage.prompt - usage.cached,
        "output_tokens": usage.completion,
    }
