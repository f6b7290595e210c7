"""An HTTP/1.1 response read for measuring: its status, its framing, and how many pieces of content its events carry.

Pure: bytes and times come in, counts come out. Knows nothing of sockets and clocks.

A read at full speed brings some ten events in three kilobytes, and decoding each of them would cost as much as the
gateway spends on writing it. So events are counted, not decoded: a key of compact JSON with its quotes cannot occur
inside a JSON string, whose quotes are escaped. Only the last few are decoded, when the response has ended.

What it relies on: one `data:` line per event, and JSON that has either no spaces or one behind each colon.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

_EVENT_END = b"\n\n"
_COMMENT = b":"
_COLON = b'":'
_LAST_BLOCKS = 4  # usage, error and [DONE] are the last two events, and may have come in reads of their own


CONTENT = ("content",)  # keys of an event whose texts, if there are any, are pieces of content


class Malformed(Exception):
    """The response is not what this reader reads."""


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int


class _Chunk(msgspec.Struct):
    usage: Usage | None = None
    error: dict[str, object] | None = None


_chunks = msgspec.json.Decoder(_Chunk)


@dataclass(slots=True)
class Ending:
    """How a stream ended. A complete one is `done` and has no error."""

    done: bool = False
    usage: Usage | None = None
    error: str | None = None


class Events:
    """Counts pieces of content in server-sent events, however they are cut: `content` only counts complete events.

    `keys` are those whose texts are content. The events are kept, all of them or the first and the last few.
    """

    __slots__ = ("_beginning", "_kept", "_keys", "_last", "_marks", "_rest", "content")

    def __init__(self, keys: tuple[str, ...] = CONTENT, keep: bool = False) -> None:
        self.content = 0
        self._keys = keys
        self._marks: tuple[tuple[bytes, bytes], ...] = ()
        self._rest = b""
        self._beginning = b""
        self._kept: list[bytes] | None = [] if keep else None
        self._last: deque[bytes] = deque(maxlen=_LAST_BLOCKS)

    def feed(self, data: bytes) -> int:
        """Take in what came; returns how many more pieces of content are complete."""
        if self._rest:
            data = self._rest + data
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        end = data.rfind(_EVENT_END)
        if end < 0:
            self._rest = data
            return 0
        end += len(_EVENT_END)
        block, self._rest = data[:end], data[end:]
        if b"\n:" in block or block.startswith(_COMMENT):
            block = _without_comments(block)
        if not self._marks:
            self._beginning, self._marks = block, _marks(self._keys, spaced=block[block.find(_COLON) :][2:3] == b" ")
        if self._kept is not None:
            self._kept.append(block)
        self._last.append(block)
        pieces = 0
        for piece, no_piece in self._marks:
            pieces += block.count(piece) - block.count(no_piece)
        self.content += pieces
        return pieces

    def payloads(self) -> Iterator[bytes]:
        """What is kept of the events' data, in order."""
        blocks = [self._beginning, *self._last] if self._kept is None else self._kept
        if self._kept is None and self._last and self._last[0] is self._beginning:
            blocks = list(self._last)
        for line in b"".join(blocks).split(b"\n"):
            if line.startswith(b"data:"):
                yield line[5:].strip()

    def ending(self) -> Ending:
        """What the last events say. Raises Malformed."""
        ending = Ending()
        for event in b"".join(self._last).split(_EVENT_END):
            payload = event.lstrip(b"\n").removeprefix(b"data: ")
            if payload == b"[DONE]":
                ending.done = True
            elif payload.startswith(b"{"):
                chunk = _decode(payload)
                ending.usage = chunk.usage or ending.usage
                ending.error = str(chunk.error) if chunk.error else ending.error
        return ending


def _marks(keys: tuple[str, ...], *, spaced: bool) -> tuple[tuple[bytes, bytes], ...]:
    """What a piece of content looks like, and what one without text does."""
    space = b" " if spaced else b""
    return tuple((b'"%b":%b"' % (key.encode(), space), b'"%b":%b""' % (key.encode(), space)) for key in keys)


