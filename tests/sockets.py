"""A client of the WebSocket mode: frames as JSON, on a connection of its own."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from evidence import Served
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

LONG = 100_000  # tokens; takes far longer than any test
ENDS = ("response.completed", "response.incomplete", "response.failed", "error")
PATIENCE = 20.0  # s for the next frame; whatever takes that long here hangs


class Socket:
    """Frames as JSON."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def create(self, text: str = "Hello", tokens: int = 16, **fields: Any) -> None:
        given = {"model": "swift", "input": text, "max_output_tokens": tokens, "ignore_eos": True, **fields}
        await self.connection.send(json.dumps({"type": "response.create", **given}))

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            event: dict[str, Any] = json.loads(await self.connection.recv(decode=False))
        return event

    async def rest(self) -> list[dict[str, Any]]:
        """All events up to the last of a response."""
        events = [await self.next()]
        while events[-1]["type"] not in ENDS:
            events.append(await self.next())
        return events

    async def ask(self, *args: Any, **fields: Any) -> dict[str, Any]:
        """The last event of a response."""
        await self.create(*args, **fields)
        return (await self.rest())[-1]

    async def closed(self) -> int | None:
        """The code the connection is closed with."""
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionClosed):
                while True:
                    await self.connection.recv(decode=False)
        return self.connection.close_code


@asynccontextmanager
async def opened(service: Served, fault: str | None = None, **options: Any) -> AsyncIterator[Socket]:
    url = service.base_url.replace("http", "ws", 1) + "/v1/responses"
    headers = {"authorization": "Bearer k", **({"x-fastmode-fault": fault} if fault else {})}
    async with connect(url, additional_headers=headers, proxy=None, max_size=None, **options) as connection:
        yield Socket(connection)
