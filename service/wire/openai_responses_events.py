"""The events of a response that is streamed. Sans-IO.

    created, in_progress, then for each item output_item.added, its content, output_item.done, then completed,
    incomplete or failed

after recorded traffic and the types of openai 3.57. Events have names and numbers in sequence; there is no [DONE]. They
are the same over HTTP, framed as server-sent events, and over a WebSocket, as JSON by itself.
"""

import time
from collections.abc import Callable
from typing import Any

import orjson

from service.errors import ServiceError
from service.messages import Delta, Part, Usage
from service.wire import sse
from service.wire.gathered import Answer, Said
from service.wire.ids import derived
from service.wire.openai_errors import type_of
from service.wire.openai_responses_object import (
    Head,
    Status,
    code,
    content_part,
    incomplete_reason,
    item,
    items,
    opened,
    response,
    whole,
)

Frame = Callable[[str, bytes], bytes]

_PAD = 16  # bytes; a token and its padding are together a multiple of that
_TEXT_DELTA = "response.output_text.delta"


def server_sent(kind: str, payload: bytes) -> bytes:
    """An event over HTTP."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), payload)


def bare(_: str, payload: bytes) -> bytes:
    """An event over a WebSocket: its JSON, and a line break, which JSON on one line has not."""
    return payload + b"\n"


class Events:
    """Encodes one stream. `frame` puts an event's JSON on the wire; `clock` gives Unix seconds.

    What does not change between the tokens of an item is rendered once, when the item begins.
    """

    opens_early = True

    def __init__(
        self,
        head: Head,
        frame: Frame = server_sent,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.answer = Answer()
        self._head = head
        self._frame = frame
        self._clock = clock
        self._number = 0
        self._index = -1  # of the item that is open; before the first there is none
        self._open: Said | None = None
        self._token: tuple[bytes, bytes] | None = None  # an event of the open item, cut at number and text
        self._unread: list[bytes] = []  # texts that have been sent and are not in the answer yet
        self._tails = _tails(head, frame)

    def opening(self, _: Usage) -> bytes:
        begun = response(self._head, "in_progress")
        return self._event("response.created", response=begun) + self._event("response.in_progress", response=begun)

    def delta(self, delta: Delta) -> bytes:
        """One event for each token with text; what begins and ends an item around them."""
        if delta.part is None and delta.finish is None and not delta.logprobs:  # nearly every time
            self._unread.append(delta.text)
            return self._tokens(delta.text, delta.count)
        self._catch_up()
        events = b"" if delta.part is None else self._close() + self._begin(delta.part)
        self.answer.add(delta)
        if delta.logprobs and self._is_text():
            return events + self._reckoned(delta.text, delta.logprobs)
        return events + self._tokens(delta.text, delta.count)

    def keepalive(self) -> bytes:
        return sse.KEEPALIVE if self._frame is server_sent else b""

    def closing(self, usage: Usage) -> bytes:
        """What follows when the answer has ended."""
        return self.end(self.whole(usage))

    def end(self, told: dict[str, Any]) -> bytes:
        """As `closing`, with the object as it is known already."""
        return self._close() + self._last(told)

    def failure(self, error: ServiceError) -> bytes:
        """A stream that cannot be completed says so, as an error and as a response that has failed."""
        words = {"code": error.code or code(error), "message": error.message, "param": error.param}
        events = self._event("error", error={"type": type_of(error), **words}, **words)
        return events + self._last(self.ended("failed", None, error))

    def whole(self, usage: Usage) -> dict[str, Any]:
        """The response that has come to its end."""
        self._catch_up()
        return whole(self._head, self.answer, usage, int(self._clock()))

    def ended(self, status: Status, usage: Usage | None, error: ServiceError | None = None) -> dict[str, Any]:
        """The response with what has come of it."""
        self._catch_up()
        return response(self._head, status, items(self._head, self.answer), usage, error=error)

    def _last(self, told: dict[str, Any]) -> bytes:
        """The event that says what has become of it all."""
        return self._event(f"response.{told['status']}", response=told)

    def _is_text(self) -> bool:
        return self._open is not None and self._open.part.kind == "text"

    def _catch_up(self) -> None:
        if self._unread:
            self.answer.said[-1].text += b"".join(self._unread).replace(b"\n", b"")
            self._unread.clear()

    def _tokens(self, text: bytes, count: int) -> bytes:
        """Tokens that come together share their padding, that of their common length."""
        if not text or self._token is None:
            return b""
        before, middle = self._token
        number, tail = self._number, self._tails[len(text) % _PAD]
        if count == 1:
            self._number = number + 1
            return b"%b%d%b%b%b" % (before, number, middle, text, tail)
        pieces = text.split(b"\n")
        if b"" in pieces:
            pieces = list(filter(None, pieces))
        if not pieces:
            return b""
        self._number = number + len(pieces)
        events = [tail + before, b"", middle, b""] * len(pieces)
        events[1::4], events[3::4] = _digits(number, self._number), pieces
        events[0] = before
        return b"".join(events) + tail

    def _reckoned(self, text: bytes, logprobs: bytes) -> bytes:
        """Tokens with their log probabilities."""
        events = []
        for piece, logprob in zip(filter(None, text.split(b"\n")), logprobs.split(b"\n"), strict=True):
            token = orjson.Fragment(b'"%b"' % piece)
            events.append(self._event(_TEXT_DELTA, **self._place(), delta=token, logprobs=[_short(logprob)]))
        return b"".join(events)

    def _begin(self, part: Part) -> bytes:
        self._index += 1
        self._open = Said(part)
        begun = opened(self._head, self._index, part)
        events = self._event("response.output_item.added", output_index=self._index, item=begun)
        self._token = None
        if part.kind == "text":
            self._token = self._template(_TEXT_DELTA)
            return events + self._event("response.content_part.added", **self._place(), part=content_part())
        if part.kind == "tool_call":
            self._token = self._template(f"{_arguments(begun)}.delta")
            return events
        if self._head.summarized:
            self._token = self._template("response.reasoning_summary_text.delta")
            summary = {"type": "summary_text", "text": ""}
            events += self._event("response.reasoning_summary_part.added", **self._place(), part=summary)
        return events

    def _close(self) -> bytes:
        """The end of the item that is open, if one is."""
        if self._open is None:
            return b""
        self._catch_up()
        said = self.answer.said[self._index]
        cut = incomplete_reason(self.answer) is not None
        done = item(self._head, self._index, said, "incomplete" if cut else "completed")
        self._open, self._token = None, None
        ending = self._content_done(said, done)
        return ending + self._event("response.output_item.done", output_index=self._index, item=done)

    def _content_done(self, said: Said, done: dict[str, Any]) -> bytes:
        place = self._place_of(said.part)
        if said.part.kind == "text":
            [part] = done["content"]
            short = [_short(logprob) for logprob in said.logprobs]
            events = self._event("response.output_text.done", **place, text=part["text"], logprobs=short)
            return events + self._event("response.content_part.done", **place, part=part)
        if said.part.kind == "tool_call":
            held = "input" if "input" in done else "arguments"
            name = {"name": done["name"]} if held == "arguments" else {}
            return self._event(f"{_arguments(done)}.done", **place, **name, **{held: done[held]})
        if not self._head.summarized:
            return b""
        [part] = done["summary"]
        events = self._event("response.reasoning_summary_text.done", **place, text=part["text"])
        return events + self._event("response.reasoning_summary_part.done", **place, part=part)

    def _place(self) -> dict[str, Any]:
        assert self._open is not None
        return self._place_of(self._open.part)

    def _place_of(self, part: Part) -> dict[str, Any]:
        """Where in the response an event belongs."""
        place = {"item_id": opened(self._head, self._index, part)["id"], "output_index": self._index}
        within = {"text": {"content_index": 0}, "reasoning": {"summary_index": 0}}
        return {**place, **within.get(part.kind, {})}

    def _template(self, kind: str) -> tuple[bytes, bytes]:
        """An event with a piece of text, cut at its number and at the piece."""
        more = b',"logprobs":[]' if kind == _TEXT_DELTA else b""
        place = orjson.dumps(self._place())[1:-1]
        named = b"event: %b\ndata: " % kind.encode() if self._frame is server_sent else b""
        before = b'%b{"type":"%b","sequence_number":' % (named, kind.encode())
        return before, b',%b%b,"delta":"' % (place, more)

    def _event(self, kind: str, **fields: Any) -> bytes:
        payload = orjson.dumps({"type": kind, "sequence_number": self._number, **fields})
        self._number += 1
        return self._frame(kind, payload)


_NUMBERS = [b"%d" % number for number in range(4096)]


def _digits(first: int, after: int) -> list[bytes]:
    """Numbers as text."""
    return _NUMBERS[first:after] if after <= len(_NUMBERS) else [b"%d" % number for number in range(first, after)]


def _arguments(call: dict[str, Any]) -> str:
    return (
        "response.custom_tool_call_input" if call["type"] == "custom_tool_call" else "response.function_call_arguments"
    )


def _short(logprob: bytes) -> dict[str, Any]:
    """A log probability as events have it: without bytes."""
    told = orjson.loads(logprob)
    others = [{"token": other["token"], "logprob": other["logprob"]} for other in told["top_logprobs"]]
    return {"token": told["token"], "logprob": told["logprob"], "top_logprobs": others}


def _tails(head: Head, frame: Frame) -> list[bytes]:
    """What stands behind a piece of 0, 1, ... bytes: padding that looks random, and the end of the event."""
    noise = derived("", 3 * _PAD, head.id).encode()
    pads = (noise[2 * length : 2 * length + _PAD - length] for length in range(_PAD))
    end = b"\n\n" if frame is server_sent else b"\n"
    return [(b'","obfuscation":"%b"}' % pad if head.obfuscate else b'"}') + end for pad in pads]
