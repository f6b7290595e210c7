"""Who waits, who runs, and who makes room: the sequences of one replica at a step boundary.

A sequence is in exactly one of these places:

    coming ──arrive──► waiting ──admit──► computing ──computed──► decoding ──leave──► gone
                          ▲                   │                      │
                          └──────pre-empt─────┴──────────────────────┘

- Who is before whom is settled on arrival: by the time of it, plus `aging` seconds for each band. So a sequence yields
  to better ones that come within that time after it, and to none that come later: nobody waits for ever.
- While the head of those that wait does not fit, nobody behind it is admitted.
- Admission takes a slot, and room for the whole context beside what the next step adds; what the cache has of the
  prompt needs no room twice.
- For a head that does not fit, sequences of worse bands that have not had their first token yet make way, if that
  helps. A stream that has begun is never interrupted for another's sake.
- When the next step does not fit, the last in order makes room, begun or not, and later computes its prompt and what
  it generated again.
- Contexts are computed in order, at most `chunk` tokens in a step; who has nothing left to compute decodes in the same
  step.

Knows nothing about how long a step takes.
"""

from bisect import bisect_left, insort
from collections import Counter
from heapq import heapify, heappop, heappush
from itertools import chain
from math import inf

from workers.engine.decoding import Decoding
from workers.engine.kv_cache import KVCache
from workers.engine.sequence import NOT_ASKED, Place, State

INSTANT = 1e-9  # an arrival that close after a boundary is on it: rounding must not cost it a step (s)

Order = tuple[float, int, State]


