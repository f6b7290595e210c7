"""Growth that is too fast, against a count of what happened when, and over gateways against a real server."""

import uuid
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from service.connection import connect
from service.growth import Growth
from service.overflow import PART, Overflow, Ramp

OPENAI = Ramp(tokens_per_minute=1_000_000, growth=0.5, within=900, waiting=8)
MINUTE = 60 // PART  # parts


@given(
    used=st.lists(st.integers(0, 400_000), min_size=70, max_size=70),
    floor=st.integers(1, 1_200_000),
    growth=st.floats(0, 2),
    within=st.integers(5, 40).map(lambda parts: parts * PART),
)
def test_at_the_end_of_a_part_growth_is_what_whole_minutes_say(
    used: list[int], floor: int, growth: float, within: int
) -> None:
    minutes = [sum(used[end - MINUTE : end]) for end in range(len(used) - within // PART + MINUTE, len(used) + 1)]
    expected = minutes[-1] >= floor and minutes[-1] > (1 + growth) * min(minutes)
    now = 1000 * PART + len(used) * PART
    parts = {1000 + number: tokens for number, tokens in enumerate(used)}
    assert Ramp(floor, growth, within, 8).exceeded(parts, now) == expected


def steady(rate: float, since: float, until: float) -> Counter[int]:
    """Tokens in each part of time, at so many a second."""
    return Counter({part: int(rate * PART) for part in range(int(since // PART), int(until // PART))})


def test_use_that_is_large_and_steady_is_not_too_fast() -> None:
    assert not OPENAI.exceeded(steady(50_000, 0, 6000), 6000)


def test_use_that_grows_below_the_floor_is_not_too_fast() -> None:
    assert not OPENAI.exceeded(steady(16_000, 5900, 6000), 6000)


def test_use_that_grows_by_half_is_not_too_fast_and_by_more_it_is() -> None:
    before = steady(20_000, 0, 5900)
    assert not OPENAI.exceeded(before | steady(30_000, 5880, 6000), 6000)
    assert OPENAI.exceeded(before | steady(31_000, 5880, 6000), 6000)


def test_after_a_quarter_of_an_hour_what_grew_is_what_is_usual() -> None:
    parts = steady(20_000, 0, 6000) | steady(40_000, 6000, 7000)
    assert OPENAI.exceeded(parts, 6100)
    assert OPENAI.exceeded(parts, 6000 + 900 - 3 * PART)
    assert not OPENAI.exceeded(parts, 6000 + 900 + 60)


def test_growth_takes_room_and_gives_none() -> None:
    assert Overflow("downgrade", 64, "", OPENAI).room(1000, growing=True) == 8
    assert Overflow("downgrade", 64, "", OPENAI).room(1000, growing=False) == 64
    assert Overflow("downgrade", None, "", OPENAI).room(4, growing=True) == 4
    assert Overflow("queue").room(1000, growing=True) == 1000


async def test_gateways_see_the_sum_of_what_they_serve(redis_url: str) -> None:
    account, rule = uuid.uuid4().hex, Ramp(100, 0.5, 900, 8)
    redis = connect(redis_url, 5)
    try:
        here, there = Growth(redis), Growth(redis)
        for gateway in (here, there):
            gateway.count(account, "fast", 60)
        await here.tell()
        assert not here.too_fast(account, "fast", rule)
        await there.tell()
        assert there.too_fast(account, "fast", rule)
        assert not there.too_fast(account, "ultrafast", rule), "each tier for itself"
        assert not there.too_fast("another", "fast", rule)
        here.count(account, "ultrafast", 1)
        await here.tell()
        assert here.too_fast(account, "fast", rule)
    finally:
        await redis.aclose()
