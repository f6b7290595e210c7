"""One replica: continuous batching in virtual time, event-driven and exact.

The replica takes steps without a pause while anything runs. The batch changes only at step boundaries: a sequence is
admitted, has its context computed, finishes, or is pre-empted. Between changes the steps form a Stretch, whose
boundaries are known in closed form, so the engine goes from change to change and never from step to step. Only steps
that compute context are taken one by one.

- One integer counts the steps. What a decode sequence has generated and holds follows from it.
- An arrival waits for the next step boundary; an idle replica begins a step at once.
- Contexts, and with them step time, grow by the mean number of tokens per step. With speculation, draws around that
  mean decide how many steps a sequence needs and what a client sees when.
- A cancelled sequence frees slot and room at once. The step in flight still ends when it would have ended.
- Inside, times are seconds since the replica's start: those of the caller's clock may be large and would lose digits.

Knows nothing about clocks, tokens' texts or requests. Time only comes in as an argument, and never goes back.
"""

from dataclasses import dataclass
from math import inf, nextafter

from service.roofline import StepTime
from workers.engine.decoding import Decoding
from workers.engine.kv_cache import KVCache
from workers.engine.scheduler import INSTANT, Scheduler
from workers.engine.sequence import NOT_DECODING, Progress, Sequence, State
from workers.engine.speculation import Bursts
from workers.engine.stretch import Stretch


