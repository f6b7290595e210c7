"""A comparison that lets a wrong engine pass proves nothing: faults are planted one by one, and it must find each."""

from collections.abc import Callable
from itertools import islice
from math import inf

import pytest
from comparison import Pair
from workload import workload

from service.conditions import Ambient, windows
from workers.engine import Conditions, Ending, Engine, Sequence, conditions, engine, scheduler
from workers.engine.attention import Attention
from workers.engine.decoding import Decoding
from workers.engine.kv_cache import KVCache
from workers.engine.prefix_cache import Lives, PrefixCache
from workers.engine.scheduler import Scheduler
from workers.engine.sequence import Place, State
from workers.engine.speculation import Bursts
from workers.engine.stretch import Stretch

SEEDS = 500
SOONER = (13, 22, 61, 66, 68)  # in which rules meet that rarely do: tried first, so that nobody waits for them
Plant = Callable[[pytest.MonkeyPatch], None]


# ---- steps


def arrivals_begin_in_the_step_in_flight(patch: pytest.MonkeyPatch) -> None:
    for module in (engine, scheduler):
        patch.setattr(module, "INSTANT", 0.004)


def arrivals_on_a_boundary_miss_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine, "INSTANT", -1e-9)


def arrivals_wait_a_step_too_long(patch: pytest.MonkeyPatch) -> None:
    first_from = Stretch.first_from
    patch.setattr(Stretch, "first_from", lambda self, time, limit: min(limit, first_from(self, time, limit) + 1))


def steps_do_not_lengthen_with_their_contexts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Decoding, "growth", 0.0)


def the_last_burst_comes_a_step_late(patch: pytest.MonkeyPatch) -> None:
    reaches = Bursts.reaches
    patch.setattr(Bursts, "reaches", lambda self, total: reaches(self, total) + 1)


def sparse_attention_reads_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Decoding, "_saturate", lambda self, state: None)


def a_chunk_attends_to_nothing_before_it(patch: pytest.MonkeyPatch) -> None:
    chunk = Attention.chunk
    patch.setattr(Attention, "chunk", lambda self, computed, tokens: chunk(self, 0, tokens))


def each_sequence_has_the_whole_prefill_budget(patch: pytest.MonkeyPatch) -> None:
    def chunks(self: Scheduler) -> list[tuple[State, int]]:
        return [(state, min(self._chunk, state.context - 1 - state.computed)) for _, _, state in self.computing]

    patch.setattr(Scheduler, "chunks", chunks)


def contexts_are_computed_in_the_order_of_admission(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scheduler, "insort", lambda computing, order: computing.append(order))
    patch.setattr(scheduler, "bisect_left", lambda computing, order: [o[:2] for o in computing].index(order))


# ---- room


def the_cache_grows_by_one_token_whatever_is_drafted(patch: pytest.MonkeyPatch) -> None:
    def held(self: KVCache, step: int) -> float:
        growing = self._growing
        whole = self.reserved + self.block * len(self.prefixes.held) + growing.private
        return whole + len(growing.sequences) * step - growing.since

    patch.setattr(KVCache, "held", held)
    patch.setattr(KVCache, "fits", lambda self, need, step: self.held(step + 1) + need <= self.share)


def the_first_in_order_is_preempted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scheduler, "max", min, raising=False)


def the_preempted_loses_its_turn(patch: pytest.MonkeyPatch) -> None:
    preempt = Scheduler._preempt

    def again(self: Scheduler, state: State, step: int, time: float) -> None:
        state.key += 1.0
        preempt(self, state, step, time)

    cease = Scheduler._cease_computing

    def cease_computing(self: Scheduler, state: State) -> None:
        self.computing = [(other.key, other.number, other) for _, _, other in self.computing]
        self.computing.sort()
        cease(self, state)

    patch.setattr(Scheduler, "_preempt", again)
    patch.setattr(Scheduler, "_cease_computing", cease_computing)


def the_preempted_keeps_what_it_had_computed(patch: pytest.MonkeyPatch) -> None:
    leave = Scheduler.leave

    def keep(self: Scheduler, state: State, step: int, time: float) -> None:
        computed = state.computed
        leave(self, state, step, time)
        state.computed = min(computed, state.context - 2)

    patch.setattr(Scheduler, "leave", keep)


