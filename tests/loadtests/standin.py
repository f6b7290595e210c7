"""Endpoints that are not ours: a few lines of HTTP that answer chat completions as other servers do, or badly.

Each request is noted; `answer` says for each what comes back.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Request:
    number: int  # from 0
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        return str(self.body["messages"][0]["content"])


@dataclass(frozen=True)
class Answer:
    """A stream of `events`, `gap` seconds apart and the first after `first`; or any other body."""

    events: tuple[str, ...] = ()
    first: float = 0.0
    gap: float = 0.0
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""


@dataclass
class Standin:
    answer: Callable[[Request], Answer]
    requests: list[Request] = field(default_factory=list)
    in_flight: int = 0
    in_flight_max: int = 0
    port: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)
    connections: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.connections[task] = writer
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {
                    name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
                }
                body = json.loads(await reader.readexactly(int(headers["content-length"])))
                request = Request(len(self.requests), head[0].split()[1], headers, body)
                self.requests.append(request)
                self.in_flight += 1
                self.in_flight_max = max(self.in_flight_max, self.in_flight)
                try:
                    await self._write(writer, self.answer(request))
                finally:
                    self.in_flight -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _write(self, writer: asyncio.StreamWriter, answer: Answer) -> None:
        said = {"content-type": "text/event-stream" if answer.events else "application/json", **answer.headers}
        lines = [f"HTTP/1.1 {answer.status} x", *(f"{name}: {value}" for name, value in said.items())]
        if not answer.events:
            payload = answer.body.encode()
            writer.write("\r\n".join([*lines, f"content-length: {len(payload)}", "", ""]).encode() + payload)
            return
        writer.write("\r\n".join([*lines, "transfer-encoding: chunked", "", ""]).encode())
        for number, event in enumerate(answer.events):
            await self._rest(answer.gap if number else answer.first)
            writer.write(b"%x\r\n%b\r\n" % (len(event.encode()), event.encode()))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async def _rest(self, seconds: float) -> None:
        """Until it is time for the next event, or nobody waits for it."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), seconds)
            raise ConnectionError

    async def leave(self) -> None:
        self.over.set()
        for writer in self.connections.values():
            writer.close()
        await asyncio.gather(*self.connections)


@asynccontextmanager
async def standin(answer: Callable[[Request], Answer]) -> AsyncIterator[Standin]:
    made = Standin(answer)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.leave()


def event(payload: object, *, end: str = "\n") -> str:
    """With spaces after colons and commas, as Python's json writes it."""
    return f"data: {payload if isinstance(payload, str) else json.dumps(payload)}{end}{end}"


def delta(**said: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": said, "finish_reason": None}]}


FINISH = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}


def stream(
    tokens: int = 20,
    *,
    usage: dict[str, object] | None = None,
    first: float = 0.02,
    gap: float = 0.002,
    tier: str | None = None,
    end: str = "\n",
    surplus: int = 0,
) -> Answer:
    """An ordinary one: a role, `tokens` words, a finish, usage (exact unless given), [DONE]."""
    usage = {"prompt_tokens": 50, "completion_tokens": tokens} if usage is None else usage
    opening = {**delta(role="assistant", content=""), **({"service_tier": tier} if tier else {})}
    words = [delta(content=" word") for _ in range(tokens + surplus)]
    closing = [FINISH, *([{"choices": [], "usage": usage}] if usage else []), "[DONE]"]
    head = event(opening, end=end) + f": a comment{end}{end}" + event(words[0], end=end)
    return Answer(
        (head, *(event(word, end=end) for word in words[1:]), *(event(last, end=end) for last in closing)), first, gap
    )
