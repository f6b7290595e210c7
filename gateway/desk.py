"""Where requests come in, whatever they ask for: body, admission, queue. What is not admitted leaves nothing behind."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from fastapi import Request

from gateway.admission import Admission, Ask
from gateway.body import Bodies, parsed
from gateway.exchange import Exchange
from gateway.relay import Relay
from service.queue import Queue
from service.settings import Settings

Call = TypeVar("Call")
Parsed = TypeVar("Parsed")


class Desk:
    """One for all surfaces of a gateway: they share what it holds of bodies."""

    def __init__(self, settings: Settings, admission: Admission, relay: Relay, queues: dict[str, Queue]) -> None:
        self.settings = settings
        self.admission = admission
        self.bodies = Bodies(settings.body_max, settings.bodies_max)
        self._relay = relay
        self._queues = queues

    async def take(
        self, request: Request, read: Callable[[bytes], tuple[Call, Ask]], prefix: str
    ) -> tuple[Call, Exchange]:
        """An admitted request, queued. `read` parses a body, maybe in a thread; `prefix` begins the job's id.

        A refusal by the queue is an error of the exchange; all others are raised as ServiceError.
        """
        arrived = asyncio.get_running_loop().time()
        with self.bodies.room() as room:
            body = await room.read(request)
            async with self.bodies.turn(body):
                call, ask = await parsed(body, read)
                return call, await self.exchange(ask, prefix, arrived)

    async def read(self, request: Request, read: Callable[[bytes], Parsed]) -> Parsed:
        """What `read` makes of a body that asks for nothing to be generated."""
        with self.bodies.room() as room:
            body = await room.read(request)
            async with self.bodies.turn(body):
                return await parsed(body, read)

    async def exchange(self, ask: Ask, prefix: str, arrived: float) -> Exchange:
        """As `take`, for a request that has been read; `arrived` is the loop's time at which it came."""
        ticket = await self.admission.admit(ask, prefix)
        exchange = Exchange(self.settings, self._relay, ticket, arrived)
        await exchange.submit(self._queues[ticket.pool.name])
        return exchange