def the_preempted_draws_from_the_beginning(patch: pytest.MonkeyPatch) -> None:
    end = Decoding.end

    def forget(self: Decoding, state: State, step: int) -> None:
        draw = state.draw
        end(self, state, step)
        state.draw = draw

    patch.setattr(Decoding, "end", forget)


def somebody_is_admitted_at_a_preemption(patch: pytest.MonkeyPatch) -> None:
    make_room = Scheduler.make_room

    def and_admit(self: Scheduler, step: int, time: float) -> list[State]:
        decoded = make_room(self, step, time)
        self.admit(step, time)
        return decoded

    patch.setattr(Scheduler, "make_room", and_admit)


def nobody_is_admitted_after_a_preemption(patch: pytest.MonkeyPatch) -> None:
    schedule = Engine._schedule
    patch.setattr(Engine, "_schedule", lambda self, boundary: schedule(self, boundary) or True)


def a_cancelled_sequence_keeps_its_room(patch: pytest.MonkeyPatch) -> None:
    cancel = Scheduler.cancel

    def keep(self: Scheduler, state: State, step: int, time: float) -> None:
        held = state.place in (Place.COMPUTING, Place.DECODING)
        cancel(self, state, step, time)
        if held:
            self._kv.reserved += state.context

    patch.setattr(Scheduler, "cancel", keep)


def a_cancelled_sequence_is_missed_at_the_next_change_only(patch: pytest.MonkeyPatch) -> None:
    cancel = Engine.cancel

    def late(self: Engine, name: str) -> None:
        horizon = self._horizon
        cancel(self, name)
        self._horizon = horizon
        self._plan()

    patch.setattr(Engine, "cancel", late)


def a_sequence_fits_if_it_does_beside_the_load_of_the_moment(patch: pytest.MonkeyPatch) -> None:
    heed = Engine._heed_conditions

    def hopeful(self: Engine, time: float) -> None:
        heed(self, time)
        self._kv_for_one = self._kv.share

    patch.setattr(Engine, "_heed_conditions", hopeful)


def the_step_in_flight_outlives_an_eviction(patch: pytest.MonkeyPatch) -> None:
    evict = Engine.evict

    def on(self: Engine) -> list[Sequence]:
        steps = self._steps
        lost = evict(self)
        self._steps = steps
        self._plan()
        return lost

    patch.setattr(Engine, "evict", on)


def a_preempted_sequence_ends_twice(patch: pytest.MonkeyPatch) -> None:
    """For who asks for endings alone."""
    endings = Engine.endings

    def again(self: Engine, to_time: float) -> list[Ending]:
        touched = [state for state in self._touched if state.place != Place.GONE]
        ended = endings(self, to_time)
        return ended + [ending for ending in ended if ending.id in {state.sequence.id for state in touched}]

    patch.setattr(Engine, "endings", again)


# ---- order


def everybody_is_of_one_band(patch: pytest.MonkeyPatch) -> None:
    build = State.__init__

    def without(self: State, sequence: Sequence, due: float, key: float, number: int, draw: int) -> None:
        build(self, sequence, due, due, number, draw)

    patch.setattr(State, "__init__", without)


def age_counts_for_nothing(patch: pytest.MonkeyPatch) -> None:
    build = State.__init__

    def strict(self: State, sequence: Sequence, due: float, key: float, number: int, draw: int) -> None:
        build(self, sequence, due, due + 1e6 * sequence.band, number, draw)

    patch.setattr(State, "__init__", strict)


def nobody_makes_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scheduler, "_make_way", lambda self, head, hit, step, time: False)


def those_make_way_whom_it_does_not_help(patch: pytest.MonkeyPatch) -> None:
    fits = Scheduler._would_fit

    def hopeful(self: Scheduler, head: State, hit: int, step: int, leaving: list[State]) -> bool:
        return self.running - len(leaving) < self.slots and (fits(self, head, hit, step, leaving) or len(leaving) > 1)

    patch.setattr(Scheduler, "_would_fit", hopeful)