class Scheduler:
    """Sequences run in `slots`, in the room that `kv` has. Hits of less than `cached_min` tokens are not used."""

    def __init__(self, chunk: int, cached_min: int, kv: KVCache, decoding: Decoding) -> None:
        self.slots = 0
        self.coming: list[tuple[float, int, State]] = []  # heap by the time of arrival
        self.waiting: list[Order] = []  # heap
        self.computing: list[Order] = []  # sorted
        self.preemptions = 0
        self.asked = 0  # prompt tokens looked up in the cache
        self.hit = 0  # those of them that were there
        self._chunk = chunk
        self._cached_min = cached_min
        self._kv = kv
        self._decoding = decoding
        self._bands: set[int] = set()

    @property
    def running(self) -> int:
        return len(self.computing) + len(self._decoding.sequences)

    def expect(self, state: State) -> None:
        """A sequence will arrive when it is due."""
        self._bands.add(state.sequence.band)
        heappush(self.coming, (state.due, state.number, state))

    def next_arrival(self) -> float:
        """When the next sequence arrives that could be admitted. With one band, none can while another waits."""
        if not self.coming or (self.waiting and len(self._bands) == 1):
            return inf
        return self.coming[0][0]

    def arrived(self, time: float) -> int:
        """How many have arrived by `time`, and no boundary has seen them yet."""
        return sum(due <= time for due, _, _ in self.coming)

    def arrive(self, time: float) -> None:
        """The boundary at `time` sees who has arrived."""
        coming = self.coming
        while coming and coming[0][0] - INSTANT <= time:
            state = heappop(coming)[2]
            state.place = Place.WAITING
            heappush(self.waiting, (state.key, state.number, state))

    def yielding(self, band: int) -> int:
        """How many run that are of a worse band and have not had their first token."""
        return sum(state.sequence.band > band and not state.generated for _, _, state in self.computing)

    def admit(self, step: int, time: float) -> None:
        """Whoever has a slot and room, or for whom others make way, takes part from `step` on."""
        waiting, computing, kv = self.waiting, self.computing, self._kv
        while waiting:
            order = waiting[0]
            state = order[2]
            hit = self._hit(state, time) if state.blocks else 0
            fits = self.running < self.slots and kv.fits(self._need(state, hit), step)
            if not fits and not self._make_way(order, hit, step, time):
                return
            heappop(waiting)
            if state.blocks:
                self._note(state, hit)
            if hit:
                kv.share_blocks(state, hit)
            kv.reserved += state.private
            state.place = Place.COMPUTING
            if computing and computing[-1] > order:
                insort(computing, order)
            else:
                computing.append(order)

    def has_room(self, step: int) -> bool:
        """Whether what runs can take `step`."""
        return self._kv.fits(0, step)

    def make_room(self, step: int, time: float) -> list[State]:
        """Some leave, so that the rest can take `step`; those of them that decoded.

        One that runs alone never has to: it would not have been added.
        """
        decoded = []
        while not self.has_room(step):
            assert self.running > 1, "a sequence that runs alone outgrew the cache"
            running = chain(self._decoding.sequences, (order[2] for order in self.computing))
            last = max(running, key=lambda state: (state.key, state.number))
            if last.place == Place.DECODING:
                decoded.append(last)
            self._preempt(last, step, time)
        return decoded

    def chunks(self) -> list[tuple[State, int]]:
        """Who computes how many tokens of its context in the next step."""
        budget = self._chunk
        chunks = []
        for _, _, state in self.computing:
            tokens = min(budget, state.context - 1 - state.computed)
            chunks.append((state, tokens))
            budget -= tokens
            if not budget:
                break
        return chunks

    def compute(self, chunks: list[tuple[State, int]]) -> list[State]:
        """A step with these chunks is complete; those whose context is computed have gained a token."""
        computed = []
        for state, tokens in chunks:
            if state.place != Place.COMPUTING:  # cancelled in the middle of the step
                continue
            state.computed += tokens
            if state.computed == state.context - 1:
                computed.append(state)
        return computed

    def decode(self, state: State, step: int) -> None:
        """Its context is computed: it decodes from `step` on."""
        self._cease_computing(state)
        self._decoding.begin(state, step)

    def finish(self, state: State, step: int, time: float) -> None:
        """It has all its tokens; its slot and its room are free."""
        if state.shared:
            self._kv.drop(state, time)
        if state.place == Place.COMPUTING:
            self._cease_computing(state)
        else:
            self._decoding.finish(state, step)

    def leave(self, state: State, step: int, time: float) -> None:
        """A running sequence does not take part in `step`: its slot and its room are free."""
        if state.shared:
            self._kv.drop(state, time)
        if state.place == Place.COMPUTING:
            self._cease_computing(state)
            state.restart()
        else:
            self._decoding.end(state, step)

    def cancel(self, state: State, step: int, time: float) -> None:
        """Wherever it is, it is gone. `step` is the first that has not begun."""
        if state.place == Place.COMING:
            self.coming = [coming for coming in self.coming if coming[2] is not state]
            heapify(self.coming)
        elif state.place == Place.WAITING:
            self.waiting = [order for order in self.waiting if order[2] is not state]
            heapify(self.waiting)
        else:
            self.leave(state, step, time)
        state.place = Place.GONE

    def _hit(self, state: State, time: float) -> int:
        """How many leading blocks it finds and may use: one token at least is left to compute."""
        hit = self._kv.prefixes.hit(state.blocks, (state.context - 2) // self._kv.block, time)
        return hit if hit * self._kv.block >= self._cached_min else 0

    def _need(self, state: State, hit: int) -> int:
        """Tokens of room, beside what is held."""
        if not hit:
            return state.context
        block = self._kv.block
        return state.context - hit * block + self._kv.prefixes.idle_among(state.blocks, hit) * block

    def _note(self, state: State, hit: int) -> None:
        block = self._kv.block
        self.asked += min(len(state.blocks), (state.context - 2) // block) * block
        self.hit += hit * block
        if state.cached == NOT_ASKED:
            state.cached = hit * block

    def _make_way(self, head: Order, hit: int, step: int, time: float) -> bool:
        """As few as need be of those who can make way do, the last in order first; if all do not help, none."""
        band = head[2].sequence.band
        able = [
            order[2]
            for order in reversed(self.computing)
            if order[2].sequence.band > band and order > head and not order[2].generated
        ]
        for count in range(1, len(able) + 1):
            if self._would_fit(head[2], hit, step, able[:count]):
                for state in able[:count]:
                    self._preempt(state, step, time)
                return True
        return False

    def _would_fit(self, head: State, hit: int, step: int, leaving: list[State]) -> bool:
        """Whether the head fits once they have left. What only they use of the cache becomes idle then."""
        if self.running - len(leaving) >= self.slots:
            return False
        kv = self._kv
        used = Counter(block for state in leaving for block in state.blocks[: state.shared])
        freed = {block for block, times in used.items() if kv.prefixes.held[block] == times}
        again = sum(block in freed for block in head.blocks[:hit])
        room = sum(state.private for state in leaving) + (len(freed) - again) * kv.block
        return kv.fits(self._need(head, hit) - room, step)

    def _preempt(self, state: State, step: int, time: float) -> None:
        self.leave(state, step, time)
        state.place = Place.WAITING
        heappush(self.waiting, (state.key, state.number, state))
        self.preemptions += 1

    def _cease_computing(self, state: State) -> None:
        self._kv.reserved -= state.private
        computing = self.computing
        if computing[0][2] is state:
            del computing[0]
        else:
            del computing[bisect_left(computing, (state.key, state.number))]
