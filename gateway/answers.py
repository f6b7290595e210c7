"""Two ways to answer an admitted request: a stream of events, or one body when all of it is there.

Both watch for a client that leaves, and both settle the exchange however it ends. A stream that has begun and cannot be
completed says so with an error event; one that has not begun gets a status.

The hot path: between two tokens a stream has no task of its own awake. The relay's reader hands events to
`Stream._push`, which encodes them and drives the server's `send` to its end in the same call; that takes a third less
CPU than waking a task for each. Only when `send` suspends, since the client does not read, does the request's own task
take over, with a deadline.
"""

import asyncio
from collections.abc import Coroutine, Generator
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from gateway.attendance import Attendance, never
from gateway.exchange import Exchange
from gateway.faulty import Corrupting, corrupted
from gateway.surface import Encoder, Speech
from service.errors import Broken, ServiceError
from service.messages import Delta, Event, Finished
from service.settings import Settings
from service.wire import sse
from service.wire.gathered import Gathered

RAW_SEND = "fastmode.raw_send"  # scope key: the server's own send, without the layers the framework wraps around it
ABORT = "fastmode.abort"  # key of the scope's state: ends the connection at once, whatever is buffered for it
CLOSE = "fastmode.close"  # likewise: ends it when what is buffered has been sent


class _Attended(Response):
    """An answer whose client and whose exchange are both looked after until it has ended."""

    background = None

    def __init__(self, settings: Settings, exchange: Exchange, speech: Speech) -> None:
        self._settings = settings
        self._exchange = exchange
        self._speech = speech

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send = scope.get(RAW_SEND, send)
        ends = scope["state"]
        async with Attendance(self._exchange, receive, ends[ABORT], ends[CLOSE]) as attendance:
            await self._answer(scope, attendance)

    async def _answer(self, scope: Scope, attendance: Attendance) -> None:
        raise NotImplementedError

    async def _refuse(self, scope: Scope, attendance: Attendance, error: ServiceError) -> None:
        refusal = self._speech.refusal(error)
        self._exchange.status = refusal.status_code
        refusal.raw_headers += self._exchange.headers()
        await refusal(scope, never, partial(self._write, attendance))

    async def _write(self, attendance: Attendance, message: Message) -> None:
        """A client that does not read for too long is gone."""
        suspended = _drive(self._send(message))
        if suspended is not None:
            await self._finish_writing(attendance, suspended)

    async def _finish_writing(self, attendance: Attendance, suspended: "_Suspended") -> None:
        try:
            async with asyncio.timeout(self._settings.stall_max):
                await suspended
        except TimeoutError:
            attendance.stalled()


class Whole(_Attended):
    """One body, when every choice has finished."""

    async def _answer(self, scope: Scope, attendance: Attendance) -> None:
        exchange = self._exchange
        gathered = Gathered(exchange.ticket.job.choices)
        while not exchange.over and not attendance.gone:
            for event in await attendance.events():
                if isinstance(event, Delta) and not exchange.box.cut:
                    gathered.add(event)
        if exchange.box.cut and any(answer.said for answer in gathered.answers):
            await self._begin(attendance, length=1024)
            await self._write(attendance, {"type": "http.response.body", "body": b"{", "more_body": True})
        if attendance.gone:
            return
        if exchange.error is not None or exchange.usage is None:
            await self._refuse(scope, attendance, exchange.error or Broken("The response is incomplete."))
            return
        body = self._speech.whole(gathered.answers, exchange.usage)
        if exchange.direction.corrupts is not None:
            body = corrupted(body)
        await self._begin(attendance, len(body))
        await self._write(attendance, {"type": "http.response.body", "body": body, "more_body": True})
        if not attendance.gone:  # the server waits for what was written before, and this is what it waits with
            await self._write(attendance, {"type": "http.response.body", "body": b""})

    async def _begin(self, attendance: Attendance, length: int) -> None:
        self._exchange.status = 200
        kind = [(b"content-type", b"application/json"), (b"content-length", str(length).encode())]
        headers = [*kind, *self._speech.headers(), *self._exchange.headers()]
        await self._write(attendance, {"type": "http.response.start", "status": 200, "headers": headers})


