"""Log probabilities of an answer's tokens: made up, plausible, and the same every time.

Worked out only for the tokens that are asked for. The shape (`token`, `logprob`, `bytes`, `top_logprobs`) is that of
OpenAI's chat completions. Knows nothing of jobs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import overload

import orjson

_SURE = 0.72  # of the tokens are nearly certain
_LIKELIEST = 0.93  # of the others are the likeliest of their place
_OTHERS = (
    " the", " a", " and", " of", " to", " in", " is", " that", ",", ".", " it", " for", " with", " on", " as", " this",
    " be", " by", " at", " or", " an", " from", " one", " are", " not", ":", " which", " can", " its", " more", "\n",
    " only", " so", " if", " all", " when", " but", " has", " some", " then",
)  # fmt: skip

_ROUND = _OTHERS * 2
_MASK = 2**64 - 1


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
        draw = _draws(self.seed + index)
        sure = draw() < _SURE
        first = 1 - draw() * (0.02 if sure else 0.6)
        likeliest = sure or draw() < _LIKELIEST
        ranked = _falling(first, draw, max(self.top, 2))
        place = 0 if likeliest else 1
        others = _others(text, draw, self.top + 1)
        tokens = [*others[:place], text, *others[place:]]
        alternatives = b",".join(map(_written, tokens[: self.top], ranked))
        return b'%b,"top_logprobs":[%b]}' % (_written(text, ranked[place])[:-1], alternatives)


def _draws(seed: int) -> Callable[[], float]:
    """Of [0, 1), by SplitMix64 (Steele et al. 2014): a generator for each token, which is to cost nothing to begin."""
    state = seed & _MASK

    def draw() -> float:
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((mixed ^ (mixed >> 31)) >> 11) / 2**53

    return draw


def _falling(first: float, draw: Callable[[], float], count: int) -> list[float]:
    """Logarithms of probabilities in falling order whose sum is below 1."""
    share, left, falling = first, 1 - first, [min(log(first), 0.0)]
    for _ in range(count):
        share = max(min(left * (0.3 + 0.5 * draw()), share), 1e-9)
        left = max(left - share, 1e-9)
        falling.append(log(share))
    return falling


def _others(text: str, draw: Callable[[], float], count: int) -> list[str]:
    """Distinct tokens other than that."""
    start = int(draw() * len(_OTHERS))
    return [each for each in _ROUND[start : start + count + 1] if each != text][:count]


def _written(text: str, logprob: float) -> bytes:
    head, tail = _frame(text)
    return b"%b%.8f%b" % (head, logprob, tail)


@lru_cache(maxsize=8192)
def _frame(text: str) -> tuple[bytes, bytes]:
    """What stands before and after the number."""
    token = text.encode("utf-8", "replace")
    name = orjson.dumps(token.decode())
    return b'{"token":%b,"logprob":' % name, b',"bytes":%b}' % orjson.dumps(list(token))
