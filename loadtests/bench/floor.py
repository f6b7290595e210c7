"""The floor: a bare ASGI application under the gateway's server, which answers the same bytes and does nothing else.

What the service costs beyond this is what it does; what this costs is the price of HTTP in Python.

- POST /v1/chat/completions answers one token at once, as a stream or whole.
- POST /paced?TOKENS/RATE streams TOKENS events, one write each, RATE of them per second, all streams in step.
"""

import asyncio
import sys
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import uvicorn
import uvloop

from service.messages import Delta, Part, Usage
from service.wire import sse
from service.wire.gathered import Answer, Said
from service.wire.openai_chat_answer import Chunks, Head, Manner, completion

_HEAD = Head(f"chatcmpl-{'0' * 29}", 1_764_547_200, "test-zero", "default", f"fp_{'0' * 10}")
_USAGE = Usage(prompt=14, completion=1)
_ANSWER = Answer([Said(Part(), bytearray(b"Engines"))], "length")
_MANNER = Manner(include_usage=True)
_WHOLE = completion(_HEAD, [_ANSWER], _USAGE, _MANNER)
_HEADERS = [
    (b"x-request-id", b"req_" + b"0" * 32),
    (b"openai-version", b"2020-10-01"),
    (b"openai-processing-ms", b"1"),
]
_JSON = [(b"content-type", b"application/json"), (b"content-length", str(len(_WHOLE)).encode()), *_HEADERS]
_EVENTS = [(b"content-type", sse.CONTENT_TYPE), (b"cache-control", b"no-cache"), *_HEADERS]


_encoder = Chunks(_HEAD, 1, _MANNER)
_OPENING = _encoder.delta(Delta("", 1, 0, 0, 0, b"", part=Part()))
_EVENT = _encoder.delta(Delta("", 1, 0, 0, 1, b" engines"))
_LAST = _encoder.delta(Delta("", 1, 0, 0, 1, b" engines", "length"))
_STREAM = _OPENING + _LAST + _encoder.closing(_USAGE)


@dataclass(slots=True)
class _Paced:
    """Streams that get an event each whenever the clock ticks, written by whoever ticks."""

    streams: dict[Any, int] = field(default_factory=dict)  # the server's send, and the events it is still to get
    done: dict[Any, asyncio.Event] = field(default_factory=dict)
    ticker: asyncio.Task[None] | None = None

    async def stream(self, send: Any, tokens: int, rate: float) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
        await send(_part(_OPENING))
        self.streams[send] = tokens
        ended = self.done[send] = asyncio.Event()
        if self.ticker is None:
            self.ticker = asyncio.create_task(self._tick(1 / rate))
        await ended.wait()
        closing = _LAST + _encoder.closing(Usage(prompt=14, completion=tokens))
        await send({"type": "http.response.body", "body": closing})

    async def _tick(self, period: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while self.streams:
            due += period
            await asyncio.sleep(max(0.0, due - loop.time()))
            for send in list(self.streams):
                self._write(send)
        self.ticker = None

    def _write(self, send: Any) -> None:
        self.streams[send] -= 1
        if self.streams[send] == 0:
            del self.streams[send]
            self.done.pop(send).set()
            return
        sending: Coroutine[Any, Any, None] = send(_part(_EVENT))
        try:
            sending.send(None)
        except StopIteration:
            return
        raise RuntimeError("a client does not read")


_paced = _Paced()


def _part(body: bytes) -> dict[str, object]:
    return {"type": "http.response.body", "body": body, "more_body": True}


async def app(scope: Any, receive: Any, send: Any) -> None:
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if scope["path"] == "/paced":
        tokens, _, rate = scope["query_string"].partition(b"/")
        await _paced.stream(send, int(tokens), float(rate))
        return
    streams = b'"stream":true' in body
    await send({"type": "http.response.start", "status": 200, "headers": _EVENTS if streams else _JSON})
    await send({"type": "http.response.body", "body": _STREAM if streams else _WHOLE})


def main(port: int) -> None:
    config = uvicorn.Config(
        app, port=port, http="httptools", lifespan="off", access_log=False, log_config=None, timeout_keep_alive=75
    )
    uvloop.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main(int(sys.argv[1]))
