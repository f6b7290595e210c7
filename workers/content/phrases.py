"""Text cut into tokens, each in its wire-ready form. Everything the corpus can say is cut once and kept.

Two rules make every prefix of a composed token sequence encode to itself, which clients that count the tokens of a
stream rely on:

- A phrase begins and ends where the tokenizer's pre-tokenization splits in any case (before a space and a letter,
  between a letter and punctuation), so the tokens of phrases put together are the tokens of the text.
- Every token is valid UTF-8 by itself, and every prefix of a phrase encodes to a prefix of its tokens.
"""

import json
from dataclasses import dataclass
from functools import cache, lru_cache

from service import tokenizer
from workers.content import corpus


@dataclass(frozen=True, slots=True)
class Phrase:
    """The tokens of a text: as they are, and JSON-escaped without quotes."""

    texts: tuple[str, ...]
    wire: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Opener:
    """A phrase that can begin a sentence: at the beginning of a paragraph, or after another sentence."""

    bare: Phrase
    spaced: Phrase


@dataclass(frozen=True, slots=True)
class Core:
    """A clause: as the beginning of a sentence, or continued after a lead."""

    opener: Opener
    continued: Phrase


@dataclass(frozen=True, slots=True)
class Book:
    """The whole corpus, cut."""

    openings: tuple[Phrase, ...]
    leads: tuple[Opener, ...]
    topics: tuple[tuple[Core, ...], ...]
    tails: tuple[Phrase, ...]
    full_stop: Phrase
    paragraph_end: Phrase


@cache
def book() -> Book:
    """The first call cuts the corpus and takes a few milliseconds beyond loading the tokenizer."""
    return Book(
        openings=tuple(cut(text) for text in corpus.OPENINGS),
        leads=tuple(_opener(text) for text in corpus.LEADS),
        topics=tuple(tuple(_core(text) for text in topic) for topic in corpus.TOPICS),
        tails=tuple(cut(text) for text in corpus.TAILS),
        full_stop=cut("."),
        paragraph_end=cut(".\n\n"),
    )


def cut(text: str) -> Phrase:
    """Raises UnicodeDecodeError: a token of the text is not valid UTF-8 by itself."""
    texts = tuple(piece.decode() for piece in tokenizer.pieces(tokenizer.encode(text)))
    return Phrase(texts, tuple(escape(piece) for piece in texts))


def escape(text: str) -> bytes:
    """The inside of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


@lru_cache(maxsize=1024)
def subject_opening(variant: int, subject: str) -> Phrase:
    """An opening that takes up a word of the user's: lower-case ASCII letters, and nothing else.

    Merging bytes in order of rank makes prefixes stable, unless the vocabulary holds a token that no sequence of merges
    leads to. Of such letters o200k_base has none.
    """
    return cut(corpus.SUBJECT_OPENINGS[variant].format(subject))


def _opener(text: str) -> Opener:
    return Opener(bare=cut(text), spaced=cut(f" {text}"))


def _core(text: str) -> Core:
    return Core(opener=_opener(text[0].upper() + text[1:]), continued=cut(f" {text}"))
