"""Where a stop sequence ends a text, as an engine that looks after every token finds it."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Match:
    """The text keeps `whole` tokens and `part` of the next one. `tokens` were generated to complete the match."""

    tokens: int
    whole: int
    part: str
    stop: str


def find(texts: Sequence[str], stops: Sequence[str], min_tokens: int) -> Match | None:
    """The match that is complete first, wherever token borders lie; of several, the one that begins first.

    `texts` are the texts of the tokens. A match counts only if a token after the first `min_tokens` completes it.
    """
    text = "".join(texts)
    ends = list(accumulate(map(len, texts)))
    exempt = ends[min(min_tokens, len(ends)) - 1] if min_tokens else 0
    candidates = [
        (bisect_left(ends, at + len(stop)), at, stop)
        for stop in stops
        if stop and (at := text.find(stop, max(0, exempt - len(stop) + 1))) >= 0
    ]
    if not candidates:
        return None
    completing, at, stop = min(candidates)
    whole = bisect_right(ends, at)
    return Match(tokens=completing + 1, whole=whole, part=text[ends[whole - 1] if whole else 0 : at], stop=stop)
