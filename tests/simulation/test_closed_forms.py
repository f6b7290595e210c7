"""What the engine computes in one formula is what adding up step by step gives."""

from itertools import accumulate
from math import nextafter

from hypothesis import given, settings
from hypothesis import strategies as st

from service.roofline import Speculation, StepTime
from workers.engine.attention import Attention
from workers.engine.decoding import Decoding
from workers.engine.kv_cache import KVCache
from workers.engine.sequence import Sequence, State
from workers.engine.speculation import Bursts
from workers.engine.stretch import Stretch

starts = st.floats(0, 1e6)
firsts = st.floats(1e-9, 1.0)
increments = st.one_of(st.just(0.0), st.floats(0, 1e-4))
# A table of draws takes longer to make than an example may take by default.
few = settings(deadline=None, max_examples=40)
speculations = st.builds(Speculation, st.integers(0, 6), st.floats(0.3, 0.99), st.floats(0.8, 1.0))


@given(starts, firsts, increments, st.integers(1, 200))
def test_a_stretch_ends_where_its_steps_add_up_to(start: float, first: float, increment: float, steps: int) -> None:
    added = sum(first + increment * step for step in range(steps))
    assert abs(Stretch(start, first, increment).boundary(steps) - start - added) <= 1e-9 * max(1.0, start, added)


@given(starts, firsts, increments, st.integers(1, 10**6), st.data())
def test_the_step_at_a_time_is_the_last_one_whose_boundary_has_passed(
    start: float, first: float, increment: float, limit: int, data: st.DataObject
) -> None:
    """Also at a boundary itself, and one float before or after it."""
    stretch = Stretch(start, first, increment)
    boundary = stretch.boundary(data.draw(st.integers(0, limit)))
    within = st.floats(start, stretch.boundary(limit))
    time = data.draw(
        within | st.sampled_from([boundary, nextafter(boundary, 0), nextafter(boundary, 2 * boundary + 1)])
    )

    passed = stretch.steps_by(time, limit)
    assert 0 <= passed <= limit
    assert passed == 0 or stretch.boundary(passed) <= time
    assert passed == limit or stretch.boundary(passed + 1) > time

    begins = stretch.first_from(time, limit)
    assert 0 <= begins <= limit
    assert begins == limit or stretch.boundary(begins) >= time
    assert begins == 0 or stretch.boundary(begins - 1) < time


def test_a_stretch_of_steps_that_take_no_time_has_an_inverse() -> None:
    stretch = Stretch(5.0, 0.0, 0.0)
    assert stretch.steps_by(5.0, 10) == 10
    assert stretch.steps_by(4.0, 10) == 0
    assert stretch.first_from(5.0, 10) == 0
    assert stretch.first_from(6.0, 10) == 10


@few
@given(speculations, st.integers(-(2**70), 2**70), st.integers(1, 20_000))
def test_a_number_of_tokens_takes_the_steps_that_first_reach_it(spec: Speculation, seed: int, tokens: int) -> None:
    bursts = Bursts(spec.emission)
    place = bursts.place(seed)
    steps = bursts.reaches(bursts.sum(place) + tokens) - place
    assert 0 <= place < len(bursts.outcomes)
    assert bursts.sum(place + steps) - bursts.sum(place) >= tokens
    assert bursts.sum(place + steps - 1) - bursts.sum(place) < tokens


@few
@given(speculations, st.integers(0, 10_000), st.integers(0, 3_000))
def test_the_sum_of_draws_is_that_of_the_table_read_round_and_round(spec: Speculation, place: int, steps: int) -> None:
    bursts = Bursts(spec.emission)
    drawn = sum(bursts.outcomes[index % len(bursts.outcomes)] for index in range(place, place + steps))
    assert bursts.sum(place + steps) - bursts.sum(place) == drawn


@few
@given(speculations, st.integers(0, 4_095), st.integers(0, 4_000))
def test_any_run_of_steps_yields_its_mean_within_one_burst(spec: Speculation, place: int, steps: int) -> None:
    """Plus what rounding each outcome's share of the table to whole entries can cost in a round of it."""
    bursts = Bursts(spec.emission)
    drawn = bursts.sum(place + steps) - bursts.sum(place)
    assert abs(drawn - spec.emitted * steps) <= 2 * spec.drafts + 1


def test_each_outcome_is_drawn_as_often_as_its_probability_says() -> None:
    spec = Speculation(3, 0.84, 0.93)
    outcomes = Bursts(spec.emission).outcomes
    for tokens, probability in enumerate(spec.emission, start=1):
        assert abs(outcomes.count(tokens) / len(outcomes) - probability) < 1 / len(outcomes)


def test_bursts_stay_visible() -> None:
    """Consecutive steps differ like draws do: not a constant rate, and not a short cycle."""
    outcomes = Bursts(Speculation(3, 0.84, 0.93).emission).outcomes
    assert all(set(outcomes[i : i + 40]) == {1, 2, 3, 4} for i in range(0, 4000, 40))
    assert all(outcomes[:48] != outcomes[shift : shift + 48] for shift in range(1, 2000))


@few
@given(speculations, st.integers(0, 10**6), st.integers(1, 64_000))
def test_the_mean_growth_of_a_context_exceeds_its_tokens_by_the_slack_at_most(
    spec: Speculation, seed: int, tokens: int
) -> None:
    bursts = Bursts(spec.emission)
    place = bursts.place(seed)
    steps = bursts.reaches(bursts.sum(place) + tokens) - place
    assert spec.emitted * steps <= tokens + bursts.slack(tokens) + 1e-6


def test_without_drafts_there_is_no_slack() -> None:
    assert Bursts((1.0,)).slack(64_000) == 0


@given(st.floats(1.0, 4.0), st.lists(st.integers(1, 50), min_size=1, max_size=5), st.integers(0, 500))
def test_the_steps_that_fit_the_cache_are_those_counted_one_by_one(rate: float, contexts: list[int], room: int) -> None:
    decoding = Decoding(StepTime(c0=0.01, emitted=rate), Bursts((1.0,)))
    cache = KVCache(decoding, block=0)
    cache.share = sum(contexts) + len(contexts) + room
    for step, context in enumerate(contexts):
        state = State(Sequence(str(step), 0.0, context, 10_000), 0.0, 0.0, step, 0)
        decoding.begin(state, step)
    now = len(contexts)
    if cache.held(now) > cache.share:
        return
    fit = 0
    while cache.held(now + fit + 1) <= cache.share and fit < 400:
        fit += 1
    assert cache.steps_left(now, limit=400) == fit


@given(st.sampled_from([0, 1, 7, 100]), st.integers(0, 200), st.integers(0, 200))
def test_what_a_chunk_attends_to_is_the_sum_over_its_tokens(topk: int, computed: int, tokens: int) -> None:
    """Each token attends to what stands before it and half of itself, and to at most topk tokens."""
    before = [position + 0.5 for position in range(computed, computed + tokens)]
    added = list(accumulate((min(seen, topk) if topk else seen for seen in before), initial=0.0))[-1]
    assert Attention(topk).chunk(computed, tokens) == added