def those_make_way_who_have_begun(patch: pytest.MonkeyPatch) -> None:
    """One that was pre-empted and computes its context again has its first token already."""

    def make_way(self: Scheduler, head: tuple[float, int, State], hit: int, step: int, time: float) -> bool:
        band = head[2].sequence.band
        able = [o[2] for o in reversed(self.computing) if o[2].sequence.band > band and o > head]
        for count in range(1, len(able) + 1):
            if self._would_fit(head[2], hit, step, able[:count]):
                for state in able[:count]:
                    self._preempt(state, step, time)
                return True
        return False

    patch.setattr(Scheduler, "_make_way", make_way)


def a_better_band_does_not_wait_for_the_head(patch: pytest.MonkeyPatch) -> None:
    """With several bands, arrivals are seen at the next change of the batch only."""
    patch.setattr(Scheduler, "next_arrival", lambda self: inf if not self.coming or self.waiting else self.coming[0][0])


# ---- prompts


def the_whole_of_a_prompt_is_found(patch: pytest.MonkeyPatch) -> None:
    """No token is left to compute."""

    def hit(self: Scheduler, state: State, time: float) -> int:
        found = self._kv.prefixes.hit(state.blocks, len(state.blocks), time)
        return found if found * self._kv.block >= self._cached_min else 0

    patch.setattr(Scheduler, "_hit", hit)


def a_short_beginning_counts(patch: pytest.MonkeyPatch) -> None:
    def hit(self: Scheduler, state: State, time: float) -> int:
        return self._kv.prefixes.hit(state.blocks, (state.context - 2) // self._kv.block, time)

    patch.setattr(Scheduler, "_hit", hit)


def _cut_from_the_front(self: PrefixCache, most: int) -> None:
    while len(self.idle) > max(0, most):
        self.idle.popitem()


def the_most_recently_used_is_given_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PrefixCache, "cut", _cut_from_the_front)


def the_first_block_of_a_prompt_is_given_up_first(patch: pytest.MonkeyPatch) -> None:
    drop = PrefixCache.drop

    def forwards(self: PrefixCache, blocks: tuple[int, ...], count: int, now: float) -> None:
        drop(self, tuple(reversed(blocks[:count])), count, now)

    patch.setattr(PrefixCache, "drop", forwards)


def idle_blocks_are_never_given_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KVCache, "cut", lambda self, step: None)


def idle_blocks_are_given_up_when_the_next_change_comes(patch: pytest.MonkeyPatch) -> None:
    """What was released in the meantime makes them stay."""
    complete = Engine._complete_steps

    def without_cut(self: Engine, boundary: float) -> None:
        cut, KVCache.cut = KVCache.cut, lambda self, step: None  # type: ignore[method-assign]
        complete(self, boundary)
        KVCache.cut = cut  # type: ignore[method-assign]

    patch.setattr(Engine, "_complete_steps", without_cut)


def a_found_block_is_not_kept_from_being_given_up(patch: pytest.MonkeyPatch) -> None:
    """Its holder uses it no less, but it stays where it was among the idle ones when it falls idle again."""
    drop = PrefixCache.drop

    def at_the_front(self: PrefixCache, blocks: tuple[int, ...], count: int, now: float) -> None:
        before = dict(self.idle)
        drop(self, blocks, count, now)
        self.idle = {**{block: until for block, until in self.idle.items() if block not in before}, **before}

    patch.setattr(PrefixCache, "drop", at_the_front)


def a_block_that_is_idle_needs_no_room_to_be_used_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PrefixCache, "idle_among", lambda self, blocks, count: 0)


def a_prompt_is_found_before_it_is_computed(patch: pytest.MonkeyPatch) -> None:
    note = Scheduler._note

    def publish(self: Scheduler, state: State, hit: int) -> None:
        note(self, state, hit)
        for block in state.blocks[hit:]:
            self._kv.prefixes.idle.setdefault(block, inf)

    patch.setattr(Scheduler, "_note", publish)


def a_prompt_is_published_when_its_sequence_ends(patch: pytest.MonkeyPatch) -> None:
    """The prefixes of those that run are not shared."""
    patch.setattr(KVCache, "publish", lambda self, state, now: None)


