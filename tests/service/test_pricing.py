"""Bills are integers whose parts sum to the total; costs and premiums follow from chip time."""

from dataclasses import astuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from service.messages import Usage
from service.prices import Price
from service.pricing import bill, cost, cost_to_serve, floor_speed, implied_load, premium
from service.tiers import load

TOKENS = st.integers(0, 10**9)
PRICES = st.builds(Price, *(st.integers(0, 10**6) for _ in range(5)))


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    prompt, completion = draw(TOKENS), draw(TOKENS)
    cached = draw(st.integers(0, prompt))
    written = draw(st.integers(0, prompt - cached))
    return Usage(
        prompt=prompt,
        cached=cached,
        written=written,
        written_long=draw(st.integers(0, written)),
        completion=completion,
        reasoning=draw(st.integers(0, completion)),
    )


@given(PRICES, usages())
def test_the_parts_of_a_bill_are_whole_and_sum_to_the_cost_exactly(price: Price, usage: Usage) -> None:
    parts = bill(price, usage)
    assert all(type(part) is int and part >= 0 for part in astuple(parts))
    assert sum(astuple(parts)) == parts.total == cost(price, usage)


@given(PRICES, usages(), usages())
def test_two_requests_cost_what_they_cost_apart(price: Price, one: Usage, other: Usage) -> None:
    together = Usage(
        prompt=one.prompt + other.prompt,
        cached=one.cached + other.cached,
        written=one.written + other.written,
        written_long=one.written_long + other.written_long,
        completion=one.completion + other.completion,
        reasoning=one.reasoning + other.reasoning,
    )
    assert cost(price, together) == cost(price, one) + cost(price, other)


@given(PRICES, usages())
def test_a_cached_prompt_is_cheaper_and_reasoning_costs_what_output_costs(price: Price, usage: Usage) -> None:
    assume(price.cached_input <= price.input)
    uncached = replace(usage, cached=0)
    saved = usage.cached * (price.input - price.cached_input)
    assert cost(price, usage) == cost(price, uncached) - saved


def test_a_million_tokens_of_each_kind_cost_the_list_price() -> None:
    offer = load().models["gpt-5.3-codex"].offers["fast"]
    usage = Usage(prompt=2_000_000, cached=1_000_000, completion=1_000_000, reasoning=400_000)
    assert cost(offer.price, usage) == (3_500 + 350 + 28_000) * 1_000_000
    assert bill(offer.price, usage).reasoning == 28_000 * 400_000


def test_what_is_put_into_a_cache_costs_more_than_what_is_only_read() -> None:
    """Anthropic, November 2026: for Opus 5.5 at $4, five minutes are $5 and an hour is $8; fast mode doubles all."""
    usage = Usage(prompt=3_000_000, written=2_000_000, written_long=1_000_000, completion=0)
    standard, fast = (load().models["claude-opus-5-5"].offers[tier].price for tier in ("standard", "fast"))
    assert cost(standard, usage) == (4 + 5 + 8) * 10**9
    assert cost(fast, usage) == 2 * cost(standard, usage)


def test_nothing_generated_still_pays_for_the_prompt() -> None:
    assert cost(Price(1750, 175, 14000, 1750, 1750), Usage(prompt=10, completion=0)) == 17_500


def test_a_busy_machine_spreads_its_hour_over_its_tokens() -> None:
    assert cost_to_serve(dollars_per_hour=3.6, tokens_per_second=1000, utilisation=1) == pytest.approx(1.0)
    assert cost_to_serve(dollars_per_hour=3.6, tokens_per_second=1000, utilisation=0.25) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("ratio", "load_", "floor", "batches"), [(6, 0.12, 190, 15), (2, 0.6, 272, 5)], ids=["six-fold", "two-fold"]
)
def test_two_and_a_half_times_the_speed_justifies_known_premiums(
    ratio: float, load_: float, floor: float, batches: float
) -> None:
    """At 170 tok/s: x = 0.12 or 0.6, a floor of about 190 or 270 tok/s, and batches in a ratio g*R of 15 or 5."""
    assert implied_load(2.5, ratio) == pytest.approx(load_)
    assert floor_speed(170, load_) == pytest.approx(floor, rel=5e-3)
    assert 2.5 * ratio == batches


@given(st.floats(1.01, 100), st.floats(1.01, 100))
def test_a_premium_and_the_load_it_implies_are_inverse(speedup: float, ratio: float) -> None:
    assert premium(speedup, implied_load(speedup, ratio)) == pytest.approx(ratio)


@given(st.floats(1e-4, 1), st.floats(1e-4, 1), st.floats(0.1, 1000), st.floats(1.05, 100))
def test_the_premium_is_the_ratio_of_chip_time_when_a_step_is_affine(
    a: float, beta: float, fast_batch: float, speedup: float
) -> None:
    """Chip time of a token is t(B)/B, with t(B) = a*(1 + beta*B)."""

    def step(batch: float) -> float:
        return a * (1 + beta * batch)

    standard_batch = (speedup * (1 + beta * fast_batch) - 1) / beta
    assert step(standard_batch) == pytest.approx(speedup * step(fast_batch))
    ratio = (step(fast_batch) / fast_batch) / (step(standard_batch) / standard_batch)
    assert premium(speedup, beta * fast_batch) == pytest.approx(ratio)
    assert standard_batch / fast_batch == pytest.approx(speedup * ratio)
    assert floor_speed(1 / step(fast_batch), beta * fast_batch) == pytest.approx(1 / step(0))
