"""Endless prose out of the book: sentences and paragraphs recombined by a seeded generator.

Knows nothing of jobs; when an answer ends is its caller's business.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from random import Random

from service.messages import Turn
from workers.content import corpus
from workers.content.forms import Shape, block
from workers.content.hints import last
from workers.content.phrases import Book, Core, Phrase, book, subject_opening

Sentence = list[Phrase]

LEAD_SHARE = 0.35  # of the sentences
TAIL_SHARE = 0.45
PARAGRAPH = (3, 6)  # sentences, both ends included

_SUBJECT_SCAN = 500  # characters of the user's message that are looked at
_COMMON = frozenset(corpus.COMMON_WORDS.split())
_WORD = re.compile(r"\b[A-Za-z][a-z]{3,15}\b")


def write(random: Random, conversation: Sequence[Turn], form: Shape | None = None) -> Iterator[Sentence]:
    """Sentences for ever. The last phrase of each is a full stop, or one with the end of a paragraph.

    The first is a block of code, or a list, if `form` says so. Draws only from `random.random`, whose sequence Python
    promises to keep.
    """
    if form is None:
        first = [_opening(random, conversation), book().full_stop]
    else:
        first = block(form, random, last(conversation))
    return chain((first,), body(random, first=form is not None))


def body(random: Random, first: bool) -> Iterator[Sentence]:
    """Paragraphs for ever; `first` tells whether they begin what is said, or a paragraph of it."""
    pages = book()
    topic = 0
    while True:
        topic = (topic + 1 + int(random.random() * (len(pages.topics) - 1))) % len(pages.topics)
        yield from _paragraph(random, pages, pages.topics[topic], first)
        first = True


def _paragraph(random: Random, pages: Book, topic: tuple[Core, ...], first: bool) -> Iterator[Sentence]:
    """Consecutive cores of a topic; `first` tells whether the paragraph begins with its first sentence."""
    draw = random.random
    shortest, longest = PARAGRAPH
    length = shortest + int(draw() * (longest - shortest + 1))
    start = int(draw() * len(topic))
    for index in range(length):
        core = topic[(start + index) % len(topic)]
        sentence: Sentence = []
        if draw() < LEAD_SHARE:
            opener = pages.leads[int(draw() * len(pages.leads))]
            sentence.append(opener.bare if first else opener.spaced)
            sentence.append(core.continued)
        else:
            sentence.append(core.opener.bare if first else core.opener.spaced)
        if draw() < TAIL_SHARE:
            sentence.append(pages.tails[int(draw() * len(pages.tails))])
        sentence.append(pages.full_stop if index < length - 1 else pages.paragraph_end)
        first = False
        yield sentence


def _opening(random: Random, conversation: Sequence[Turn]) -> Phrase:
    share = random.random()
    about = subject(conversation)
    if about:
        return subject_opening(int(share * len(corpus.SUBJECT_OPENINGS)), about)
    return book().openings[int(share * len(corpus.OPENINGS))]


def subject(conversation: Sequence[Turn]) -> str | None:
    """The longest telling word of the user's last message; of several, the first."""
    words = [word.lower() for word in _WORD.findall(last(conversation)[:_SUBJECT_SCAN])]
    return max((word for word in words if word not in _COMMON), key=len, default=None)
