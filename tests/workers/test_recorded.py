"""A replica with recorded timings: requests take what was drawn, an Engine's rules order them, looks do not matter."""

from heapq import heapreplace
from math import exp, log
from statistics import median, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.conditions import Ambient, Outage, Slowdown
from service.pools import BatchLimits, Pool
from service.timings import Empirical, Fixed
from workers.engine import Conditions, Ending, Limits, Progress, Recorded, Sequence
from workers.engine.recorded import pace
from workers.replicas import Replicas

EXACT = Fixed(ttft=0.5, rate=100.0)
SPREAD = Fixed(ttft=0.3, ttft_sigma=0.4, rate=80.0, rate_sigma=0.2, load_slope=0.05, ttft_per_token=1e-4)


def replica(
    timing: Fixed | Empirical = EXACT, slots: int = 8, ambient: float = 0.0, aging: float = 10.0, start: float = 0.0
) -> Recorded:
    conditions = Conditions(Ambient(sequences=ambient, context=1))
    return Recorded(timing, Limits(slots, aging=aging), conditions, start)


def run(engine: Recorded | Replicas) -> dict[str, Ending]:
    ended: dict[str, Ending] = {}
    while (time := engine.next_event()) is not None:
        for ending in engine.endings(time):
            assert ending.id not in ended, "nobody ends twice"
            ended[ending.id] = ending
    return ended


def rate(ending: Ending) -> float:
    """Tokens per second as a client measures it: after the first token."""
    return (ending.tokens - 1) / (ending.last - ending.first)


# ---- how long a request takes


def test_tokens_come_one_by_one_after_the_time_to_first_token() -> None:
    engine = replica()
    engine.add(Sequence("x", 2.0, 10, 4))
    assert engine.advance(2.499) == []
    assert engine.advance(2.5) == [Progress("x", 1, 2.5, False, first=2.5)]
    assert [(report.tokens, report.first) for report in engine.advance(2.525)] == [(3, None)]
    (last,) = engine.advance(9.0)
    assert (last.tokens, last.finished) == (4, True)
    assert last.time == pytest.approx(2.53)
    assert engine.advance(10.0) == []


