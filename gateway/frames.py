"""Answers as frames of a WebSocket: what would be a response of HTTP goes out event by event.

Whoever answers need not know of it: he is given `send` and `receive` as a server of HTTP has them.
"""

import asyncio
from collections.abc import Callable, Sequence

from starlette.responses import Response
from starlette.types import Message, Scope

from service.wire import openai_responses_frames

PUSH = "fastmode.push"  # key of a WebSocket's state: writes text frames at once, whatever is buffered
WRITABLE = "fastmode.writable"  # likewise: an event that is set while little is buffered
DRAINING = "fastmode.draining"  # likewise: an event that is set when the server is to stop

Push = Callable[[Sequence[bytes]], None]


class Frames:
    """Sends answers to one lane. `left` is set when nobody hears them any more."""

    def __init__(self, scope: Scope, lane: str | None, left: asyncio.Event) -> None:
        self._scope: Scope = {"type": "http", "state": scope["state"]}
        self._push: Push = scope["state"][PUSH]
        self._writable: asyncio.Event = scope["state"][WRITABLE]
        self._lane = lane
        self._left = left
        self._status = 200
        self._headers: dict[str, str] = {}
        self._refusal = b""

    async def answer(self, response: Response) -> None:
        """A stream whose events are lines, or a refusal."""
        await response(self._scope, self._receive, self._send)

    async def say(self, events: bytes) -> None:
        """Events of an answer that is no Response."""
        if not self._writable.is_set():
            await self._writable.wait()
        self._push(openai_responses_frames.frames(events, self._lane))

    async def _receive(self) -> Message:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {name.decode("latin-1"): text.decode("latin-1") for name, text in message["headers"]}
        elif self._status < 400:
            await self.say(message["body"])
        else:
            self._refusal += message["body"]
            if not message.get("more_body"):
                await self.say(openai_responses_frames.refusal(self._status, self._refusal, self._headers))
