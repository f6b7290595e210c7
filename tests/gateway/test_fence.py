"""However often a job is started again, each of its tokens passes once, in order."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fence import Fence, Gap
from service.messages import Delta, Finished, Started, Usage


def delta(epoch: int, start: int, end: int, total: int = 10**9, choice: int = 0) -> Delta:
    """Tokens [start, end) of a text whose token i reads "i"."""
    text = b"\n".join(str(token).encode() for token in range(start, end))
    return Delta("job", epoch, choice, start, end - start, text, "stop" if end == total else None)


def runs(total: int) -> st.SearchStrategy[list[Delta]]:
    """One claim's deltas: a partition of the tokens, told as far as its worker lived."""
    cuts = st.sets(st.integers(1, total - 1), max_size=6).map(sorted) if total > 1 else st.just([])
    edges = cuts.map(lambda inner: [0, *inner, total])
    whole = edges.map(lambda e: [delta(1, a, b, total) for a, b in pairwise(e)])
    return st.tuples(whole, st.integers(0, 7)).map(lambda pair: pair[0][: pair[1]])


@given(st.integers(1, 30).flatmap(lambda total: st.tuples(st.just(total), st.lists(runs(total), max_size=4))))
def test_any_number_of_lost_workers_gives_each_token_once(case: tuple[int, list[list[Delta]]]) -> None:
    total, lives = case
    fence, passed, ends = Fence(1), [], 0
    lives.append([delta(1, 0, total, total)])
    for epoch, life in enumerate(lives, start=1):
        for told in life:
            news = fence.admit(Delta("job", epoch, 0, told.offset, told.count, told.text, told.finish))
            if isinstance(news, Delta):
                passed += [piece for piece in news.text.split(b"\n") if piece]
                ends += news.finish is not None
    assert passed == [str(token).encode() for token in range(total)]
    assert ends == 1


def test_a_frozen_worker_that_comes_back_is_not_heard() -> None:
    fence = Fence(1)
    fence.admit(Started("job", 2, 0.0))
    assert fence.admit(delta(1, 0, 5)) is None
    assert fence.admit(Finished("job", 1, Usage(prompt=1))) is None
    assert fence.admit(delta(2, 0, 5)) is not None


def test_missing_tokens_are_noticed() -> None:
    fence = Fence(1)
    fence.admit(delta(1, 0, 5))
    with pytest.raises(Gap):
        fence.admit(delta(1, 6, 8))


def test_choices_are_fenced_apart() -> None:
    fence = Fence(2)
    assert fence.admit(delta(1, 0, 5, choice=1)) is not None
    assert fence.admit(delta(1, 0, 3, choice=0)) is not None
    assert fence.passed == [3, 5]


def test_tokens_without_text_count() -> None:
    fence = Fence(1)
    fence.admit(Delta("job", 1, 0, 0, 3, b"a"))
    news = fence.admit(Delta("job", 2, 0, 0, 5, b"a", "stop"))
    assert news == Delta("job", 2, 0, 3, 2, b"", "stop")
