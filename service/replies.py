"""The way back: one stream per gateway process, whose every entry is one flush with events of any number of requests.

- A worker writes only to a stream that exists. The gateway makes it and keeps it alive; when the gateway has died the
  stream expires, the next write is refused, and the worker drops that gateway's jobs.
- The stream is bounded: by the gateway, which trims what it has read, and by a length at which the oldest entries go. A
  gateway that falls that far behind sees the gap in its offsets.
"""

import logging
from collections.abc import Collection, Mapping
from importlib.resources import files
from typing import Any

import msgspec
from redis.asyncio import Redis

from service.connection import Client
from service.messages import Event, decode_events, encode_events

log = logging.getLogger(__name__)

_LENGTH_MAX = 8192
_READ_MAX = 64


def _key(gateway: str) -> str:
    return f"fm:reply:{{{gateway}}}"


async def write(redis: Client, flush: Mapping[str, list[Event]]) -> list[str]:
    """Send each gateway its events, in one round trip; returns the gateways that are gone.

    Raises Unavailable when Redis does not answer in time; the events may then have arrived or not, and may be sent
    again.
    """
    async with redis.answered():
        if len(flush) == 1:
            [(gateway, events)] = flush.items()
            answers = [await _append(redis, gateway, events)]
        else:
            async with redis.pipeline(transaction=False) as pipe:
                for gateway, events in flush.items():
                    _append(pipe, gateway, events)
                answers = await pipe.execute()
    return [gateway for gateway, answer in zip(flush, answers, strict=True) if answer is None]


def _append(redis: Redis, gateway: str, events: list[Event]):  # type: ignore[no-untyped-def] # awaitable, or the pipeline
    return redis.xadd(_key(gateway), {b"f": encode_events(events)}, maxlen=_LENGTH_MAX, nomkstream=True)


async def gone(redis: Client, gateways: Collection[str]) -> list[str]:
    """Those of the gateways that nothing can be sent to any more."""
    async with redis.answered(), redis.pipeline(transaction=False) as pipe:
        for gateway in gateways:
            pipe.exists(_key(gateway))
        there = await pipe.execute()
    return [gateway for gateway, is_there in zip(gateways, there, strict=True) if not is_there]


class Inbox:
    """A gateway's own reply stream. `commands` carries commands; `blocking` is a connection for waiting reads alone."""

    def __init__(self, commands: Client, blocking: Client, gateway: str, ttl: float) -> None:
        self._commands = commands
        self._blocking = blocking
        self._key = _key(gateway)
        self._ttl_ms = int(ttl * 1000)
        self._last = "0-0"
        self._keep = commands.register_script((files("service") / "lua" / "keep.lua").read_text())

    async def keep_alive(self) -> bool:
        """Put off the stream's expiry and trim what has been read.

        Returns whether it had to be made: whatever was in it is lost then.
        """
        async with self._commands.answered():
            made: int = await self._keep(keys=[self._key], args=[self._ttl_ms, self._last])
        if made:
            self._last = "0-0"  # a server that has lost its data may have lost its clock as well
        return bool(made)

    async def read(self, block: float) -> list[Event]:
        """Events in the order they were written, waiting up to `block` seconds for the first."""
        async with self._blocking.answered():
            answer: Any = await self._blocking.xread({self._key: self._last}, block=int(block * 1000), count=_READ_MAX)
        if not answer:
            return []
        [(_, entries)] = answer
        self._last = entries[-1][0].decode()
        return [event for _, fields in entries if b"f" in fields for event in _decoded(fields[b"f"])]

    async def remove(self) -> None:
        """Leave nothing behind."""
        async with self._commands.answered():
            await self._commands.delete(self._key)


def _decoded(frame: bytes) -> list[Event]:
    """The events of one flush. One that cannot be read is dropped: its streams notice the gap, the others go on."""
    try:
        return decode_events(frame)
    except msgspec.DecodeError as error:
        log.error("a flush of %d bytes cannot be read and is dropped: %s", len(frame), error)
        return []
