"""One replica whose requests take as long as was measured: a time to first token and a token rate, drawn for each.

It is asked and looked at as an Engine is, and orders and interrupts sequences by the same rules, but it takes no steps
and has no KV cache: what limits it is slots. Event-driven: what it costs does not depend on the number of tokens.

- A sequence begins as soon as there is a slot. Its seed draws TTFT and rate; they hold until it ends. Begun at `b`,
  its first token is out at b + TTFT, and those that follow at intervals of 1 / rate.
- With a Fixed timing, both suffer from the load when it begins (see `pace`), itself and the ambient load counted.
- A slowdown in force when it begins makes it slower in all, for as long as it runs: TTFT and intervals are multiplied.
- Resumed, it goes on at a rate after a TTFT, for which the tokens it has generated count as part of the prompt.
- Before its first token it may have to make way for one of a better band; it later begins anew, with the same draws.
- Nothing is cached: a measured TTFT has in it what the provider's own cache did.

Knows nothing about clocks, tokens' texts or requests. Time only comes in as an argument, and never goes back.
"""

from collections import Counter
from dataclasses import replace
from heapq import heapify, heappop, heappush
from math import exp, inf
from random import Random

from service.timings import Empirical, Fixed
from workers.engine.clock import outside
from workers.engine.conditions import STEADY, Conditions
from workers.engine.engine import Limits, Occupancy, Snapshot
from workers.engine.scheduler import INSTANT
from workers.engine.sequence import Ending, Place, Progress, Sequence


def pace(timing: Fixed | Empirical, sequence: Sequence, load: float) -> tuple[float, float]:
    """TTFT and the interval between tokens (s) of a sequence that begins as one of `load` on its replica.

    Fixed: (lognormal(ttft) + ttft_per_token * context) * (1 + load_slope * (load - 1)), the context being the prompt
    and what is generated already; the rate, lognormal too, is divided by the same factor. Empirical: one sample,
    whatever the load.
    """
    random = Random(sequence.seed)
    if isinstance(timing, Empirical):
        ttft, rate = random.choice(timing.samples)
        return ttft, 1 / rate
    ttft = timing.ttft * exp(timing.ttft_sigma * random.gauss(0, 1))
    rate = timing.rate * exp(timing.rate_sigma * random.gauss(0, 1))
    ttft += timing.ttft_per_token * (sequence.prompt + sequence.generated)
    slower = 1 + timing.load_slope * (load - 1)
    return ttft * slower, slower / rate


class _State:
    """Where a sequence stands. Times are seconds since the replica's start.

    Token k that it gains here, from 0, is out at first + k * interval, once it has begun.
    """

    __slots__ = (
        "begun",
        "due",
        "first",
        "generated",
        "interval",
        "key",
        "number",
        "place",
        "reported",
        "sequence",
        "to_gain",
        "told_first",
    )

    def __init__(self, sequence: Sequence, due: float, key: float, number: int) -> None:
        self.sequence = sequence
        self.due = due  # when it arrives
        self.key = key  # who is before whom: the smaller key, and of two equal ones the smaller number
        self.number = number
        self.place = Place.COMING
        self.generated = self.reported = sequence.generated
        self.to_gain = sequence.output - sequence.generated
        self.begun = 0  # how often
        self.first = inf
        self.interval = 0.0
        self.told_first = False

    def begin(self, time: float, ttft: float, interval: float) -> None:
        self.place = Place.DECODING
        self.begun += 1
        self.first = time + ttft
        self.interval = interval

    def out_at(self, gained: int) -> float:
        """When so many tokens were gained here, at least one."""
        return self.first + (gained - 1) * self.interval

    def gained(self, time: float) -> int:
        """Tokens gained here by that time, in agreement with `out_at` to the last bit."""
        if time < self.first:
            return 0
        gained = min(self.to_gain, int((time - self.first) / self.interval) + 1)
        while gained < self.to_gain and self.out_at(gained + 1) <= time:
            gained += 1
        while gained > 1 and self.out_at(gained) > time:
            gained -= 1
        return gained


