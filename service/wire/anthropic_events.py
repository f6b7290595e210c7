"""The events of a message that is streamed.

    message_start, then for each block content_block_start, its deltas, content_block_stop, then message_delta,
    message_stop; a ping behind the first content_block_start, and in silences; an error instead of the rest

after the streaming page of Anthropic's API documentation and recorded streams. No [DONE], no ids. Text arrives as
service.messages.Delta defines it, already escaped, and becomes one event per token with one bytes.replace.
"""

from typing import Any

import orjson
from msgspec.structs import replace

from service.errors import ServiceError
from service.messages import Delta, FinishReason, Part, Usage
from service.wire.anthropic_answer import Head, delta_usage, ending, tool_use, usage
from service.wire.anthropic_bursts import Bursts
from service.wire.anthropic_errors import event as error_event
from service.wire.anthropic_thinking import Signing

PING = b'event: ping\ndata: {"type": "ping"}\n\n'
_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

# Kind of a part -> type of its deltas, and the field that holds what is new.
_DELTAS = {
    "text": (b"text_delta", b"text"),
    "reasoning": (b"thinking_delta", b"thinking"),
    "tool_call": (b"input_json_delta", b"partial_json"),
}


class Events:
    """Encodes one stream. What does not change between the tokens of a block is rendered once, when it begins."""

    opens_early = True

    def __init__(self, head: Head) -> None:
        self._head = head
        self._index = -1  # of the block that is open; before the first there is none
        self._signing: Signing | None = None  # of the thinking that is open
        self._bursts: Bursts | None = None  # of the input that is open, if its values go out whole
        self._mute = False  # what comes is not to be sent
        self._plain = False  # what comes goes out as it is
        self._before = self._between = self._after = b""
        self._finish: FinishReason | None = "length" if head.prewarm else None
        self._stopped: str | None = None

    def opening(self, used: Usage) -> bytes:
        """`used`: what is known of the prompt by then. Output is counted from the first token on."""
        begun = replace(used, completion=1, reasoning=0)
        message = {**self._head.opening([]), **ending(None, None), "usage": usage(self._head, begun)}
        return _event("message_start", {"message": message})

    def delta(self, delta: Delta) -> bytes:
        """One event for each token with text; what begins and ends a block around them."""
        if delta.part is None and delta.finish is None:
            text = delta.text
            if self._plain:
                if delta.count == 1:  # at the highest speeds nearly every time
                    return self._before + text + self._after if text else b""
                return self._tokens(text)
            bursts = self._bursts
            if bursts is not None:
                out = bursts.add(text)
                return self._tokens(out) if out else out
        return b"" if self._head.prewarm else self._turn(delta)

    def keepalive(self) -> bytes:
        return PING

    def closing(self, used: Usage) -> bytes:
        """What follows when the answer has ended."""
        said = {"delta": ending(self._finish, self._stopped), "usage": delta_usage(self._head, used)}
        managed = {name: value for name, value in self._head.beside if name == "context_management"}
        return self._close() + _event("message_delta", {**said, **managed}) + _STOP

    def failure(self, error: ServiceError) -> bytes:
        """A stream that cannot be completed says so; nothing follows."""
        return b"event: error\ndata: %b\n\n" % error_event(error)

    def _turn(self, delta: Delta) -> bytes:
        """Where a block begins or ends, and where more is done with its text than to send it."""
        events = b"" if delta.part is None else self._close() + self._open(delta.part)
        if self._signing is not None:
            self._signing.add(delta.text.replace(b"\n", b""))
        if not self._mute:
            events += self._tokens(self._bursts.add(delta.text) if self._bursts else delta.text)
        if delta.finish is not None:
            self._finish, self._stopped = delta.finish, delta.stopped
        return events

    def _tokens(self, text: bytes) -> bytes:
        if not text:
            return b""
        if text[0] == 10 or text[-1] == 10 or text.find(b"\n\n") >= 0:  # some tokens have no text
            text = b"\n".join(filter(None, text.split(b"\n")))
            if not text:
                return b""
        return self._before + text.replace(b"\n", self._between) + self._after

    def _open(self, part: Part) -> bytes:
        self._index += 1
        self._signing = Signing() if part.kind == "reasoning" else None
        self._mute = part.kind == "reasoning" and not self._head.shown
        self._bursts = Bursts() if part.kind == "tool_call" and not self._head.eager(part.name) else None
        self._plain = self._signing is None and self._bursts is None
        kind, field = _DELTAS[part.kind]
        self._before = self._delta(kind, field)
        self._after = b'"}}\n\n'
        self._between = self._after + self._before
        events = _event("content_block_start", {"index": self._index, "content_block": self._empty(part)})
        if self._index == 0:
            events += PING
        return events + self._before + self._after if part.kind == "tool_call" else events

    def _close(self) -> bytes:
        """The end of the block that is open, if one is. Thinking is signed before it."""
        if self._index < 0:
            return b""
        events = self._tokens(self._bursts.rest()) if self._bursts else b""
        if self._signing is not None:
            events = self._delta(b"signature_delta", b"signature") + self._signing.signature() + self._after
        return events + _event("content_block_stop", {"index": self._index})

    def _empty(self, part: Part) -> dict[str, Any]:
        match part.kind:
            case "reasoning":
                return {"type": "thinking", "thinking": "", "signature": ""}
            case "tool_call":
                return tool_use(self._head, self._index, part)
            case _:
                return {"type": "text", "text": ""}

    def _delta(self, kind: bytes, field: bytes) -> bytes:
        """A delta of the open block, up to its value."""
        return (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":"'
            % (self._index, kind, field)
        )


def _event(kind: str, fields: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields}))
