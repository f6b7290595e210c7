"""Log probabilities of an answer's tokens: made up, plausible, and the same every time.

Worked out only for the tokens that are asked for. The shape (`token`, `logprob`, `bytes`, `top_logprobs`) is that of
OpenAI's chat completions. Knows nothing of jobs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import log
from random import Random
from typing import Any, overload

import orjson

_SURE = 0.72  # of the tokens are nearly certain
_LIKELIEST = 0.93  # of the others are the likeliest of their place
_OTHERS = (
    " the", " a", " and", " of", " to", " in", " is", " that", ",", ".", " it", " for", " with", " on", " as", " this",
    " be", " by", " at", " or", " an", " from", " one", " are", " not", ":", " which", " can", " its", " more", "\n",
    " only", " so", " if", " all", " when", " but", " has", " some", " then",
)  # fmt: skip


@dataclass(frozen=True)
class Logprobs(Sequence[bytes]):
    """Of each token with a text in [start, end), with `top` alternatives; b"" for the others."""

    texts: Sequence[str]
    top: int
    seed: int
    start: int
    end: int

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self._of(each) for each in range(*index.indices(len(self.texts)))]
        return self._of(index)

    def _of(self, index: int) -> bytes:
        text = self.texts[index]
        if not text or not self.start <= index < self.end:
            return b""
        draw = Random(self.seed + index).random
        sure = draw() < _SURE
        first = 1 - draw() * (0.02 if sure else 0.6)
        likeliest = sure or draw() < _LIKELIEST
        ranked = _falling(first, draw, max(self.top, 2) + 1)
        place = 0 if likeliest else 1
        others = _others(text, draw, self.top + 1)
        tokens = [*others[:place], text, *others[place:]]
        alternatives = [_token(each, log(share)) for each, share in zip(tokens, ranked, strict=False)][: self.top]
        return orjson.dumps({**_token(text, log(ranked[place])), "top_logprobs": alternatives})


def _falling(first: float, draw: Any, count: int) -> list[float]:
    """Probabilities in falling order whose sum is below 1."""
    shares, left = [first], 1 - first
    for _ in range(count):
        share = min(left * (0.3 + 0.5 * draw()), shares[-1])
        shares.append(max(share, 1e-9))
        left = max(left - share, 1e-9)
    return shares


def _others(text: str, draw: Any, count: int) -> list[str]:
    """Distinct tokens other than that."""
    start = int(draw() * len(_OTHERS))
    return [each for each in _OTHERS[start:] + _OTHERS[:start] if each != text][:count]


def _token(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": min(round(logprob, 8), 0.0), "bytes": _bytes(text)}


@cache
def _known(text: str) -> list[int]:
    return list(text.encode())


def _bytes(text: str) -> list[int]:
    return _known(text) if text in _OTHERS else list(text.encode("utf-8", "replace"))
