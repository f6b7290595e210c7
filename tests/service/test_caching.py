"""What of a prompt goes into a cache, and for how long, as it is charged."""

from hypothesis import given
from hypothesis import strategies as st

from service.messages import LONG_KEPT, Job

ENDS = st.lists(st.integers(0, 200), max_size=4).map(sorted)


@given(ENDS, ENDS, st.integers(0, 300))
def test_each_token_that_is_to_be_kept_and_was_not_found_is_written_once(
    long: list[int], short: list[int], cached: int
) -> None:
    keep = tuple((end, LONG_KEPT) for end in long) + tuple((end, 300) for end in short)
    job = Job(id="j", gateway="g", pool="p", model="m", tier="t", keep=keep, bought=True)
    for_long = {token for end in long for token in range(cached, end)}
    at_all = for_long | {token for end in short for token in range(cached, end)}
    assert job.written(cached) == (len(at_all), len(for_long))


def test_what_is_kept_for_nothing_is_not_told_as_written() -> None:
    assert Job(id="j", gateway="g", pool="p", model="m", tier="t", keep=((100, 600),)).written(0) == (0, 0)


def test_nothing_is_written_that_is_not_to_be_kept() -> None:
    assert Job(id="j", gateway="g", pool="p", model="m", tier="t").written(0) == (0, 0)
