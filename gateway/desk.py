"""Where requests come in, whatever they ask for: body, admission, queue. What is not admitted leaves nothing behind."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from fastapi import Request
from starlette.requests import HTTPConnection

from gateway import resolution
from gateway.admission import Admission, Ask
from gateway.body import Bodies, parsed
from gateway.exchange import Exchange
from gateway.journal import Journal, Note
from gateway.relay import Relay
from gateway.scripted import Director
from service.errors import ServiceError
from service.queue import Queue
from service.settings import Settings

Call = TypeVar("Call")
Parsed = TypeVar("Parsed")


class Desk:
    """One for all surfaces of a gateway: they share what it holds of bodies."""

    def __init__(
        self,
        settings: Settings,
        admission: Admission,
        relay: Relay,
        queues: dict[str, Queue],
        director: Director,
        journal: Journal | None = None,
    ) -> None:
        self.settings = settings
        self.admission = admission
        self.bodies = Bodies(settings.body_max, settings.bodies_max)
        self._relay = relay
        self._queues = queues
        self._director = director
        self._journal = journal

    async def take(
        self, request: Request, read: Callable[[bytes], tuple[Call, Ask]], prefix: str
    ) -> tuple[Call, Exchange]:
        """An admitted request, queued. `read` parses a body, maybe in a thread; `prefix` begins the job's id.

        A refusal by the queue is an error of the exchange; all others are raised as ServiceError.
        """
        arrived = asyncio.get_running_loop().time()
        with self.bodies.room() as room:
            body = await room.read(request)
            with self._noting(request, body) as note:
                async with self.bodies.turn(body):
                    call, ask = await parsed(body, read)
                    return call, await self._exchange(ask, prefix, arrived, request, note)

    async def take_after(
        self, request: Request, parse: Callable[[bytes], Call], ask: Callable[[Call], Awaitable[Ask]], prefix: str
    ) -> tuple[Call, Exchange]:
        """As `take`, where it takes more than the body to know what is asked for: `ask` may look something up."""
        arrived = asyncio.get_running_loop().time()
        with self.bodies.room() as room:
            body = await room.read(request)
            with self._noting(request, body) as note:
                async with self.bodies.turn(body):
                    call = await parsed(body, parse)
                    return call, await self._exchange(await ask(call), prefix, arrived, request, note)

    async def read(self, request: Request, read: Callable[[bytes], Parsed], laborious: bool = False) -> Parsed:
        """What `read` makes of a body that asks for nothing to be generated; `laborious`: it takes milliseconds."""
        with self.bodies.room() as room:
            body = await room.read(request)
            with self._noting(request, body) as note:
                self._director.refuse(request)
                async with self.bodies.turn(body, laborious):
                    made = await parsed(body, read, laborious)
                if note is not None:
                    note.settled("ok", 200)
                return made

    async def exchange(
        self, ask: Ask, prefix: str, arrived: float, connection: HTTPConnection, body: bytes = b""
    ) -> Exchange:
        """As `take`, for a request that has been read; `arrived` is the loop's time at which it came."""
        with self._noting(connection, body) as note:
            return await self._exchange(ask, prefix, arrived, connection, note)

    async def _exchange(
        self, ask: Ask, prefix: str, arrived: float, connection: HTTPConnection, note: Note | None
    ) -> Exchange:
        ticket = await self.admission.admit(ask, prefix)
        try:
            direction = self._director.direct(ask, ticket, connection)
            if note is not None:
                note.admitted(ticket, direction)
            if (refusal := direction.refusal(ticket)) is not None:
                raise refusal
        except ServiceError as error:
            error.headers = {**ticket.metered.headers, **error.headers}
            await ticket.metered.settle(None, 0)
            raise
        while True:
            exchange = Exchange(self.settings, self._relay, ticket, arrived, direction, note)
            await exchange.submit(self._queues[ticket.pool.name])
            if not exchange.overflowed:
                return exchange
            if not ticket.others:
                assert exchange.error is not None
                exchange.error = resolution.no_room(ticket.offer, ask.dialect, exchange.error, ticket.growing)
                return exchange
            exchange.withdraw()
            ticket = await self.admission.instead(ask, ticket)
            if note is not None:
                note.admitted(ticket, direction)

    def _noting(self, connection: HTTPConnection, body: bytes) -> AbstractContextManager[Note | None]:
        return nullcontext() if self._journal is None else self._journal.noting(connection, body)
