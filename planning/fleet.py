"""One pool in virtual time: its queue, the front end, and its replicas.

A request is claimed when it comes, if a slot is free and nobody waits; else when a slot falls free and it is its turn.
One of a better band is also claimed where one of a worse band, claimed before it, has had no token yet and makes way.
It then passes the front end, whose delay is drawn as workers/backends draws it, and holds its slot until its last
token. Nothing happens between events, so time goes from event to event while somebody waits for a slot, and from
arrival to arrival while nobody does.

Knows nothing about tiers' prices or about other pools.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat
from math import inf, log

import numpy as np

from planning.tally import Row, Tally
from planning.waiting import Waiting
from service.pools import Pool
from workers.engine import NeverFits, Sequence
from workers.replicas import Replicas

_CHUNK = 1024  # front-end delays drawn together

_Waiter = tuple[float, int, int, tuple[int, ...], Tally]  # arrived, prompt, output, blocks
_Runner = tuple[float, float, int, Callable[[Row], None]]  # arrived, claimed, prompt, where its row goes


@dataclass(slots=True)
class Samples:
    """What the pool looked like every `every` seconds; of its own sequences, in sum over the replicas."""

    every: float
    waiting: list[int] = field(default_factory=list)  # in the queue
    claimed: list[int] = field(default_factory=list)  # slots held
    running: list[int] = field(default_factory=list)  # in a batch
    busy: list[int] = field(default_factory=list)  # replicas that run something
    kv: list[float] = field(default_factory=list)  # tokens held


class Fleet:
    """`pool` begins empty at time 0, and is looked at every `sample_every` seconds. Equal seeds, equal draws.

    `bands` are those of the requests that will come.
    """

    def __init__(self, pool: Pool, bands: Collection[int], seed: int, sample_every: float) -> None:
        self.samples = Samples(sample_every)
        self.now = 0.0
        self._replicas = Replicas(pool, 0.0)
        self._waiting: Waiting[_Waiter] = Waiting(pool.queue_max, pool.queue_wait_max, pool.aging)
        self._running: dict[str, _Runner] = {}
        self._worst = max(bands) if len(set(bands)) > 1 else 0  # 0: nobody makes way
        self._fresh: dict[str, int] = {}  # claimed -> band; who has had no token yet is among them
        self._delays = _delays(pool, seed)
        self._numbers = 0
        self._seed = seed << 32
        self._next_sample = 0.0

    def arrive(self, now: float, prompt: int, output: int, blocks: tuple[int, ...], tenant: int, tally: Tally) -> None:
        """A request comes, not before any other did."""
        self._pass(now)
        tally.asked += 1
        if not tally.fits(prompt, output):
            tally.refused += 1
        elif not self._waiting and len(self._running) < self._replicas.slots:
            self._start(now, (now, prompt, output, blocks, tally))
        elif not self._waiting.offer(
            now, (now, prompt, output, blocks, tally), tenant, prompt + output, tally.offer.band
        ):
            tally.full += 1
        elif self._worst:
            self._claim(now)

    @property
    def due(self) -> float:
        """When something happens next if nobody comes (s); infinity while nobody is here."""
        if not (self._running or self._waiting):
            return inf
        return min(self._next_event(), self._waiting.patient_until if self._waiting else inf)

    def go_on(self, now: float) -> None:
        """Time passes, and nobody comes meanwhile."""
        self._pass(now)

    def drain(self) -> None:
        """Time passes until nobody is here."""
        while self._running or self._waiting:
            event = min(self._next_event(), self._waiting.patient_until)
            assert event < inf, "somebody is served, and nothing will happen"
            self._pass(event)

    def _pass(self, now: float) -> None:
        """What happens up to `now`."""
        while self._next_sample <= now:
            self._go(self._next_sample)
            self._look()
            self._next_sample += self.samples.every
        self._go(now)

    def _go(self, now: float) -> None:
        if self._waiting:
            replicas = self._replicas
            while (event := self._next_event()) <= now:
                turn = event == replicas.next_turn
                if self._settle(event) or turn or event >= self._waiting.patient_until:
                    self._claim(event)
                    if not self._waiting:
                        break
        self._settle(now)
        if self._waiting:
            self._claim(now)

    def _next_event(self) -> float:
        """While somebody waits: of the replicas, or when some of them are lost or come back."""
        event = self._replicas.next_event()
        turn = self._replicas.next_turn if self._waiting else inf
        return turn if event is None else min(event, turn)

    def _settle(self, now: float) -> bool:
        """Whether somebody has ended by `now`."""
        ended = self._replicas.endings(now)
        for id, output, first, last, cached in ended:  # noqa: A001
            arrived, claimed, prompt, complete = self._running.pop(id)
            complete((arrived, claimed, prompt, output, cached, first, last))
        self.now = now
        return bool(ended)

    def _claim(self, now: float) -> None:
        waiting = self._waiting
        if now >= waiting.patient_until:
            for waiter in waiting.expire(now):
                waiter[4].late += 1
        slots, running = self._replicas.slots, self._running
        while waiting and (len(running) < slots or (self._worst and self._make_way(waiting.next_band()))):
            self._start(now, waiting.claim())

    def _make_way(self, band: int) -> bool:
        """Whether those claimed of worse bands that have had no token yet are more than those they made way for."""
        begun, running = self._replicas.begun, self._running
        self._fresh = {id: of for id, of in self._fresh.items() if id in running and not begun(id)}  # noqa: A001
        return len(running) - self._replicas.slots < sum(of > band for of in self._fresh.values())

    def _start(self, now: float, waiter: _Waiter) -> None:
        arrived, prompt, output, blocks, tally = waiter
        self._numbers += 1
        number = self._numbers
        sequence = Sequence(
            str(number), now + next(self._delays), prompt, output, 0, self._seed + number, tally.offer.band, blocks
        )
        try:
            self._replicas.add(sequence)
        except NeverFits:
            tally.refused += 1
        else:
            self._running[sequence.id] = arrived, now, prompt, tally.rows.append
            if self._worst:
                self._fresh[sequence.id] = tally.offer.band

    def _look(self) -> None:
        occupancies = self._replicas.occupancies()
        samples = self.samples
        samples.waiting.append(len(self._waiting))
        samples.claimed.append(len(self._running))
        samples.running.append(sum(replica.running for replica in occupancies))
        samples.busy.append(sum(replica.running > 0 for replica in occupancies))
        samples.kv.append(sum(replica.kv_held for replica in occupancies))


def _delays(pool: Pool, seed: int) -> Iterator[float]:
    """Seconds in front of the engine, lognormal."""
    if pool.frontend_median <= 0:
        return repeat(0.0)
    random = np.random.default_rng((seed, 100))
    mean, sigma = log(pool.frontend_median), pool.frontend_sigma
    return chain.from_iterable(random.lognormal(mean, sigma, _CHUNK).tolist() for _ in repeat(None))
