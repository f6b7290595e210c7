"""A backend into which prompts go at the speed by contract of their offer, whatever computes them.

Between the claims and any backend. A job waits here, in the order in which its offer's jobs came, until what its offer
may take in allows for it; it has a slot meanwhile, as it has in an engine that is busy with other prompts. A prompt may
begin as soon as anything is left, and what it takes beyond that holds up the next: so the largest is never refused, and
by any time no more has gone in than rate and burst allow, but for the last prompt. A job that another worker had begun
does not wait again.

Invariant: a job is in `_waiting`, or it is the backend's.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from service.messages import Event, Finished, Job, Usage
from service.shaping import Shaper
from workers.backends import Backend, Emit

_GRAIN = 0.001  # s; timers are no finer


@dataclass(slots=True)
class _Waiter:
    job: Job
    epoch: int
    queued: float
    since: float
    paused: bool = False


class _Gate:
    """Of one offer."""

    def __init__(self, rate: float, burst: float) -> None:
        self.shaper = Shaper(rate, burst)
        self.line: deque[str] = deque()  # ids; some may have left


class Intake:
    """A Backend in front of another. `clock` in seconds."""

    def __init__(self, backend: Backend, clock: Callable[[], float]) -> None:
        self._backend = backend
        self._clock = clock
        self._gates: dict[tuple[str, str], _Gate] = {}
        self._waiting: dict[str, _Waiter] = {}
        self._ended: list[Event] = []  # of jobs that the backend never had
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()

    @property
    def slots(self) -> int:
        return self._backend.slots

    @property
    def lateness(self) -> float:
        return self._backend.lateness

    def submit(self, job: Job, epoch: int, queued: float, progress: tuple[int, ...] = ()) -> None:
        if job.intake is None or any(progress):
            self._backend.submit(job, epoch, queued, progress)
            return
        gate = self._gates.setdefault((job.model, job.tier), _Gate(job.intake.rate, job.intake.burst))
        gate.line.append(job.id)
        self._waiting[job.id] = _Waiter(job, epoch, queued, self._clock())
        self._admit(gate)
        self._wake.set()

    def progress(self) -> Mapping[str, Collection[int]]:
        return self._backend.progress()

    def cancel(self, job: str) -> None:
        waiter = self._waiting.pop(job, None)
        if waiter is None:
            self._backend.cancel(job)
        else:
            self._ended.append(Finished(job, waiter.epoch, Usage(prompt=0), cancelled=True))
            self._wake.set()

    def drop(self, job: str) -> None:
        if self._waiting.pop(job, None) is None:
            self._backend.drop(job)

    def pause(self, job: str) -> None:
        if (waiter := self._waiting.get(job)) is not None:
            waiter.paused = True
        else:
            self._backend.pause(job)

    def resume(self, job: str) -> None:
        if (waiter := self._waiting.get(job)) is not None:
            waiter.paused = False
        else:
            self._backend.resume(job)

    def untouched(self) -> list[str]:
        return [*self._waiting, *self._backend.untouched()]

    async def run(self, emit: Emit) -> None:
        async def in_turn(events: list[Event]) -> None:
            async with self._turn:
                await emit(events)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._backend.run(in_turn))
            tasks.create_task(self._admit_all(in_turn))

    async def _admit_all(self, emit: Emit) -> None:
        """Jobs go in when their time has come."""
        while True:
            due = min((self._admit(gate) for gate in self._gates.values()), default=math.inf)
            gone, self._ended = self._ended, []
            if gone:
                await emit(gone)
            with suppress(TimeoutError):
                async with asyncio.timeout(None if due == math.inf else max(due - self._clock(), _GRAIN)):
                    await self._wake.wait()
            self._wake.clear()

    def _admit(self, gate: _Gate) -> float:
        """Those of an offer that may go in; returns when the next may."""
        while gate.line:
            waiter = self._waiting.get(gate.line[0])
            if waiter is not None:
                now = self._clock()
                due = gate.shaper.due(waiter.since)
                if due > now:
                    return due
                gate.shaper.take(waiter.job.prompt_tokens, waiter.since)
                self._let_in(waiter, now)
            gate.line.popleft()
        return math.inf

    def _let_in(self, waiter: _Waiter, now: float) -> None:
        del self._waiting[waiter.job.id]
        self._backend.submit(waiter.job, waiter.epoch, waiter.queued + now - waiter.since)
        if waiter.paused:
            self._backend.pause(waiter.job.id)
