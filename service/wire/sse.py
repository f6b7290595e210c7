"""Server-sent events, the little of them that the dialects share (WHATWG HTML, section 9.2)."""

CONTENT_TYPE = b"text/event-stream; charset=utf-8"
KEEPALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"


def data(payload: bytes) -> bytes:
    """One unnamed event. The payload is JSON on one line."""
    return b"data: " + payload + b"\n\n"


def comment(text: str) -> bytes:
    """What clients skip. The text is one line."""
    return b": " + text.encode() + b"\n\n"
