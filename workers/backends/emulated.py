"""The emulated engine in real time: virtual time follows the clock, tokens go out when they are due.

- A first and a last token are emitted when they are due. What is between, and that a job has started, is coalesced for
  `flush_every`, or until the step ends where a step takes longer.
- Tokens are a script written beforehand (workers.content); the engine only says how many of them are out.
- A paused sequence leaves the batch, and comes back with its context to be recomputed, as a pre-empted one does.
- A job that comes from another worker goes on where its gateway is: what was generated is recomputed as a prompt is.
- When nobody takes its events, the engines soon stand still. They do not make up for it later.
- What is emitted is cut where a part of an answer ends.
- A choice is written when its turn comes, a few at a time: many long ones at once must not hold up what is due.
- It says how late it is: an emulator that cannot keep up gives wrong speeds, and must not do so silently.
"""

import asyncio
import logging
import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from service import prefixes
from service.messages import Delta, Event, Failed, Failure, Finished, Job, Part, Started, Usage
from service.metrics import PoolMetrics
from service.pools import Pool
from workers.backends import Emit
from workers.content import Script, Unsatisfiable, compose
from workers.engine import NeverFits, Progress, Sequence
from workers.replicas import Replicas

log = logging.getLogger(__name__)

_BACKLOG = 0.25  # s that the engines run on while their events are not taken
_PLACING = 0.005  # s in a row for writing and placing choices; a long one alone may take 25 ms
_CLOCK_GRAIN = 0.001  # s; a wake-up earlier than the event loop can tell apart would only spin


@dataclass(slots=True)
class _Choice:
    """One sequence of a job. Invariant: sent <= out <= script.tokens."""

    id: str
    run: "_Run"
    index: int
    script: Script
    out: int = 0  # tokens generated
    sent: int = 0  # tokens emitted
    cached: int = 0  # tokens of the prompt that were found in the cache
    ended: bool = False


@dataclass(slots=True)
class _Run:
    """A job being served; `choices` are those placed so far. `before` are tokens that an earlier worker has sent."""

    job: Job
    epoch: int
    arrival: float
    before: tuple[int, ...]
    choices: list[_Choice] = field(default_factory=list)
    paused: bool = False

    @property
    def placed(self) -> bool:
        return len(self.choices) == self.job.choices

    @property
    def ended(self) -> bool:
        return self.placed and all(choice.ended for choice in self.choices)

    @property
    def cached(self) -> int:
        """Of the prompt, which all choices have in common: what the first one found."""
        return self.choices[0].cached if self.choices else 0

    def usage(self) -> Usage:
        """Of a predicted output, what was rejected is known, and charged, when its choice has ended."""
        generated = sum(choice.out for choice in self.choices) + sum(self.before[len(self.choices) :])
        ended = [choice.script for choice in self.choices if choice.ended]
        rejected = sum(script.rejected for script in ended)
        written, written_long = self.job.written(self.cached)
        return Usage(
            prompt=self.job.prompt_tokens,
            cached=self.cached,
            completion=generated + rejected,
            reasoning=sum(min(choice.out, choice.script.reasoning) for choice in self.choices),
            accepted=sum(script.accepted for script in ended),
            rejected=rejected,
            written=written,
            written_long=written_long,
        )

    def sent(self) -> list[int]:
        return [*(choice.sent for choice in self.choices), *self.before[len(self.choices) :]]


