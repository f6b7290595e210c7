"""A client made of one socket per request, so that a test decides when it reads, stops reading, or is gone."""

import asyncio
import json
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

KEEPALIVE = b": keep-alive"
PATIENCE = 20.0  # s for the next bytes; whatever takes that long here hangs


@dataclass(slots=True)
class Heard:
    """What a stream said. `pieces` are the texts of its content events, in order."""

    pieces: list[str] = field(default_factory=list)
    keepalives: int = 0
    done: bool = False
    error: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    finish: str | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def add(self, block: bytes) -> None:
        """Take in one event or comment. Nothing may follow an end."""
        assert not self.done, f"after [DONE] came {block!r}"
        assert self.error is None, f"after an error came {block!r}"
        if block == KEEPALIVE:
            self.keepalives += 1
            return
        assert block.startswith(b"data: "), block
        payload = block.removeprefix(b"data: ")
        if payload == b"[DONE]":
            self.done = True
            return
        event = json.loads(payload)
        self.error = event.get("error")
        self.usage = event.get("usage") or self.usage
        for choice in event.get("choices", ()):
            self.finish = choice["finish_reason"] or self.finish
            if choice["delta"].get("content"):
                self.pieces.append(choice["delta"]["content"])


class Call:
    """One request on a connection of its own. Use as a context; leaving it closes the connection."""

    def __init__(self, base_url: str, request: bytes, receive_buffer: int | None = None) -> None:
        parts = urlsplit(base_url)
        self.status = 0
        self.headers: dict[str, str] = {}
        self._address = (parts.hostname, parts.port)
        self._request = request
        self._receive_buffer = receive_buffer
        self._blocks: deque[bytes] = deque()
        self._torn = b""

    async def __aenter__(self) -> Self:
        connection = socket.socket()
        connection.setblocking(False)
        if self._receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
        await asyncio.get_running_loop().sock_connect(connection, self._address)
        self._reader, self._writer = await asyncio.open_connection(sock=connection, limit=1024)
        self._writer.write(self._request)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._writer.close()

    def abort(self) -> None:
        """The connection is reset: the client is gone, whatever it has not read."""
        linger = struct.pack("ii", 1, 0)
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.transport.abort()

    async def head(self) -> int:
        """Read status and headers."""
        async with asyncio.timeout(PATIENCE):
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {name.lower(): text for name, _, text in (line.partition(": ") for line in lines[1:] if line)}
        return self.status

    async def body(self) -> bytes:
        """Read the whole of a body that is not a stream."""
        await self.head()
        async with asyncio.timeout(PATIENCE):
            return await self._reader.readexactly(int(self.headers["content-length"]))

    async def json(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await self.body())
        return answer

    async def blocks(self) -> AsyncIterator[bytes]:
        """Events and comments of a stream, up to the end of the body. Raises IncompleteReadError if it is cut off."""
        if not self.status:
            assert await self.head() == 200, (self.status, self.headers)
        while True:
            while self._blocks:
                yield self._blocks.popleft()
            if not (chunk := await self._chunk()):
                break
            *blocks, self._torn = (self._torn + chunk).split(b"\n\n")
            self._blocks += blocks
        assert not self._torn, f"the last event is torn: {self._torn!r}"

    async def pieces(self, count: int, heard: Heard | None = None) -> Heard:
        """Read until `count` pieces of content have come in all, or the stream ends."""
        heard = heard or Heard()
        if len(heard.pieces) < count:
            async for block in self.blocks():
                heard.add(block)
                if len(heard.pieces) >= count:
                    break
        return heard

    async def rest(self, heard: Heard | None = None) -> Heard:
        """Read to the end."""
        heard = heard or Heard()
        async for block in self.blocks():
            heard.add(block)
        return heard

    async def _chunk(self) -> bytes:
        async with asyncio.timeout(PATIENCE):
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            return (await self._reader.readexactly(size + 2))[:-2]


def post(base_url: str, model: str, tokens: int, *, stream: bool = True, prompt: str = "Hello", **fields: Any) -> Call:
    """Ask `model` for exactly `tokens` tokens."""
    receive_buffer = fields.pop("receive_buffer", None)
    messages = [{"role": "user", "content": prompt}]
    body = json.dumps(
        {"model": model, "messages": messages, "stream": stream, "max_tokens": tokens, "ignore_eos": True, **fields}
    ).encode()
    kind = "content-type: application/json\r\n"
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\n{kind}content-length: {len(body)}\r\n\r\n"
    return Call(base_url, head.encode() + body, receive_buffer)


def get(base_url: str, path: str) -> Call:
    return Call(base_url, f"GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n".encode())


async def fetch(base_url: str, path: str) -> tuple[int, bytes]:
    """Status and body of a GET on a connection of its own."""
    async with get(base_url, path) as call:
        body = await call.body()
        return call.status, body