def test_medians_and_spreads_over_many_requests_are_those_that_were_given() -> None:
    drawn = [pace(SPREAD, Sequence("x", 0.0, 1000, 100, seed=seed), load=1) for seed in range(4000)]
    ttfts, rates = [ttft - 0.1 for ttft, _ in drawn], [1 / interval for _, interval in drawn]
    assert median(ttfts) == pytest.approx(0.3, rel=0.02)
    assert median(rates) == pytest.approx(80, rel=0.01)
    assert pstdev(map(log, ttfts)) == pytest.approx(0.4, rel=0.03)
    assert pstdev(map(log, rates)) == pytest.approx(0.2, rel=0.03)
    inner = sorted(rates)[len(rates) // 4 : -len(rates) // 4]  # quartiles of a lognormal: exp(+-0.6745 sigma)
    assert inner[0] == pytest.approx(80 * exp(-0.6745 * 0.2), rel=0.02)
    assert inner[-1] == pytest.approx(80 * exp(0.6745 * 0.2), rel=0.02)


def test_time_to_first_token_and_rate_are_independent_where_they_are_fixed() -> None:
    drawn = [pace(SPREAD, Sequence("x", 0.0, 1, 2, seed=seed), load=1) for seed in range(20_000)]
    slow = median(ttft for ttft, _ in drawn)
    assert sum(ttft > slow and 1 / interval > 80 for ttft, interval in drawn) == pytest.approx(5000, rel=0.05)


def test_of_recorded_samples_each_is_drawn_equally_often_and_its_two_numbers_stay_together() -> None:
    samples = tuple((0.1 * number, 10.0 * number) for number in range(1, 6))
    drawn = [pace(Empirical(samples=samples), Sequence("x", 0.0, 9, 9, seed=seed), load=7) for seed in range(5000)]
    counts = {
        sample: sum((ttft, 1 / interval) == pytest.approx(sample) for ttft, interval in drawn) for sample in samples
    }
    assert sum(counts.values()) == 5000
    assert all(count == pytest.approx(1000, rel=0.1) for count in counts.values())


def test_each_further_request_makes_the_next_one_slower_by_the_slope() -> None:
    """Those that run already keep their pace."""
    engine = replica(Fixed(ttft=0.5, rate=100, load_slope=0.1), ambient=2)
    for number in range(3):
        engine.add(Sequence(str(number), 0.0, 1, 201))
    ended = run(engine)
    assert [ended[str(number)].first for number in range(3)] == pytest.approx([0.6, 0.65, 0.7])
    assert [rate(ended[str(number)]) for number in range(3)] == pytest.approx([100 / 1.2, 100 / 1.3, 100 / 1.4])


def test_a_slowdown_slows_those_that_begin_in_it_and_only_those() -> None:
    conditions = Conditions(Ambient(), [Slowdown(start=1.0, end=2.0, factor=3.0)])
    engine = Recorded(EXACT, Limits(8), conditions)
    for arrival in (0.9, 1.0, 2.0):
        engine.add(Sequence(str(arrival), arrival, 1, 101))
    ended = run(engine)
    assert [ending.first for ending in ended.values()] == pytest.approx([0.9 + 0.5, 2.0 + 0.5, 1.0 + 1.5])
    assert [rate(ended[arrival]) for arrival in ("0.9", "1.0", "2.0")] == pytest.approx([100, 100 / 3, 100])


def test_a_resumed_sequence_goes_on_at_its_rate_after_the_time_to_its_first_token() -> None:
    engine = replica(Fixed(ttft=0.5, rate=100, ttft_per_token=0.001))
    engine.add(Sequence("x", 0.0, 100, 50, generated=40))
    (progress,) = engine.advance(0.645)
    ending = run(engine)["x"]
    assert (progress.tokens, ending.tokens) == (41, 50)
    assert progress.first == ending.first == pytest.approx(0.64)
    assert ending.last == pytest.approx(0.73)


def test_equal_seeds_are_equal_requests_and_a_second_run_is_the_first_again() -> None:
    def ends() -> list[Ending]:
        engine = replica(SPREAD, slots=3)
        for number in range(40):
            engine.add(Sequence(str(number), number * 0.1, 100, 50, seed=number // 2, band=number % 3))
        return list(run(engine).values())

    assert ends() == ends()
    alone = [replica(SPREAD, start=start) for start in (0.0, 64.0)]
    for engine in alone:
        engine.add(Sequence("x", 64.0, 100, 50, seed=7))
    assert run(alone[0]) == run(alone[1])


def test_a_token_costs_nothing() -> None:
    engine = replica(Fixed(ttft=0.5, rate=1e9))
    engine.add(Sequence("x", 0.0, 1, 10**15))
    engine.advance(3.0)
    assert engine.next_event() == pytest.approx(0.5 + 1e6)
    assert run(engine)["x"].tokens == 10**15


# ---- who goes first


@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(1, 60), st.integers(0, 2**40)), min_size=1, max_size=40),
    st.integers(1, 5),
    st.sampled_from([0.0, 12_345.678]),
)
def test_with_one_band_it_is_a_queue_in_front_of_so_many_servers(
    requests: list[tuple[float, int, int]], slots: int, start: float
) -> None:
    """Kiefer and Wolfowitz's recursion, with the times that requests take drawn as the engine draws them."""
    timing = Fixed(ttft=0.3, ttft_sigma=0.4, rate=80.0, rate_sigma=0.2)
    engine = replica(timing, slots, start=start)
    free = [0.0] * slots
    arrival, expected = 0.0, {}
    for number, (gap, output, seed) in enumerate(requests):
        arrival += gap
        sequence = Sequence(str(number), start + arrival, 10, output, seed=seed)
        engine.add(sequence)
        ttft, interval = pace(timing, sequence, 1)
        first = max(arrival, free[0]) + ttft
        heapreplace(free, first + (output - 1) * interval)
        expected[str(number)] = pytest.approx((start + first, start + first + (output - 1) * interval))
    assert {ending.id: (ending.first, ending.last) for ending in run(engine).values()} == expected


