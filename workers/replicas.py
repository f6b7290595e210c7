"""A pool's replicas as one engine: who goes to which replica, and what happens to those whose replica is lost.

- A sequence goes to the replica that has most of its prompt cached, among those that have few more sequences than the
  emptiest one; if none has any of it, to the emptiest; and if all are full, to where most of worse bands make way.
- In an outage the first replicas of the pool lose what they have. Their sequences go on in the others, which compute
  their contexts again; while no replica is up, they wait. A replica that comes back begins empty.

Time is an argument, as it is for an engine; it reads `start` when the pool's clock, which incidents follow, reads 0.
Replicas are advanced lazily: only those are looked at to which something happens.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import heapify, heappop, heappush, merge
from math import inf

from service.conditions import Incident, Outage, Recurring, Slowdown, windows
from service.pools import Pool, Roofline
from workers.engine import Conditions, Ending, Engine, Limits, Occupancy, Progress, Recorded, Sequence, Snapshot

CROWDING = 1 / 8  # of a replica's slots: so many more sequences it may have than the emptiest for the sake of its cache


class Replicas:
    """`day` is what the clock of the pool's ambient profile reads at `start` (s)."""

    def __init__(self, pool: Pool, start: float = 0.0, day: float = 0.0) -> None:
        self._pool = pool
        self._engines = [_engine(pool, number, start, day) for number in range(pool.replicas)]
        self._counts = [0] * pool.replicas  # sequences placed there and not ended
        self._emptiest = [(0, number) for number in range(pool.replicas)]  # heap; what is not up to date is passed over
        self._slots = pool.slots  # of one
        self._up_count = pool.replicas
        self._crowding = int(pool.slots * CROWDING)
        self._where: dict[str, int] = {}
        self._due = [inf] * pool.replicas
        self._agenda: list[tuple[float, int]] = []  # heap of (due, replica); what is not up to date is passed over
        self._down = [0] * pool.replicas  # outages that a replica is in
        self._turns = _turns(pool.incidents, start)
        self._turn = next(self._turns, None)
        self._homeless: list[Sequence] = []  # while no replica is up
        self._moved: dict[str, tuple[float | None, int]] = {}  # what had become of it where it was before

    @property
    def slots(self) -> int:
        """How many sequences the replicas that are up run at once."""
        return self._slots * self._up_count

    def add(self, sequence: Sequence) -> None:
        """Raises NeverFits, as an engine does."""
        if not self._up_count:
            self._homeless.append(sequence)
            return
        number = self._choose(sequence)
        self._engines[number].add(sequence)
        self._where[sequence.id] = number
        self._count(number, 1)
        self._reschedule(number)

    def cancel(self, id: str) -> None:  # noqa: A002 - the field's own word
        """The sequence is gone. An id that is not here is ignored."""
        number = self._where.get(id)
        if number is not None:
            self._engines[number].cancel(id)
            self._forget(id)
            self._reschedule(number)
        self._homeless = [sequence for sequence in self._homeless if sequence.id != id]

    def advance(self, to_time: float) -> list[Progress]:
        """What became of each sequence that gained tokens up to `to_time` (s) and was not reported yet."""
        if self._turn is None or self._turn[0] > to_time:
            return self._advance_all(to_time)
        latest: dict[str, Progress] = {}
        while self._turn is not None and self._turn[0] <= to_time:
            _note(latest, self._advance_all(self._turn[0]))
            self._take_turn(*self._turn)
        _note(latest, self._advance_all(to_time))
        return list(latest.values())

    def endings(self, to_time: float) -> list[Ending]:
        """Which sequences ended up to `to_time` (s), for who does not want to know how the others get on."""
        ended: list[Ending] = []
        while self._turn is not None and self._turn[0] <= to_time:
            ended += self._endings(self._turn[0])
            self._take_turn(*self._turn)
        return ended + self._endings(to_time)

    def next_event(self, not_before: float | None = None) -> float | None:
        """As an engine's: when something changes, or with `not_before` when there is something to report."""
        concerned = self._where or self._homeless or self._up_count < len(self._engines)
        turn = self._turn[0] if self._turn is not None and concerned else inf
        if not_before is None:
            time = min(self._next_due(), turn)
        else:
            times = [
                engine.next_event(not_before) for engine, many in zip(self._engines, self._counts, strict=True) if many
            ]
            time = min((max(turn, not_before), *(time for time in times if time is not None)))
        return None if time == inf else time

    @property
    def next_turn(self) -> float:
        """When replicas are lost or come back next (s), whether anybody is here or not."""
        return inf if self._turn is None else self._turn[0]

    def begun(self, id: str) -> bool:  # noqa: A002
        """Whether a sequence that is here has had its first token."""
        moved = self._moved.get(id)
        if moved is not None and moved[0] is not None:
            return True
        number = self._where.get(id)
        return number is not None and self._engines[number].gained(id)[0] is not None

    def occupancies(self) -> list[Occupancy]:
        return [engine.occupancy() for engine in self._engines]

    def snapshots(self) -> list[Snapshot]:
        return [engine.snapshot() for engine in self._engines]

    def __contains__(self, id: str) -> bool:  # noqa: A002
        return id in self._where

    # ---- where to

    def _choose(self, sequence: Sequence) -> int:
        heap, counts, engines = self._emptiest, self._counts, self._engines
        while heap[0][0] != counts[heap[0][1]] or self._down[heap[0][1]]:
            heappop(heap)  # one that is down comes back with an entry of its own
        least, emptiest = heap[0]
        blocks = sequence.blocks
        if least >= self._slots:  # where somebody makes way, if there is such a one
            return max(self._up(), key=lambda number: (engines[number].yielding(sequence.band), number == emptiest))
        if not blocks:
            return emptiest
        near = (number for number in self._up() if counts[number] <= least + self._crowding)
        return max(near, key=lambda number: (engines[number].cached(blocks), -counts[number], number == emptiest))

    def _up(self) -> list[int]:
        return [number for number, down in enumerate(self._down) if not down]

    def _forget(self, id: str) -> None:  # noqa: A002
        number = self._where.pop(id)
        if self._moved:
            self._moved.pop(id, None)
        self._count(number, -1)

    def _count(self, number: int, change: int) -> None:
        many = self._counts[number] = self._counts[number] + change
        heappush(self._emptiest, (many, number))
        if len(self._emptiest) > 8 * len(self._counts) + 64:
            self._emptiest = [(many, number) for number, many in enumerate(self._counts)]
            heapify(self._emptiest)

    # ---- when

    def _reschedule(self, number: int) -> None:
        due = self._engines[number].due
        if due != self._due[number]:
            self._due[number] = due
            if due < inf:
                heappush(self._agenda, (due, number))

    def _next_due(self) -> float:
        agenda, due = self._agenda, self._due
        while agenda and agenda[0][0] != due[agenda[0][1]]:
            heappop(agenda)
        return agenda[0][0] if agenda else inf

    def _endings(self, to_time: float) -> list[Ending]:
        ended: list[Ending] = []
        moved, agenda = self._moved, self._agenda
        while (due := self._next_due()) <= to_time:
            number = heappop(agenda)[1]
            for ending in self._engines[number].endings(due):
                if moved and ending.id in moved:
                    first, cached = moved[ending.id]
                    ending = ending._replace(first=ending.first if first is None else first, cached=cached)
                self._forget(ending.id)
                ended.append(ending)
            self._due[number] = inf
            self._reschedule(number)
        return ended

    def _advance_all(self, to_time: float) -> list[Progress]:
        reports: list[Progress] = []
        for number, engine in enumerate(self._engines):
            if not self._counts[number] and self._due[number] > to_time:
                continue  # nobody is there, and no step is in flight that the last one has left behind
            for report in engine.advance(to_time):
                if report.id in self._moved:
                    first, cached = self._moved[report.id]
                    report = report._replace(first=None if first is not None else report.first, cached=cached)
                reports.append(report)
                if report.finished:
                    self._forget(report.id)
            self._reschedule(number)
        return reports

    # ---- outages

    def _take_turn(self, time: float, began: bool, replicas: int) -> None:
        """An outage begins, or is over, for the first so many replicas."""
        self._turn = next(self._turns, None)
        lost: list[Sequence] = []
        for number in range(min(replicas, len(self._engines))):
            self._down[number] += 1 if began else -1
            if began and self._down[number] == 1:
                lost += self._evict(number, time)
            elif not self._down[number]:
                heappush(self._emptiest, (self._counts[number], number))
        self._up_count = self._down.count(0)
        if self._up_count:
            lost, self._homeless = self._homeless + lost, []
        for sequence in lost:
            self.add(replace(sequence, arrival=max(sequence.arrival, time)))

    def _evict(self, number: int, time: float) -> list[Sequence]:
        engine = self._engines[number]
        engine.endings(time)  # it may not have been looked at since its last change
        for id, where in list(self._where.items()):  # noqa: A001
            if where == number:
                first, cached = engine.gained(id)
                before = self._moved.get(id, (None, cached))
                self._where.pop(id)
                self._moved[id] = (first if before[0] is None else before[0], before[1])
        self._counts[number] = 0
        lost = engine.evict()
        self._reschedule(number)
        return lost


