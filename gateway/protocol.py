"""The server's HTTP protocol, but for one thing: whoever does not speak HTTP gets an error in the dialect, too.

What cannot be parsed has no path that could tell dialects apart; the answer is OpenAI's.
"""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.openai import request_id
from service.errors import InvalidRequest
from service.wire.openai_errors import envelope


class Protocol(HttpToolsProtocol):
    """To be given to uvicorn as its `http`."""

    def send_400_response(self, msg: str) -> None:
        body = envelope(InvalidRequest(msg, code="invalid_http"))
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nx-request-id: {request_id()}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
