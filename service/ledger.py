"""What each request cost: entries, and how they get from Redis into a book. What it promises:

- An entry is written to its pool's stream in Redis by the script that ends the job, so there is one for each job that
  was billed, and never two (see service.queue).
- Any number of gateways drain the streams into one book. An entry leaves the stream when it is in the book; one that is
  drained twice is there once.
- The price travels with the bill: what a request cost depends on nothing that may have changed since.
- What an account's limits hold for a request whose gateway has died is settled when its entry is drained.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from service.book import Book, BookError
from service.connection import Client
from service.entries import Bill, Entry
from service.errors import Unavailable
from service.limits import Limits
from service.messages import Usage, decode_usage
from service.rooms import amounts

log = logging.getLogger(__name__)

DRAIN_EVERY = 0.5  # s
_BATCH = 1000
_GROUP = "ledger"
_IDLE = 30_000  # ms after which entries of a gateway that died in between are somebody else's


class Ledger:
    """Drains the streams of these pools into a book, for as long as `run` runs. `name` is the gateway's."""

    def __init__(self, redis: Client, pools: Sequence[str], book: Book, limits: Limits, name: str) -> None:
        self._redis = redis
        self._streams = [f"fm:{{{pool}}}:ledger" for pool in pools]
        self._book = book
        self._limits = limits
        self._name = name
        self._joined: set[str] = set()

    async def run(self) -> None:
        while True:
            try:
                await self.drain()
            except Unavailable:
                self._joined.clear()  # the server may have come back empty
            except BookError as error:
                log.error("%s", error)
            await asyncio.sleep(DRAIN_EVERY)

    async def drain(self) -> None:
        """Enter what there is by now. Raises Unavailable, BookError."""
        for stream in self._streams:
            await self._join(stream)
            while await self._enter(stream):
                pass

    async def _join(self, stream: str) -> None:
        if stream in self._joined:
            return
        async with self._redis.answered():
            groups: Any = await self._redis.xinfo_groups(stream) if await self._redis.exists(stream) else []
            if not groups:
                await self._redis.xgroup_create(stream, _GROUP, id="0", mkstream=True)
        self._joined.add(stream)

    async def _enter(self, stream: str) -> bool:
        """False: that was all."""
        found = await self._taken(stream)
        if not found:
            return False
        entries = [entry for _, fields in found if (entry := _read(fields)) is not None]
        await asyncio.to_thread(self._book.add, entries)
        for entry in entries:
            if entry.bill.held:
                await self._limits.settle(entry.bill.account, entry.bill.job, amounts(entry.usage), entry.cost)
        ids = [name for name, _ in found]
        async with self._redis.answered(), self._redis.pipeline(transaction=True) as pipe:
            pipe.xack(stream, _GROUP, *ids)
            pipe.xdel(stream, *ids)
            await pipe.execute()
        return len(found) == _BATCH

    async def _taken(self, stream: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """Entries that nobody else enters: those of the dead first."""
        async with self._redis.answered():
            left: Any = await self._redis.xautoclaim(stream, _GROUP, self._name, _IDLE, count=_BATCH)
            if any(fields for _, fields in left[1]):
                return [each for each in left[1] if each[1]]
            new: Any = await self._redis.xreadgroup(_GROUP, self._name, {stream: ">"}, count=_BATCH)
        return list(new[0][1]) if new else []


def encode(bill: Bill) -> bytes:
    return _encoder.encode(bill)


def entry_of(fields: Mapping[bytes, bytes]) -> Entry:
    """What a script has written. Raises msgspec.DecodeError, KeyError."""
    bill, outcome = _decoder.decode(fields[b"bill"]), fields[b"outcome"].decode()
    if fields[b"used"]:
        return Entry(bill, outcome, decode_usage(fields[b"used"]))
    sent = sum(map(int, fields[b"sent"].split()))
    if outcome == "cancelled" and sent:  # its worker has died, and nobody wanted it any more
        return Entry(bill, outcome, Usage(prompt=bill.prompt, completion=sent))
    return Entry(bill, outcome, Usage(prompt=0))


def _read(fields: Mapping[bytes, bytes]) -> Entry | None:
    try:
        return entry_of(fields)
    except (msgspec.DecodeError, KeyError, ValueError) as error:
        log.error("an entry of the ledger cannot be read and is left out: %s", error)
        return None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Bill)
