"""A backend whose output is held back to the speed by contract of each job, whatever generates it.

Between any backend and the sender. Deltas wait, and are split, until their tokens may go; a first token waits for
nothing. A job whose tokens pile up is paused in its backend. Jobs without a contract pass as they are. How fast is
`service.shaping`'s business.

Invariant: of each choice of a paced job, what the backend has emitted is what has gone and then what is held, in order;
what ends the job goes when nothing of it is held any more.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from service.messages import Delta, Event, Failed, Finished, Job
from service.shaping import Shaper
from workers.backends import Backend, Emit

HELD_MAX = 64 * 1024  # bytes of text of one job; its backend is paused beyond, and goes on at a quarter
_GRAIN = 0.001  # s; timers are no finer


@dataclass(slots=True)
class _Choice:
    """`held`: what waits, and since when; `gone`: tokens."""

    shaper: Shaper
    held: deque[tuple[float, Delta]]
    gone: int


@dataclass(slots=True)
class _Stream:
    """A paced job. `last` ends it; `size` is the text that is held; `paused`, `full`: why its backend stands still."""

    job: Job
    choices: list[_Choice]
    last: Finished | Failed | None = None
    size: int = 0
    paused: bool = False
    full: bool = False

    def due(self) -> float:
        """When something of what is held may go."""
        if self.paused:
            return math.inf
        return min((each.shaper.due(each.held[0][0]) for each in self.choices if each.held), default=math.inf)

    def release(self, now: float) -> list[Event]:
        """What may go now."""
        gone: list[Event] = [] if self.paused else [delta for each in self.choices for delta in self._of(each, now)]
        if self.last is not None and not any(each.held for each in self.choices):
            gone.append(self.last)
        return gone

    def wait_since(self, now: float) -> None:
        """It is no longer paused; what has waited meanwhile is as if it came now."""
        self.paused = False
        for each in self.choices:
            each.held = deque((now, delta) for _, delta in each.held)

    def cancelled(self, end: Finished) -> Finished:
        """What is held is neither sent nor charged."""
        held = sum(delta.count for each in self.choices for _, delta in each.held)
        return replace(end, cancelled=True, usage=replace(end.usage, completion=end.usage.completion - held))

    def _of(self, choice: _Choice, now: float) -> list[Delta]:
        gone = []
        while choice.held and (ready := choice.shaper.ready(choice.held[0][0], now)):
            since, delta = choice.held.popleft()
            self.size -= len(delta.text)
            if delta.count > ready:
                delta, rest = delta.split(ready)
                choice.held.appendleft((since, rest))
                self.size += len(rest.text)
            choice.shaper.take(delta.count, since)
            choice.gone = delta.offset + delta.count
            gone.append(delta)
        return gone


class Paced:
    """A Backend in front of another. `clock` in seconds."""

    def __init__(self, backend: Backend, clock: Callable[[], float]) -> None:
        self._backend = backend
        self._clock = clock
        self._streams: dict[str, _Stream] = {}
        self._ended: list[Event] = []  # jobs that the backend knows nothing of any more
        self._emitting: list[Event] = []  # may or may not have arrived
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()

    @property
    def slots(self) -> int:
        return self._backend.slots

    @property
    def lateness(self) -> float:
        return self._backend.lateness

    def submit(self, job: Job, epoch: int, queued: float, progress: tuple[int, ...] = ()) -> None:
        if job.pace is not None:
            rate, burst = job.pace.rate, job.pace.burst
            gone = progress or (0,) * job.choices
            self._streams[job.id] = _Stream(job, [_Choice(Shaper(rate, burst), deque(), each) for each in gone])
        self._backend.submit(job, epoch, queued, progress)

    def progress(self) -> Mapping[str, Collection[int]]:
        sent = {job: list(tokens) for job, tokens in self._backend.progress().items()}
        sent |= {name: [each.gone for each in stream.choices] for name, stream in self._streams.items()}
        for event in self._emitting:
            if isinstance(event, Delta) and event.job in sent:
                tokens = sent[event.job]
                tokens[event.choice] = min(tokens[event.choice], event.offset)
        return sent

    def cancel(self, job: str) -> None:
        stream = self._streams.get(job)
        if stream is not None and isinstance(stream.last, Finished):
            del self._streams[job]
            self._ended.append(stream.cancelled(stream.last))
            self._wake.set()
        else:
            self._backend.cancel(job)

    def drop(self, job: str) -> None:
        self._streams.pop(job, None)
        self._backend.drop(job)

    def pause(self, job: str) -> None:
        if (stream := self._streams.get(job)) is not None:
            stream.paused = True
        self._backend.pause(job)

    def resume(self, job: str) -> None:
        stream = self._streams.get(job)
        if stream is not None:
            stream.wait_since(self._clock())
            self._wake.set()
        if stream is None or not stream.full:
            self._backend.resume(job)

    def untouched(self) -> list[str]:
        return self._backend.untouched()

    async def run(self, emit: Emit) -> None:
        async def pass_on(events: list[Event]) -> None:
            await self._emit(self._sort(events), emit)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._backend.run(pass_on))
            tasks.create_task(self._release(emit))

    async def _release(self, emit: Emit) -> None:
        """What is held goes when its time has come."""
        while True:
            now = self._clock()
            due = min((stream.due() for stream in self._streams.values()), default=math.inf)
            with suppress(TimeoutError):
                async with asyncio.timeout(None if due == math.inf else max(due - now, _GRAIN)):
                    await self._wake.wait()
            self._wake.clear()
            now = self._clock()
            gone, self._ended = self._ended, []
            for stream in list(self._streams.values()):
                gone += self._of(stream, now)
            await self._emit(gone, emit)

    async def _emit(self, events: list[Event], emit: Emit) -> None:
        """One emission after another: what goes first arrives first."""
        if not events:
            return
        self._emitting = [*self._emitting, *events]
        async with self._turn:  # in the order in which they were asked for
            await emit(events)
            self._emitting = self._emitting[len(events) :]

    def _sort(self, events: list[Event]) -> list[Event]:
        """What of new events may go at once; the rest is held."""
        gone: list[Event] = []
        now = self._clock()
        for event in events:
            stream = self._streams.get(event.job)
            if stream is None or not isinstance(event, Delta | Finished | Failed):
                gone.append(event)
            elif isinstance(event, Finished) and event.cancelled:
                del self._streams[event.job]
                gone.append(stream.cancelled(event))
            elif isinstance(event, Delta):
                stream.choices[event.choice].held.append((now, event))
                stream.size += len(event.text)
                gone += self._of(stream, now)
            else:
                stream.last = event
                gone += self._of(stream, now)
        self._wake.set()
        return gone

    def _of(self, stream: _Stream, now: float) -> list[Event]:
        """What of a job may go now; its backend goes on, or stands still, as there is room."""
        gone = stream.release(now)
        name = stream.job.id
        if gone and gone[-1] is stream.last:
            del self._streams[name]
        elif not stream.full and stream.size > HELD_MAX:
            stream.full = True
            self._backend.pause(name)
        elif stream.full and stream.size <= HELD_MAX // 4:
            stream.full = False
            if not stream.paused:
                self._backend.resume(name)
        return gone
