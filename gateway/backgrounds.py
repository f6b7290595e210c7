"""Responses that nobody waits for: they are run, kept as they come along, and can be cancelled from any gateway.

A response whose gateway dies stays as it was kept last; the workers stop with its gateway.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from gateway.attendance import Attendance, never
from gateway.exchange import Exchange
from service.errors import Broken, Unavailable
from service.messages import Delta, Started
from service.stored import Kept, Stored
from service.wire.openai_responses_events import Events

_LOOK_EVERY = 0.5  # s between two looks whether somebody has cancelled it, maybe at another gateway
_CANCELLING = 3.0  # s a cancelled response gets to say what became of it
_POLL_EVERY = 0.02  # s

Keep = Callable[[Mapping[str, Any]], None]


class Backgrounds:
    """Those of one gateway. `run` owns them, until it is cancelled."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._begun: asyncio.Queue[tuple[Exchange, Events, Keep]] = asyncio.Queue()
        self._here: dict[str, Attendance] = {}

    def serve(self, exchange: Exchange, events: Events, keep: Keep) -> None:
        """Run it from here on. Returns at once."""
        self._begun.put_nowait((exchange, events, keep))

    async def cancel(self, kept: Kept) -> Kept:
        """The response as it has ended, or as it is after all the time it gets for that. Raises Unavailable."""
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

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._serve(*await self._begun.get()))

    async def _serve(self, exchange: Exchange, events: Events, keep: Keep) -> None:
        async with Attendance(exchange, never, _nothing, _nothing) as attendance:
            self._here[exchange.ticket.job.id] = attendance
            try:
                await self._attend(exchange, events, keep, attendance)
            finally:
                del self._here[exchange.ticket.job.id]
        if exchange.error is not None:
            keep(events.ended("failed", None, exchange.error))
        elif not exchange.over or exchange.usage is None or attendance.gone:
            keep(events.ended("cancelled", exchange.known))
        else:
            keep(events.whole(exchange.usage))

    async def _attend(self, exchange: Exchange, events: Events, keep: Keep, attendance: Attendance) -> None:
        while not exchange.over and not attendance.gone:
            for event in await attendance.events(at_most=_LOOK_EVERY):
                if isinstance(event, Delta):
                    events.answer.add(event)
                elif isinstance(event, Started):
                    keep(events.ended("in_progress", None))
            if not exchange.over and await self._is_cancelled(exchange.ticket.job.id):
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
