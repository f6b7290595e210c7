"""When the input of a tool call goes out: not letter by letter, but each key with its value when that is complete.

So does the real API unless a tool asks for `eager_input_streaming` (or the beta fine-grained-tool-streaming does for
all): clients see bursts. What is held back is one value of the outermost object. Text that is no JSON is held back
longer, and no less complete in the end.
"""

# JSON text comes escaped once more, so a quote is a backslash and a quote; every such escape is whole in its piece.
_SIGN = b'\\"'
_QUOTE, _BACKSLASH, _COMMA, _BRACE, _BRACKET = b'"\\,}]'
_OPENING, _CLOSING = frozenset(b"{["), frozenset(b"}]")
_ENDINGS = frozenset(b"\\\n")  # bytes behind which it has to be found out whether what follows is escaped


class Bursts:
    """Of one call. Invariant: what is held back ends no value of the outermost object.

    `_quoted`: its end is within a string, and `_torn`: behind a backslash that escapes what comes.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._depth = 0
        self._quoted = False
        self._torn = False

    def add(self, pieces: bytes) -> bytes:
        """Pieces that come, joined by newlines; returns those that go out by now, likewise."""
        self._held.append(pieces)
        if _QUOTE not in pieces:
            if self._quoted:  # nearly all of a long text
                if self._torn or (pieces and pieces[-1] in _ENDINGS):
                    self._torn = _escapes(pieces, self._torn)
                return b""
            if _COMMA not in pieces and _BRACE not in pieces and _BRACKET not in pieces:
                self._depth += pieces.count(b"{") + pieces.count(b"[")
                return b""
        ended = self._look(pieces)
        return self._release(pieces, ended) if ended else b""

    def rest(self) -> bytes:
        """What was still held back."""
        out, self._held = b"\n".join(self._held), []
        return out

    def _release(self, last: bytes, ended: int) -> bytes:
        """All but the pieces behind the one in which a value has ended."""
        held, border = self._held, last.find(b"\n", ended)
        self._held = []
        if border >= 0:
            self._held.append(last[border + 1 :])
            held[-1] = last[:border]
        return b"\n".join(held)

    def _look(self, text: bytes) -> int:
        """Where the last value ends that is complete; 0: none is. Between two quotes all is of one kind."""
        quoted, torn, at, ended = self._quoted, self._torn, 0, 0
        before = None
        for between in text.split(_SIGN):
            if before is not None:
                escaped = quoted and (torn if not before else before[-1] in _ENDINGS and _escapes(before, torn))
                quoted, torn = not quoted or escaped, False
            if not quoted and between:
                ended = self._structure(between, at) or ended
            at += len(between) + 2
            before = between
        self._quoted = quoted
        self._torn = quoted and bool(before and before[-1] in _ENDINGS) and _escapes(before or b"", torn)
        return ended

    def _structure(self, text: bytes, at: int) -> int:
        """Likewise, of text without strings that stands there."""
        ended = 0
        for sign in text:
            at += 1
            if sign == _COMMA:
                ended = at if self._depth <= 1 else ended
            elif sign in _OPENING:
                self._depth += 1
            elif sign in _CLOSING:
                self._depth -= 1
                ended = at if self._depth <= 0 else ended
        return ended


def _escapes(text: bytes, torn: bool) -> bool:
    """Whether what follows is escaped: by an odd number of backslashes, each escaped itself. Borders do not count.

    `torn`: a backslash before the text escapes its beginning.
    """
    bare = text.replace(b"\n", b"")
    backslashes = (len(bare) - len(bare.rstrip(b"\\"))) // 2
    return (backslashes + (torn and 2 * backslashes == len(bare))) % 2 == 1