def test_a_better_band_goes_first_and_waiting_makes_up_for_a_worse_one() -> None:
    engine = replica(slots=1, aging=10.0)
    engine.add(Sequence("runs", 0.0, 1, 10_001))  # for 100.5 s
    for name, arrival, band in (("old", 1.0, 2), ("normal", 12.0, 1), ("first", 15.0, 0), ("late", 22.0, 0)):
        engine.add(Sequence(name, arrival, 1, 2, band=band))
    assert list(run(engine)) == ["runs", "first", "old", "normal", "late"]


def test_who_has_no_token_yet_makes_way_for_a_better_band_and_begins_anew_with_the_same_draws() -> None:
    engine = replica(SPREAD, slots=2)
    engine.add(Sequence("streams", 0.0, 1, 5000, seed=1, band=2))
    engine.advance(2.0)
    engine.add(Sequence("silent", 2.0, 1, 50, seed=2, band=1))
    engine.advance(2.0)
    assert (engine.yielding(0), engine.yielding(1)) == (1, 0)
    engine.add(Sequence("urgent", 2.01, 1, 50, seed=3, band=0))
    engine.advance(2.01)
    engine.check_conservation()
    assert (engine.snapshot().running, engine.snapshot().waiting, engine.snapshot().preemptions) == (2, 1, 1)
    ended = run(engine)
    assert list(ended) == ["urgent", "silent", "streams"]
    ttft, _ = pace(SPREAD, Sequence("silent", 2.0, 1, 50, seed=2), load=2)
    assert ended["silent"].first == pytest.approx(ended["urgent"].last + ttft)


@pytest.mark.parametrize(
    ("band", "arrival"), [(1, 0.1), (2, 0.1), (0, 0.5)], ids=["equal band", "worse band", "after the first token"]
)
def test_nobody_else_makes_way(band: int, arrival: float) -> None:
    engine = replica(slots=1)
    engine.add(Sequence("silent", 0.0, 1, 50))
    engine.add(Sequence("comes", arrival, 1, 50, band=band))
    assert list(run(engine)) == ["silent", "comes"]
    assert engine.snapshot().preemptions == 0


def test_who_came_long_enough_before_does_not_make_way() -> None:
    engine = replica(Fixed(ttft=30.0, rate=100.0), slots=1, aging=10.0)
    engine.add(Sequence("silent", 0.0, 1, 2))
    engine.add(Sequence("urgent", 10.5, 1, 2, band=0))
    assert list(run(engine)) == ["silent", "urgent"]


def test_when_slots_become_fewer_nobody_leaves_until_enough_have_ended() -> None:
    conditions = Conditions(Ambient(sequences=1, context=1, profile=(1.0, 3.0), period=2.0))
    engine = Recorded(EXACT, Limits(4), conditions)  # 3 slots in even seconds, 1 in odd ones
    for number in range(3):
        engine.add(Sequence(str(number), 0.0, 1, 101 + number))
    engine.add(Sequence("next", 1.1, 1, 2, band=0))
    engine.advance(1.4)
    assert (engine.snapshot().running, engine.snapshot().waiting) == (3, 1)
    ended = run(engine)
    assert ended["next"].first == pytest.approx(1.52 + 0.5), "when the last of the three has ended"
    assert engine.snapshot().preemptions == 0


def test_who_waits_begins_when_slots_come_back() -> None:
    conditions = Conditions(Ambient(sequences=1, context=1, profile=(3.0, 1.0), period=2.0))
    engine = Recorded(EXACT, Limits(4), conditions)
    for number in range(2):
        engine.add(Sequence(str(number), 0.0, 1, 1001))
    assert [ending.first for ending in run(engine).values()] == pytest.approx([0.5, 1.5])