class Emulated:
    """A pool's replicas, hosted by one worker."""

    def __init__(
        self, pool: Pool, clock: Callable[[], float], flush_every: float, metrics: PoolMetrics, day: float = 0.0
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._flush_every = flush_every
        self._metrics = metrics
        self._haste = pool.prefix_cache.haste if pool.prefix_cache is not None else 1.0
        self._replicas = Replicas(pool, start=clock(), day=day)
        self._runs: dict[str, _Run] = {}
        self._choices: dict[str, _Choice] = {}
        self._held: dict[str, _Choice] = {}  # choices with tokens out that wait for the next tick
        self._unplaced: deque[_Run] = deque()  # jobs with choices to place
        self._outgoing: list[Event] = []  # must not wait
        self._begun: list[Event] = []  # may wait for the next tick; always told first
        self._emitting: list[Event] = []  # may or may not have arrived
        self._wake = asyncio.Event()
        self._tick = clock()  # from when on held tokens may go out
        self._stood_still = 0.0
        self._stands_still_at = math.inf
        self._late_sum = 0.0
        self._late_count = 0
        metrics.batch_max.set(self._replicas.slots)

    @property
    def slots(self) -> int:
        return self._replicas.slots

    @property
    def lateness(self) -> float:
        mean = self._late_sum / self._late_count if self._late_count else 0.0
        self._late_sum, self._late_count = 0.0, 0
        return mean

    def submit(self, job: Job, epoch: int, queued: float, progress: tuple[int, ...] = ()) -> None:
        arrival = self._now() + (0 if progress else self._frontend(job))
        run = self._runs[job.id] = _Run(job, epoch, arrival, progress or (0,) * job.choices)
        self._begun.append(Started(job.id, epoch, queued))
        self._unplaced.append(run)
        self._wake.set()

    def progress(self) -> dict[str, list[int]]:
        sent = {job: run.sent() for job, run in self._runs.items()}
        for event in self._emitting:
            if isinstance(event, Delta) and event.job in sent:
                tokens = sent[event.job]
                tokens[event.choice] = min(tokens[event.choice], event.offset)
        return sent

    def cancel(self, job: str) -> None:
        run = self._runs.get(job)
        if run is not None:
            self._end(run)
            self._outgoing.append(Finished(job, run.epoch, run.usage(), cancelled=True))
            self._wake.set()

    def drop(self, job: str) -> None:
        run = self._runs.get(job)
        if run is not None:
            self._end(run)
            self._wake.set()

    def pause(self, job: str) -> None:
        run = self._runs.get(job)
        if run is None or run.paused:
            return
        run.paused = True
        for choice in run.choices:
            self._replicas.cancel(choice.id)
        self._wake.set()

    def resume(self, job: str) -> None:
        run = self._runs.get(job)
        if run is None or not run.paused:
            return
        run.paused = False
        for choice in run.choices:
            if not choice.ended:
                self._replicas.add(self._sequence(choice, self._now()))
        self._wake.set()

    def untouched(self) -> list[str]:
        return [run.job.id for run in self._runs.values() if not any(choice.out for choice in run.choices)]

    async def run(self, emit: Emit) -> None:
        while True:
            await self._sleep_until(self._next_wake())
            self._place_some()
            now = self._now()
            events = self._collect(now)
            self._report(events, now)
            if events:
                self._emitting, self._stands_still_at = events, now + _BACKLOG
                await emit(events)
                self._stood_still += max(0.0, self._clock() - self._stood_still - self._stands_still_at)
                self._emitting, self._stands_still_at = [], math.inf

    def _now(self) -> float:
        """The time of the engines, in seconds: the clock's, less what they have stood still."""
        return min(self._clock() - self._stood_still, self._stands_still_at)

    def _next_wake(self) -> float:
        """When the next token has to go out, or a gauge to fall; infinity while there is nothing to do."""
        if self._outgoing or self._unplaced:
            return -math.inf
        change = self._replicas.next_event()
        tick = self._tick if self._held or self._begun else self._replicas.next_event(not_before=self._tick)
        return min(time for time in (self._metrics.rate_due, change, tick) if time is not None)

    async def _sleep_until(self, due: float) -> None:
        wait = due - self._now()
        if wait <= 0:
            await asyncio.sleep(0)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(None if wait == math.inf else max(wait, _CLOCK_GRAIN)):
                    await self._wake.wait()
        self._wake.clear()

    def _collect(self, now: float) -> list[Event]:
        """Everything to be told at `now`, in an order that keeps each job's grammar."""
        choices = self._choices
        events, self._outgoing = self._outgoing, []
        for progress in self._replicas.advance(now):
            choice = choices[progress.id]
            choice.out, choice.cached = progress.tokens, progress.cached
            if progress.first is None and not progress.finished:
                self._held[progress.id] = choice
            else:
                events += self._at_once(choice, progress, now)
        ticks = now >= self._tick and bool(self._held or self._begun)
        if ticks:
            held, self._held = self._held, {}
            for choice in held.values():
                events += self._deltas(choice)
            self._tick = now + self._flush_every
        if events or ticks:
            events, self._begun = self._begun + events, []
        return events

    def _at_once(self, choice: _Choice, progress: Progress, now: float) -> Iterator[Event]:
        """What must not wait: a first token, a last one, the end of a job."""
        self._late(now - (progress.time if progress.first is None else progress.first))
        self._held.pop(choice.id, None)
        choice.ended = progress.finished
        yield from self._deltas(choice)
        if not progress.finished:
            return
        if choice.run.ended:
            yield self._finish(choice.run)

    def _finish(self, run: _Run) -> Finished:
        self._end(run)
        return Finished(run.job.id, run.epoch, run.usage())

    def _deltas(self, choice: _Choice) -> list[Delta]:
        """What has been generated and not been emitted: one event for each part it belongs to."""
        start, choice.sent = choice.sent, choice.out
        run, script = choice.run, choice.script
        finish = script.finish if choice.ended else None
        if start and finish is None and len(script.parts) == 1 and script.logprobs is None:  # nearly every time
            text = script.text(start, choice.out)
            return [Delta(run.job.id, run.epoch, choice.index, start, choice.out - start, text)]
        deltas = [self._delta(choice, first, end, part) for first, end, part in script.cut(start, choice.out)]
        if finish is not None:
            deltas[-1] = msgspec.structs.replace(deltas[-1], finish=finish, stopped=script.stopped)
        return deltas

    def _delta(self, choice: _Choice, start: int, end: int, part: Part | None) -> Delta:
        run, script = choice.run, choice.script
        if part is not None and start == 0:
            part = msgspec.structs.replace(part, cached=choice.cached)
        text, logprobs = script.text(start, end), script.logprob(start, end)
        return Delta(run.job.id, run.epoch, choice.index, start, end - start, text, part=part, logprobs=logprobs)

    def _place_some(self) -> None:
        """Place the choices that wait for it, in order, for as long as what is due can wait."""
        until = self._clock() + _PLACING
        while self._unplaced and self._clock() < until:
            run = self._unplaced[0]
            if self._runs.get(run.job.id) is run:
                try:
                    self._place(run)
                except Exception as error:  # noqa: BLE001 - one job's fault must not take the worker with it
                    self._refuse(run, error)
            if run.placed or self._runs.get(run.job.id) is not run:
                self._unplaced.popleft()

    def _place(self, run: _Run) -> None:
        """The next choice of the job. Raises NeverFits."""
        index = len(run.choices)
        sent = run.before[index]
        script = compose(run.job, index)
        choice = _Choice(f"{run.job.id}/{index}", run, index, script, out=sent, sent=sent)
        if sent == script.tokens:  # an earlier worker has sent every token, but maybe not that it was the last
            choice.ended = True
            self._outgoing += self._deltas(choice)
        elif not run.paused:
            self._replicas.add(self._sequence(choice, run.arrival))
        run.choices.append(choice)
        self._choices[choice.id] = choice
        if run.ended:
            self._outgoing.append(self._finish(run))

    def _refuse(self, run: _Run, error: Exception) -> None:
        if isinstance(error, NeverFits | Unsatisfiable):
            why = str(error)
        else:
            log.exception("job %s cannot be taken up", run.job.id)
            why = f"The request cannot be served ({type(error).__name__})."
        self._end(run)
        kind = Failure.UNSATISFIABLE if isinstance(error, Unsatisfiable) else Failure.BACKEND
        self._outgoing.append(Failed(run.job.id, run.epoch, kind, why))

    def _sequence(self, choice: _Choice, arrival: float) -> Sequence:
        job = choice.run.job
        return Sequence(
            choice.id,
            arrival,
            job.prompt(choice.index)[1],
            choice.script.tokens,
            generated=choice.out,
            seed=seed_of(choice.id),
            band=job.band,
            blocks=prefixes.unpack(job.blocks),
            keep=tuple((tokens, seconds / self._haste) for tokens, seconds in job.keep),
        )

    def _end(self, run: _Run) -> None:
        """Frees everything the job holds; its choices that still run leave the batch."""
        self._runs.pop(run.job.id, None)
        for choice in run.choices:
            self._replicas.cancel(choice.id)
            self._choices.pop(choice.id, None)
            self._held.pop(choice.id, None)

    def _frontend(self, job: Job) -> float:
        """Seconds in front of the engine: network, tokenizer, scheduler. Lognormal, drawn from the job's id."""
        if self._pool.frontend_median <= 0:
            return 0.0
        return random.Random(job.id).lognormvariate(math.log(self._pool.frontend_median), self._pool.frontend_sigma)

    def _late(self, seconds: float) -> None:
        self._late_sum += seconds
        self._late_count += 1
        self._metrics.lateness.observe(seconds)

    def _report(self, events: list[Event], now: float) -> None:
        self._metrics.engine(self._replicas.snapshots())
        self._metrics.generated(sum(event.count for event in events if isinstance(event, Delta)), now)


def seed_of(choice: str) -> int:
    """Of what is drawn for a choice: the same in every process, and for what is left of it after a pause."""
    return random.Random(choice).getrandbits(63)
