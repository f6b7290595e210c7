"""Responses over a WebSocket: one connection for a whole conversation, which need not be sent, or kept, again.

Each lane answers its requests one after another; several lanes answer at once. A lane remembers the conversation of its
last response for as long as the connection lasts, also where nothing is to be kept; an error makes it forget. With
`generate` false nothing is generated: a request that leads the way for those that follow it.

After OpenAI's guide to the WebSocket mode. A client that leaves cancels what is being generated for it. A connection
that has to end, since it is old or the server stops, does so when nothing is being answered.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from gateway.answers import Stream
from gateway.body import parsed
from gateway.desk import Desk
from gateway.dialects import OPENAI, request_id
from gateway.door import account_of
from gateway.frames import DRAINING, Frames
from gateway.remembered import Remembered
from gateway.responses import KeptEvents, ResponsesSpeech
from gateway.responses_asked import Conversations, Keeper, Said, ask_of, head_of
from service import metrics
from service.errors import Broken, Contended, InvalidRequest, ServiceError, Unavailable
from service.messages import Usage
from service.stored import Stored
from service.wire import openai_embeddings, openai_responses, openai_responses_frames
from service.wire.openai_responses import ResponsesRequest
from service.wire.openai_responses_events import Events, bare
from service.wire.openai_responses_ids import PREFIX
from service.wire.openai_responses_items import Item

log = logging.getLogger(__name__)

LANES_MAX = 32
AT_ONCE_MAX = 16  # responses in flight
_WAITING_MAX = 16  # frames of one lane

_NORMAL, _UNSUPPORTED, _RESTARTS = 1000, 1003, 1012  # RFC 6455, section 7.4.1, and its registry


@dataclass(slots=True)
class _Lane:
    """`last` is the response whose conversation is remembered. Where no more frames come, None does."""

    name: str | None
    frames: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(_WAITING_MAX))
    last: str | None = None


def routes(desk: Desk, stored: Stored) -> APIRouter:
    router = APIRouter()
    remembered = Remembered(desk.settings.bodies_max)

    @router.websocket("/v1/responses")
    async def connect(websocket: WebSocket) -> None:
        with suppress(WebSocketDisconnect):  # whoever leaves need not be told
            await websocket.accept(headers=[(OPENAI.id_header.encode(), request_id().encode())])
            await _Connection(websocket, desk, stored, remembered).serve()

    return router


class _Connection:
    """One client. `_left` is set when it hears no more; `_idle` while no request of it waits or is answered."""

    def __init__(self, websocket: WebSocket, desk: Desk, stored: Stored, remembered: Remembered) -> None:
        self._socket = websocket
        self._desk = desk
        self._stored = stored
        self._remembered = remembered
        self._conversations = Conversations(stored)
        self._account = account_of(websocket)
        self._lanes: dict[str | None, _Lane] = {}
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)
        self._ending: ServiceError | None = None  # what new requests are told
        self._left = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._open = 0  # requests

    async def serve(self) -> None:
        """Until the client leaves, has been here too long, or the server stops."""
        async with asyncio.TaskGroup() as tasks:
            ends = [tasks.create_task(end) for end in (self._read(tasks), self._age(), self._drain())]
            [ended, *_], _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            self._left.set()
            for end in ends:
                end.cancel()
            for lane in self._lanes.values():
                self._finish(lane)
        for lane in self._lanes.values():
            self._forget(lane)
        if (code := ended.result()) is not None:
            await self._socket.close(code)

    async def _read(self, tasks: asyncio.TaskGroup) -> int | None:
        """Frames to their lanes. Returns the code to close with; None: it has been closed."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return None
            if message.get("text") is None:
                return _UNSUPPORTED
            await self._take(message["text"].encode(), tasks)

    async def _age(self) -> int:
        age_max = self._desk.settings.socket_age_max
        await asyncio.sleep(age_max)
        self._ending = InvalidRequest(
            f"Responses websocket connection limit reached ({age_max / 60:.0f} minutes). Create a new websocket "
            "connection to continue.",
            code="websocket_connection_limit_reached",
        )
        await self._idle.wait()
        await self._frames(None).answer(OPENAI.refuse(self._ending))
        return _NORMAL

    async def _drain(self) -> int:
        draining: asyncio.Event = self._socket.scope["state"][DRAINING]
        await draining.wait()
        self._ending = Unavailable("This server is shutting down. Please try again.", reason="draining", retry_after=1)
        await self._idle.wait()
        return _RESTARTS

    async def _take(self, frame: bytes, tasks: asyncio.TaskGroup) -> None:
        name = None
        try:
            name = openai_responses_frames.lane(frame)
            if self._ending is not None:
                raise self._ending
            lane = self._lanes.get(name) or self._new_lane(name, tasks)
            if lane.frames.full():
                raise _crowded(f"{_WAITING_MAX} requests wait in this stream already")
            self._desk.bodies.take(len(frame))
        except ServiceError as error:
            metrics.refused(error)
            await self._frames(name).answer(OPENAI.refuse(error))
            return
        lane.frames.put_nowait(frame)
        self._open += 1
        self._idle.clear()

    def _new_lane(self, name: str | None, tasks: asyncio.TaskGroup) -> _Lane:
        if len(self._lanes) >= LANES_MAX:
            raise _crowded(f"a connection has at most {LANES_MAX} streams")
        lane = self._lanes[name] = _Lane(name)
        tasks.create_task(self._answer_all(lane))
        return lane

    def _finish(self, lane: _Lane) -> None:
        """What waits is not answered any more. What is being answered hears that its client has left."""
        while not lane.frames.empty():
            self._desk.bodies.give_back(len(lane.frames.get_nowait() or b""))
        lane.frames.put_nowait(None)

    async def _answer_all(self, lane: _Lane) -> None:
        while (frame := await lane.frames.get()) is not None:
            async with self._turns:
                try:
                    await self._answer(lane, frame)
                except Exception as error:  # one request's fault must not end the others'
                    log.exception("a request over a WebSocket could not be answered")
                    refusal = Broken(f"The server had an error ({type(error).__name__}) while processing the request.")
                    await self._frames(lane.name).answer(OPENAI.refuse(refusal))
            self._open -= 1
            if not self._open:
                self._idle.set()

    async def _answer(self, lane: _Lane, frame: bytes) -> None:
        arrived = asyncio.get_running_loop().time()
        frames = self._frames(lane.name)
        call = None
        try:
            async with self._desk.bodies.turn(frame):
                call = await parsed(frame, _parse)
                said = await self._conversations.read(call, self._account.id, self._before(call))
                ask = ask_of(call, said, self._account)
                if call.generate is False:
                    ticket = await self._desk.admission.admit(ask, PREFIX)
                    await ticket.metered.settle(None, 0)
                else:
                    exchange = await self._desk.exchange(ask, PREFIX, arrived, self._socket, frame)
                    ticket = exchange.ticket
        except ServiceError as error:
            metrics.refused(error)
            self._evict(call.previous_response_id if call is not None else None)
            await frames.answer(OPENAI.refuse(error))
            return
        finally:
            self._desk.bodies.give_back(len(frame))
        head = head_of(call, said, ticket)
        keeper = _LaneKeeper(self, lane, said, Keeper(self._stored, call, said, ticket))
        if call.generate is False:
            await frames.say(_led(KeptEvents(head, keeper, bare)))
        else:
            speech = ResponsesSpeech(head, keeper, arrived)
            await frames.answer(Stream(self._desk.settings, exchange, speech, KeptEvents(head, keeper, bare)))
            if lane.last != head.id:
                self._evict(call.previous_response_id)

    def _before(self, call: ResponsesRequest) -> tuple[Item, ...] | None:
        """What came before a request, if it is remembered."""
        name = call.previous_response_id
        if name is None or all(lane.last != name for lane in self._lanes.values()):
            return None
        items = self._remembered.find(name)
        return None if items is None else tuple(orjson.loads(items))

    def remember(self, lane: _Lane, name: str, items: bytes) -> None:
        """The conversation that a lane's next request may go on with."""
        self._forget(lane)
        lane.last = name
        self._remembered.put(name, items)

    def _evict(self, name: str | None) -> None:
        """What could not be gone on with is not remembered any more."""
        for lane in self._lanes.values():
            if name is not None and lane.last == name:
                self._forget(lane)

    def _forget(self, lane: _Lane) -> None:
        if lane.last is not None:
            self._remembered.forget(lane.last)
        lane.last = None

    def _frames(self, name: str | None) -> Frames:
        return Frames(self._socket.scope, name, self._left)


class _LaneKeeper:
    """Keeps a response as it is kept over HTTP, and its conversation for the lane's next request."""

    def __init__(self, connection: _Connection, lane: _Lane, said: Said, keeper: Keeper) -> None:
        self._connection = connection
        self._lane = lane
        self._said = said
        self._keeper = keeper

    def keep(self, told: Mapping[str, Any]) -> None:
        self._keeper.keep(told)
        if told["status"] in ("completed", "incomplete"):
            self._connection.remember(self._lane, told["id"], orjson.dumps([*self._said.items, *told["output"]]))


def _led(events: Events) -> bytes:
    """The answer to a request of which nothing is generated."""
    nothing = Usage(prompt=0)
    return events.opening(nothing) + events.closing(nothing)


def _parse(frame: bytes) -> ResponsesRequest:
    """The request of a frame. It is always streamed, and never in the background."""
    call = openai_responses.parse(frame, streamed=True)
    openai_embeddings.refuse_sampling(call.model)
    return call


def _crowded(why: str) -> ServiceError:
    return Contended(f"Responses websocket stream limit reached: {why}.", code="websocket_stream_limit_reached")