def test_an_ambient_load_that_leaves_no_slot_is_refused() -> None:
    with pytest.raises(ValueError, match="leave no slot"):
        replica(slots=2, ambient=1.5)


# ---- leaving


@pytest.mark.parametrize("where", ["coming", "waiting", "silent", "streaming"])
def test_a_cancelled_sequence_leaves_no_trace_wherever_it_is(where: str) -> None:
    engine = replica(slots=1)
    if where == "waiting":
        engine.add(Sequence("before", 0.0, 1, 1001))
    engine.add(Sequence("x", {"coming": 9.0, "silent": 0.9}.get(where, 0.0), 1, 1001))
    engine.advance(1.0)
    engine.cancel("x")
    engine.check_conservation()
    after = engine.snapshot()
    assert (after.running, after.waiting) == (int(where == "waiting"), 0)
    assert "x" not in run(engine)
    engine.cancel("x")


def test_the_slot_of_a_cancelled_sequence_serves_the_next_at_once() -> None:
    engine = replica(slots=1)
    engine.add(Sequence("x", 0.0, 1, 1001))
    engine.add(Sequence("next", 0.1, 1, 3))
    engine.advance(2.0)
    engine.cancel("x")
    assert engine.next_event() == 2.0
    assert run(engine)["next"].first == pytest.approx(2.5)


def test_an_id_is_taken_until_its_sequence_has_ended() -> None:
    engine = replica()
    engine.add(Sequence("x", 0.0, 1, 1))
    with pytest.raises(ValueError, match="already here"):
        engine.add(Sequence("x", 0.0, 1, 1))
    run(engine)
    engine.add(Sequence("x", 0.0, 1, 1))


def test_a_lost_replica_hands_out_its_sequences_with_what_they_had() -> None:
    engine = replica(slots=2, start=100.0)
    for number in range(3):
        engine.add(Sequence(str(number), 100.0 + number, 1, 1001))
    engine.add(Sequence("coming", 300.0, 1, 1001))
    engine.advance(102.0)
    assert engine.gained("0") == (100.5, 0)
    assert engine.gained("2") == (None, 0)
    lost = {sequence.id: (sequence.arrival, sequence.generated) for sequence in engine.evict()}
    assert lost == {"0": (100.0, 151), "1": (101.0, 51), "2": (102.0, 0), "coming": (300.0, 0)}
    engine.check_conservation()
    assert (engine.snapshot().running, engine.next_event(), engine.advance(999.0)) == (0, None, [])


def test_a_pool_with_recorded_timings_loses_nobody_in_an_outage() -> None:
    pool = Pool(
        name="measured",
        timing=SPREAD,
        replicas=2,
        limits=BatchLimits(max_batch=4, prefill_chunk=1),
        ambient=Ambient(),
        incidents=(Outage(start=1.0, end=3.0, replicas=1), Outage(start=4.0, end=5.0, replicas=2, cold_start=1.0)),
        prefix_cache=None,
        aging=10.0,
        frontend_median=0.0,
        frontend_sigma=0.0,
        queue_max=10,
        queue_wait_max=10.0,
        utilisation=1.0,
        dollars_per_hour=None,
    )
    replicas = Replicas(pool)
    for number in range(20):
        replicas.add(Sequence(str(number), number * 0.3, 100, 60, seed=number))
    ended = run(replicas)
    assert len(ended) == 20
    assert all(ending.tokens == 60 and ending.first <= ending.last for ending in ended.values())
    assert not any(4.0 < ending.last < 6.0 for ending in ended.values()), "no replica is up"


# ---- what a driver relies on


