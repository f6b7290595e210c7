"""What holds of a replica whatever its workload, and what a user of it sees."""

from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf, prod
from random import Random
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.conditions import Ambient, Slowdown
from service.pricing import floor_speed, premium
from service.roofline import Deployment, Speculation, StepTime, fold
from service.tiers import load
from workers.engine import Conditions, Ending, Engine, Limits, NeverFits, Progress, Sequence

CATALOG = load()
PLAIN = StepTime(c0=0.01, cm=1e-5, cp=1e-5, ck=1e-8, cs=2e-5, ca=1e-10)
DRAFTING = Speculation(3, 0.84, 0.93)


def folded(accelerator: str, model: str, deployment: Deployment) -> StepTime:
    return fold(CATALOG.accelerators[accelerator], CATALOG.architectures[model], deployment)


def drafting(step: StepTime, speculation: Speculation = DRAFTING) -> StepTime:
    return replace(step, drafts=speculation.drafts, emitted=speculation.emitted, emission=speculation.emission)


def ambient(sequences: float, context: float = 0.0) -> Conditions:
    return Conditions(Ambient(sequences=sequences, context=context))


def run(engine: Engine) -> dict[str, Progress]:
    """The end of every sequence, with the time of its first token."""
    first: dict[str, float | None] = {}
    ends: dict[str, Progress] = {}
    while (time := engine.next_event()) is not None:
        for progress in engine.advance(time):
            first.setdefault(progress.id, progress.first)
            if progress.finished:
                ends[progress.id] = progress._replace(first=first[progress.id])
    return ends


def rate(end: Progress) -> float:
    """Tokens per second as a client measures it: after the first token."""
    assert end.first is not None
    return (end.tokens - 1) / (end.time - end.first)


def batch(step: StepTime, size: int, prompt: int = 1500, output: int = 400) -> float:
    """Mean speed of `size` equal sequences that decode together."""
    engine = Engine(step, Limits(max_batch=size, prefill_chunk=10**7))
    for seed in range(size):
        engine.add(Sequence(str(seed), 0.0, prompt, output, seed=seed))
    return sum(rate(end) for end in run(engine).values()) / size


# ---- speed


@given(st.floats(0, 60), st.floats(0, 60), st.floats(0, 5_000), st.floats(0, 5_000), st.integers(0, 3))
@settings(deadline=None, max_examples=50)
def test_more_ambient_load_is_never_faster(few: float, more: float, short: float, long: float, drafts: int) -> None:
    step = drafting(PLAIN, Speculation(drafts, 0.84, 0.93))
    ends = []
    for n, context in ((min(few, more), min(short, long)), (max(few, more), max(short, long))):
        engine = Engine(step, Limits(max_batch=64), ambient(n, context))
        engine.add(Sequence("lone", 0.0, 700, 300, seed=1))
        ends.append(run(engine)["lone"])
    assert ends[0].time <= ends[1].time + 1e-9


def lone(ambient: Ambient, slowdowns: tuple[Slowdown, ...] = ()) -> Progress:
    engine = Engine(drafting(PLAIN), Limits(max_batch=64, prefill_chunk=200), Conditions(ambient, slowdowns))
    engine.add(Sequence("lone", 0.0, 700, 300, seed=1))
    return run(engine)["lone"]


@given(
    st.floats(0, 20),
    st.lists(st.floats(0, 3), min_size=1, max_size=6),
    st.floats(0.01, 5),
    st.none() | st.floats(0.05, 5),
    st.integers(0, 2**32),
)
@settings(deadline=None, max_examples=50)
def test_a_load_that_changes_slows_as_much_as_its_least_and_no_more_than_its_most(
    sequences: float, profile: list[float], period: float, stay: float | None, seed: int
) -> None:
    """Of two profiles, the one that is higher throughout may be the faster: its steps begin at other times."""
    changing = Ambient(
        sequences=sequences, context=3000, profile=tuple(profile), period=period, stay=stay, most=60, seed=seed
    )
    least = 0.0 if stay else min(60, sequences * min(profile))
    most = 60.0 if stay else min(60, sequences * max(profile))
    ends = [lone(Ambient(sequences=least, context=3000)), lone(changing), lone(Ambient(sequences=most, context=3000))]
    assert ends[0].time <= ends[1].time + 1e-9 <= ends[2].time + 2e-9