def shared_blocks_are_counted_for_each(patch: pytest.MonkeyPatch) -> None:
    def held(self: KVCache, step: int) -> float:
        growing = self._growing
        whole = self.reserved + self.block * sum(self.prefixes.held.values()) + growing.private
        return whole + growing.rate * (len(growing.sequences) * step - growing.since)

    patch.setattr(KVCache, "held", held)
    patch.setattr(KVCache, "fits", lambda self, need, step: self.held(step + 1) + need <= self.share)


def one_copy_more_is_kept_of_what_another_has_published_meanwhile(patch: pytest.MonkeyPatch) -> None:
    def publish(self: KVCache, state: State, now: float) -> None:
        new = [block for block in state.blocks[state.shared :] if block not in self.prefixes.held]
        self.prefixes.publish(state.blocks, state.shared, now, state.lives)
        self.reserved -= len(new) * self.block
        state.private -= len(new) * self.block
        state.shared = len(state.blocks)

    patch.setattr(KVCache, "publish", publish)


def what_is_given_up_is_still_promised(patch: pytest.MonkeyPatch) -> None:
    def cached(self: Engine, blocks: tuple[int, ...]) -> int:
        return self._kv.prefixes.hit(blocks, len(blocks), self._now) * self._limits.block

    patch.setattr(Engine, "cached", cached)


def the_cancelled_keep_their_blocks(patch: pytest.MonkeyPatch) -> None:
    cancel = Scheduler.cancel

    def keep(self: Scheduler, state: State, step: int, time: float) -> None:
        state.shared = 0
        cancel(self, state, step, time)

    patch.setattr(Scheduler, "cancel", keep)


def those_who_make_way_keep_their_blocks_idle_for_nobody(patch: pytest.MonkeyPatch) -> None:
    """Who asks whether the head would fit forgets that blocks of those who leave fall idle."""

    def would_fit(self: Scheduler, head: State, hit: int, step: int, leaving: list[State]) -> bool:
        room = sum(state.private for state in leaving)
        return self.running - len(leaving) < self.slots and self._kv.fits(self._need(head, hit) - room, step)

    patch.setattr(Scheduler, "_would_fit", would_fit)


def a_leaver_keeps_its_blocks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KVCache, "drop", lambda self, state, now: None)


def a_life_never_ends(patch: pytest.MonkeyPatch) -> None:
    hit = PrefixCache.hit
    patch.setattr(PrefixCache, "hit", lambda self, blocks, most, now: hit(self, blocks, most, -inf))


def a_life_begins_when_a_block_is_computed(patch: pytest.MonkeyPatch) -> None:
    """Who uses it does not lengthen it."""
    drop = PrefixCache.drop

    def since(self: PrefixCache, blocks: tuple[int, ...], count: int, now: float) -> None:
        before = {block: self.ends[block] for block in blocks[:count] if block in self.ends}  # type: ignore[attr-defined]
        drop(self, blocks, count, now)
        self.idle |= {block: end for block, end in before.items() if block in self.idle}

    def publish(self: PrefixCache, blocks: tuple[int, ...], start: int, now: float, lives: Lives = ()) -> None:
        self.ends |= {block: now + life for block, life in zip(blocks[start:], lives[start:], strict=False)}  # type: ignore[attr-defined]
        published(self, blocks, start, now, lives)

    published = PrefixCache.publish
    patch.setattr(PrefixCache, "ends", {}, raising=False)
    patch.setattr(PrefixCache, "drop", since)
    patch.setattr(PrefixCache, "publish", publish)


def the_last_user_says_how_long_a_block_lives(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PrefixCache, "_lengthen", PrefixCache._begin)


def the_first_user_says_how_long_a_block_lives(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PrefixCache, "_lengthen", lambda self, block, life: None)


def a_block_computed_again_lives_as_it_did_before(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PrefixCache, "_begin", PrefixCache._lengthen)


def all_of_a_prompt_lives_as_long_as_its_beginning(patch: pytest.MonkeyPatch) -> None:
    lives = Sequence.lives
    patch.setattr(Sequence, "lives", lambda self, block: lives(self, block)[:1] * len(self.blocks))


