"""A client made to measure: one keep-alive connection, one request at a time, times taken when the socket is read.

It costs about a microsecond per token, less than what it measures; a client library that parses every event costs a
hundred. HTTP/1.1 alone: what it leaves out is in loadtests/wire.py.
"""

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self, cast

import orjson

from loadtests.wire import Malformed, Response

_NONE: Mapping[str, str] = MappingProxyType({})

clock = time.perf_counter  # s; the clock of all times here


class Wrong(Exception):
    """An answer is not what was asked for: what it measures would be worth nothing."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    tls: bool = False


@dataclass(frozen=True, slots=True)
class Timing:
    """What one answer measured, in seconds and tokens."""

    sent: float
    response: Response

    @property
    def ttft(self) -> float:
        """From sending the request to its first token."""
        assert self.response.first is not None
        return self.response.first - self.sent

    @property
    def duration(self) -> float:
        """From sending the request to the end of its answer."""
        assert self.response.ended is not None
        return self.response.ended - self.sent

    @property
    def rate(self) -> float:
        """Tokens per second after the first: the inverse of TPOT = (last - first) / (tokens - 1)."""
        response = self.response
        assert response.first is not None
        assert response.last is not None
        return (response.content - 1) / (response.last - response.first)


class Connection(asyncio.Protocol):
    """Use `connect`. Raises what went wrong from `ask`, and only there."""

    def __init__(self) -> None:
        self.response = Response()
        self.sent = 0.0
        self._transport: asyncio.Transport | None = None
        self._over: asyncio.Future[None] | None = None
        self._lost = False

    @classmethod
    async def connect(cls, address: Address) -> Self:
        loop = asyncio.get_running_loop()
        tls = ssl.create_default_context() if address.tls else None
        _, connection = await loop.create_connection(cls, address.host, address.port, ssl=tls)
        return connection

    @property
    def open(self) -> bool:
        """Another request may be sent."""
        return self._transport is not None and not self._transport.is_closing() and not self._lost

    async def ask(self, request: bytes, into: Response | None = None) -> Timing:
        """Send a request and read its answer to the end, into `into` if that is given.

        Raises ConnectionError when it ends before that, and Malformed.
        """
        assert self._transport is not None
        assert self._over is None, "one request at a time"
        over = self._over = asyncio.get_running_loop().create_future()
        self.response = Response() if into is None else into
        self.sent = clock()
        self._transport.write(request)
        try:
            await over
        finally:
            self._over = None
        return Timing(self.sent, self.response)

    def timing(self) -> Timing:
        """The answer as far as it has come."""
        return Timing(self.sent, self.response)

    def abort(self) -> None:
        """Leave at once, in the middle of whatever is going on."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            if self.response.feed(data, clock()) and self._over is not None and not self._over.done():
                self._over.set_result(None)
        except Malformed as error:
            self._fail(error)
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self._fail(ConnectionError(f"the connection ended within an answer ({error})"))

    def _fail(self, error: Exception) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)


def post(path: str, body: dict[str, object], headers: Mapping[str, str] = _NONE) -> bytes:
    """A request with a JSON body."""
    payload = orjson.dumps(body)
    own = {"host": "localhost", "content-type": "application/json", "content-length": str(len(payload))}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in {**own, **headers}.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + payload


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


def chat(
    model: str,
    tokens: int,
    *,
    stream: bool = True,
    service_tier: str | None = None,
    headers: Mapping[str, str] = _NONE,
    prompt: str = "Tell me something long about engines.",
) -> bytes:
    """A chat completion of exactly `tokens` tokens."""
    body: dict[str, object] = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        "ignore_eos": True,
    }
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if service_tier is not None:
        body["service_tier"] = service_tier
    return post("/v1/chat/completions", body, headers)


def check(timing: Timing, tokens: int, *, stream: bool = True) -> None:
    """Raises Wrong unless the answer is complete and has as many tokens, on the wire and by its own account."""
    response = timing.response
    if response.status != 200:
        raise Wrong(f"status {response.status}: {response.body[:300].decode(errors='replace')}")
    if not stream:
        charged = orjson.loads(response.body)["usage"]["completion_tokens"]
        if charged != tokens:
            raise Wrong(f"{charged} tokens charged, {tokens} asked for")
        return
    ending = response.ending()
    charged = ending.usage.completion_tokens if ending.usage else None
    if ending.error or not ending.done or not response.content == charged == tokens:
        raise Wrong(
            f"{tokens} tokens asked for, {charged} charged, {response.content} came; done: {ending.done},"
            f" error: {ending.error}"
        )
