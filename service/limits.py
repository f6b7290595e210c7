"""What accounts have used of what they may use, in Redis. What it promises:

- All that a request needs is taken in one call, or nothing of it: requests and tokens a minute, a place among those at
  once, room in the budget. Of several ways to serve it, the first for which there is room.
- Limits are buckets that fill all the time: in a minute, what may be used in a minute. The clock is that of Redis.
- What was taken is trued up once, when the request has ended, and its hold is released, however often that is asked.
  What is given back is never more than a full bucket, nor what time has given back already.
- The hold of a gateway that died is released when it expires, if nobody settles it before.
- A budget is what has been spent in its period and what is reserved. A reservation is of the prompt and of a typical
  answer; so an account ends at its budget, and beyond it by no more than what is in flight is longer than typical.

    fm:{a:ID}:buckets   HASH  bucket -> "time level"          fm:{a:ID}:holds     HASH  job -> what was taken
    fm:{a:ID}:expiries  ZSET  job -> when its hold expires    fm:{a:ID}:spend     HASH  period -> spent; "reserved"
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import msgspec

from service.connection import Client
from service.rooms import Draw, Held, Room, Way

HOLD_FOR = 7200.0  # s; a request that takes longer is no longer held against anything


class Limits:
    """Every method is one round trip, and raises Unavailable when Redis does not answer in time."""

    def __init__(self, redis: Client) -> None:
        self._redis = redis
        folder = files("service") / "lua"
        self._hold, self._settle = (
            redis.register_script((folder / f"{name}.lua").read_text()) for name in ("hold", "settle")
        )

    async def hold(
        self,
        account: str,
        job: str,
        ways: Sequence[Way],
        *,
        parallel: int | None = None,
        budget: int | None = None,
        period: str = "total",
    ) -> Held:
        """Take what the first way needs for which there is room. A job is held once, however often it is asked for."""
        assert ways
        bounds = [-1 if bound is None else bound for bound in (parallel, budget)]
        asked = msgspec.msgpack.encode([job, int(HOLD_FOR * 1000), *bounds, period, ways])
        number, reason, rooms = await self._run(self._hold, account, asked)
        return Held(number - 1 if number else None, reason, tuple(_rooms(rooms)))

    async def look(self, account: str, draws: Iterable[Draw]) -> list[Room]:
        """What is left in these buckets, of which nothing is taken."""
        way = Way(tuple(Draw(draw.bucket, draw.capacity, -1) for draw in draws))
        _, _, rooms = await self._run(self._hold, account, msgspec.msgpack.encode(["", 0, -1, -1, "total", [way]]))
        return _rooms(rooms)

    async def used(self, account: str, job: str, amounts: Mapping[str, int]) -> None:
        """By now so much was used of these kinds for a job that goes on."""
        await self._run(self._settle, account, msgspec.msgpack.encode([job, 0, amounts, 0]))

    async def settle(self, account: str, job: str, amounts: Mapping[str, int], cost: int) -> bool:
        """The job has ended, after it has used so much of these kinds and cost so many nano-dollars.

        False: it is not held, or not any more.
        """
        return bool(await self._run(self._settle, account, msgspec.msgpack.encode([job, cost, amounts, 1])))

    async def _run(self, script: Any, account: str, asked: bytes) -> Any:
        keys = [f"fm:{{a:{account}}}:{name}" for name in ("buckets", "holds", "expiries", "spend")]
        async with self._redis.answered():
            answer = await script(keys=keys, args=[asked])
        return msgspec.msgpack.decode(answer) if isinstance(answer, bytes) else answer


def _rooms(rows: Any) -> list[Room]:
    return [Room(bucket, capacity, float(level), amount) for bucket, capacity, level, amount in rows]
