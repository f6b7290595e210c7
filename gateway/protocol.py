"""The server's HTTP protocol, but for two things.

- Whoever does not speak HTTP gets an error in the dialect, too. What cannot be parsed has no path that could tell
  dialects apart; the answer is OpenAI's.
- Connections can be ended although something is buffered for them: by answers, and when they have been idle for long.
"""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.answers import ABORT, CLOSE
from gateway.dialects import request_id
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
