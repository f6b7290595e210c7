"""How far a text goes: as long as is natural for it, or until a limit, the window or a stop sequence ends it.

Knows nothing of what is said.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter
from typing import Literal

from workers.content.forms import ended
from workers.content.phrases import Phrase, escape
from workers.content.prose import Sentence
from workers.content.stops import find

# An answer that ignores its end and has no limit runs to the end of the context window, but no further than this: the
# largest output that the providers' models offer.
RUN_MAX = 131_072

_wire, _texts = attrgetter("wire"), attrgetter("texts")


@dataclass(frozen=True, slots=True)
class Room:
    """What a text has to keep to, in tokens. `capped`: the limit only bounds it, otherwise prose is as long as that.

    `spelled`: the texts of its tokens are asked for, and not only their wire form.
    """

    limit: int | None
    window: int
    least: int = 0
    endless: bool = False
    capped: bool = False
    stop: tuple[str, ...] = ()
    spelled: bool = False

    @property
    def most(self) -> int:
        return self.window if self.limit is None else min(self.window, self.limit)


@dataclass(frozen=True, slots=True)
class Said:
    """A text as it came to be: `tokens` were generated, and of them as many as `wire` has have been kept."""

    tokens: int
    finish: Literal["stop", "length"]
    wire: list[bytes]
    texts: Sequence[str] = ()
    stopped: str | None = None


def prose(room: Room, sentences: Iterator[Sentence], natural: int) -> Said:
    """Sentences until their length is natural, or as long as the room says; exactly the limit, if that is one."""
    if room.limit is not None and not room.capped:
        return _exactly(room, sentences, room.limit)
    if room.endless:
        return _exactly(room, sentences, RUN_MAX)
    return _naturally(room, sentences, max(room.least, natural))


def fixed(room: Room, phrase: Phrase) -> Said:
    """A text that is what it is, as far as there is room for it."""
    return _said(
        room, [phrase], min(len(phrase.wire), room.most), "stop" if len(phrase.wire) <= room.most else "length"
    )


def gather(sentences: Iterator[Sentence], tokens: int) -> list[Sentence]:
    """As few sentences as have that many tokens."""
    gathered: list[Sentence] = []
    while tokens > 0:
        sentence = next(sentences)
        gathered.append(sentence)
        for phrase in sentence:
            tokens -= len(phrase.wire)
    return gathered


def _exactly(room: Room, sentences: Iterator[Sentence], tokens: int) -> Said:
    tokens = min(tokens, room.most)
    return _said(room, chain.from_iterable(gather(sentences, tokens)), tokens, "length")


def _naturally(room: Room, sentences: Iterator[Sentence], tokens: int) -> Said:
    """At least `tokens` if there is room. A limit cuts in anywhere; the window, between sentences if it can."""
    gathered = gather(sentences, min(tokens, room.most))
    length = _length(gathered)
    whole = gathered if length <= room.window else gathered[:-1]
    if (length > room.most and room.most < room.window) or _length(whole) < max(1, room.least):
        return _said(room, chain.from_iterable(gathered), room.most, "length")
    whole[-1] = ended(whole[-1])  # rather than the end of a paragraph
    return _said(room, chain.from_iterable(whole), _length(whole), "stop")


def _length(sentences: Iterable[Sentence]) -> int:
    return sum(len(phrase.wire) for sentence in sentences for phrase in sentence)


def _said(room: Room, phrases: Iterable[Phrase], tokens: int, finish: Literal["stop", "length"]) -> Said:
    """The first `tokens` tokens, or what precedes the first stop sequence in them."""
    phrases = list(phrases)
    wire = list(islice(chain.from_iterable(map(_wire, phrases)), tokens))
    if not (room.stop or room.spelled):
        return Said(tokens, finish, wire)
    texts = list(islice(chain.from_iterable(map(_texts, phrases)), tokens))
    match = find(texts, room.stop, room.least)
    if match is None:
        return Said(tokens, finish, wire, texts)
    kept = [match.part] if match.part else []
    wire = wire[: match.whole] + [escape(part) for part in kept]
    return Said(match.tokens, "stop", wire, texts[: match.whole] + kept, match.stop)
