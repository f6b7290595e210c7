"""One answer, written beforehand: its tokens with their text, in parts, and how it ends.

Knows nothing of how it comes to be, or of when its tokens are due.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from service.messages import FinishReason, Part

PLAIN = ((0, Part()),)


@dataclass(frozen=True, slots=True)
class Script:
    """One answer. `tokens` are charged; of them the first `len(pieces)` have text, JSON-escaped without quotes.

    `parts` are in order, each with the token it begins at; the first begins at 0. `logprobs` go with the pieces.
    `accepted` and `rejected` are tokens of the predicted output; those rejected are charged beside `tokens`.
    """

    tokens: int
    finish: FinishReason
    pieces: Sequence[bytes]
    parts: tuple[tuple[int, Part], ...] = PLAIN
    logprobs: Sequence[bytes] | None = None
    stopped: str | None = None
    reasoning: int = 0
    accepted: int = 0
    rejected: int = 0

    def text(self, start: int, end: int) -> bytes:
        """The wire text of the tokens [start, end), as in service.messages.Delta; those without text add nothing."""
        return b"\n".join(self.pieces[start:end])

    def logprob(self, start: int, end: int) -> bytes:
        """Their log probabilities, likewise; tokens whose text is empty have none."""
        return b"\n".join(filter(None, self.logprobs[start:end])) if self.logprobs is not None else b""

    def cut(self, start: int, end: int) -> list[tuple[int, int, Part | None]]:
        """The tokens [start, end) at the borders of parts: first, end, and the part where one begins."""
        if len(self.parts) == 1:
            return [(start, end, self.parts[0][1] if start == 0 else None)]
        begin = {first: part for first, part in self.parts if start <= first < end}
        borders = [start, *(first for first in begin if first > start), end]
        return [(first, after, begin.get(first)) for first, after in pairwise(borders)]
