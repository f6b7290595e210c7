"""Streams of responses that are run in the background: followed from anywhere, left, and taken up again.

Whoever runs the response logs its deltas; whoever follows encodes them as a stream that was never left would be, so
that events keep their numbers. The log is in Redis, for a while. Nothing stops when a follower leaves.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.answers import ABORT
from gateway.openai_speech import OpenAISpeech
from service.errors import Broken, InvalidRequest, Unavailable
from service.messages import Delta, Usage, decode_events, encode_events
from service.settings import Settings
from service.stored import Kept, Stored
from service.wire import sse
from service.wire.openai_responses_events import Events
from service.wire.openai_responses_object import Head, packed, unpacked

_FLUSH_EVERY = 0.05  # s
_POLL_EVERY = 0.05  # s


class Log:
    """What becomes of one response, written as it comes. While Redis is away it waits here."""

    def __init__(self, stored: Stored, head: Head) -> None:
        self._stored = stored
        self._name = head.id
        self._entries: list[bytes] = [packed(head)]
        self._deltas: list[Delta] = []
        self._flushed = 0.0

    def add(self, delta: Delta) -> None:
        self._deltas.append(delta)

    async def flush(self, now: float, last: bool = False) -> None:
        """Write what there is, unless that was done just before."""
        if not last and now - self._flushed < _FLUSH_EVERY:
            return
        self._flushed = now
        if self._deltas:
            self._entries.append(encode_events([*self._deltas]))
            self._deltas.clear()
        if self._entries:
            with suppress(Unavailable):
                await self._stored.log(self._name, self._entries)
                self._entries.clear()


class Replay(Response):
    """The events after number `after` of a response, up to its end, for a client that may leave."""

    background = None

    def __init__(self, settings: Settings, stored: Stored, kept: Kept, after: int = -1) -> None:
        self._settings = settings
        self._stored = stored
        self._kept = kept
        self._after = after
        self._arrived = asyncio.get_running_loop().time()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = [(b"content-type", sse.CONTENT_TYPE), (b"cache-control", b"no-cache")]
        headers = [*kind, *OpenAISpeech(self._arrived).headers()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        leaving = asyncio.create_task(_until_gone(receive))
        try:
            async for body in self._bodies():
                if leaving.done():
                    return
                async with asyncio.timeout(self._settings.stall_max):
                    await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            scope["state"][ABORT]()
        finally:
            leaving.cancel()

    async def _bodies(self) -> AsyncIterator[bytes]:
        """What is to be sent, and nothing now and then, to notice who has left."""
        follower, spoke = _Follower(self._after), time.monotonic()
        while True:
            over, entries = await self._news(follower.read)
            body = follower.take(entries)
            if over:
                body += follower.last(self._kept)
            if not body and time.monotonic() - spoke >= self._settings.keepalive_every:
                body = sse.KEEPALIVE
            if body:
                spoke = time.monotonic()
            yield body
            if over:
                return
            await asyncio.sleep(_POLL_EVERY)

    async def _news(self, start: int) -> tuple[bool, list[bytes]]:
        """Whether the response is over, and what has been logged of it since."""
        try:
            kept = await self._stored.find(self._kept.id, self._kept.account)
            if kept is None:
                return True, []
            self._kept = kept
            return kept.over or await self._stored.is_orphaned(kept), await self._stored.logged(kept.id, start)
        except Unavailable:
            return False, []


class _Follower:
    """Turns entries of a log into events. `read` is the number of entries so far."""

    def __init__(self, after: int) -> None:
        self.read = 0
        self._skip = after + 1  # events
        self._events: Events | None = None

    def take(self, entries: list[bytes]) -> bytes:
        self.read += len(entries)
        body = b""
        for entry in entries:
            if self._events is None:
                self._events = Events(unpacked(entry))
                body += self._events.opening(Usage(prompt=0))
            else:
                body += b"".join(
                    self._events.delta(event) for event in decode_events(entry) if isinstance(event, Delta)
                )
        return self._skipped(body)

    def last(self, kept: Kept) -> bytes:
        """The end, as it is kept."""
        told = orjson.loads(kept.response)
        if self._events is None or told["status"] == "cancelled":
            return b""
        if not kept.over:
            return self._skipped(self._events.failure(Broken("The server that generated this response has stopped.")))
        return self._skipped(self._events.end(told))

    def _skipped(self, body: bytes) -> bytes:
        if not self._skip or not body:
            return body
        events = body[:-2].split(b"\n\n")
        kept = events[self._skip :]
        self._skip = max(0, self._skip - len(events))
        return b"".join(event + b"\n\n" for event in kept)


def check_followed(logged: list[bytes]) -> None:
    """Raises InvalidRequest for a response that cannot be followed."""
    if not logged:
        raise InvalidRequest(
            "This response cannot be streamed: it was not created with 'background' and 'stream', or too long ago.",
            param="stream",
        )


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
