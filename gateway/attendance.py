"""One client and one exchange, looked after until it has ended: whoever leaves first, and however long it takes.

Knows nothing of what is answered, nor whether it goes over HTTP, over a WebSocket, or to nobody yet.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from starlette.types import Message, Receive

from gateway.exchange import Exchange
from service.errors import Broken
from service.messages import Event

_HANG_UP = 1.0  # s a client gets to read what came before its connection is cut on purpose


class Attendance:
    """Watches one client and one exchange. Invariant: on exit the exchange has been settled, once."""

    def __init__(
        self, exchange: Exchange, receive: Receive, abort: Callable[[], None], close: Callable[[], None]
    ) -> None:
        self.begun = False
        self._left = False
        self._stalled = False
        self._exchange = exchange
        self._box = exchange.box
        self._receive = receive
        self._abort = abort
        self._close = close
        self._clock = asyncio.get_running_loop().time

    @property
    def gone(self) -> bool:
        """Nothing more can be said to the client, or nothing more is to be."""
        return self._left or self._box.cut

    @property
    def now(self) -> float:
        """Loop time, s."""
        return self._clock()

    async def __aenter__(self) -> Self:
        self._watcher = asyncio.create_task(self._until_gone())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._box.cut:
                await self._hang_up()
        finally:  # also where this task is ended while it waits
            self._watcher.cancel()
            if isinstance(error, Exception):
                self._exchange.error = self._exchange.error or Broken("The response could not be written.")
            left = (self.gone or kind is asyncio.CancelledError) and not self._exchange.over
            await self._exchange.settle("stalled" if self._stalled else "cancelled" if left or self._box.cut else None)

    async def events(self, at_most: float = float("inf")) -> list[Event]:
        """What has come, or nothing after `at_most` seconds."""
        await self.wait(at_most)
        return self.take()

    def take(self) -> list[Event]:
        events = self._box.take()
        self._exchange.observe(events)
        return events

    async def wait(self, at_most: float = float("inf")) -> None:
        """Until something happens: events, the client leaves, the exchange breaks, or `at_most` seconds pass."""
        box, exchange = self._box, self._exchange
        if box or self.gone or exchange.over:
            return
        box.wake.clear()
        patience = exchange.patience(self._clock())
        with suppress(TimeoutError):
            async with asyncio.timeout(min(at_most, patience)):
                if box.broken is None:
                    await box.wake.wait()
        if exchange.over or box:  # what has come before it broke still counts
            return
        if box.broken is not None:
            exchange.error = box.broken
        elif exchange.patience(self._clock()) <= 0:
            exchange.error = exchange.give_up()

    def leave(self) -> None:
        """Nobody wants the answer any more."""
        self._left = True
        self._box.wake.set()

    def stalled(self) -> None:
        """Cut off a client that does not read: what is buffered for it would otherwise be kept for ever."""
        self._left = self._stalled = True
        self._abort()

    async def _hang_up(self) -> None:
        """As a connection that breaks: what was written arrives, and nothing after it."""
        self._close()
        try:
            async with asyncio.timeout(_HANG_UP):
                await self._watcher
        except TimeoutError:
            self._abort()

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.leave()


async def never() -> Message:
    """Receive, for answers whose client is looked after elsewhere, or is none."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError("a future nobody sets was set")
