"""What the emulated model says: an answer for a job, as a script of tokens with their text.

The tokens of the text, under service.tokenizer, are exactly those that are charged and paced, one piece of text for
each, and every prefix of them encodes to itself: whoever counts a stream again, cut off or not, finds the same number.

The script depends on the conversation, the seed and the number of the choice, and on nothing else: tiers of one model
give the same answer, and a worker that takes a job over goes on with the same text. A limit only cuts it off.
Knows nothing of time, pools or transport.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from math import log
from random import Random
from typing import Literal
from zlib import crc32

from service import tokenizer
from service.messages import FinishReason, Job, Part, Turn
from workers.content.phrases import Phrase, book, escape
from workers.content.prose import Sentence, write
from workers.content.stops import find

# The natural length of an answer is lognormal. Median and spread give a mean of 256 tokens; LMSYS-Chat-1M (Zheng et al.
# 2023, table 1) reports a mean of 214.5 tokens for the models of its year, and answers have grown since.
LENGTH_MEDIAN = 200.0
LENGTH_SIGMA = 0.7

# An answer that ignores its end and has no limit runs to the end of the context window, but no further than this: the
# largest output that the providers' models offer.
RUN_MAX = 131_072


class Unsatisfiable(Exception):
    """No answer satisfies the schema that was asked for, or none that can be found. The message says where."""


@dataclass(frozen=True, slots=True)
class Script:
    """One answer. `tokens` are charged; of them the first `len(pieces)` have text, JSON-escaped without quotes.

    `parts` are in order, each with the token it begins at; the first begins at 0. `logprobs` go with the pieces.
    `accepted` and `rejected` are tokens of the predicted output; those rejected are charged beside `tokens`.
    """

    tokens: int
    finish: FinishReason
    pieces: Sequence[bytes]
    parts: tuple[tuple[int, Part], ...] = ((0, Part()),)
    logprobs: Sequence[bytes] | None = None
    stopped: str | None = None
    reasoning: int = 0
    accepted: int = 0
    rejected: int = 0

    def text(self, start: int, end: int) -> bytes:
        """The wire text of the tokens [start, end), as in service.messages.Delta; those without text add nothing."""
        return b"\n".join(self.pieces[start:end])

    def logprob(self, start: int, end: int) -> bytes:
        """Their log probabilities, likewise."""
        return b"\n".join(self.logprobs[start:end]) if self.logprobs is not None else b""

    def cut(self, start: int, end: int) -> list[tuple[int, int, Part | None]]:
        """The tokens [start, end) at the borders of parts: first, end, and the part where one begins."""
        if len(self.parts) == 1:
            return [(start, end, self.parts[0][1] if start == 0 else None)]
        begin = {first: part for first, part in self.parts if start <= first < end}
        borders = [start, *(first for first in begin if first > start), end]
        return [(first, after, begin.get(first)) for first, after in pairwise(borders)]


def load() -> None:
    """Loads the vocabulary, in half a second, and cuts the corpus; the first answer does it otherwise."""
    tokenizer.load()
    book()


def compose(job: Job, choice: int) -> Script:
    """The answer of one choice of a job.

    `max_tokens` is exact, bounded by what the context window still holds. Without it the answer has a natural length
    of at least `min_tokens` and ends with a sentence, if one ends inside the window. A stop sequence ends it earlier.
    """
    assert job.context_left >= 1
    random = Random(_key(job.conversation, job.seed, choice))
    natural = max(job.min_tokens, round(random.lognormvariate(log(LENGTH_MEDIAN), LENGTH_SIGMA)))
    sentences = write(random, job.conversation)
    if job.max_tokens is not None:
        return _exactly(job, sentences, job.max_tokens)
    if job.ignore_eos:
        return _exactly(job, sentences, RUN_MAX)
    return _naturally(job, sentences, natural)


def _exactly(job: Job, sentences: Iterator[Sentence], tokens: int) -> Script:
    tokens = min(tokens, job.context_left)
    return _script(job, _gather(sentences, tokens), tokens, "length")


def _naturally(job: Job, sentences: Iterator[Sentence], tokens: int) -> Script:
    """At least `tokens` if the window holds as many, else as many whole sentences as it holds, else it is full."""
    gathered = _gather(sentences, min(tokens, job.context_left))
    whole = gathered if _length(gathered) <= job.context_left else gathered[:-1]
    if _length(whole) < max(1, job.min_tokens):
        return _script(job, gathered, job.context_left, "length")
    last = [*whole[-1][:-1], book().full_stop]  # rather than the end of a paragraph
    return _script(job, [*whole[:-1], last], _length(whole), "stop")


def _gather(sentences: Iterator[Sentence], tokens: int) -> list[Sentence]:
    """As few sentences as have that many tokens."""
    gathered: list[Sentence] = []
    while tokens > 0:
        sentence = next(sentences)
        gathered.append(sentence)
        for phrase in sentence:
            tokens -= len(phrase.wire)
    return gathered


def _length(sentences: Iterable[Sentence]) -> int:
    return sum(len(phrase.wire) for sentence in sentences for phrase in sentence)


def _script(job: Job, sentences: list[Sentence], tokens: int, finish: Literal["stop", "length"]) -> Script:
    """The first `tokens` tokens of the sentences, or what precedes the first stop sequence in them."""
    phrases: list[Phrase] = list(chain.from_iterable(sentences))
    wire = list(islice(chain.from_iterable(phrase.wire for phrase in phrases), tokens))
    if not job.stop:
        return Script(tokens, finish, wire)
    texts = list(islice(chain.from_iterable(phrase.texts for phrase in phrases), tokens))
    match = find(texts, job.stop, job.min_tokens)
    if match is None:
        return Script(tokens, finish, wire)
    part = [escape(match.part)] if match.part else []
    return Script(match.tokens, "stop", wire[: match.whole] + part)


def _key(conversation: Sequence[Turn], seed: int, choice: int) -> str:
    """A seed for Random, the same in every process."""
    digest = 0
    for turn in conversation:
        digest = crc32(f"{turn.role}\0{turn.text}\0".encode("utf-8", "surrogatepass"), digest)
    return f"{digest}/{seed}/{choice}"
