"""A pool's replicas: where sequences go, what an outage does, and that how they are looked at changes nothing."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.conditions import Ambient, Outage, Recurring, Slowdown
from service.pools import Pool, PrefixCache
from service.tiers import load
from workers.engine import Ending, Progress, Sequence
from workers.replicas import Replicas

FAST = load().pools["fast"]


def pool(replicas: int = 3, **changes: object) -> Pool:
    """Nobody else's requests, and no front end."""
    changed = {"ambient": Ambient(), "replicas": replicas, "incidents": (), "prefix_cache": None, **changes}
    return replace(FAST, **changed)  # type: ignore[arg-type]


def run(replicas: Replicas) -> dict[str, Ending]:
    ended: dict[str, Ending] = {}
    while (time := replicas.next_event()) is not None:
        for ending in replicas.endings(time):
            assert ending.id not in ended, "nobody ends twice"
            ended[ending.id] = ending
    return ended


def running(replicas: Replicas) -> list[int]:
    """Sequences on each replica, those that wait for the step in flight to end included."""
    return [snapshot.running + snapshot.waiting for snapshot in replicas.snapshots()]


def test_sequences_go_to_the_emptiest_replica() -> None:
    replicas = Replicas(pool())
    for number in range(7):
        replicas.add(Sequence(str(number), 0.0, 100, 100))
        replicas.advance(0.0)
    assert running(replicas) == [3, 2, 2]
    replicas.cancel("1")
    replicas.add(Sequence("next", 0.0, 100, 100))
    replicas.advance(0.1)
    assert running(replicas) == [3, 2, 2]


def test_a_prompt_goes_where_it_is_cached_unless_that_replica_is_much_fuller() -> None:
    replicas = Replicas(pool(prefix_cache=PrefixCache(block=100, minimum=0)))
    blocks = tuple(range(10))
    for number in range(2):
        replicas.add(Sequence(str(number), 0.0, 1050, 5000, blocks=blocks if number else ()))
        replicas.advance(0.1)
    replicas.add(Sequence("again", 0.2, 1050, 5000, blocks=blocks))
    replicas.advance(0.3)
    assert running(replicas) == [1, 2, 0], "the second has it"
    for number in range(6):
        replicas.add(Sequence(f"more {number}", 0.4, 1050, 5000, blocks=blocks))
        replicas.advance(0.5)
    held = running(replicas)
    assert max(held) - min(held) <= 1 + int(FAST.limits.max_batch / 8)
    assert held[1] == max(held)


def test_a_step_that_a_cancelled_sequence_leaves_in_flight_ends() -> None:
    """Or a driver that wakes when told to would never sleep again."""
    replicas = Replicas(pool(2))
    for name in ("x", "y"):
        replicas.add(Sequence(name, 0.0, 100, 1000))
    replicas.advance(1.0)
    for name in ("x", "y"):
        replicas.cancel(name)
    time = replicas.next_event()
    assert time is not None
    assert time > 1.0
    replicas.advance(time)
    assert replicas.next_event() is None
    assert replicas.next_event(not_before=2.0) is None


@pytest.mark.parametrize("cold_start", [0.0, 5.0])
def test_an_outage_moves_sequences_to_other_replicas_and_none_is_lost(cold_start: float) -> None:
    outage = Outage(start=1.0, end=2.0, replicas=2, cold_start=cold_start)
    calm, hit = Replicas(pool()), Replicas(pool(incidents=(outage,)))
    for replicas in (calm, hit):
        for number in range(9):
            replicas.add(Sequence(str(number), 0.0, 1000, 1000, seed=number))
    hit.endings(1.5)
    assert running(hit) == [0, 0, 9]
    assert hit.slots == calm.slots / 3
    moved, stayed = run(hit), run(calm)
    assert {name: ending.tokens for name, ending in moved.items()} == dict.fromkeys(stayed, 1000)
    for name, ending in moved.items():
        assert ending.first == stayed[name].first, "the first token was out before the outage"
        assert ending.last > stayed[name].last, "contexts were computed again, in a fuller batch"


def test_a_replica_that_is_cold_takes_nobody() -> None:
    replicas = Replicas(pool(incidents=(Outage(start=1.0, end=2.0, replicas=1, cold_start=5.0),)))
    for time, down in ((0.5, False), (1.5, True), (6.5, True), (7.5, False)):
        replicas.endings(time)
        replicas.add(Sequence(str(time), time, 10, 100_000))
        replicas.endings(time)
        assert (running(replicas)[0] == 0) == down, time
        replicas.cancel(str(time))


def test_while_no_replica_is_up_all_wait() -> None:
    replicas = Replicas(pool(2, incidents=(Outage(start=1.0, end=3.0, replicas=2),)))
    replicas.add(Sequence("before", 0.9, 10, 1000))
    replicas.endings(2.0)
    replicas.add(Sequence("meanwhile", 2.0, 10, 10))
    replicas.add(Sequence("gone", 2.0, 10, 10))
    replicas.cancel("gone")
    assert replicas.slots == 0
    assert replicas.next_event() == 3.0
    ended = run(replicas)
    assert set(ended) == {"before", "meanwhile"}
    assert ended["meanwhile"].first > 3.0


