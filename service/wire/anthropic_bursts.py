"""When the input of a tool call goes out: not letter by letter, but each key with its value when that is complete.

So does the real API unless a tool asks for `eager_input_streaming` (or the beta fine-grained-tool-streaming does for
all): clients see bursts. What is held back is one value of the outermost object. Text that is no JSON is held back
longer, and no less complete in the end.
"""

# JSON text comes escaped once more, so a quote is a backslash and a quote; every such escape is whole in its piece.
_SIGN = b'\\"'
_QUOTE, _COMMA = b'",'
_OPENING, _CLOSING = frozenset(b"{["), frozenset(b"}]")
_BRACE, _BRACKET = b"}]"
_PLAIN = b" :\n0123456789truefalsn"  # what stands outside of strings and ends nothing


class Bursts:
    """Of one call. Invariant: what is held back ends no value of the outermost object.

    The first `_seen` pieces of it have been looked at, but for backslashes that were `_torn` from what they escape. The
    others cannot end a value either; if they have quotes, `_quoted` is no longer true of the end.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._seen = 0
        self._torn: list[bytes] = []
        self._depth = 0
        self._quoted = False
        self._quotes = False  # among what has not been looked at

    def add(self, pieces: bytes) -> bytes:
        """Pieces that come, joined by newlines; returns those that go out by now, likewise."""
        self._held.append(pieces)
        if _QUOTE in pieces:
            self._quotes = True
        elif self._quoted and not self._quotes:  # nearly all of a long text
            return b""
        return self._complete() if _COMMA in pieces or _BRACE in pieces or _BRACKET in pieces else b""

    def rest(self) -> bytes:
        """What was still held back."""
        out, self._held = b"\n".join(self._held), []
        return out

    def _complete(self) -> bytes:
        """The pieces up to the one in which the last value ends that is complete."""
        text = b"\n".join(self._torn + self._held[self._seen :])
        ended = self._look(text)
        self._torn = [torn] if self._quoted and (torn := _backslashes(text)) else []
        self._quotes = False
        if not ended:
            self._seen = len(self._held)
            return b""
        out, border = b"\n".join(self._held), text.find(b"\n", ended)
        if border < 0:
            self._held, self._seen = [], 0
            return out
        left = text[border + 1 :]
        self._held, self._seen = [left], 1
        return out[: -len(left) - 1]

    def _look(self, text: bytes) -> int:
        """Where the last value ends that is complete; 0: none is. Between two quotes all is of one kind."""
        quoted, depth, at, ended = self._quoted, self._depth, 0, 0
        before = None
        for between in text.split(_SIGN):
            if before is not None:
                quoted = not quoted or _escapes(before)
            if not quoted and between.translate(None, _PLAIN):
                for place, sign in enumerate(between, start=at + 1):
                    if sign == _COMMA:
                        ended = place if depth <= 1 else ended
                    elif sign in _OPENING:
                        depth += 1
                    elif sign in _CLOSING:
                        depth -= 1
                        ended = place if depth <= 0 else ended
            at += len(between) + len(_SIGN)
            before = between
        self._quoted, self._depth = quoted, depth
        return ended


def _escapes(text: bytes) -> bool:
    """Whether what follows is escaped: by an odd number of backslashes, each of them escaped. Borders do not count."""
    return text.rstrip(b"\n").endswith(b"\\") and _backslashes(text).count(b"\\") // 2 % 2 == 1


def _backslashes(text: bytes) -> bytes:
    """Those at the end, with the borders of pieces between them."""
    return text[len(text.rstrip(b"\\\n")) :]
