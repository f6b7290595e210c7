"""Who waits, who runs, and who makes room: the sequences of one replica at a step boundary.

A sequence is in exactly one of these places:

    arrivals ──arrive──► waiting ──admit──► running: computing ──computed──► running: decoding ──leave──► gone
                            ▲                       │                                │
                            └───────preempt─────────┴────────────────────────────────┘

- Waiting is first come, first served: while its head does not fit, nobody behind it is admitted.
- Admission takes a slot, and room for the whole context beside what the next step adds.
- Running keeps the order of admission. When the next step does not fit, the newest makes room: it goes back to the head
  of the queue, and later computes its prompt and what it generated again.
- Contexts are computed in the order of admission, at most `chunk` tokens in a step; who has nothing left to compute
  decodes in the same step.

Knows nothing about how long a step takes.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from itertools import count

from workers.engine.decoding import Decoding
from workers.engine.kv_cache import KVCache
from workers.engine.sequence import NOT_DECODING, State

INSTANT = 1e-9  # an arrival that close after a boundary is on it: rounding must not cost it a step (s)


class Scheduler:
    """`slots` sequences run at a time, in the room that `kv` has."""

    def __init__(self, slots: int, chunk: int, kv: KVCache, decoding: Decoding) -> None:
        self.slots = slots
        self.waiting: deque[State] = deque()
        self.running: dict[State, None] = {}
        self.computing: dict[State, None] = {}
        self._chunk = chunk
        self._kv = kv
        self._decoding = decoding
        self._arrivals: list[tuple[float, int, State]] = []
        self._order = count()

    def expect(self, state: State) -> None:
        """A sequence will arrive when it is due."""
        heappush(self._arrivals, (state.due, next(self._order), state))

    def next_arrival(self) -> float | None:
        """When the next sequence arrives that could be admitted; none can while another waits before it."""
        return self._arrivals[0][0] if self._arrivals and not self.waiting else None

    def arrived(self, time: float) -> int:
        """How many have arrived by `time`, and no boundary has seen them yet."""
        return sum(due <= time for due, _, _ in self._arrivals)

    def arrive(self, time: float) -> None:
        """The boundary at `time` sees who has arrived."""
        while self._arrivals and self._arrivals[0][0] - INSTANT <= time:
            self.waiting.append(heappop(self._arrivals)[2])

    def admit(self, step: int) -> None:
        """Whoever has a slot and room takes part from `step` on."""
        while self.waiting and len(self.running) < self.slots and self._kv.fits(self.waiting[0].context, step):
            state = self.waiting.popleft()
            self._kv.reserve(state.context)
            self.running[state] = None
            self.computing[state] = None

    def has_room(self, step: int) -> bool:
        """Whether what runs can take `step`."""
        return self._kv.fits(0, step)

    def newest(self) -> State:
        return next(reversed(self.running))

    def preempt(self, state: State, step: int) -> None:
        """It makes room before `step`. A sequence that runs alone never has to: it would not have been added."""
        assert len(self.running) > 1, "a sequence that runs alone outgrew the cache"
        self.leave(state, step)
        self.waiting.appendleft(state)

    def chunks(self) -> list[tuple[State, int]]:
        """Who computes how many tokens of its context in the next step."""
        budget = self._chunk
        chunks = []
        for state in self.computing:
            if not budget:
                break
            tokens = min(budget, state.to_compute)
            chunks.append((state, tokens))
            budget -= tokens
        return chunks

    def compute(self, chunks: list[tuple[State, int]]) -> list[State]:
        """A step with these chunks is complete; those whose context is computed have gained a token."""
        computed = []
        for state, tokens in chunks:
            if state not in self.computing:  # cancelled in the middle of the step
                continue
            state.computed += tokens
            if not state.to_compute:
                computed.append(state)
        return computed

    def decode(self, state: State, step: int) -> None:
        del self.computing[state]
        self._decoding.begin(state, step)

    def leave(self, state: State, step: int) -> None:
        """A running sequence does not take part in `step`: its slot and its room are free."""
        del self.running[state]
        if state.decoding_from == NOT_DECODING:
            del self.computing[state]
            self._kv.release(state.context)
            state.restart(state.generated)
        else:
            self._decoding.end(state, step)

    def cancel(self, state: State, step: int) -> None:
        """Wherever it is, it is gone. `step` is the first that has not begun."""
        if state in self.running:
            self.leave(state, step)
        elif state in self.waiting:
            self.waiting.remove(state)
        else:
            self._arrivals = [arrival for arrival in self._arrivals if arrival[2] is not state]
            heapify(self._arrivals)
