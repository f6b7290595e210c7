"""A comparison that lets a wrong engine pass proves nothing: faults are planted one by one, and it must find each."""

from collections.abc import Callable

import pytest
from comparison import Pair
from workload import workload

from workers.engine import engine, scheduler
from workers.engine.attention import Attention
from workers.engine.decoding import Decoding
from workers.engine.engine import Engine
from workers.engine.kv_cache import KVCache
from workers.engine.scheduler import Scheduler
from workers.engine.sequence import State
from workers.engine.speculation import Bursts
from workers.engine.stretch import Stretch

SEEDS = 300
Plant = Callable[[pytest.MonkeyPatch], None]


def arrivals_begin_in_the_step_in_flight(patch: pytest.MonkeyPatch) -> None:
    for module in (engine, scheduler):
        patch.setattr(module, "INSTANT", 0.004)


def arrivals_on_a_boundary_miss_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine, "INSTANT", -1e-9)


def arrivals_wait_a_step_too_long(patch: pytest.MonkeyPatch) -> None:
    first_from = Stretch.first_from
    patch.setattr(Stretch, "first_from", lambda self, time, limit: min(limit, first_from(self, time, limit) + 1))


def steps_do_not_lengthen_with_their_contexts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Attention, "growth", 0.0)


def the_cache_grows_by_one_token_whatever_is_drafted(patch: pytest.MonkeyPatch) -> None:
    build = KVCache.__init__
    patch.setattr(KVCache, "__init__", lambda self, share, rate: build(self, share, 1.0))


def the_oldest_is_preempted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scheduler, "newest", lambda self: next(iter(self.running)))


def the_preempted_queues_at_the_end(patch: pytest.MonkeyPatch) -> None:
    def preempt(self: Scheduler, state: State, step: int) -> None:
        self.leave(state, step)
        self.waiting.append(state)

    patch.setattr(Scheduler, "preempt", preempt)


def the_preempted_keeps_what_it_had_computed(patch: pytest.MonkeyPatch) -> None:
    leave = Scheduler.leave

    def keep(self: Scheduler, state: State, step: int) -> None:
        computed = state.computed
        leave(self, state, step)
        state.computed = min(computed, state.context - 2)

    patch.setattr(Scheduler, "leave", keep)


def the_preempted_draws_from_the_beginning(patch: pytest.MonkeyPatch) -> None:
    end = Decoding.end

    def forget(self: Decoding, state: State, step: int) -> None:
        draw = state.draw
        end(self, state, step)
        state.draw = draw

    patch.setattr(Decoding, "end", forget)


def nobody_is_admitted_after_a_preemption(patch: pytest.MonkeyPatch) -> None:
    schedule = Engine._schedule
    patch.setattr(Engine, "_schedule", lambda self: schedule(self) or True)


def a_cancelled_sequence_keeps_its_room(patch: pytest.MonkeyPatch) -> None:
    cancel = Scheduler.cancel

    def keep(self: Scheduler, state: State, step: int) -> None:
        held = state in self.running
        cancel(self, state, step)
        if held:
            self._kv.reserve(state.context)

    patch.setattr(Scheduler, "cancel", keep)


def a_cancelled_sequence_is_missed_at_the_next_change_only(patch: pytest.MonkeyPatch) -> None:
    cancel = Engine.cancel

    def late(self: Engine, name: str) -> None:
        horizon = self._horizon
        cancel(self, name)
        self._horizon = horizon
        self._plan(self._steps_passed())

    patch.setattr(Engine, "cancel", late)


def each_sequence_has_the_whole_prefill_budget(patch: pytest.MonkeyPatch) -> None:
    def chunks(self: Scheduler) -> list[tuple[State, int]]:
        return [(state, min(self._chunk, state.to_compute)) for state in self.computing]

    patch.setattr(Scheduler, "chunks", chunks)


def a_chunk_attends_to_nothing_before_it(patch: pytest.MonkeyPatch) -> None:
    chunk = Attention.chunk
    patch.setattr(Attention, "chunk", lambda self, computed, tokens: chunk(self, 0, tokens))


def the_ambient_load_is_not_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Attention, "one", lambda self, context: 0.0)


def the_ambient_load_takes_no_slots(patch: pytest.MonkeyPatch) -> None:
    build = Scheduler.__init__
    patch.setattr(Scheduler, "__init__", lambda self, slots, *rest: build(self, slots + 1, *rest))


def sparse_attention_reads_everything(patch: pytest.MonkeyPatch) -> None:
    add = Attention.add

    def forget(self: Attention, state: State) -> None:
        add(self, state)

    patch.setattr(Attention, "add", forget)


def the_last_burst_comes_a_step_late(patch: pytest.MonkeyPatch) -> None:
    steps = Bursts.steps
    patch.setattr(Bursts, "steps", lambda self, place, tokens: steps(self, place, tokens) + 1)


FAULTS: list[Plant] = [
    arrivals_begin_in_the_step_in_flight,
    arrivals_on_a_boundary_miss_it,
    arrivals_wait_a_step_too_long,
    steps_do_not_lengthen_with_their_contexts,
    the_cache_grows_by_one_token_whatever_is_drafted,
    the_oldest_is_preempted,
    the_preempted_queues_at_the_end,
    the_preempted_keeps_what_it_had_computed,
    the_preempted_draws_from_the_beginning,
    nobody_is_admitted_after_a_preemption,
    a_cancelled_sequence_keeps_its_room,
    a_cancelled_sequence_is_missed_at_the_next_change_only,
    each_sequence_has_the_whole_prefill_budget,
    a_chunk_attends_to_nothing_before_it,
    the_ambient_load_is_not_read,
    the_ambient_load_takes_no_slots,
    sparse_attention_reads_everything,
    the_last_burst_comes_a_step_late,
]


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        compare_all()


def compare_all() -> None:
    for seed in range(SEEDS):
        Pair(workload(seed)).run()
