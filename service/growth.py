"""How fast accounts' use of a tier grows, in Redis, so that all gateways see the sum of what they serve.

    fm:{a:ID}:growth   HASH   "part tier" -> tokens used in that part of time, as long as a rule may look at it

A gateway counts for itself, and tells and learns once a second: a rule about minutes may see what is a second old, and
no request waits for it. Whether growth is too fast is what service.overflow says.
"""

import asyncio
import time
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import msgspec

from service.connection import Client
from service.overflow import PART, WITHIN_MAX, Ramp

ACCOUNTS_MAX = 10_000  # that are known here at a time; whoever used least recently is forgotten
_KEPT = WITHIN_MAX + 60  # s
_AT_ONCE = 32  # accounts


class Growth:
    """What the accounts that came by lately use of each tier whose growth is limited."""

    def __init__(self, redis: Client) -> None:
        self._known: dict[str, _Used] = {}
        self._tell = redis.register_script((files("service") / "lua" / "grow.lua").read_text())
        self._redis = redis

    def count(self, account: str, tier: str, tokens: int) -> None:
        """So many more were used."""
        used = self._known.pop(account, None) or _Used()
        self._known[account] = used
        used.untold[tier] = used.untold.get(tier, 0) + tokens
        if len(self._known) > ACCOUNTS_MAX:
            del self._known[next(iter(self._known))]

    def too_fast(self, account: str, tier: str, ramp: Ramp) -> bool:
        used = self._known.get(account)
        if used is None:
            return False
        return ramp.exceeded(used.parts.get(tier, {}), time.monotonic() + used.ahead)

    async def tell(self) -> None:
        """Exchange with other gateways what was used. Raises Unavailable: what was not told is told next time."""
        telling = [account for account, used in self._known.items() if used.untold]
        for begin in range(0, len(telling), _AT_ONCE):
            await asyncio.gather(*(self._tell_of(account) for account in telling[begin : begin + _AT_ONCE]))

    async def _tell_of(self, account: str) -> None:
        used = self._known.get(account, _Used())
        telling, used.untold = used.untold, {}
        try:
            used.learn(await self._exchange(account, telling))
        except BaseException:
            for tier, tokens in telling.items():
                used.untold[tier] = used.untold.get(tier, 0) + tokens
            raise

    async def _exchange(self, account: str, telling: Mapping[str, int]) -> Any:
        asked = msgspec.msgpack.encode([PART, _KEPT, list(telling.items())])
        async with self._redis.answered():
            return await self._tell(keys=[f"fm:{{a:{account}}}:growth"], args=[asked])


class _Used:
    """By one account: tokens in each part of time, by tier; `ahead`, how much later it is in Redis (s)."""

    def __init__(self) -> None:
        self.untold: dict[str, int] = {}
        self.parts: dict[str, dict[int, int]] = {}
        self.ahead = 0.0

    def learn(self, answer: Any) -> None:
        now, *rows = answer
        self.ahead = float(now) - time.monotonic()
        self.parts = {}
        for name, tokens in zip(rows[::2], rows[1::2], strict=True):
            part, tier = name.decode().split(" ", 1)
            self.parts.setdefault(tier, {})[int(part)] = int(tokens)
