"""What stands around the text of each token in a stream, rendered once and not for every token."""

from collections.abc import Sequence

_NEWLINE = 10


class Frame:
    """Events that differ in their text alone, and in what hides how long that is.

    `tails` end an event. There is one for each length of text, modulo their number; tokens that come together have the
    one of their common length.
    """

    __slots__ = ("_after", "_between", "before", "tails")

    def __init__(self, before: bytes, after: bytes, tails: Sequence[bytes]) -> None:
        self.before = before
        self.tails = tails
        self._after = [after + tail for tail in tails]
        self._between = [after + tail + before for tail in tails]

    def around(self, text: bytes, count: int) -> bytes:
        """The events of `count` tokens with text as service.messages.Delta has it; pieces without text have none."""
        if not text:
            return b""
        if count > 1 and (text.find(b"\n\n") >= 0 or text[0] == _NEWLINE or text[-1] == _NEWLINE):
            text = b"\n".join(filter(None, text.split(b"\n")))
            if not text:
                return b""
        tail = len(text) % len(self.tails)
        if count > 1:
            text = text.replace(b"\n", self._between[tail])
        return self.before + text + self._after[tail]

    def each(self, text: bytes, others: bytes, middle: bytes) -> bytes:
        """As `around`, for tokens each of which has something else to tell; `middle` formats it, in place of `after`.

        `others` are joined by newlines, one for each piece with text.
        """
        return b"".join(
            self.before + piece + middle % other + self.tails[len(piece) % len(self.tails)]
            for piece, other in zip(filter(None, text.split(b"\n")), others.split(b"\n"), strict=True)
        )
