"""Responses that can be looked up later: in Redis, for a while, so that any gateway finds them.

- A record is replaced whole. What is put here is found here at once, and by other gateways as soon as it is written.
- All records together are bounded; the oldest go first, as they do when their time is over. One that is larger than
  the bound is not kept. Gone is gone: who asks for it is told that there is no such response.
- Records belong to an account; another one's are not there.
- While Redis is away, records wait here to be written, up to a bound of their own, beyond which the oldest are lost.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files

import msgspec

from service.connection import Client
from service.errors import Unavailable
from service.replies import gone

log = logging.getLogger(__name__)

_INDEX = "fm:{stored}:index"
_RETRY = 0.25  # s
_LOGGED = 600.0  # s that a log is kept after its last entry
_LATE = 0.05  # s another gateway may take to write what its client has heard already
_WAITING_MAX = 64 * 1024 * 1024  # bytes


class Kept(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """One response. `response` is the object and `items` the input it answers, both JSON; `previous` names the one
    before it in the conversation.
    """

    id: str
    account: str
    response: bytes
    items: bytes = b"[]"
    previous: str | None = None
    background: bool = False
    over: bool = True  # nothing will change any more
    gateway: str = ""  # that runs it

    @property
    def size(self) -> int:
        return len(self.response) + len(self.items)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Kept)


class Stored:
    """The records of all gateways. `run` writes what is put, until it is cancelled."""

    def __init__(self, redis: Client, ttl: float, together: int) -> None:
        self._redis = redis
        self._ttl = ttl
        self._together = together
        self._waiting: OrderedDict[str, Kept] = OrderedDict()
        self._size = 0
        self._woken = asyncio.Event()
        self._writing = asyncio.Lock()  # a record that is removed must not be written afterwards
        self._shelve, self._unshelve = (redis.register_script(_source(name)) for name in ("shelve", "unshelve"))

    def put(self, kept: Kept) -> None:
        """Keep a record, in place of one of that id. Returns at once; it is found from here on."""
        self._forget(kept.id)
        self._waiting[kept.id] = kept
        self._size += kept.size
        while self._size > _WAITING_MAX:
            lost = next(iter(self._waiting))
            log.warning("response %s is lost: there is no room to wait for Redis", lost)
            self._forget(lost)
        self._woken.set()

    async def find(self, name: str, account: str) -> Kept | None:
        """Raises Unavailable when Redis does not answer."""
        kept = self._waiting.get(name) or await self._look(name)
        if kept is None:
            await asyncio.sleep(_LATE)
            kept = await self._look(name)
        return kept if kept is not None and kept.account == account else None

    async def remove(self, kept: Kept) -> None:
        """Raises Unavailable when Redis does not answer."""
        async with self._writing:
            self._forget(kept.id)
            async with self._redis.answered():
                await self._unshelve(keys=[_key(kept.id), _INDEX])

    async def is_orphaned(self, kept: Kept) -> bool:
        """The gateway that ran it is gone. Raises Unavailable when Redis does not answer."""
        return not kept.over and bool(await gone(self._redis, [kept.gateway]))

    async def write(self, at_most: float) -> None:
        """What still waits, as far as it goes in so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                await self._write_all()

    async def cancel(self, name: str) -> None:
        """Ask whoever runs a response to stop. Raises Unavailable when Redis does not answer."""
        async with self._redis.answered():
            await self._redis.set(_cancel_key(name), b"1", px=round(self._ttl * 1000))

    async def is_cancelled(self, name: str) -> bool:
        """Raises Unavailable when Redis does not answer."""
        async with self._redis.answered():
            return bool(await self._redis.exists(_cancel_key(name)))

    async def log(self, name: str, entries: Sequence[bytes]) -> None:
        """Add to what is logged of a response. Raises Unavailable when Redis does not answer."""
        key = _log_key(name)
        async with self._redis.answered(), self._redis.pipeline(transaction=False) as pipe:
            pipe.rpush(key, *entries)
            pipe.pexpire(key, round(min(self._ttl, _LOGGED) * 1000))
            await pipe.execute()

    async def logged(self, name: str, start: int) -> list[bytes]:
        """What has been logged of a response from entry `start` on. Raises Unavailable."""
        async with self._redis.answered():
            entries: list[bytes] = await self._redis.lrange(_log_key(name), start, -1)  # type: ignore[assignment]
        return entries

    async def run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            await self._write_all()

    async def _write_all(self) -> None:
        while self._waiting:
            try:
                async with self._writing:
                    await self._write_first()
            except Unavailable:
                await asyncio.sleep(_RETRY)

    async def _write_first(self) -> None:
        kept = next(iter(self._waiting.values()), None)
        if kept is None:
            return
        await self._write(kept)
        if self._waiting.get(kept.id) is kept:
            self._forget(kept.id)

    async def _write(self, kept: Kept) -> None:
        keys = [_key(kept.id), _INDEX]
        arguments: list[bytes | int | str] = [
            _encoder.encode(kept),
            round(self._ttl * 1000),
            f"{time.time() * 1000:.3f}",
            self._together,
        ]
        async with self._redis.answered():
            if not await self._shelve(keys=keys, args=arguments):
                log.warning("response %s is larger than all that may be kept", kept.id)

    async def _look(self, name: str) -> Kept | None:
        async with self._redis.answered():
            record: bytes | None = await self._redis.get(_key(name))  # type: ignore[assignment] # nothing is decoded
        return None if record is None else _decoder.decode(record)

    def _forget(self, name: str) -> None:
        kept = self._waiting.pop(name, None)
        if kept is not None:
            self._size -= kept.size


def _source(script: str) -> str:
    return (files("service") / "lua" / f"{script}.lua").read_text()


def _key(name: str) -> str:
    return f"fm:{{stored}}:{name[:128]}"


def _log_key(name: str) -> str:
    return f"fm:{{stored}}:log:{name[:128]}"


def _cancel_key(name: str) -> str:
    return f"fm:{{stored}}:cancel:{name[:128]}"
