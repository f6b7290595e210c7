"""What becomes of a request for which its tier has no room: a policy, as a catalog has it. A value; it decides nothing.

- queue: it waits in the tier's queue, until a deadline.
- reject: it is refused, in the words that its dialect has for that.
- downgrade: it is served, reported and charged as the model's default tier.
- spill: it is served by another pool, as the tier that it asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from service.toml_table import Table

Policy = Literal["queue", "reject", "downgrade", "spill"]


@dataclass(frozen=True, slots=True)
class Overflow:
    """There is no room when `waiting` jobs wait in the pool (None: as many as it takes), or nobody works there."""

    policy: Policy = "queue"
    waiting: int | None = None
    pool: str = ""  # that it spills to


QUEUE = Overflow()


def read_overflow(table: Table, pools: Sequence[str] = ()) -> Overflow:
    """`pools` that it may spill to, if it may. Raises CatalogError."""
    policies = [policy for policy in get_args(Policy) if policy != "spill" or pools]
    policy = cast(Policy, table.one_of("policy", policies))
    waiting = table.integer("waiting", at_least=1) if "waiting" in table else None
    overflow = Overflow(policy, waiting, table.one_of("pool", list(pools)) if policy == "spill" else "")
    table.done()
    return overflow