def _decode(payload: bytes) -> _Chunk:
    try:
        return _chunks.decode(payload)
    except msgspec.MsgspecError as error:
        raise Malformed(f"an event is not the JSON it should be ({error}): {payload[:200]!r}") from error


def _without_comments(block: bytes) -> bytes:
    return b"\n".join(line for line in block.split(b"\n") if not line.startswith(_COMMENT))


class _Body(Protocol):
    over: bool

    def feed(self, data: bytes) -> bytes: ...


class _Chunked:
    """Chunked transfer coding (RFC 9112, section 7.1). A chunk is passed on when all of it is there."""

    __slots__ = ("_rest", "over")

    def __init__(self) -> None:
        self.over = False
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        if self._rest:
            data = self._rest + data
        at, pieces = 0, []
        while (line := data.find(b"\r\n", at)) >= 0:
            size = _size(data[at:line])
            end = line + 2 + size
            if len(data) < end + 2:
                break
            pieces.append(data[line + 2 : end])
            at = end + 2
            if size == 0:
                self.over = True
                break
        self._rest = data[at:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _size(line: bytes) -> int:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        raise Malformed(f"not the size of a chunk: {line[:40]!r}") from None


class _Sized:
    """A body with a content-length."""

    __slots__ = ("_left", "over")

    def __init__(self, length: int) -> None:
        self._left = length
        self.over = length == 0

    def feed(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise Malformed("the body is longer than its content-length")
        self.over = self._left == 0
        return data


@dataclass(slots=True)
class Response:
    """One response, as far as it has come. Times are those passed to `feed`, in seconds.

    `first` and `last` are when the first and the latest piece of content were complete; `reads` counts the reads
    that brought content. `body` is kept of a response that is no event stream.
    """

    status: int = 0
    content: int = 0
    reads: int = 0
    first: float | None = None
    last: float | None = None
    ended: float | None = None
    body: bytes = b""
    headers: Mapping[bytes, bytes] = field(default_factory=dict)  # names in lower case
    steps: list[tuple[float, int]] | None = None  # when content came, and how many pieces; if that is wanted
    _head: bytes = b""
    _framing: _Body | None = None
    _events: Events | None = field(default_factory=Events)

    def feed(self, data: bytes, now: float) -> bool:
        """Take in what a socket delivered at `now`; returns whether the response is over. Raises Malformed."""
        if self._framing is None:
            data = self._read_head(data)
            if self._framing is None:
                return False
        payload = self._framing.feed(data)
        if self._events is None:
            self.body += payload
        elif payload and (pieces := self._events.feed(payload)):
            if self.first is None:
                self.first = now
            self.last = now
            self.content += pieces
            self.reads += 1
            if self.steps is not None:
                self.steps.append((now, pieces))
        if self._framing.over:
            self.ended = now
        return self._framing.over

    @classmethod
    def of(cls, keys: tuple[str, ...], *, keep: bool) -> "Response":
        """One whose content is the texts of these keys; `keep` all of its events."""
        return cls(_events=Events(keys, keep))

    @property
    def events(self) -> Events | None:
        """Of an event stream."""
        return self._events

    def ending(self) -> Ending:
        """How the event stream ended; of another body, nothing. Raises Malformed."""
        return self._events.ending() if self._events else Ending()

    def _read_head(self, data: bytes) -> bytes:
        """Returns what follows the head, if all of it is there."""
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if not end:
            return b""
        status, *lines = head.split(b"\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        self.headers = headers
        if not status.startswith(b"HTTP/1.1 ") or not status[9:12].isdigit():
            raise Malformed(f"not the start of a response: {status[:40]!r}")
        self.status = int(status[9:12])
        if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            self._framing = _Chunked()
        elif headers.get(b"content-length", b"").isdigit():
            self._framing = _Sized(int(headers[b"content-length"]))
        else:
            raise Malformed("a body whose end cannot be known")
        if not headers.get(b"content-type", b"").startswith(b"text/event-stream"):
            self._events = None
        return rest