def _note(latest: dict[str, Progress], reports: list[Progress]) -> None:
    """One report of each sequence is left, which has the first token if one of them had it."""
    for report in reports:
        before = latest.get(report.id)
        first = report.first if before is None or before.first is None else before.first
        latest[report.id] = report._replace(first=first)


Turn = tuple[float, bool, int]  # when, whether an outage begins, of how many replicas


def _turns(incidents: Iterable[Incident | Recurring], start: float) -> Iterator[Turn]:
    """When replicas are lost and come back, in the order of time; at equal times they come back first."""
    return merge(*(_turns_of(incident, start) for incident in incidents if _is(Outage, incident)))


def _turns_of(incident: Incident | Recurring, start: float) -> Iterator[Turn]:
    ends: list[Turn] = []
    for outage in windows(incident):
        assert isinstance(outage, Outage)
        begins = start + outage.start
        while ends and ends[0][0] <= begins:
            yield heappop(ends)
        yield begins, True, outage.replicas
        heappush(ends, (start + outage.end + outage.cold_start, False, outage.replicas))
    yield from sorted(ends)


def _is(kind: type[Incident], incident: Incident | Recurring) -> bool:
    return isinstance(incident.example if isinstance(incident, Recurring) else incident, kind)


def _engine(pool: Pool, number: int, start: float, day: float) -> Engine | Recorded:
    """The replica of that number. Drawn ambient loads of different replicas have nothing to do with each other."""
    cache = pool.prefix_cache
    limits = Limits(
        max_batch=pool.limits.max_batch,
        prefill_chunk=pool.limits.prefill_chunk,
        block=cache.block if cache else 0,
        cached_min=cache.minimum if cache else 0,
        aging=pool.aging,
    )
    ambient = replace(pool.ambient, seed=pool.ambient.seed + number)
    slowdowns = [incident for incident in pool.incidents if _is(Slowdown, incident)]
    conditions = Conditions(ambient, slowdowns, day=day)
    if isinstance(pool.timing, Roofline):
        return Engine(pool.timing.step_time, limits, conditions, start)
    return Recorded(pool.timing, limits, conditions, start)