@pytest.mark.parametrize("start", [0.0, 12_345.678, 1e9])
def test_a_driver_that_wakes_when_told_to_never_wakes_for_nothing_while_nobody_comes(start: float) -> None:
    """Also on a clock so large that times cannot be told exactly."""
    engine = replica(SPREAD, start=start)
    for seed in range(5):
        engine.add(Sequence(str(seed), start, 10, 200, seed=seed))
    engine.advance(start)
    time, wakes = start, 0
    while (wake := engine.next_event(not_before=time)) is not None:
        assert wake >= time
        time = wake
        assert engine.advance(time), f"nothing to report at {time}"
        wakes += 1
    assert engine.snapshot().running == 0
    assert wakes > 200


def test_a_driver_that_can_wait_is_told_what_has_become_due_meanwhile() -> None:
    engine = replica()
    engine.add(Sequence("x", 0.0, 1, 1000))
    engine.advance(0.0)
    assert engine.next_event(not_before=0.2) == 0.5
    assert engine.next_event(not_before=0.5678) == 0.5678
    engine.advance(0.5678)
    assert engine.next_event(not_before=0.5678) == pytest.approx(0.57)


def test_an_idle_replica_has_no_next_event() -> None:
    engine = replica(start=100.0)
    assert engine.next_event() is None
    assert engine.next_event(not_before=200.0) is None


REQUESTS = st.lists(
    st.tuples(st.floats(0, 0.5), st.integers(1, 80), st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=30
)


@given(REQUESTS, st.lists(st.floats(0.001, 1), max_size=40), st.integers(2, 4), st.sampled_from([0.0, 1e9]))
def test_how_it_is_looked_at_changes_nothing(
    requests: list[tuple[float, int, int, int]], looks: list[float], slots: int, start: float
) -> None:
    """Tokens never go back, first tokens are told once; endings(), and a look at every event, give the same ends."""

    def engine() -> Recorded:
        ambient = Ambient(sequences=0.7, context=1, stay=0.5, most=1, seed=5)
        conditions = Conditions(ambient, [Slowdown(start=2.0, end=3.0, factor=2.5)])
        made, arrival = Recorded(SPREAD, Limits(slots, aging=1.0), conditions, start), start
        for number, (gap, output, band, seed) in enumerate(requests):
            arrival += gap
            made.add(Sequence(str(number), arrival, 100, output, seed=seed, band=band))
        return made

    looked_at, by_events = engine(), engine()
    time, tokens, firsts, ends = start, dict.fromkeys(map(str, range(len(requests))), 0), {}, {}
    for look in [*looks, 1e5]:
        time += look
        for progress in looked_at.advance(time):
            assert progress.tokens > tokens[progress.id], "a report without news"
            assert progress.time <= time
            tokens[progress.id] = progress.tokens
            if progress.first is not None:
                assert progress.id not in firsts
                firsts[progress.id] = progress.first
            if progress.finished:
                ends[progress.id] = Ending(progress.id, progress.tokens, firsts[progress.id], progress.time, 0)
        looked_at.check_conservation()
    assert list(tokens.values()) == [output for _, output, _, _ in requests]
    assert ends == run(by_events) == {ending.id: ending for ending in engine().endings(start + 1e6)}


@given(
    st.lists(st.tuples(st.sampled_from("adcx"), st.floats(0, 0.4), st.integers(0, 2)), max_size=60), st.integers(1, 3)
)
def test_whatever_happens_no_slot_and_no_sequence_is_lost(ops: list[tuple[str, float, int]], slots: int) -> None:
    engine, time, added, gone = replica(SPREAD, slots), 0.0, 0, set()
    for op, seconds, band in ops:
        if op == "a":
            engine.add(Sequence(str(added), time + seconds, 100, 30, seed=added, band=band))
            added += 1
        elif op == "d":
            time += seconds
            gone |= {progress.id for progress in engine.advance(time) if progress.finished}
        elif op == "c" and added:
            engine.cancel(str(added * band // 3))
            gone.add(str(added * band // 3))
        elif op == "x":
            time += seconds
            gone |= {ending.id for ending in engine.endings(time)}
        engine.check_conservation()
    assert gone | set(run(engine)) == {str(number) for number in range(added)}