def what_was_found_first_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    note = Scheduler._note

    def latest(self: Scheduler, state: State, hit: int) -> None:
        note(self, state, hit)
        state.cached = hit * self._kv.block

    patch.setattr(Scheduler, "_note", latest)


# ---- conditions


def the_ambient_load_is_not_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Attention, "one", lambda self, context: 0.0)


def _seen(patch: pytest.MonkeyPatch, **changes: float) -> None:
    at = Conditions.at
    patch.setattr(Conditions, "at", lambda self, time: at(self, time)._replace(**changes))


def the_ambient_load_takes_no_slots(patch: pytest.MonkeyPatch) -> None:
    heed = Engine._heed_conditions

    def generous(self: Engine, time: float) -> None:
        heed(self, time)
        self._scheduler.slots = self._limits.max_batch

    patch.setattr(Engine, "_heed_conditions", generous)


def the_ambient_load_takes_no_room(patch: pytest.MonkeyPatch) -> None:
    heed = Engine._heed_conditions

    def generous(self: Engine, time: float) -> None:
        heed(self, time)
        self._kv.share = self._step_time.kv_capacity

    patch.setattr(Engine, "_heed_conditions", generous)


def the_ambient_load_never_waits(patch: pytest.MonkeyPatch) -> None:
    """Also when there are fewer slots than its sequences and ours."""
    compose = Engine._compose_steps

    def all_at_once(self: Engine, boundary: float, settled: bool) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(engine, "min", lambda ambient, free: ambient, raising=False)
            compose(self, boundary, settled)

    patch.setattr(Engine, "_compose_steps", all_at_once)


def a_change_of_the_ambient_load_is_not_seen(patch: pytest.MonkeyPatch) -> None:
    _seen(patch, until=inf)


def a_change_of_the_conditions_is_seen_at_the_next_change_of_the_batch(patch: pytest.MonkeyPatch) -> None:
    plan = Engine._plan

    def unhurried(self: Engine) -> None:
        until, self._until = self._until, inf
        plan(self)
        self._until = until

    patch.setattr(Engine, "_plan", unhurried)


def steps_are_never_slow(patch: pytest.MonkeyPatch) -> None:
    _seen(patch, slowdown=1.0)


def only_the_first_step_is_slow(patch: pytest.MonkeyPatch) -> None:
    compose = Engine._compose_steps

    def briefly(self: Engine, boundary: float, settled: bool) -> None:
        compose(self, boundary, settled)
        self._stretch.increment = self._slope * self._decoding.growth
        if self._steps:
            self._plan()

    patch.setattr(Engine, "_compose_steps", briefly)


def strangers_are_seen_the_moment_they_come(patch: pytest.MonkeyPatch) -> None:
    def at(self: conditions._Drawn, time: float) -> tuple[float, float]:
        while self._next <= time:
            self._now = self._next
            self._count += self._change
            self._next, self._change = self._draw()
        return self._count, self._next

    patch.setattr(conditions._Drawn, "at", at)


def births_do_not_follow_the_profile(patch: pytest.MonkeyPatch) -> None:
    build = conditions._Drawn.__init__
    patch.setattr(
        conditions._Drawn, "__init__", lambda self, ambient, factor, until: build(self, ambient, lambda t: 1.0, until)
    )


def a_waiting_time_outlasts_the_rates_it_was_drawn_for(patch: pytest.MonkeyPatch) -> None:
    build = conditions._Drawn.__init__
    patch.setattr(
        conditions._Drawn, "__init__", lambda self, ambient, factor, until: build(self, ambient, factor, lambda t: inf)
    )


def _without(patch: pytest.MonkeyPatch, clock: str) -> None:
    build = Conditions.__init__

    def without(self: Conditions, ambient: Ambient, slowdowns: object, **clocks: float) -> None:
        build(self, ambient, slowdowns, **{**clocks, clock: 0.0})  # type: ignore[arg-type]

    patch.setattr(Conditions, "__init__", without)


def slowdowns_are_timed_from_when_the_replica_starts(patch: pytest.MonkeyPatch) -> None:
    _without(patch, "start")