class Recorded:
    """`start` is the time (s) on the caller's clock at which the replica stands idle. Of the limits, block and
    prefill_chunk do not matter here.

    Raises ValueError if the ambient load alone can fill the slots.
    """

    def __init__(
        self, timing: Fixed | Empirical, limits: Limits, conditions: Conditions | None = None, start: float = 0.0
    ) -> None:
        self._conditions = conditions or Conditions(STEADY)
        if limits.max_batch - self._conditions.peak < 1:
            raise ValueError(f"{self._conditions.peak} ambient sequences leave no slot of {limits.max_batch}")
        self._timing = timing
        self._limits = limits
        self._start = start
        self._now = 0.0  # advanced to; what lies behind is reported
        self._states: dict[str, _State] = {}
        self._numbers = 0
        self._coming: list[tuple[float, int, _State]] = []  # heap by the time of arrival
        self._waiting: list[tuple[float, int, _State]] = []  # heap by key and number
        self._running: dict[_State, None] = {}
        self._silent: dict[_State, None] = {}  # those that run and may not have had their first token yet
        self._bands: Counter[int] = Counter()  # of those that run
        self._endings: list[tuple[float, int, int, _State]] = []  # heap; holds while it has begun so often and runs
        self._ended: list[_State] = []  # since the last report
        self._slot_freed = False  # by a cancellation, and nobody has looked at who waits since
        self._preemptions = 0
        self._heed_conditions(0.0)

    def add(self, sequence: Sequence) -> None:
        """The sequence will arrive when it says, or now if that has passed. Raises ValueError if its id is here."""
        if sequence.id in self._states:
            raise ValueError(f"sequence {sequence.id} is already here")
        due = max(sequence.arrival - self._start, self._now)
        self._numbers += 1
        state = _State(sequence, due, due + sequence.band * self._limits.aging, self._numbers)
        self._states[sequence.id] = state
        heappush(self._coming, (due, state.number, state))

    def cancel(self, id: str) -> None:  # noqa: A002 - the field's own word
        """The sequence is gone, with nothing more to report. An id that is not here is ignored."""
        state = self._states.pop(id, None)
        if state is None:
            return
        if state.place == Place.COMING:
            self._coming = [coming for coming in self._coming if coming[2] is not state]
            heapify(self._coming)
        elif state.place == Place.WAITING:
            self._waiting = [order for order in self._waiting if order[2] is not state]
            heapify(self._waiting)
        else:
            self._leave(state)
        self._slot_freed = True
        state.place = Place.GONE

    def evict(self) -> list[Sequence]:
        """The replica is lost. Its sequences, for another one to go on with.

        What they had generated by the time advanced to is theirs; tokens that were not reported yet are not told.
        """
        lost = [
            replace(
                state.sequence,
                arrival=outside(self._start, state.due),
                generated=state.generated + self._gained(state),
            )
            for state in self._states.values()
        ]
        for id in list(self._states):  # noqa: A001
            self.cancel(id)
        self._ended.clear()
        return lost

    def advance(self, to_time: float) -> list[Progress]:
        """What became of each sequence that gained tokens up to `to_time` (s) and was not reported yet, once each."""
        self._pass_events(to_time)
        reports = [self._progress(state, state.to_gain) for state in self._ended]
        self._ended.clear()
        for state in self._running:
            gained = state.gained(self._now)
            if state.generated + gained > state.reported:
                reports.append(self._progress(state, gained))
        return reports

    def endings(self, to_time: float) -> list[Ending]:
        """Which sequences ended up to `to_time` (s): advance() for who does not want to know how the others get on."""
        self._pass_events(to_time)
        ended, self._ended = self._ended, []
        return [self._ending(state) for state in ended]

    @property
    def due(self) -> float:
        """When the next sequence arrives or ends, or slots change that somebody waits for; infinity if never (s)."""
        return outside(self._start, self._due())

    def next_event(self, not_before: float | None = None) -> float | None:
        """When to advance to next (s); None if nothing will happen unless a sequence is added.

        Without `not_before`: the next arrival, ending or change of slots. With it: the earliest time from there on at
        which advance() has something to report, or sooner if somebody arrives or may begin.
        """
        due = self._due()
        if due == inf:
            return None
        if not_before is None:
            return outside(self._start, due)
        inside = not_before - self._start
        due = min((due, *(self._next_token(state, inside) for state in self._running)))
        return max(not_before, outside(self._start, due))

    def cached(self, blocks: tuple[int, ...]) -> int:  # noqa: ARG002 - as an Engine is asked
        """Nothing is."""
        return 0

    def yielding(self, band: int) -> int:
        """How many sequences would make way for one of that band."""
        return sum(state.sequence.band > band and state.first > self._now for state in self._silent)

    def gained(self, id: str) -> tuple[float | None, int]:  # noqa: A002
        """When the first token of a sequence was out that it gained here, and how much of its prompt was cached."""
        state = self._states[id]
        return (outside(self._start, state.first) if self._gained(state) else None), 0

    def occupancy(self) -> Occupancy:
        """What a snapshot says of now, without its counters."""
        return Occupancy(len(self._running), len(self._waiting), 0.0)

    def snapshot(self) -> Snapshot:
        """Gauges and counters at the time advanced to. What a replica without steps and a cache has not is 0."""
        return Snapshot(
            running=len(self._running),
            waiting=len(self._waiting) + sum(due <= self._now for due, _, _ in self._coming),
            kv_held=0.0,
            kv_idle=0,
            kv_capacity=0.0,
            drafted=0,
            accepted=0,
            preemptions=self._preemptions,
            steps=0,
            prefix_asked=0,
            prefix_hit=0,
        )

    def check_conservation(self) -> None:
        """Raises AssertionError if a slot or a sequence is lost or held twice."""
        placed = [*(order[2] for order in self._coming), *(order[2] for order in self._waiting), *self._running]
        assert len(placed) == len(set(placed)), "nobody is in two places"
        assert set(placed) == set(self._states.values()), "everybody is in one"
        assert len(self._running) <= self._limits.max_batch, "a slot is held twice"
        assert self._silent.keys() <= self._running.keys(), "who has left says nothing more"
        assert +self._bands == Counter(state.sequence.band for state in self._running), "bands are those of who runs"
        assert not self._waiting or self._slot_freed or len(self._running) >= self._slots, (
            "nobody waits for a free slot"
        )

    # ---- one event

    def _pass_events(self, to_time: float) -> None:
        goal = max(to_time - self._start, self._now)
        while (time := self._due()) <= goal:
            self._slot_freed = False
            if time + INSTANT >= self._until:
                self._heed_conditions(time + INSTANT)
            self._end(time)
            self._arrive(time)
            self._admit(time)
        self._now = goal

    def _due(self) -> float:
        """When something happens next by itself. A change of slots matters to who waits."""
        endings = self._endings
        while endings and not _holds(endings[0]):
            heappop(endings)
        due = endings[0][0] if endings else inf
        if self._coming:
            due = min(due, self._coming[0][0])
        if self._waiting:
            due = min(due, self._now if self._slot_freed else self._until)
        return max(due, self._now)

    def _heed_conditions(self, time: float) -> None:
        self._condition = self._conditions.at(time)
        self._until = self._condition.until
        self._slots = int(self._limits.max_batch - self._condition.sequences)

    def _end(self, time: float) -> None:
        endings = self._endings
        while endings and endings[0][0] <= time:
            entry = heappop(endings)
            if _holds(entry):
                state = entry[3]
                self._leave(state)
                del self._states[state.sequence.id]
                state.place = Place.GONE
                self._ended.append(state)

    def _arrive(self, time: float) -> None:
        coming = self._coming
        while coming and coming[0][0] <= time:
            self._wait(heappop(coming)[2])

    def _admit(self, time: float) -> None:
        """Whoever has a slot, or for whom others make way, begins."""
        waiting = self._waiting
        while waiting and (len(self._running) < self._slots or self._make_way(time)):
            state = heappop(waiting)[2]
            own = len(self._running) + 1
            ambient = min(self._condition.sequences, self._limits.max_batch - own)
            ttft, interval = pace(self._timing, state.sequence, own + ambient)
            slowdown = self._condition.slowdown
            state.begin(time, slowdown * ttft, slowdown * interval)
            self._running[state] = None
            self._bands[state.sequence.band] += 1
            if not state.generated:
                self._silent[state] = None
            heappush(self._endings, (state.out_at(state.to_gain), state.number, state.begun, state))

    def _make_way(self, time: float) -> bool:
        """As few as need be of those who can make way do, the last in order first; if all do not help, none."""
        head = self._waiting[0]
        band = head[2].sequence.band
        if max((band for band, many in self._bands.items() if many), default=band) <= band:
            return False
        self._silent = {state: None for state in self._silent if state.first > time}
        able = [
            (state.key, state.number, state)
            for state in self._silent
            if state.sequence.band > band and (state.key, state.number) > head[:2]
        ]
        needed = len(self._running) + 1 - self._slots
        if len(able) < needed:
            return False
        for _, _, state in sorted(able)[-needed:]:
            self._leave(state)
            self._wait(state)
            self._preemptions += 1
        return True

    def _wait(self, state: _State) -> None:
        state.place = Place.WAITING
        heappush(self._waiting, (state.key, state.number, state))

    def _leave(self, state: _State) -> None:
        del self._running[state]
        self._silent.pop(state, None)
        self._bands[state.sequence.band] -= 1

    # ---- what an observer sees

    def _gained(self, state: _State) -> int:
        return state.gained(self._now) if state.place == Place.DECODING else 0

    def _next_token(self, state: _State, not_before: float) -> float:
        """The earliest time from there on at which a token of it is out that is not reported."""
        gained = state.gained(not_before)
        if state.generated + gained > state.reported:
            return not_before
        return state.out_at(max(gained, state.reported - state.generated) + 1) if gained < state.to_gain else inf

    def _progress(self, state: _State, gained: int) -> Progress:
        state.reported = state.generated + gained
        first = None if state.told_first else outside(self._start, state.first)
        state.told_first = True
        time = outside(self._start, state.out_at(gained))
        return Progress(state.sequence.id, state.reported, time, state.place == Place.GONE, first)

    def _ending(self, state: _State) -> Ending:
        first, last = outside(self._start, state.first), outside(self._start, state.out_at(state.to_gain))
        return Ending(state.sequence.id, state.sequence.output, first, last, 0)


def _holds(entry: tuple[float, int, int, _State]) -> bool:
    """While the sequence runs that it was made for, and has not begun anew since."""
    return entry[3].place == Place.DECODING and entry[3].begun == entry[2]