class Stream(_Attended):
    """Server-sent events, as `encoder` words them."""

    def __init__(self, settings: Settings, exchange: Exchange, speech: Speech, encoder: Encoder) -> None:
        super().__init__(settings, exchange, speech)
        corrupts = exchange.direction.corrupts
        self._encoder = encoder if corrupts is None else Corrupting(encoder, corrupts)
        self._suspended: _Suspended | None = None
        self._opened = False
        self._closed = False
        self._spoke = 0.0  # loop time of the last event

    async def _answer(self, scope: Scope, attendance: Attendance) -> None:
        first = await self._await_first(attendance)
        if attendance.gone:
            return
        said = any(isinstance(event, Delta) for event in first)  # an error after the first token is one of the stream
        if self._exchange.error is not None and not attendance.begun and not said:
            await self._refuse(scope, attendance, self._exchange.error)
            return
        await self._begin(attendance)
        body, self._spoke = self._opening() + self._encode(first), attendance.now
        while not self._closed and not attendance.gone:
            if body or self._exchange.over:
                await self._write(attendance, self._message(body))
            body = await self._relay(attendance)

    async def _await_first(self, attendance: Attendance) -> list[Event]:
        """Events up to the first that decides whether this is a stream at all; keep-alives while there are none."""
        events: list[Event] = []
        while not self._exchange.over and not attendance.gone:
            come = await attendance.events(at_most=self._settings.keepalive_every)
            events += come
            if any(isinstance(event, Delta) for event in come):
                break
            if not come and not self._exchange.over and not attendance.gone:
                await self._begin(attendance)
                opening = self._opening() if self._encoder.opens_early else b""
                await self._write(attendance, self._message(opening + self._encoder.keepalive()))
        return events

    async def _begin(self, attendance: Attendance) -> None:
        if not attendance.begun:
            attendance.begun = True
            self._exchange.status = 200
            kind = [(b"content-type", sse.CONTENT_TYPE), (b"cache-control", b"no-cache")]
            headers = [*kind, *self._speech.headers(), *self._exchange.headers()]
            await self._write(attendance, {"type": "http.response.start", "status": 200, "headers": headers})

    def _opening(self) -> bytes:
        if self._opened:
            return b""
        self._opened = True
        return self._encoder.opening(self._exchange.known)

    async def _relay(self, attendance: Attendance) -> bytes:
        """Let the relay's reader write for as long as the client keeps up; returns what this task has to write."""
        if self._closed or attendance.gone:
            return b""
        box, exchange = self._exchange.box, self._exchange
        quiet = False
        if not box:
            box.sink = self._push
            silent = attendance.now - self._spoke
            await attendance.wait(at_most=max(0.0, self._settings.keepalive_every - silent))
            box.sink = None
            quiet = attendance.now - self._spoke >= self._settings.keepalive_every
        if self._suspended is not None:
            suspended, self._suspended = self._suspended, None
            await self._finish_writing(attendance, suspended)
        if self._closed:
            return b""
        body = self._encode(attendance.take())
        if not body and quiet and not exchange.over:
            body = self._encoder.keepalive()
        if body:
            self._spoke = attendance.now
        return body

    def _push(self, events: list[Event]) -> None:
        """Write events from within the relay's reader. Must not raise for what concerns this stream alone."""
        self._exchange.observe(events)
        body = self._encode(events)
        if not body:
            return
        self._spoke = self._exchange.box.heard
        self._suspended = _drive(self._send(self._message(body)))
        if self._suspended is not None or self._closed:
            self._exchange.box.sink = None
            self._exchange.box.wake.set()

    def _encode(self, events: list[Event]) -> bytes:
        encoder, exchange = self._encoder, self._exchange
        if len(events) == 1 and type(events[0]) is Delta and exchange.error is None:
            return encoder.delta(events[0])  # what nearly every call is about
        body = b"".join([encoder.delta(event) for event in events if isinstance(event, Delta)])
        if exchange.error is not None:
            return body + encoder.failure(exchange.error)
        if events and isinstance(events[-1], Finished):
            return body + exchange.remark() + encoder.closing(events[-1].usage)
        return body

    def _message(self, body: bytes) -> Message:
        self._closed = self._exchange.over
        return {"type": "http.response.body", "body": body, "more_body": not self._closed}


class _Suspended:
    """A coroutine that was driven by hand until it suspended, to be awaited to its end by a task."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, None]:
        while True:
            try:
                value = yield self._waits_for
            except BaseException as error:  # noqa: BLE001 - all of it belongs to the coroutine, cancellation too
                step = partial(self._coroutine.throw, error)
            else:
                step = partial(self._coroutine.send, value)
            try:
                self._waits_for = step()
            except StopIteration:
                return


def _drive(sending: Any) -> _Suspended | None:
    """Run a coroutine of the server's `send` as far as it goes: to its end, unless the client does not read."""
    try:
        waits_for = sending.send(None)
    except StopIteration:
        return None
    return _Suspended(sending, waits_for)
