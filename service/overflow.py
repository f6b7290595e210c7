"""What becomes of a request for which its tier has no room: a policy, as a catalog has it. A value; it decides nothing.

- queue: it waits in the tier's queue, until a deadline.
- reject: it is refused, in the words that its dialect has for that.
- downgrade: it is served, reported and charged as the model's default tier.
- spill: it is served by another pool, as the tier that it asked for.

For an account whose use grows too fast there is no room earlier than for others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal, cast, get_args

from service.toml_table import Table

Policy = Literal["queue", "reject", "downgrade", "spill"]

PART = 15  # s: use is known for parts of time as long as this
WITHIN_MAX = 3600.0  # s
_MINUTE = 60 // PART  # parts


@dataclass(frozen=True, slots=True)
class Ramp:
    """Use grows too fast when it is at least so many tokens a minute, and more than (1 + `growth`) times what it was in
    the least busy minute of the last `within` seconds. It has no room then when `waiting` jobs wait: never, if that is
    0; otherwise, it has while the pool keeps up.

    OpenAI's page on priority processing: a ramp-rate limit may apply from a million tokens a minute on, where they
    grow by more than half within 15 minutes.
    """

    tokens_per_minute: int
    growth: float
    within: float
    waiting: int

    def exceeded(self, parts: Mapping[int, int], now: float) -> bool:
        """`parts`: tokens used by number of the part, counted from the epoch of `now` (s)."""
        part, into = int(now // PART), now % PART
        used = _minute(parts, part + 1) + parts.get(part - _MINUTE, 0) * (1 - into / PART)
        if used < self.tokens_per_minute:
            return False
        first = ceil((now - self.within) / PART) + _MINUTE
        return used > (1 + self.growth) * min((_minute(parts, end) for end in range(first, part + 1)), default=0)


def _minute(parts: Mapping[int, int], end: int) -> int:
    """Tokens of the minute before a part."""
    return sum(parts.get(end - back, 0) for back in range(1, _MINUTE + 1))


@dataclass(frozen=True, slots=True)
class Overflow:
    """There is no room when `waiting` jobs wait in the pool (None: as many as it takes), or nobody works there."""

    policy: Policy = "queue"
    waiting: int | None = None
    pool: str = ""  # that it spills to
    ramp: Ramp | None = None

    def room(self, pool: int, growing: bool) -> int:
        """How many jobs may wait before there is none, in a pool that takes so many."""
        room = min(pool, self.waiting or pool)
        return min(room, self.ramp.waiting) if growing and self.ramp is not None else room


QUEUE = Overflow()


def read_overflow(table: Table, pools: Sequence[str] = ()) -> Overflow:
    """`pools` that it may spill to, if it may. Raises CatalogError."""
    policies = [policy for policy in get_args(Policy) if policy != "spill" or pools]
    policy = cast(Policy, table.one_of("policy", policies))
    waiting = table.integer("waiting", at_least=1) if "waiting" in table else None
    pool = table.one_of("pool", list(pools)) if policy == "spill" else ""
    overflow = Overflow(policy, waiting, pool, _read_ramp(table.table("ramp")) if "ramp" in table else None)
    table.done()
    return overflow


def _read_ramp(table: Table) -> Ramp:
    ramp = Ramp(
        table.integer("tokens_per_minute", at_least=1),
        table.number("growth", at_least=0),
        table.number("within_s", above=0, at_most=WITHIN_MAX),
        table.integer("waiting", at_least=0),
    )
    table.done()
    return ramp