class NeverFits(ValueError):
    """The sequence needs more of the KV cache than the replica has to give, even when it runs alone."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How a replica is run.

    The ambient load stands for other people's requests: so many sequences of that mean context take their slots, their
    room and their part of every step.
    """

    max_batch: int  # sequences in a step, ambient ones included
    prefill_chunk: int = 8192  # tokens of context computed in a step, in sum
    ambient_sequences: float = 0.0
    ambient_context: float = 0.0  # tokens each

    def __post_init__(self) -> None:
        if self.prefill_chunk < 1:
            raise ValueError(f"prefill_chunk is {self.prefill_chunk}: no context would ever be computed")
        if self.ambient_sequences < 0 or self.ambient_context < 0:
            raise ValueError("an ambient load cannot be negative")
        if self.max_batch - self.ambient_sequences < 1:
            raise ValueError(f"{self.ambient_sequences} ambient sequences leave no slot of {self.max_batch}")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The replica at the time it has advanced to. Of its own sequences only: the ambient load is not counted."""

    running: int
    waiting: int
    kv_held: float  # tokens
    kv_capacity: float  # tokens, less what the ambient load holds
    drafted: int  # draft tokens since the start
    accepted: int  # those of them that became output
    preemptions: int
    steps: int


class Engine:
    """`start` is the time (s) on the caller's clock at which the replica stands idle.

    Raises ValueError if the ambient load alone fills the KV cache.
    """

    def __init__(self, step: StepTime, limits: Limits, start: float = 0.0) -> None:
        ambient_held = limits.ambient_sequences * limits.ambient_context
        if ambient_held >= step.kv_capacity:
            raise ValueError(f"an ambient load of {ambient_held} tokens fills the cache of {step.kv_capacity}")
        self._step_time = step
        self._limits = limits
        self._bursts = Bursts(step.emission)
        self._kv = KVCache(step.kv_capacity - ambient_held, step.emitted)
        self._decoding = Decoding(step, self._bursts, self._kv)
        slots = int(limits.max_batch - limits.ambient_sequences)
        self._scheduler = Scheduler(slots, limits.prefill_chunk, self._kv, self._decoding)
        self._ambient_read = limits.ambient_sequences * self._decoding.attention.one(limits.ambient_context)
        self._states: dict[str, State] = {}

        self._start = start
        self._now = 0.0  # advanced to; what lies behind is reported
        self._step = 0  # at the last change of the batch
        self._boundary = 0.0  # when that was
        self._stretch: Stretch | None = None  # the steps since then; None: idle
        self._chunks: list[tuple[State, int]] = []  # of context, in the one step of the stretch
        self._horizon = 0  # steps of the stretch until the batch changes by itself
        self._due = 0  # the same, if nobody arrives before
        self._due_time = inf
        self._touched: list[State] = []  # ceased to decode since the last report
        self._reported_step = 0
        self._preemptions = 0

    def add(self, sequence: Sequence) -> None:
        """The sequence will arrive when it says, or now if that has passed.

        Raises NeverFits if it cannot be served at all, and ValueError if one of that id is here.
        """
        if sequence.id in self._states:
            raise ValueError(f"sequence {sequence.id} is already here")
        needed = sequence.prompt + sequence.output + self._bursts.slack(sequence.output)
        if needed > self._kv.share:
            raise NeverFits(
                f"sequence {sequence.id} needs {needed} tokens of KV cache; this replica has {self._kv.share:.0f}"
            )
        due = max(sequence.arrival - self._start, self._now)
        state = State(sequence, due, self._bursts.place(sequence.seed))
        self._states[sequence.id] = state
        self._scheduler.expect(state)
        self._plan(self._steps_passed())

    def cancel(self, id: str) -> None:  # noqa: A002 - the field's own word
        """The sequence is gone, with nothing more to report. An id that is not here is ignored."""
        state = self._states.pop(id, None)
        if state is None:
            return
        passed = self._steps_passed()
        self._scheduler.cancel(state, self._step + passed)
        self._horizon = min(self._horizon, passed + 1)
        self._plan(passed)

    def advance(self, to_time: float) -> list[Progress]:
        """What became of each sequence that gained tokens up to `to_time` (s) and was not reported yet, once each."""
        goal = max(to_time - self._start, self._now)
        while self._due_time <= goal:
            self._complete_steps()
            settled = self._schedule()
            self._compose_steps(settled)
        self._now = goal
        return self._report()

    def next_event(self, not_before: float | None = None) -> float | None:
        """When to advance to next (s); None if nothing will happen unless a sequence is added.

        Without `not_before`: the next change of the batch. With it: the earliest time from there on at which advance()
        has something to report, be it only tokens of a step; or sooner, if what follows a change cannot be told yet.
        """
        if self._due_time == inf:
            return None
        if not_before is None:
            return self._outside(self._due_time)
        return max(not_before, self._outside(min(self._due_time, self._next_tokens(not_before - self._start))))

    def snapshot(self) -> Snapshot:
        """Gauges and counters at the time advanced to."""
        step = self._step + self._steps_passed()
        return Snapshot(
            running=len(self._scheduler.running),
            waiting=len(self._scheduler.waiting) + self._scheduler.arrived(self._now),
            kv_held=self._kv.held(step),
            kv_capacity=self._kv.share,
            drafted=self._decoding.drafted(step),
            accepted=self._decoding.accepted(step),
            preemptions=self._preemptions,
            steps=step,
        )

    def check_conservation(self) -> None:
        """Raises AssertionError if a slot, a token of room or a sequence is lost or held twice."""
        scheduler, decoding, kv = self._scheduler, self._decoding, self._kv
        step = self._step + self._steps_passed()
        computing, decoders = set(scheduler.computing), set(decoding.sequences)
        reserved = sum(state.context for state in computing)
        growing = sum(s.context + self._step_time.emitted * (step - s.decoding_from) for s in decoders)
        assert computing | decoders == set(scheduler.running), "a running sequence either computes or decodes"
        assert not computing & decoders, "no sequence computes and decodes at once"
        assert len(scheduler.running) <= scheduler.slots, "a slot is held twice"
        assert all(state.decoding_from == NOT_DECODING for state in computing | set(scheduler.waiting))
        assert kv.reserved == reserved, "reserved is what the computing sequences hold"
        assert abs(kv.growing.tokens(step) - growing) <= 1e-6 * max(1.0, growing), "growing is what decoders hold"
        assert 0 <= kv.held(step) <= kv.share, "free + held == share"
        placed = set(scheduler.running) | set(scheduler.waiting)
        assert placed <= set(self._states.values()), "a sequence outlived itself"
        assert self._stretch is not None or not scheduler.running, "an idle replica runs nothing"
        assert scheduler.running or not scheduler.waiting or self._stretch, "nobody waits for an idle replica"

    # ---- one change of the batch

    def _complete_steps(self) -> None:
        """The stretch up to its due boundary is over; an idle replica has waited until then."""
        self._boundary = self._due_time
        if self._stretch is None:
            return
        self._step += self._due
        for state in self._decoding.pass_changes(self._step):
            self._finish(state)
        for state in self._scheduler.compute(self._chunks):
            self._gain_first(state)

    def _gain_first(self, state: State) -> None:
        """The step that completes a context yields a token."""
        state.generated += 1
        state.last = self._boundary
        if state.first is None and state.reported == state.brought:
            state.first = self._boundary
        if state.generated == state.output:
            self._finish(state)
        else:
            self._scheduler.decode(state, self._step)

    def _finish(self, state: State) -> None:
        self._scheduler.leave(state, self._step)
        del self._states[state.id]
        state.finished = True
        state.last = self._boundary
        self._touched.append(state)

    def _schedule(self) -> bool:
        """Who takes part in the next step. False if that is to be asked again after one step."""
        self._scheduler.arrive(self._boundary)
        if self._scheduler.has_room(self._step):
            self._scheduler.admit(self._step)
            return True
        while not self._scheduler.has_room(self._step):
            self._preempt(self._scheduler.newest())
        return False

    def _preempt(self, state: State) -> None:
        if state.decoding_from != NOT_DECODING:
            state.last = self._boundary
        self._scheduler.preempt(state, self._step)
        self._touched.append(state)
        self._preemptions += 1

    def _compose_steps(self, settled: bool) -> None:
        """The steps until the next change: how long they take and how many there are. None for an idle replica."""
        self._chunks = self._scheduler.chunks()
        if not self._scheduler.running:
            self._stretch = None
        else:
            self._stretch = self._timed_stretch()
            self._horizon = 1 if self._chunks or not settled else self._steps_until_change()
        self._plan()

    def _steps_until_change(self) -> int:
        return self._kv.steps_left(self._step, limit=self._decoding.next_change() - self._step)

    def _timed_stretch(self) -> Stretch:
        attention = self._decoding.attention
        n = self._limits.ambient_sequences + len(self._decoding.sequences)
        S = self._ambient_read + attention.read(self._step)
        p, A = 0, 0.0
        for state, tokens in self._chunks:
            p += tokens
            A += attention.chunk(state.computed, tokens)
        increment = self._step_time.slope() * attention.growth
        return Stretch(self._boundary, self._step_time.seconds(n, S, p, A), increment)

    def _plan(self, passed: int = 0) -> None:
        """The boundary at which the batch changes next, after `passed` steps of the stretch."""
        arrival = self._scheduler.next_arrival()
        if self._stretch is None:
            self._due_time = inf if arrival is None else arrival
            return
        self._due = self._horizon
        if arrival is not None:
            self._due = max(passed + 1, self._stretch.first_from(arrival - INSTANT, self._horizon))
        self._due_time = self._stretch.boundary(self._due)

    # ---- what an observer sees

    def _report(self) -> list[Progress]:
        """One report for each sequence with tokens that were not reported yet."""
        reports = [self._progress(s, s.generated, self._outside(s.last)) for s in self._touched if _has_news(s)]
        self._touched.clear()
        step = self._step + self._steps_passed()
        if step > self._reported_step and self._stretch is not None:
            out = self._outside(self._stretch.boundary(step - self._step))
            reports += [self._progress(state, tokens, out) for state, tokens in self._decoding.all_tokens(step)]
        self._reported_step = step
        return reports

    def _progress(self, state: State, tokens: int, time: float) -> Progress:
        state.reported = tokens
        first = state.first
        if first is not None:
            first = self._outside(first)
            state.first = None
        return Progress(state.id, tokens, time, state.finished, first)

    def _steps_passed(self) -> int:
        """Steps of the stretch that are complete at the time advanced to."""
        return 0 if self._stretch is None else self._stretch.steps_by(self._now, self._due)

    def _next_tokens(self, not_before: float) -> float:
        """The first boundary from `not_before` on, ahead of the time advanced to, at which tokens are out."""
        if self._stretch is None or not self._decoding.sequences:
            return inf
        steps = max(self._steps_passed() + 1, self._stretch.first_from(not_before, self._due))
        return self._stretch.boundary(steps)

    def _outside(self, time: float) -> float:
        """An inner time on the caller's clock: the earliest that has not fallen short of it by rounding."""
        outside = self._start + time
        while outside - self._start < time:
            outside = nextafter(outside, inf)
        return outside


def _has_news(state: State) -> bool:
    return state.decoding_from == NOT_DECODING and state.generated > state.reported
