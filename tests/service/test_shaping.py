"""Shaping against tokens that each take a place on a line of time, one by one."""

from bisect import bisect
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.shaping import Shaper

RATES = st.integers(1, 2000)
BURSTS = st.integers(1, 50)
ARRIVALS = st.lists(st.tuples(st.integers(0, 500), st.integers(1, 30)), min_size=1, max_size=10)  # after ms, tokens


def departures(rate: int, burst: int, arrivals: list[Fraction]) -> list[Fraction]:
    """When each token goes: when it comes, or when the bucket, which gains `rate` a second, has one for it."""
    level, at, gone = Fraction(burst), arrivals[0], []
    for arrival in arrivals:
        now = max(at, arrival)
        level = min(Fraction(burst), level + (now - at) * rate)
        if level < 1:
            now += (1 - level) / rate
            level = Fraction(1)
        level, at = level - 1, now
        gone.append(now)
    return gone


@given(RATES, BURSTS, ARRIVALS, st.integers(5, 100))
def test_each_token_goes_when_a_bucket_would_let_it_however_late_one_looks(
    rate: int, burst: int, steps: list[tuple[int, int]], look_every: int
) -> None:
    shaper, now = Shaper(rate, burst), Fraction(1)
    waiting: list[tuple[Fraction, int]] = []
    arrivals: list[Fraction] = []
    for gap, tokens in steps:
        now += Fraction(gap, 1000)
        waiting.append((now, tokens))
        arrivals += [now] * tokens
    expected = list(map(float, departures(rate, burst, arrivals)))
    look, gone = Fraction(1), 0
    while waiting:
        since, tokens = waiting[0]
        ready = min(tokens, shaper.ready(float(since), float(look))) if since <= look else 0
        if ready:
            shaper.take(ready, float(since))
            gone += ready
            waiting[0] = (since, tokens - ready)
            if tokens == ready:
                waiting.pop(0)
            continue
        assert bisect(expected, float(look) - 1e-6) <= gone <= bisect(expected, float(look) + 1e-6)
        look += Fraction(look_every, 1000)


@given(RATES, BURSTS, st.integers(1, 5000))
def test_what_waits_goes_out_at_the_rate(rate: int, burst: int, tokens: int) -> None:
    """An endless supply: the n-th token beyond the burst goes out n / rate later, within a millionth."""
    shaper, now, gone = Shaper(rate, burst), 1.0, 0
    while gone < tokens:
        now = max(now, shaper.due(1.0))
        ready = min(shaper.ready(1.0, now), tokens - gone)
        assert ready > 0, "what is due is ready"
        shaper.take(ready, 1.0)
        gone += ready
    assert now - 1.0 == pytest.approx(max(0, tokens - burst) / rate, rel=1e-6, abs=1e-6)


@given(RATES, BURSTS)
def test_a_first_token_waits_for_nothing(rate: int, burst: int) -> None:
    assert Shaper(rate, burst).ready(0.0, 0.0) == burst
