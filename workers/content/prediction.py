"""An answer that follows a predicted output with a few edits, and how much of the prediction was of use.

The words after OpenAI's "Predicted Outputs": a predicted token that is in the answer is accepted; one that is not is
rejected, and charged. Knows nothing of jobs.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

_EVERY = 60  # words from one edit to the next, on average
_REPLACE = re.compile(
    r"\b(?:replace|rename|change)\s+(?:the\s+)?(?:\w+\s+){0,2}?[\"'`]?([\w.-]+)[\"'`]?(?:\s+\w+){0,2}?\s+"
    r"(?:with|to|by|into)\s+(?:an?\s+|the\s+)?(?:\w+\s+){0,1}?[\"'`]?([\w.-]+)[\"'`]?",
    re.IGNORECASE,
)
_WORD = re.compile(r"(?<![\w.])[a-z]{4,12}(?![\w(])")
_OTHERS = ("value", "item", "entry", "result", "name", "total", "state", "part")


@dataclass(frozen=True, slots=True)
class Edit:
    """The characters [start, end) of the prediction become `text`."""

    start: int
    end: int
    text: str


def edits(prediction: str, message: str, random: Random) -> list[Edit]:
    """In order: the replacement that the message asks for, else some words drawn."""
    asked = _REPLACE.search(message)
    if asked:
        found = re.finditer(rf"(?<!\w){re.escape(asked[1])}(?!\w)", prediction)
        wanted = [Edit(match.start(), match.end(), asked[2]) for match in found]
        if wanted:
            return wanted
    words = list(_WORD.finditer(prediction))
    chosen: list[Edit] = []
    for index, word in enumerate(words):
        if random.random() < 1 / _EVERY or (not chosen and index == len(words) // 2):
            other = _OTHERS[int(random.random() * len(_OTHERS))]
            chosen.append(Edit(word.start(), word.end(), other if other != word[0] else "field"))
    return chosen


def edited(prediction: str, changes: Sequence[Edit]) -> str:
    parts, at = [], 0
    for change in changes:
        parts += [prediction[at : change.start], change.text]
        at = change.end
    return "".join([*parts, prediction[at:]])


def used(predicted: Sequence[str], changes: Sequence[Edit], said: Sequence[str]) -> tuple[int, int]:
    """Tokens of the prediction that are accepted and rejected in an answer that says those tokens of the edited text.

    Both are given as the texts of their tokens. What the answer was cut off before is neither.
    """
    said_ends = list(accumulate(map(len, said)))
    length = said_ends[-1] if said_ends else 0
    accepted = rejected = at = shift = 0
    waiting = list(changes)
    for text in predicted:
        start, at = at, at + len(text)
        while waiting and waiting[0].end <= start:
            change = waiting.pop(0)
            shift += len(change.text) - (change.end - change.start)
        if start + shift >= length:
            break
        touched = bool(waiting) and waiting[0].start < at
        if not touched and _is_token(said_ends, start + shift, at + shift):
            accepted += 1
        else:
            rejected += 1
    return accepted, rejected


def _is_token(ends: Sequence[int], start: int, end: int) -> bool:
    index = bisect_left(ends, end)
    return index < len(ends) and ends[index] == end and (ends[index - 1] if index else 0) == start
