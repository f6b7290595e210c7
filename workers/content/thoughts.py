"""What a model thinks before it answers, and how it takes up what a tool has said.

Sentences for `prose`. Knows nothing of tokens' limits.
"""

import json
import re
from collections.abc import Iterator, Sequence
from random import Random

from service.messages import Turn
from workers.content import corpus
from workers.content.hints import latest
from workers.content.phrases import Phrase, book, cut
from workers.content.prose import Sentence, body, subject
from workers.content.spelling import spell

_SNIPPET = 80  # characters of a result
_RESULT_MAX = 200_000  # characters of a result that is read as JSON
_VALUES = 4  # members of a result that are taken up


def thinking(random: Random, conversation: Sequence[Turn]) -> Iterator[Sentence]:
    """For ever, in the first person to begin with, then in the corpus's sentences."""
    stop = book().full_stop
    about = subject(conversation)
    if about:
        yield [_about(int(random.random() * len(corpus.SUBJECT_THOUGHTS)), about), stop]
    first = int(random.random() * len(corpus.THOUGHTS))
    for index in range(2):
        text = corpus.THOUGHTS[(first + index) % len(corpus.THOUGHTS)]
        yield [_thought(text, spaced=bool(about) or index > 0), stop]
    yield from body(random, first=False)


def taken_up(conversation: Sequence[Turn]) -> str | None:
    """What an answer says of the tool's result that it follows; None: it follows none."""
    turn = latest(conversation)
    if turn is None or turn.role != "tool":
        return None
    said = _members(turn.text) or _snippet(turn.text)
    return f"According to the result, {said}" if said else "The tool has returned nothing"


def opened(said: str, random: Random) -> Iterator[Sentence]:
    """Prose for ever, with a sentence of its own to begin with."""
    yield [spell(said), book().full_stop]
    yield from body(random, first=False)


def _about(variant: int, about: str) -> Phrase:
    return cut(corpus.SUBJECT_THOUGHTS[variant].format(about))


def _thought(text: str, spaced: bool) -> Phrase:
    return cut(f" {text}" if spaced else text)


def _members(text: str) -> str | None:
    try:
        found = json.loads(text) if len(text) <= _RESULT_MAX else None
    except (ValueError, RecursionError):
        return None
    while isinstance(found, list) and found:
        found = found[0]
    if isinstance(found, dict):
        simple = {key: value for key, value in found.items() if isinstance(value, str | int | float) and value != ""}
        parts = [f"{key} is {_plain(value)}" for key, value in list(simple.items())[:_VALUES]]
        return _ended(", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]) if parts else None
    return _ended(f"the value is {_plain(found)}") if isinstance(found, int | float) else None


def _snippet(text: str) -> str:
    line = " ".join(_plain(text[: 8 * _SNIPPET].lstrip()).split())
    return _ended(f"it says: {line}") if line else ""


def _plain(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text = "".join(sign if sign.isprintable() else " " for sign in text[: 4 * _SNIPPET])
    return text if len(text) <= _SNIPPET else text[:_SNIPPET].rsplit(" ", 1)[0]


def _ended(text: str) -> str:
    """With a letter or digit at the end, so that the full stop behind it is a token of its own."""
    return re.sub(r"[\W_]+$", "", text)