def test_replicas_come_back_although_nobody_waits_for_it() -> None:
    replicas = Replicas(pool(1, incidents=(Outage(start=1.0, end=2.0, replicas=1),)))
    assert replicas.next_event() is None, "a pool at rest has nothing to look at"
    replicas.add(Sequence("gone before it is over", 0.9, 1000, 1000))
    replicas.advance(1.5)
    replicas.cancel("gone before it is over")
    assert replicas.slots == 0
    assert replicas.next_event() == 2.0
    replicas.advance(2.0)
    assert replicas.slots > 0


def test_what_was_cached_is_lost_with_the_replica() -> None:
    outage = Outage(start=10.0, end=11.0, replicas=1)
    replicas = Replicas(pool(1, prefix_cache=PrefixCache(block=100, minimum=0), incidents=(outage,)))
    blocks = tuple(range(10))
    cached = []
    for time in (0.0, 5.0, 12.0):
        replicas.add(Sequence(str(time), time, 1050, 10, blocks=blocks))
        cached += [ending.cached for ending in replicas.endings(time + 3)]
    assert cached == [0, 1000, 0]


def test_a_slowdown_takes_the_same_tokens_longer_while_it_lasts() -> None:
    ends = []
    for incidents in ((), (Slowdown(start=1.0, end=2.0, factor=2.0),)):
        replicas = Replicas(pool(1, incidents=incidents))
        replicas.add(Sequence("x", 0.0, 10, 1000))
        ends.append(run(replicas)["x"].last)
    assert ends[1] - ends[0] == pytest.approx(0.5, abs=0.02), "half of what the second would have yielded comes later"


def test_replicas_have_different_strangers() -> None:
    ambient = Ambient(sequences=10, context=100, stay=5.0, most=25, seed=1)
    replicas = Replicas(pool(2, ambient=ambient))
    for number in range(2):
        replicas.add(Sequence(str(number), 0.0, 10, 3000, seed=1))
    ended = run(replicas)
    assert ended["0"].last != ended["1"].last


loads = st.lists(
    st.tuples(st.floats(0, 2), st.integers(1, 3000), st.integers(1, 300), st.integers(0, 2)), min_size=1, max_size=25
)
outages = st.lists(
    st.builds(
        lambda start, lasting, replicas, cold: Outage(
            start=start, end=start + lasting, replicas=replicas, cold_start=cold
        ),
        st.floats(0, 5),
        st.floats(0.01, 3),
        st.integers(1, 3),
        st.floats(0, 1),
    ),
    max_size=3,
)


@given(loads, outages, st.lists(st.floats(0.01, 2), max_size=20))
@settings(deadline=None, max_examples=60)
def test_however_replicas_are_looked_at_the_same_comes_of_it(
    load: list[tuple[float, int, int, int]], incidents: list[Outage], looks: list[float]
) -> None:
    """By endings from event to event, or by reports at any times; and every sequence ends once with all its tokens."""
    recurring = Recurring(example=Outage(start=0, end=0, replicas=1), every=2.0, lasting=0.5, seed=3)
    made = pool(3, incidents=(*incidents, recurring), prefix_cache=PrefixCache(block=64, minimum=128))
    looked_at, left_alone = Replicas(made), Replicas(made)
    time = 0.0
    sequences = []
    for number, (wait, prompt, output, family) in enumerate(load):
        time += wait
        blocks = tuple(1000 * family + block for block in range(prompt // 64))
        sequences.append(Sequence(str(number), time, prompt, output, seed=number, blocks=blocks))
    ended: dict[str, Ending] = {}
    seen: dict[str, list[Progress]] = {sequence.id: [] for sequence in sequences}

    def look(until: float) -> None:
        for report in looked_at.advance(until):
            seen[report.id].append(report)

    now = 0.0
    for sequence in sequences:
        for wait in looks:
            if now + wait < sequence.arrival:
                now += wait
                look(now)
        look(sequence.arrival)
        looked_at.add(sequence)
        now = max(now, sequence.arrival)
        ended |= {ending.id: ending for ending in left_alone.endings(sequence.arrival)}
        left_alone.add(sequence)
    ended |= run(left_alone)
    while (event := looked_at.next_event()) is not None:
        look(event)

    assert set(ended) == {sequence.id for sequence in sequences}
    for sequence in sequences:
        reports, ending = seen[sequence.id], ended[sequence.id]
        assert [report.finished for report in reports] == [False] * (len(reports) - 1) + [True]
        firsts = [report.first for report in reports if report.first is not None]
        assert firsts == [reports[0].first], "the first token is told once, at once"
        assert reports[-1].tokens == ending.tokens == sequence.output
        assert firsts[0] == pytest.approx(ending.first, abs=1e-9)
        assert reports[-1].time == pytest.approx(ending.last, abs=1e-9)
        assert reports[-1].cached == ending.cached
