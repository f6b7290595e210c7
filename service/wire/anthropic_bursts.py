"""When the input of a tool call goes out: not letter by letter, but each key with its value when that is complete.

So does the real API unless a tool asks for `eager_input_streaming` (or the beta fine-grained-tool-streaming does for
all): clients see bursts. What is held back is one value of the outermost object. Text that is no JSON is held back
longer, and no less complete in the end.
"""

import re

# JSON text, escaped once more: an escaped quote or backslash within a string, a quote, what structures the rest.
_SIGNS = re.compile(rb'\\\\\\"|\\\\\\\\|\\"|[{}\[\],]')


class Bursts:
    """Of one call. Invariant: what is held back ends no value of the outermost object."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._torn = b""  # a backslash that may escape what the next piece begins with
        self._depth = 0
        self._quoted = False

    def add(self, pieces: bytes) -> bytes:
        """Pieces that come, joined by newlines; returns those that go out by now, likewise."""
        come = pieces.split(b"\n")
        ready = max((number for number, piece in enumerate(come, start=1) if self._completes(piece)), default=0)
        if not ready:
            self._held += come
            return b""
        out, self._held = self._held + come[:ready], come[ready:]
        return b"\n".join(out)

    def rest(self) -> bytes:
        """What was still held back."""
        out, self._held = self._held, []
        return b"\n".join(out)

    def _completes(self, piece: bytes) -> bool:
        """Whether a value, or all of the object, ends in this piece."""
        text, end, complete = self._torn + piece, 0, False
        for sign in _SIGNS.finditer(text):
            end = sign.end()
            match sign.group():
                case b'\\"':
                    self._quoted = not self._quoted
                case b"{" | b"[" if not self._quoted:
                    self._depth += 1
                case b"}" | b"]" if not self._quoted:
                    self._depth -= 1
                    complete = complete or self._depth <= 0
                case b"," if not self._quoted:
                    complete = complete or self._depth <= 1
        self._torn = text[max(end, len(text.rstrip(b"\\"))) :]
        return complete
