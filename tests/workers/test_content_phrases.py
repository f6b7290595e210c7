"""The corpus is cut so that its phrases can be put together and cut off anywhere."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from service import tokenizer
from workers.content import corpus
from workers.content.phrases import Phrase, book, subject_opening


def sentences() -> list[list[Phrase]]:
    """Every phrase of the book, in every position that prose puts it."""
    pages = book()
    cores = [core for topic in pages.topics for core in topic]
    stop, end = pages.full_stop, pages.paragraph_end
    return [
        *([opening, stop] for opening in pages.openings),
        *([lead.bare, cores[0].continued, stop] for lead in pages.leads),
        *([stop, lead.spaced, cores[0].continued, end] for lead in pages.leads),
        *([end, core.opener.bare, stop] for core in cores),
        *([stop, core.opener.spaced, end, cores[0].opener.bare] for core in cores),
        *([stop, pages.leads[0].spaced, core.continued, pages.tails[0], stop] for core in cores),
        *([core.opener.bare, tail, stop] for core in cores for tail in pages.tails),
    ]


def test_phrases_put_together_have_the_tokens_of_the_text() -> None:
    for sentence in sentences():
        texts = [piece for phrase in sentence for piece in phrase.texts]
        assert tokenizer.pieces(tokenizer.encode("".join(texts))) == [piece.encode() for piece in texts]


def test_every_prefix_of_every_sentence_encodes_to_its_own_tokens() -> None:
    seen: set[str] = set()
    for sentence in sentences():
        texts = [piece for phrase in sentence for piece in phrase.texts]
        tokens = tokenizer.encode("".join(texts))
        prefix = ""
        for end, piece in enumerate(texts, 1):
            prefix += piece
            if prefix not in seen:
                seen.add(prefix)
                assert tokenizer.encode(prefix) == tokens[:end], prefix


@given(st.from_regex(r"[a-z]{4,16}", fullmatch=True))
def test_every_prefix_of_an_opening_encodes_to_its_own_tokens_whatever_the_subject(subject: str) -> None:
    for variant in range(len(corpus.SUBJECT_OPENINGS)):
        texts = subject_opening(variant, subject).texts
        tokens = tokenizer.encode("".join(texts))
        assert [tokenizer.encode("".join(texts[:end])) for end in range(1, len(texts) + 1)] == [
            tokens[:end] for end in range(1, len(texts) + 1)
        ]


def test_the_corpus_reads_as_clauses() -> None:
    for topic in corpus.TOPICS:
        assert len(topic) > 6  # the longest paragraph has six sentences, and none of them twice
        for core in topic:
            assert core[0].islower()
            assert core[-1] not in ".,;:!? "
    assert all(tail[0] in ", " for tail in corpus.TAILS)
    assert all(lead[0].isupper() for lead in corpus.LEADS)


def test_no_two_clauses_are_the_same() -> None:
    cores = sorted(core for topic in corpus.TOPICS for core in topic)
    assert all(one != other for one, other in pairwise(cores))
