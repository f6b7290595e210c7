"""One replica: continuous batching in virtual time, event-driven and exact.

The replica takes steps without a pause while anything runs. The batch changes only at step boundaries: a sequence is
admitted, has its context computed, finishes, or is pre-empted, or the conditions change. Between changes the steps form
a Stretch, whose boundaries are known in closed form, so the engine goes from change to change and never from step to
step. Only steps that compute context are taken one by one.

- One integer counts the steps. What a decode sequence has generated and holds follows from it.
- An arrival waits for the next step boundary; an idle replica begins a step at once. A change of the conditions does
  the same, but an idle replica sees it when it next begins a step.
- Contexts, and with them step time, grow by the mean number of tokens per step. With speculation, draws around that
  mean decide how many steps a sequence needs and what a client sees when.
- A cancelled sequence frees slot and room at once. The step in flight still ends when it would have ended.
- The ambient load takes slots and room before anybody is admitted; it is never evicted, and never evicts a stream for
  a slot: where slots have become fewer than sequences run, the part of it that does not fit waits.
- Inside, times are seconds since the replica's start: those of the caller's clock may be large and would lose digits.

Knows nothing about clocks, tokens' texts or requests. Time only comes in as an argument, and never goes back.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from service.roofline import StepTime
from workers.engine.attention import Attention
from workers.engine.clock import outside
from workers.engine.conditions import STEADY, Conditions
from workers.engine.decoding import Decoding
from workers.engine.kv_cache import KVCache
from workers.engine.scheduler import INSTANT, Scheduler
from workers.engine.sequence import NOT_DECODING, Ending, Place, Progress, Sequence, State
from workers.engine.speculation import Bursts
from workers.engine.stretch import Stretch


class NeverFits(ValueError):
    """The sequence needs more of the KV cache than the replica has to give, even when it runs alone."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How a replica is run. `block` 0: prompts are not cached."""

    max_batch: int  # sequences in a step, ambient ones included
    prefill_chunk: int = 8192  # tokens of context computed in a step, in sum
    block: int = 0  # tokens of a prompt that are cached together
    cached_min: int = 0  # tokens; a shorter beginning that is found in the cache is computed nevertheless
    aging: float = 10.0  # s of waiting after which a sequence is as good as one of the next better band

    def __post_init__(self) -> None:
        if self.prefill_chunk < 1:
            raise ValueError(f"prefill_chunk is {self.prefill_chunk}: no context would ever be computed")
        if self.block < 0 or self.cached_min < 0 or not 0 <= self.aging < inf:
            raise ValueError("block, cached_min and aging cannot be negative, and nobody ages for ever")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The replica at the time it has advanced to. Of its own sequences only: the ambient load is not counted."""

    running: int
    waiting: int
    kv_held: float  # tokens
    kv_idle: int  # tokens of prompts that nobody uses, and somebody may find
    kv_capacity: float  # tokens, less what the ambient load holds
    drafted: int  # draft tokens since the start
    accepted: int  # those of them that became output
    preemptions: int
    steps: int
    prefix_asked: int  # prompt tokens in whole blocks that were looked up in the cache
    prefix_hit: int  # those of them that were found and used


class Occupancy(NamedTuple):
    """Sequences that run and that wait, and tokens of KV held."""

    running: int
    waiting: int
    kv_held: float


class Engine:
    """`start` is the time (s) on the caller's clock at which the replica stands idle.

    Raises ValueError if the ambient load alone can fill the slots or the KV cache.
    """

    def __init__(
        self, step: StepTime, limits: Limits, conditions: Conditions | None = None, start: float = 0.0
    ) -> None:
        self._conditions = conditions or Conditions(STEADY)
        held_at_most = self._conditions.peak * self._conditions.context
        if limits.max_batch - self._conditions.peak < 1:
            raise ValueError(f"{self._conditions.peak} ambient sequences leave no slot of {limits.max_batch}")
        if held_at_most >= step.kv_capacity:
            raise ValueError(f"an ambient load of {held_at_most} tokens fills the cache of {step.kv_capacity}")
        self._step_time = step
        self._slope = step.slope()
        self._limits = limits
        self._bursts = Bursts(step.emission)
        self._kv_for_one = step.kv_capacity - held_at_most
        # With more tokens, slack has to be counted, too.
        self._fits_for_certain = self._kv_for_one / 2 - self._bursts.slack(0)
        self._decoding = Decoding(step, self._bursts)
        self._attention = Attention(step.sparse_topk)
        self._kv = KVCache(self._decoding, limits.block)
        self._scheduler = Scheduler(limits.prefill_chunk, limits.cached_min, self._kv, self._decoding)
        self._states: dict[str, State] = {}
        self._numbers = 0

        self._start = start
        self._now = 0.0  # advanced to; what lies behind is reported
        self._step = 0  # at the last change of the batch
        self._stretch = Stretch(0.0, 0.0, 0.0)  # the steps since then
        self._steps = False  # whether there are any: an idle replica takes none
        self._chunks: list[tuple[State, int]] = []  # of context, in the one step of the stretch
        self._horizon = 0  # steps of the stretch until the batch changes by itself
        self._due = 0  # the same, if nobody arrives before
        self._due_time = inf
        self._touched: dict[State, None] = {}  # ceased to decode since the last report
        self._reported_step = 0
        self._heed_conditions(0.0)

    def add(self, sequence: Sequence) -> None:
        """The sequence will arrive when it says, or now if that has passed.

        Raises NeverFits if it cannot be served at all, and ValueError if one of that id is here.
        """
        if sequence.id in self._states:
            raise ValueError(f"sequence {sequence.id} is already here")
        bursts, limits = self._bursts, self._limits
        if sequence.prompt + sequence.output > self._fits_for_certain:
            self._check_fit(sequence)
        due = max(sequence.arrival - self._start, self._now)
        self._numbers += 1
        key = due + sequence.band * limits.aging
        state = State(sequence, due, key, self._numbers, bursts.place(sequence.seed))
        if state.blocks:
            state.blocks = state.blocks[: sequence.prompt // limits.block] if limits.block else ()
            state.lives = sequence.lives(limits.block)
        self._states[sequence.id] = state
        self._scheduler.expect(state)
        if due < self._due_time:
            self._plan()

    def cancel(self, id: str) -> None:  # noqa: A002 - the field's own word
        """The sequence is gone, with nothing more to report. An id that is not here is ignored."""
        state = self._states.pop(id, None)
        if state is None:
            return
        self._touched.pop(state, None)
        passed = self._steps_passed()
        self._kv.cut(self._begun(passed))
        self._scheduler.cancel(state, self._step + passed, self._now)
        self._horizon = min(self._horizon, passed + 1)
        self._plan()

    def evict(self) -> list[Sequence]:
        """The replica is lost, and with it all it has cached. Its sequences, for another one to go on with.

        What they had generated by the time advanced to is theirs; tokens that were not reported yet are not told.
        """
        step = self._step + self._steps_passed()
        lost = [self._as_sequence(state, step) for state in self._states.values()]
        for id in list(self._states):  # noqa: A001
            self._scheduler.cancel(self._states.pop(id), step, self._now)
        self._kv.prefixes.clear()
        self._touched.clear()
        self._step, self._steps, self._chunks = step, False, []
        self._plan()
        return lost

    def advance(self, to_time: float) -> list[Progress]:
        """What became of each sequence that gained tokens up to `to_time` (s) and was not reported yet, once each."""
        self._pass_boundaries(to_time)
        reports = [self._progress(s, s.generated, self._outside(s.last)) for s in self._touched if _has_news(s)]
        self._touched.clear()
        passed = self._steps_passed()
        step = self._step + passed
        if step > self._reported_step and self._steps:
            out = self._outside(self._stretch.boundary(passed))
            reports += [self._progress(state, tokens, out) for state, tokens in self._decoding.all_tokens(step)]
        self._reported_step = step
        return reports

    def endings(self, to_time: float) -> list[Ending]:
        """Which sequences ended up to `to_time` (s): advance() for who does not want to know how the others get on."""
        self._pass_boundaries(to_time)
        touched = self._touched
        if not touched:
            return []
        self._touched = {state: None for state in touched if state.place != Place.GONE}
        return [self._ending(state) for state in touched if state.place == Place.GONE]

    @property
    def due(self) -> float:
        """When the batch changes next (s); infinity if it never does unless a sequence is added."""
        return self._due_time if not self._start else self._outside(self._due_time)

    def next_event(self, not_before: float | None = None) -> float | None:
        """When to advance to next (s); None if nothing will happen unless a sequence is added.

        Without `not_before`: the next change of the batch. With it: the earliest time from there on at which advance()
        has something to report, be it only tokens of a step; or sooner, if what follows a change cannot be told yet.
        """
        if self._due_time == inf:
            return None
        if not_before is None:
            return self.due
        return max(not_before, self._outside(min(self._due_time, self._next_tokens(not_before - self._start))))

    def cached(self, blocks: tuple[int, ...]) -> int:
        """How many tokens of a prompt with these blocks are in the cache."""
        self._kv.cut(self._begun(self._steps_passed()))
        return self._kv.prefixes.hit(blocks, len(blocks), self._now) * self._limits.block

    def yielding(self, band: int) -> int:
        """How many sequences would make way for one of that band."""
        return self._scheduler.yielding(band)

    def gained(self, id: str) -> tuple[float | None, int]:  # noqa: A002
        """When the first token of a sequence was out that it gained here, and how much of its prompt was cached."""
        state = self._states[id]
        first = None if state.first is None else self._outside(state.first)
        return first, max(0, state.cached)

    def occupancy(self) -> Occupancy:
        """What a snapshot says of now, without its counters: it costs the same however many run."""
        held = self._kv.held(self._step + self._steps_passed())
        return Occupancy(self._scheduler.running, len(self._scheduler.waiting), held)

    def snapshot(self) -> Snapshot:
        """Gauges and counters at the time advanced to."""
        scheduler, decoding = self._scheduler, self._decoding
        passed = self._steps_passed()
        step = self._step + passed
        return Snapshot(
            running=scheduler.running,
            waiting=len(scheduler.waiting) + scheduler.arrived(self._now),
            kv_held=self._kv.held(step),
            kv_idle=self._kv.idle(self._begun(passed)),
            kv_capacity=self._kv.share,
            drafted=decoding.drafted(step),
            accepted=decoding.accepted(step),
            preemptions=scheduler.preemptions,
            steps=step,
            prefix_asked=scheduler.asked,
            prefix_hit=scheduler.hit,
        )

    def check_conservation(self) -> None:
        """Raises AssertionError if a slot, a token of room or a sequence is lost or held twice."""
        scheduler, decoding, kv = self._scheduler, self._decoding, self._kv
        passed = self._steps_passed()
        step, begun = self._step + passed, self._begun(passed)
        computing, decoders = [order[2] for order in scheduler.computing], list(decoding.sequences)
        grown = sum(s.private + decoding.rate * (step - s.decoding_from) for s in decoders)
        growing = decoding.private + decoding.rate * (len(decoders) * step - decoding.since)
        used: dict[int, int] = {}
        for state in computing + decoders:
            for block in state.blocks[: state.shared]:
                used[block] = used.get(block, 0) + 1
        assert scheduler.computing == sorted(scheduler.computing), "contexts are computed in order"
        assert all(state.place == Place.COMPUTING for state in computing), "who computes does nothing else"
        assert all(state.place == Place.DECODING for state in decoders), "who decodes does nothing else"
        assert all(state.decoding_from == NOT_DECODING for state in self._states.values() if state not in decoders)
        assert scheduler.running <= self._limits.max_batch, "a slot is held twice"
        assert kv.reserved == sum(state.private for state in computing), "reserved is what the computing hold"
        assert abs(growing - grown) <= 1e-6 * max(1.0, grown), "growing is what decoders hold"
        assert kv.prefixes.held == used, "a block is held as often as it is used"
        assert not kv.prefixes.held.keys() & kv.prefixes.idle.keys(), "a block is held or idle"
        assert kv.prefixes.lives.keys() <= kv.prefixes.held.keys() | kv.prefixes.idle.keys(), "only the present live"
        assert 0 <= kv.held(begun) <= kv.share, "held <= share"
        assert 0 <= kv.held(begun) + kv.idle(begun) <= kv.share * (1 + 1e-12), "free + idle + held == share"
        placed = computing + decoders + [order[2] for order in scheduler.waiting]
        assert len(placed) == len(set(placed)), "nobody is in two places"
        assert set(placed) <= set(self._states.values()), "a sequence outlived itself"
        assert self._steps or not scheduler.running, "an idle replica runs nothing"
        assert scheduler.running or not scheduler.waiting or self._steps, "nobody waits for an idle replica"

    def _check_fit(self, sequence: Sequence) -> None:
        needed = sequence.prompt + sequence.output + self._bursts.slack(sequence.output)
        if needed > self._kv_for_one:
            raise NeverFits(
                f"sequence {sequence.id} needs {needed} tokens of KV cache; this replica has {self._kv_for_one:.0f}"
            )

    # ---- one change of the batch

    def _pass_boundaries(self, to_time: float) -> None:
        goal = max(to_time - self._start, self._now)
        while self._due_time <= goal:
            boundary = self._due_time
            if self._steps:
                self._complete_steps(boundary)
            if boundary + INSTANT >= self._until:
                self._heed_conditions(boundary + INSTANT)
            settled = self._schedule(boundary)
            self._compose_steps(boundary, settled)
        self._now = goal

    def _complete_steps(self, boundary: float) -> None:
        """The stretch up to its due boundary is over."""
        step = self._step = self._step + self._due
        if self._kv.prefixes.idle:
            self._kv.cut(step)
        for state in self._decoding.pass_changes(step):
            self._finish(state, boundary)
        if self._chunks:
            for state in self._scheduler.compute(self._chunks):
                self._gain_first(state, boundary)

    def _gain_first(self, state: State, boundary: float) -> None:
        """The step that completes a context yields a token."""
        state.generated += 1
        state.last = boundary
        if state.first is None:
            state.first = boundary
        if state.blocks:
            self._kv.publish(state, boundary)
        if state.generated == state.output:
            self._finish(state, boundary)
        else:
            self._scheduler.decode(state, self._step)

    def _finish(self, state: State, boundary: float) -> None:
        self._scheduler.finish(state, self._step, boundary)
        state.place = Place.GONE
        del self._states[state.sequence.id]
        state.last = boundary
        self._touched[state] = None

    def _schedule(self, boundary: float) -> bool:
        """Who takes part in the next step. False if that is to be asked again after one step."""
        scheduler, step = self._scheduler, self._step
        scheduler.arrive(boundary)
        if scheduler.has_room(step):
            if scheduler.waiting:
                scheduler.admit(step, boundary)
            return True
        for state in scheduler.make_room(step, boundary):
            state.last = boundary
            self._touched[state] = None
        return False

    def _compose_steps(self, boundary: float, settled: bool) -> None:
        """The steps until the next change: how long they take and how many there are. None for an idle replica."""
        scheduler, decoding, step = self._scheduler, self._decoding, self._step
        chunks = self._chunks = scheduler.chunks() if scheduler.computing else []
        n = len(decoding.sequences)
        self._steps = bool(chunks or n)
        if self._kv.prefixes.idle:
            self._kv.cut(step + 1)
        if not self._steps:
            self._plan()
            return
        p, A, S = 0, 0.0, decoding.read(step)
        for state, tokens in chunks:
            p += tokens
            A += self._attention.chunk(state.computed, tokens)
        _, ambient, _, slowdown = self._condition
        if ambient:
            ambient = min(ambient, self._limits.max_batch - scheduler.running)
            S += ambient * self._ambient_read
        stretch = self._stretch
        stretch.start = boundary
        stretch.first = slowdown * self._step_time.seconds(ambient + n, S, p, A)
        stretch.increment = slowdown * self._slope * decoding.growth
        if chunks:  # they are taken one by one
            self._horizon = 1
        else:
            self._horizon = self._kv.steps_left(step, decoding.next_change() - step) if settled else 1
        self._plan()

    def _heed_conditions(self, time: float) -> None:
        """What holds at `time` takes effect."""
        self._condition = self._conditions.at(time)
        self._until = self._condition.until
        sequences, context = self._condition.sequences, self._condition.context
        self._kv.share = self._step_time.kv_capacity - sequences * context
        self._scheduler.slots = int(self._limits.max_batch - sequences)
        self._ambient_read = self._attention.one(context)

    def _plan(self) -> None:
        """The boundary at which the batch changes next: by itself, or for an arrival or a change of the conditions."""
        stretch, due = self._stretch, self._horizon
        if self._steps and due == 1:
            self._due, self._due_time = 1, stretch.start + stretch.first
            return
        change = self._scheduler.next_arrival()
        if not self._steps:
            self._due_time = max(change, self._now)
            return
        change = min(change, self._until)
        time = stretch.boundary(due)
        if change - INSTANT < time:
            due = max(1, stretch.first_from(change - INSTANT, due))
            time = stretch.boundary(due)
            if time <= self._now:  # a step in flight ends first
                due = stretch.steps_by(self._now, self._horizon - 1) + 1
                time = stretch.boundary(due)
        self._due, self._due_time = due, time

    # ---- what an observer sees

    def _progress(self, state: State, tokens: int, time: float) -> Progress:
        state.reported = tokens
        first = None
        if not state.told_first and state.first is not None:
            state.told_first = True
            first = self._outside(state.first)
        return Progress(state.sequence.id, tokens, time, state.place == Place.GONE, first, max(0, state.cached))

    def _ending(self, state: State) -> Ending:
        assert state.first is not None
        first, last = self._outside(state.first), self._outside(state.last)
        return Ending(state.sequence.id, state.generated, first, last, max(0, state.cached))

    def _as_sequence(self, state: State, step: int) -> Sequence:
        tokens = self._decoding.tokens(state, step) if state.place == Place.DECODING else state.generated
        return replace(state.sequence, arrival=self._outside(state.due), generated=tokens)

    def _steps_passed(self) -> int:
        """Steps of the stretch that are complete at the time advanced to."""
        return self._stretch.steps_by(self._now, self._due) if self._steps else 0

    def _begun(self, passed: int) -> int:
        """The first step that has not begun, after `passed` steps of the stretch."""
        return self._step + passed + 1 if self._steps else self._step

    def _next_tokens(self, not_before: float) -> float:
        """The first boundary from `not_before` on, ahead of the time advanced to, at which tokens are out."""
        if not self._steps or not self._decoding.sequences:
            return inf
        steps = max(self._steps_passed() + 1, self._stretch.first_from(not_before, self._due))
        return self._stretch.boundary(steps)

    def _outside(self, time: float) -> float:
        return outside(self._start, time) if self._start else time


def _has_news(state: State) -> bool:
    return state.decoding_from == NOT_DECODING and state.generated > state.reported
