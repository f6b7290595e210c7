"""Responses over a WebSocket: one connection for a whole conversation, which need not be sent, or kept, again.

A client sends frames of type response.create: a request's body, maybe with a `stream_id`, which names its lane. Each
lane answers its requests one after another; several lanes answer at once. A lane remembers the conversation of its last
response for as long as the connection lasts, also where nothing is to be kept. With `generate` false nothing is
generated: a request that leads the way for those that follow it.

After OpenAI's guide to the WebSocket mode. A client that leaves cancels what is being generated for it; one that does
not read no longer answers the server's pings, and has left then.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import orjson
from fastapi import APIRouter, WebSocket
from starlette.types import Message
from starlette.websockets import WebSocketDisconnect

from gateway.attendance import Attendance
from gateway.desk import Desk
from gateway.dialects import OPENAI, request_id
from gateway.exchange import Exchange
from gateway.faulty import Corrupting
from gateway.responses_asked import PREFIX, Conversations, Keeper, account_in, ask_of, head_of, own_items
from gateway.surface import Encoder
from service import metrics
from service.errors import Contended, InvalidRequest, ServiceError
from service.messages import Delta, Event, Finished, Usage
from service.stored import Stored
from service.wire import openai_embeddings, openai_responses
from service.wire.ids import derived
from service.wire.openai_responses import ResponsesRequest
from service.wire.openai_responses_events import Events, bare
from service.wire.openai_responses_items import Item
from service.wire.openai_responses_object import Head

AGE_MAX = 3600.0  # s a connection may last
LANES_MAX = 32
AT_ONCE_MAX = 16  # responses in flight
_WAITING_MAX = 16  # frames of one lane
_NAME_MAX = 128  # characters of a lane's name

_NORMAL, _UNSUPPORTED, _BROKEN = 1000, 1003, 1011  # RFC 6455, section 7.4.1


@dataclass(slots=True)
class _Lane:
    """`items` is the whole conversation up to the end of the response `last`."""

    name: str | None
    frames: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(_WAITING_MAX))
    last: str | None = None
    items: tuple[Item, ...] = ()


def routes(desk: Desk, stored: Stored) -> APIRouter:
    router = APIRouter()

    @router.websocket("/v1/responses")
    async def connect(websocket: WebSocket) -> None:
        await websocket.accept(headers=[(OPENAI.id_header.encode(), request_id().encode())])
        await _Connection(websocket, desk, stored).serve()

    return router


class _Connection:
    """One client. `left` is set when it is gone, or is to go."""

    def __init__(self, websocket: WebSocket, desk: Desk, stored: Stored) -> None:
        self._socket = websocket
        self._desk = desk
        self._stored = stored
        self._conversations = Conversations(stored)
        self._account = account_in(websocket)
        self._lanes: dict[str | None, _Lane] = {}
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)
        self._left = asyncio.Event()

    async def serve(self) -> None:
        """Until the client leaves, or has been here too long."""
        code = _NORMAL
        async with asyncio.TaskGroup() as lanes:
            tasks: list[asyncio.Task[None]] = []
            try:
                async with asyncio.timeout(AGE_MAX):
                    code = await self._read(lambda lane: tasks.append(lanes.create_task(self._answer_all(lane))))
            except TimeoutError:
                await self._refuse(_too_old(), None)
            self._left.set()
            for task in tasks:
                task.cancel()
        with suppress(RuntimeError, WebSocketDisconnect):  # it has been closed already
            await self._socket.close(code)

    async def _read(self, begin: Callable[[_Lane], None]) -> int:
        """Frames to their lanes. Returns the code to close with."""
        leaving = asyncio.create_task(self._left.wait())
        try:
            while True:
                receiving = asyncio.create_task(self._socket.receive())
                await asyncio.wait((receiving, leaving), return_when=asyncio.FIRST_COMPLETED)
                if not receiving.done():
                    receiving.cancel()
                    return _BROKEN
                message = receiving.result()
                if message["type"] == "websocket.disconnect":
                    return _NORMAL
                if message.get("text") is None:
                    return _UNSUPPORTED
                await self._take(message["text"].encode("utf-8", "surrogatepass"), begin)
        finally:
            leaving.cancel()

    async def _take(self, frame: bytes, begin: Callable[[_Lane], None]) -> None:
        name = None
        try:
            name = _lane_of(frame)
            if name not in self._lanes:
                if len(self._lanes) >= LANES_MAX:
                    raise Contended(
                        f"Responses websocket stream limit reached ({LANES_MAX}).",
                        code="websocket_stream_limit_reached",
                    )
                self._lanes[name] = _Lane(name)
                begin(self._lanes[name])
            self._desk.bodies.take(len(frame))
            try:
                self._lanes[name].frames.put_nowait(frame)
            except asyncio.QueueFull:
                self._desk.bodies.give_back(len(frame))
                raise Contended(
                    f"More than {_WAITING_MAX} requests wait for this stream.", code="websocket_stream_limit_reached"
                ) from None
        except ServiceError as error:
            await self._refuse(error, name)

    async def _answer_all(self, lane: _Lane) -> None:
        with suppress(WebSocketDisconnect, RuntimeError):  # whoever has left hears no more
            while True:
                frame = await lane.frames.get()
                async with self._turns:
                    await self._answer(lane, frame)

    async def _answer(self, lane: _Lane, frame: bytes) -> None:
        arrived = asyncio.get_running_loop().time()
        try:
            try:
                call = _parse(frame)
                before = await self._before(call, lane)
                if call.generate is False:
                    await self._lead(call, before, lane)
                    return
                ask = ask_of(call, before, self._account)
                exchange = await self._desk.exchange(ask, PREFIX, arrived, self._socket, frame)
            finally:
                self._desk.bodies.give_back(len(frame))
        except ServiceError as error:
            metrics.refused(error)
            await self._refuse(error, lane.name)
            return
        head = head_of(call, before, exchange.ticket)
        keeper = Keeper(self._stored, call, self._account)
        events = Events(head, bare)
        await self._relay(exchange, events, lane)
        if exchange.usage is not None and exchange.error is None:
            told = events.whole(exchange.usage)
            keeper.keep(told)
            self._remember(lane, head, (*before, *own_items(call)), orjson.loads(orjson.dumps(told["output"])))
        if exchange.box.cut:
            self._left.set()

    async def _before(self, call: ResponsesRequest, lane: _Lane) -> tuple[Item, ...]:
        if call.previous_response_id is not None and call.previous_response_id == lane.last:
            return lane.items
        for other in self._lanes.values():
            if call.previous_response_id is not None and call.previous_response_id == other.last:
                return other.items
        return await self._conversations.before(call.previous_response_id, self._account)

    async def _lead(self, call: ResponsesRequest, before: tuple[Item, ...], lane: _Lane) -> None:
        """A request of which nothing is generated."""
        offer = self._desk.admission.profile.resolve_openai(call.model, call.service_tier)
        name = derived(PREFIX, 29, request_id())
        head = Head(
            id=name,
            created=int(time.time()),
            requested=call.service_tier or "auto",
            served=offer.reported_as,
            echo=openai_responses.echo(call),
        )
        events = Events(head, bare)
        nothing = Usage(prompt=0)
        await self._send(events.opening(nothing) + events.closing(nothing), lane.name)
        self._remember(lane, head, (*before, *own_items(call)), [])

    def _remember(self, lane: _Lane, head: Head, said: Sequence[Item], output: Iterable[Item]) -> None:
        lane.last, lane.items = head.id, (*said, *output)

    async def _relay(self, exchange: Exchange, events: Events, lane: _Lane) -> None:
        corrupts = exchange.direction.corrupts
        encoder: Encoder = events if corrupts is None else Corrupting(events, corrupts)
        opened = False
        async with Attendance(exchange, self._until_left, self._left.set, self._left.set) as attendance:
            while not exchange.over and not attendance.gone:
                come = await attendance.events(at_most=self._desk.settings.keepalive_every)
                if attendance.gone:
                    break
                if exchange.error is not None and not opened and not any(isinstance(each, Delta) for each in come):
                    exchange.status = OPENAI.status(exchange.error)
                    await self._refuse(exchange.error, lane.name)
                    break
                body = b""
                if not opened and (not come or any(isinstance(each, Delta | Finished) for each in come)):
                    opened, exchange.status = True, 200
                    body = encoder.opening(exchange.known)
                await self._send(body + _encoded(encoder, exchange, come), lane.name)

    async def _until_left(self) -> Message:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _refuse(self, error: ServiceError, lane: str | None) -> None:
        refusal = OPENAI.refuse(error)
        said = {
            "type": "error",
            "status": refusal.status_code,
            "error": orjson.loads(bytes(refusal.body))["error"],
            "headers": {name: text for name, text in refusal.headers.items() if not name.startswith("content-")},
        }
        await self._send(orjson.dumps(said) + b"\n", lane)

    async def _send(self, events: bytes, lane: str | None) -> None:
        """A frame for each event, with the lane it belongs to if that has a name."""
        more = b"" if lane is None else b',"stream_id":%b}' % orjson.dumps(lane)
        for event in events.splitlines():
            frame = event[:-1] + more if more else event
            await self._socket.send({"type": "websocket.send", "text": frame.decode()})


def _encoded(encoder: Encoder, exchange: Exchange, events: list[Event]) -> bytes:
    body = b"".join([encoder.delta(event) for event in events if isinstance(event, Delta)])
    if exchange.error is not None:
        return body + encoder.failure(exchange.error)
    if events and isinstance(events[-1], Finished):
        return body + encoder.closing(events[-1].usage)
    return body


def _lane_of(frame: bytes) -> str | None:
    """Raises InvalidRequest for what is no request at all."""
    try:
        document = orjson.loads(frame)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"We could not parse the JSON of this frame. ({error})", code="invalid_json") from None
    if not isinstance(document, dict) or document.get("type") != "response.create":
        kind = document.get("type") if isinstance(document, dict) else None
        raise InvalidRequest(
            f"Invalid value: {str(kind)[:64]!r}. Supported values are: 'response.create'.", param="type"
        )
    name = document.get("stream_id")
    if name is not None and not (isinstance(name, str) and 0 < len(name) <= _NAME_MAX):
        raise InvalidRequest(
            f"Invalid 'stream_id': expected a string of 1 to {_NAME_MAX} characters.", param="stream_id"
        )
    return name


def _parse(frame: bytes) -> ResponsesRequest:
    """The request of a frame. It is always streamed, and never in the background."""
    call = openai_responses.parse(frame, streamed=True)
    openai_embeddings.refuse_sampling(call.model)
    return call


def _too_old() -> ServiceError:
    minutes = round(AGE_MAX / 60)
    return InvalidRequest(
        f"Responses websocket connection limit reached ({minutes} minutes). Create a new websocket connection to "
        "continue.",
        code="websocket_connection_limit_reached",
    )
