"""The server's protocols, but for a few things.

- Whoever does not speak HTTP gets an error in the dialect, too. What cannot be parsed has no path that could tell
  dialects apart; the answer is OpenAI's.
- Connections can be ended although something is buffered for them: by answers, and when they have been idle for long.
- Several frames of a WebSocket go out in one write, without a task that waits for it.
- A WebSocket hears that the server is to stop, and ends when what it answers has ended. The server would cut it off.
"""

import asyncio
from collections.abc import Sequence

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from gateway.answers import ABORT, CLOSE
from gateway.dialects import request_id
from gateway.frames import DRAINING, PUSH, WRITABLE
from service.errors import InvalidRequest
from service.wire.openai_errors import envelope


class Protocol(HttpToolsProtocol):
    """To be given to uvicorn as its `http`."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"][ABORT] = self.transport.abort
        self.scope["state"][CLOSE] = self.transport.close

    def timeout_keep_alive_handler(self) -> None:
        """Who has still not read the end of the last answer never will; closing would wait for it."""
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        body = envelope(InvalidRequest(msg, code="invalid_http"))
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nx-request-id: {request_id()}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


class SocketProtocol(WebSocketsSansIOProtocol):
    """To be given to uvicorn as its `ws`."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.close_sent:
            return  # it was no handshake
        self._draining = asyncio.Event()
        self.scope["state"] |= {
            ABORT: self.transport.abort,
            CLOSE: self.transport.close,
            PUSH: self._push,
            WRITABLE: self.writable,
            DRAINING: self._draining,
        }

    def shutdown(self) -> None:
        if self.handshake_complete and not self.close_sent:
            self._draining.set()
        else:
            super().shutdown()

    def keepalive_timeout(self) -> None:
        """Who does not answer pings may not read either; closing would wait for it."""
        super().keepalive_timeout()
        self.transport.abort()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.close":
            self.loop.call_later(self.close_timeout, self.transport.abort)  # likewise

    def _push(self, frames: Sequence[bytes]) -> None:
        if self.close_sent or self.disconnected or self.transport.is_closing():
            return  # nobody hears it
        for frame in frames:
            self.conn.send_text(frame)
        self.transport.write(b"".join(self.conn.data_to_send()))