@given(
    st.lists(st.tuples(st.floats(0, 5), st.floats(0, 2), st.floats(1, 4)), max_size=4),
)
@settings(deadline=None, max_examples=40)
def test_a_slowdown_lengthens_steps_by_its_factor_at_most(windows: list[tuple[float, float, float]]) -> None:
    slowdowns = tuple(Slowdown(start=start, end=start + lasting, factor=factor) for start, lasting, factor in windows)
    undisturbed, slowed = lone(Ambient()), lone(Ambient(), slowdowns)
    assert undisturbed.time <= slowed.time + 1e-9
    assert slowed.time <= undisturbed.time * prod(window.factor for window in slowdowns) + 1e-9


def test_an_ambient_load_that_is_drawn_keeps_to_its_mean_in_each_part_of_the_day() -> None:
    """Also after a part with next to nobody, in which the time to the next birth is longer than the part."""
    profile = (1.0, 0.001, 2.0, 0.5)
    conditions = Conditions(Ambient(sequences=10, stay=5, most=100, seed=3, profile=profile, period=1200))
    seen: list[list[float]] = [[] for _ in profile]
    for second in range(60 * 1200):
        count = conditions.at(float(second)).sequences
        if second % 300 >= 50:  # ten times as long as one stays
            seen[second // 300 % 4].append(count)
    for factor, counts in zip(profile, seen, strict=True):
        assert mean(counts) == pytest.approx(10 * factor, rel=0.1, abs=0.05)


def test_beside_seven_others_a_lone_request_has_the_speed_of_a_batch_of_eight() -> None:
    """163.5 tok/s is what this deployment is published to give eight sequences of 2,250 tokens."""
    step = folded(
        "gb200", "flagship-1.2t-a60b", Deployment(tensor_parallel=8, expert_bytes=0.5625, speculation=DRAFTING)
    )
    engine = Engine(step, Limits(max_batch=8), ambient(7, 2250))
    engine.add(Sequence("lone", 0.0, 1750, 1000, seed=1))
    assert rate(run(engine)["lone"]) == pytest.approx(163.5, rel=0.01)


def test_speculation_helps_a_mixture_of_experts_least_at_batch_8_to_16_and_more_again_at_64() -> None:
    """Draft tokens wake experts that a small batch leaves alone; a large one has woken them already."""
    layout = Deployment(tensor_parallel=8)
    plain, drafted = (
        folded("b200", "deepseek-v3", replace(layout, speculation=spec)) for spec in (Speculation(0, 0, 1), DRAFTING)
    )
    gain = {size: batch(drafted, size) / batch(plain, size) for size in (1, 4, 8, 16, 64, 256)}
    dip = min(gain[8], gain[16])
    assert gain[1] > gain[4] > dip < gain[64]
    assert gain[64] > gain[256]


def test_a_wafer_serves_as_many_as_it_has_stages_at_full_speed_and_then_shares() -> None:
    wafer = StepTime(c0=0.001, cp=1e-9, stages=10)
    alone = batch(wafer, 1)
    assert batch(wafer, 10) == pytest.approx(alone)
    assert batch(wafer, 20) == pytest.approx(alone / 2)


@pytest.mark.parametrize("drafts", [1, 2, 3])
def test_short_streams_have_the_rate_of_long_ones(drafts: int) -> None:
    """The rate of 300 tokens is the mean, within the step that their last burst may need more or less."""
    speculation = Speculation(drafts, 0.84, 0.93)
    step = drafting(StepTime(c0=0.01), speculation)
    rates = []
    for seed in range(200):
        engine = Engine(step, Limits(max_batch=1))
        engine.add(Sequence("x", 0.0, 1, 300, seed=seed))
        rates.append(rate(run(engine)["x"]) / (speculation.emitted / 0.01))
    assert abs(sum(rates) / len(rates) - 1) < 0.005
    assert max(abs(ratio - 1) for ratio in rates) < 0.02


def test_the_first_token_comes_from_the_step_that_completes_the_prompt() -> None:
    engine = Engine(PLAIN, Limits(max_batch=4, prefill_chunk=1000))
    engine.add(Sequence("x", 2.0, 2500, 5))
    steps = [PLAIN.seconds(0, 0, p, A) for p, A in ((1000, 500_000), (1000, 1_500_000), (500, 1_125_000))]
    first = run(engine)["x"].first
    assert first == pytest.approx(2.0 + sum(steps), abs=1e-9)


def test_decoding_goes_on_in_the_steps_that_compute_a_prompt() -> None:
    engine = Engine(PLAIN, Limits(max_batch=4, prefill_chunk=100))
    engine.add(Sequence("old", 0.0, 10, 500))
    engine.add(Sequence("new", 1.0, 1000, 5))
    engine.advance(1.0)
    before = engine.snapshot().steps
    tokens: dict[str, int] = {}
    while "new" not in tokens:
        time = engine.next_event()
        assert time is not None
        tokens |= {progress.id: progress.tokens for progress in engine.advance(time)}
    assert engine.snapshot().steps - before >= 10
    assert tokens["old"] == engine.snapshot().steps


def test_a_resumed_sequence_generates_what_is_left() -> None:
    engine = Engine(PLAIN, Limits(max_batch=1))
    engine.add(Sequence("x", 0.0, 100, 50, generated=48))
    reports = [progress for time in (engine.next_event(),) if time is not None for progress in engine.advance(time)]
    assert reports == []
    assert [(p.tokens, p.finished) for p in engine.advance(PLAIN.seconds(0, 0, 148, 148**2 / 2) + 1e-9)] == [
        (49, False)
    ]
    end = run(engine)["x"]
    assert (end.tokens, engine.snapshot().steps) == (50, 2)


# ---- order: a band moves TTFT, and nothing else

CROWDED = folded(
    "gb200", "flagship-1.2t-a60b", Deployment(tensor_parallel=8, expert_bytes=0.5625, speculation=DRAFTING)
)


def crowd(better: float, aging: float = 60.0) -> tuple[dict[str, Progress], dict[str, Sequence]]:
    """A replica that has more to do than slots for a while; a share `better` of the requests is of band 0."""
    random = Random(5)
    engine = Engine(CROWDED, Limits(max_batch=24, prefill_chunk=4096, aging=aging))
    sequences: dict[str, Sequence] = {}
    time = 0.0
    for number in range(300):
        time += random.expovariate(9.0)
        band = 0 if random.random() < better else 1
        sequences[str(number)] = Sequence(str(number), time, random.randint(500, 6000), 300, seed=number, band=band)
    for sequence in sequences.values():
        engine.add(sequence)
    return run(engine), sequences


def test_a_better_band_moves_the_first_token_and_not_the_speed() -> None:
    """The bus pass: a tenth of the requests waits a fraction as long, and every stream is as fast as before."""
    plain, sequences = crowd(0.0)
    passed, with_bands = crowd(0.1)
    better = [name for name, sequence in with_bands.items() if sequence.band == 0]
    others = [name for name in sequences if name not in better]

    def ttft(ends: dict[str, Progress], names: list[str]) -> float:
        return mean(end.first - sequences[name].arrival for name in names if (end := ends[name]).first is not None)

    def tpot(ends: dict[str, Progress], names: list[str]) -> float:
        return mean(1 / rate(ends[name]) for name in names)

    assert len(better) > 20
    assert ttft(passed, better) < ttft(plain, better) / 4
    assert ttft(passed, others) < 1.3 * ttft(plain, others), "the others pay, among nine times as many"
    assert tpot(passed, better) == pytest.approx(tpot(plain, better), rel=0.05)
    assert tpot(passed, others) == pytest.approx(tpot(plain, others), rel=0.02)


def test_nobody_waits_for_ever() -> None:
    """Against a stream of better ones that leaves no slot, one of the last band is served once it has aged."""
    engine = Engine(PLAIN, Limits(max_batch=1, aging=5.0))
    engine.add(Sequence("patient", 0.0, 10, 10, band=2))
    for number in range(400):
        engine.add(Sequence(str(number), number * 0.1, 10, 20, band=0))
    ends = run(engine)
    first = ends["patient"].first
    assert first is not None
    assert 5.0 < first < 25.0
    overtaken = sum(end.time < first for name, end in ends.items() if name != "patient")
    assert overtaken > 20


@given(
    st.lists(
        st.tuples(st.integers(0, 1000), st.integers(1, 800), st.integers(1, 40), st.integers(0, 2)),
        min_size=2,
        max_size=15,
    ),
    st.sampled_from([0.0, 0.1, 10.0]),
    st.integers(1, 2),
)
@settings(deadline=None, max_examples=60)
def test_a_request_has_its_first_token_no_later_for_being_of_the_best_band(
    load: list[tuple[int, int, int, int]], aging: float, worse: int
) -> None:
    """In a single slot. In several it may: room made for it can let in another, whose prompt lengthens its steps."""
    firsts = []
    for band in (0, worse):
        engine = Engine(PLAIN, Limits(max_batch=1, prefill_chunk=50, aging=aging))
        for number, (arrival, prompt, output, other) in enumerate(load):
            engine.add(Sequence(str(number), arrival / 1000, prompt, output, band=other if number else band))
        firsts.append(run(engine)["0"].first)
    assert firsts[0] is not None
    assert firsts[1] is not None
    assert firsts[0] <= firsts[1] + 1e-9


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 400), st.integers(1, 60)), min_size=1, max_size=20))
@settings(deadline=None, max_examples=40)
def test_bands_make_no_difference_where_all_are_alike(load: list[tuple[int, int, int]]) -> None:
    ends = []
    for band in (0, 2):
        engine = Engine(replace(PLAIN, kv_capacity=1500), Limits(4, prefill_chunk=64))
        for number, (arrival, prompt, output) in enumerate(load):
            engine.add(Sequence(str(number), arrival / 1000, prompt, output, band=band))
        ends.append({name: (end.first, end.time) for name, end in run(engine).items()})
    assert ends[0] == ends[1]


