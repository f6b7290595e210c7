"""Responses that nobody waits for: they are run, kept as they come along, and can be cancelled from any gateway.

A response whose gateway dies has failed with it: whoever looks it up is told so.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import orjson

from gateway.attendance import Attendance, never
from gateway.exchange import Exchange
from gateway.replays import Log
from service.errors import Broken, Unavailable
from service.messages import Delta, Started
from service.stored import Kept, Stored
from service.wire.openai_responses_events import Events
from service.wire.openai_responses_object import failed

_LOOK_EVERY = 0.5  # s between two looks whether somebody has cancelled it, maybe at another gateway
_CANCELLING = 3.0  # s a cancelled response gets to say what became of it
_POLL_EVERY = 0.02  # s

Keep = Callable[[Mapping[str, Any]], None]


class Backgrounds:
    """Those of one gateway. `run` owns them, until it is cancelled. Invariant: `_idle` is set while there are none."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._begun: asyncio.Queue[tuple[Exchange, Events, Keep, Log | None]] = asyncio.Queue()
        self._here: dict[str, Attendance] = {}
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def serve(self, exchange: Exchange, events: Events, keep: Keep, log: Log | None = None) -> None:
        """Run it from here on, and log it if somebody may follow it. Returns at once."""
        self._running += 1
        self._idle.clear()
        self._begun.put_nowait((exchange, events, keep, log))

    async def settled(self, kept: Kept) -> Kept:
        """The response, or what has become of it if the gateway that ran it is gone. Raises Unavailable."""
        if kept.over or not await self._stored.is_orphaned(kept):
            return kept
        lost = Broken("The server that generated this response has stopped.", reason="lost")
        kept = msgspec.structs.replace(kept, response=failed(orjson.loads(kept.response), lost), over=True)
        self._stored.put(kept)
        return kept

    async def cancel(self, kept: Kept) -> Kept:
        """The response as it has ended, or as it is after all the time it gets for that. Raises Unavailable."""
        kept = await self.settled(kept)
        if kept.over:
            return kept
        here = self._here.get(kept.id)
        if here is not None:
            here.leave()
        else:
            await self._stored.cancel(kept.id)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CANCELLING):
                while not kept.over:
                    await asyncio.sleep(_POLL_EVERY)
                    kept = await self._stored.find(kept.id, kept.account) or kept
        return kept

    async def ended(self, at_most: float) -> None:
        """Until none runs any more, or for so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                await self._idle.wait()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._serve(*await self._begun.get()))

    async def _serve(self, exchange: Exchange, events: Events, keep: Keep, log: Log | None) -> None:
        name = exchange.ticket.job.id
        async with Attendance(exchange, never, _nothing, _nothing) as attendance:
            self._here[name] = attendance
            try:
                await self._attend(exchange, events, keep, log, attendance)
            finally:
                del self._here[name]
        if log is not None:
            await log.flush(attendance.now, last=True)
        if exchange.error is not None:
            keep(events.ended("failed", None, exchange.error))
        elif attendance.gone or exchange.usage is None:
            keep(events.ended("cancelled", exchange.known))
        else:
            keep(events.whole(exchange.usage))
        self._running -= 1
        if not self._running:
            self._idle.set()

    async def _attend(
        self, exchange: Exchange, events: Events, keep: Keep, log: Log | None, attendance: Attendance
    ) -> None:
        looked = attendance.now
        while not exchange.over and not attendance.gone:
            for event in await attendance.events(at_most=_LOOK_EVERY):
                if isinstance(event, Delta):
                    events.answer.add(event)
                    if log is not None:
                        log.add(event)
                elif isinstance(event, Started):
                    keep(events.ended("in_progress", None))
            if log is not None:
                await log.flush(attendance.now)
            if not exchange.over and attendance.now - looked >= _LOOK_EVERY:
                looked = attendance.now
                if await self._is_cancelled(exchange.ticket.job.id):
                    attendance.leave()
        if exchange.box.cut:
            exchange.error = Broken("The response was cut off.")

    async def _is_cancelled(self, name: str) -> bool:
        try:
            return await self._stored.is_cancelled(name)
        except Unavailable:
            return False


def _nothing() -> None:
    """There is no connection to end."""