def the_day_begins_when_the_replica_starts(patch: pytest.MonkeyPatch) -> None:
    _without(patch, "day")


def a_slowdown_comes_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conditions, "windows", lambda incident: islice(windows(incident), 1))


def an_evicted_replica_keeps_its_cache(patch: pytest.MonkeyPatch) -> None:
    evict = Engine.evict

    def keep(self: Engine) -> list[Sequence]:
        idle = dict(self._kv.prefixes.idle)
        lost = evict(self)
        self._kv.prefixes.idle.update(idle)
        return lost

    patch.setattr(Engine, "evict", keep)


FAULTS: list[Plant] = [
    arrivals_begin_in_the_step_in_flight,
    arrivals_on_a_boundary_miss_it,
    arrivals_wait_a_step_too_long,
    steps_do_not_lengthen_with_their_contexts,
    the_last_burst_comes_a_step_late,
    sparse_attention_reads_everything,
    a_chunk_attends_to_nothing_before_it,
    each_sequence_has_the_whole_prefill_budget,
    contexts_are_computed_in_the_order_of_admission,
    the_cache_grows_by_one_token_whatever_is_drafted,
    the_first_in_order_is_preempted,
    the_preempted_loses_its_turn,
    the_preempted_keeps_what_it_had_computed,
    the_preempted_draws_from_the_beginning,
    somebody_is_admitted_at_a_preemption,
    nobody_is_admitted_after_a_preemption,
    a_cancelled_sequence_keeps_its_room,
    a_cancelled_sequence_is_missed_at_the_next_change_only,
    a_sequence_fits_if_it_does_beside_the_load_of_the_moment,
    the_step_in_flight_outlives_an_eviction,
    a_preempted_sequence_ends_twice,
    everybody_is_of_one_band,
    age_counts_for_nothing,
    nobody_makes_way,
    those_make_way_whom_it_does_not_help,
    those_make_way_who_have_begun,
    a_better_band_does_not_wait_for_the_head,
    the_whole_of_a_prompt_is_found,
    a_short_beginning_counts,
    the_most_recently_used_is_given_up,
    the_first_block_of_a_prompt_is_given_up_first,
    idle_blocks_are_never_given_up,
    idle_blocks_are_given_up_when_the_next_change_comes,
    a_found_block_is_not_kept_from_being_given_up,
    a_block_that_is_idle_needs_no_room_to_be_used_again,
    a_prompt_is_found_before_it_is_computed,
    a_prompt_is_published_when_its_sequence_ends,
    shared_blocks_are_counted_for_each,
    one_copy_more_is_kept_of_what_another_has_published_meanwhile,
    what_is_given_up_is_still_promised,
    the_cancelled_keep_their_blocks,
    those_who_make_way_keep_their_blocks_idle_for_nobody,
    a_leaver_keeps_its_blocks,
    a_life_never_ends,
    a_life_begins_when_a_block_is_computed,
    the_last_user_says_how_long_a_block_lives,
    the_first_user_says_how_long_a_block_lives,
    a_block_computed_again_lives_as_it_did_before,
    all_of_a_prompt_lives_as_long_as_its_beginning,
    what_was_found_first_is_forgotten,
    the_ambient_load_is_not_read,
    the_ambient_load_takes_no_slots,
    the_ambient_load_takes_no_room,
    the_ambient_load_never_waits,
    a_change_of_the_ambient_load_is_not_seen,
    a_change_of_the_conditions_is_seen_at_the_next_change_of_the_batch,
    steps_are_never_slow,
    only_the_first_step_is_slow,
    strangers_are_seen_the_moment_they_come,
    births_do_not_follow_the_profile,
    a_waiting_time_outlasts_the_rates_it_was_drawn_for,
    slowdowns_are_timed_from_when_the_replica_starts,
    the_day_begins_when_the_replica_starts,
    a_slowdown_comes_once,
    an_evicted_replica_keeps_its_cache,
]


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        compare_all()


def compare_all() -> None:
    for seed in dict.fromkeys((*SOONER, *range(SEEDS))):
        Pair(workload(seed)).run()