# ---- prompts that were computed before


@given(st.integers(2, 4000), st.integers(1, 64), st.integers(0, 500), st.integers(0, 70))
@settings(deadline=None, max_examples=60)
def test_a_repeated_prompt_is_cached_but_for_its_last_token_and_has_its_first_token_sooner(
    prompt: int, block: int, minimum: int, shared: int
) -> None:
    """An exact repeat, then a prompt that shares a beginning: each finds the whole blocks that it can use."""
    engine = Engine(PLAIN, Limits(4, prefill_chunk=10**6, block=block, cached_min=minimum))
    blocks = tuple(range(prompt // block))
    alike = min(shared, len(blocks))
    other = blocks[:alike] + tuple(-1 - place for place in range(len(blocks) - alike))
    ends: dict[str, Progress] = {}
    for number, asked in enumerate((blocks, blocks, other)):
        engine.add(Sequence(str(number), 100.0 * number, prompt, 2, blocks=asked))
        ends |= run(engine)
    first, repeat, part = (ends[str(number)] for number in range(3))

    def whole(tokens: int) -> int:
        return tokens if tokens >= minimum else 0

    assert first.cached == 0
    assert repeat.cached == whole((prompt - 1) // block * block)
    assert part.cached == whole(min(alike, (prompt - 1) // block) * block)
    waits = [end.first - 100.0 * number for number, end in enumerate((first, repeat, part)) if end.first is not None]
    saved = [waits[0] - wait for wait in waits]
    for end, gain in zip((repeat, part), saved[1:], strict=True):
        assert gain == pytest.approx(PLAIN.cp * end.cached + PLAIN.ca * end.cached**2 / 2, abs=1e-9)


@given(st.integers(1, 3000), st.integers(0, 3000), st.sampled_from([1, 16, 128]), st.sampled_from([30, 256, 8192]))
@settings(deadline=None, max_examples=60)
def test_what_is_found_in_the_cache_never_delays_a_lone_request(
    prompt: int, cached: int, block: int, chunk: int
) -> None:
    """However the chunks of what is left fall."""
    engine = Engine(PLAIN, Limits(4, prefill_chunk=chunk, block=block))
    alone = Engine(PLAIN, Limits(4, prefill_chunk=chunk, block=block))
    blocks = tuple(range(prompt // block))
    engine.add(Sequence("before", 0.0, max(1, cached), 1, blocks=blocks[: cached // block]))
    run(engine)
    for replica in (engine, alone):
        replica.add(Sequence("x", 1000.0, prompt, 5, blocks=blocks))
    hit, miss = run(engine)["x"], run(alone)["x"]
    assert hit.first is not None
    assert miss.first is not None
    assert hit.first <= miss.first + 1e-9
    assert hit.time <= miss.time + 1e-9


def test_prompts_that_are_shared_take_their_room_once() -> None:
    """Fifty sequences over one long prompt run at once in a cache that could not hold three of them apart."""
    blocks = tuple(range(100))
    engine = Engine(replace(PLAIN, kv_capacity=4500), Limits(64, prefill_chunk=10**5, block=16))
    engine.add(Sequence("first", 0.0, 1605, 400, blocks=blocks))
    for number in range(50):
        engine.add(Sequence(str(number), 1.0, 1605, 10, blocks=blocks))
    engine.advance(1.05)
    assert engine.snapshot().running == 51
    engine.check_conservation()


def test_what_was_not_used_for_longest_makes_room_first() -> None:
    """Three prompts fit; the fourth drives out the one that was not asked for again."""
    engine = Engine(replace(PLAIN, kv_capacity=340), Limits(4, block=10))
    prompts = {name: tuple(100 * place + block for block in range(10)) for place, name in enumerate("abcd")}
    cached: dict[str, int] = {}
    for time, name in enumerate("abcadabc"):
        engine.add(Sequence(f"{name}{time}", 10.0 * time, 101, 2, blocks=prompts[name]))
        cached |= {end: progress.cached for end, progress in run(engine).items()}
    assert [cached[f"{name}{time}"] for time, name in enumerate("abcad")] == [0, 0, 0, 100, 0]
    assert cached["a5"] == 100, "it was asked for last"
    assert cached["b6"] == 30, "its last blocks made room first"


# ---- speed against price


@given(st.floats(0.5e-3, 0.1), st.floats(1e-4, 0.2), st.integers(1, 8), st.integers(2, 20))
@settings(deadline=None, max_examples=40)
def test_the_premium_of_a_faster_tier_is_what_its_chip_time_costs(a: float, beta: float, fast: int, more: int) -> None:
    """On one deployment with t(B) = a(1 + beta B): R = 1 + (1 - 1/g)/x2, floor s_fast(1 + x2), B_std/B_fast = gR."""
    step = StepTime(c0=a, cs=a * beta)
    slow = fast * more
    speeds = [batch(step, size, prompt=1, output=50) for size in (fast, slow)]
    chip_time = [1 / (size * speed) for size, speed in zip((fast, slow), speeds, strict=True)]  # for each token
    g, x2 = speeds[0] / speeds[1], beta * fast
    R = chip_time[0] / chip_time[1]
    assert premium(g, x2) == pytest.approx(R, rel=1e-6)
    assert floor_speed(speeds[0], x2) == pytest.approx(1 / a, rel=1e-6)
    assert slow / fast == pytest.approx(g * R, rel=1e-6)


# ---- room and slots


@pytest.mark.parametrize("where", ["future", "waiting", "computing", "decoding"])
def test_a_cancelled_sequence_leaves_no_trace_wherever_it_is(where: str) -> None:
    engine = Engine(PLAIN, Limits(max_batch=1, prefill_chunk=10))
    arrival, prompt = {"future": (9.0, 5), "waiting": (0.1, 5), "computing": (0.0, 500), "decoding": (0.0, 5)}[where]
    if where == "waiting":
        engine.add(Sequence("before", 0.0, 5, 1000))
    engine.add(Sequence("x", arrival, prompt, 1000))
    engine.advance(0.2)
    before = engine.snapshot()
    assert (before.running, before.waiting) == {"future": (0, 0), "waiting": (1, 1)}.get(where, (1, 0))
    engine.cancel("x")
    engine.check_conservation()
    after = engine.snapshot()
    assert (after.running, after.waiting) == ((1, 0) if where == "waiting" else (0, 0))
    assert after.kv_held == (before.kv_held if where == "waiting" else 0)
    assert "x" not in run(engine)


def test_the_slot_of_a_cancelled_sequence_serves_the_next_from_the_next_step_on() -> None:
    engine = Engine(PLAIN, Limits(max_batch=1))
    engine.add(Sequence("x", 0.0, 10, 10_000))
    engine.add(Sequence("next", 0.1, 10, 3))
    engine.advance(1.0)
    boundary = engine.next_event(not_before=1.0)
    engine.cancel("x")
    assert boundary is not None
    assert engine.next_event() == pytest.approx(boundary)
    first = run(engine)["next"].first
    assert first == pytest.approx(boundary + PLAIN.seconds(0, 0, 10, 50))


def test_a_sequence_that_could_never_fit_is_refused() -> None:
    engine = Engine(replace(PLAIN, kv_capacity=1000), Limits(4), ambient(1, 500))
    engine.add(Sequence("fits", 0.0, 400, 100))
    with pytest.raises(NeverFits, match="too long needs 501 tokens"):
        engine.add(Sequence("too long", 0.0, 400, 101))
    assert list(run(engine)) == ["fits"]


def test_an_id_is_taken_until_its_sequence_has_ended() -> None:
    engine = Engine(PLAIN, Limits(4))
    engine.add(Sequence("x", 0.0, 1, 1))
    with pytest.raises(ValueError, match="already here"):
        engine.add(Sequence("x", 0.0, 1, 1))
    run(engine)
    engine.add(Sequence("x", 0.0, 1, 1))


def test_cancelling_an_id_that_is_not_here_is_ignored() -> None:
    Engine(PLAIN, Limits(4)).cancel("x")


@pytest.mark.parametrize(("max_batch", "strangers"), [(0, 0), (4, 3.5)])
def test_a_batch_without_a_slot_of_its_own_is_refused(max_batch: int, strangers: float) -> None:
    with pytest.raises(ValueError, match="leave no slot"):
        Engine(PLAIN, Limits(max_batch), ambient(strangers))


@pytest.mark.parametrize("limits", [{"prefill_chunk": 0}, {"block": -1}, {"aging": inf}, {"aging": -1}])
def test_limits_that_cannot_be_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"prefill_chunk|negative"):
        Limits(4, **limits)  # type: ignore[arg-type]


def test_an_ambient_load_that_fills_the_cache_is_refused() -> None:
    with pytest.raises(ValueError, match="fills the cache"):
        Engine(replace(PLAIN, kv_capacity=1000), Limits(8), ambient(4, 250))


@pytest.mark.parametrize(("prompt", "output", "generated"), [(0, 5, 0), (1, 0, 0), (1, 5, 5), (1, 5, -1)])
def test_a_sequence_without_anything_to_read_or_to_generate_is_refused(
    prompt: int, output: int, generated: int
) -> None:
    with pytest.raises(ValueError, match="sequence x"):
        Sequence("x", 0.0, prompt, output, generated)


# ---- what a driver relies on


@pytest.mark.parametrize("start", [0.0, 12_345.678, 1e9])
@pytest.mark.parametrize("drafts", [0, 3])
def test_a_driver_that_wakes_when_told_to_never_wakes_for_nothing_while_all_decode(start: float, drafts: int) -> None:
    """Also on a clock so large that step boundaries cannot be told exactly."""
    engine = Engine(drafting(PLAIN, Speculation(drafts, 0.84, 0.93)), Limits(8), start=start)
    for seed in range(5):
        engine.add(Sequence(str(seed), start, 10, 200, seed=seed))
    engine.advance(start)
    time = start
    while (wake := engine.next_event(not_before=time)) is not None:
        assert wake >= time
        time = wake
        assert engine.advance(time), f"nothing to report at {time}"
    assert engine.snapshot().running == 0


def test_an_idle_engine_has_no_next_event() -> None:
    engine = Engine(PLAIN, Limits(8), start=100.0)
    assert engine.next_event() is None
    assert engine.next_event(not_before=200.0) is None


@given(st.lists(st.floats(0.001, 0.5), max_size=60))
@settings(deadline=None, max_examples=30)
def test_how_often_an_engine_is_looked_at_changes_nothing(looks: list[float]) -> None:
    """Nor whether it is asked for all that sequences gain or for their ends, with everything that can go on in it."""

    def engine() -> Engine:
        load = Ambient(sequences=2, context=50, stay=1.0, most=5, seed=1)
        conditions = Conditions(load, [Slowdown(start=1.0, end=2.0, factor=1.5)])
        limits = Limits(8, prefill_chunk=64, block=16, aging=0.3)
        engine = Engine(drafting(replace(PLAIN, kv_capacity=600)), limits, conditions)
        for seed in range(24):
            blocks = (1, 2, 3, 4 + seed % 3)
            engine.add(Sequence(str(seed), seed * 0.1, 105 + seed, 100, seed=seed, band=seed % 3, blocks=blocks))
        return engine

    looked_at, asked_for_ends, left_alone = engine(), engine(), engine()
    seen: list[Progress] = []
    ends: list[Ending] = []
    for time in (*accumulate(looks), 1e4):
        seen += looked_at.advance(time)
        ends += asked_for_ends.endings(time)
    first = {progress.id: progress.first for progress in seen if progress.first is not None}
    finished = [progress for progress in seen if progress.finished]
    expected = sorted(left_alone.endings(1e4))
    assert sorted((p.id, p.tokens, first[p.id], p.time, p.cached) for p in finished) == expected
    assert sorted(ends) == expected
    assert looked_at.snapshot() == asked_for_ends.snapshot() == left_alone.snapshot()
    assert len(expected) == 24
    assert expected[-1].cached > 0
    assert left_alone.snapshot().preemptions > 0


def test_a_step_time_of_zero_serves_everything_at_once() -> None:
    engine = Engine(StepTime(c0=0.0), Limits(2), start=50.0)
    for number in range(5):
        engine.add(Sequence(str(number), 50.0 + number, 10, 1000))
    assert [(p.id, p.tokens, p.time) for p in engine.advance(54.0)] == [(str(n), 1000, 50.0 + n) for n in range(5)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(StepTime):
    """Notes each evaluation of the step equation in `asked`."""

    asked: list[float]

    def seconds(self, n: float, S: float, p: float = 0, A: float = 0.0) -> float:
        self.asked.append(S)
        return StepTime.seconds(self, n, S, p, A)


def test_a_stream_of_64k_tokens_costs_as_many_step_times_as_its_batch_has_changes() -> None:
    step = Counted(c0=0.01, ck=1e-8, asked=[], kv_capacity=inf)
    engine = Engine(step, Limits(4))
    engine.add(Sequence("x", 0.0, 1000, 64_000))
    for tick in range(2000):
        engine.advance(tick / 100)
    run(engine)
    assert engine.snapshot().steps == 64_000
    assert len(step.asked) == 2
