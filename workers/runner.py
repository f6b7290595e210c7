"""A worker: claims jobs when it has a slot, runs them on its backend, sends their events back, and keeps their leases.

- A job is held from its claim to its last event, and each held job's lease is renewed every third of it.
- Events are sent before the job is finished in the queue: a worker that dies in between has its job run again, and the
  gateway drops what it has already relayed.
- What concerns an earlier claim of a job that is held under a later one is dropped.
- A gateway that is gone loses its jobs at the next write to it, or the next renewal of their leases.
- A job that the backend cannot take up fails; it does not take the worker with it.
- Draining: claim nothing, hand back what has not begun, finish the rest, hand back what is left. Without another worker
  to hand it to, what has not begun is finished too, and what is left ends with an error.
"""

import asyncio
import logging
import os
import socket
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Collection, Iterable
from contextlib import suppress
from itertools import chain

from service import replies
from service.connection import Client
from service.errors import Unavailable
from service.messages import BANDS, Event, Failed, Failure, Finished, Job, Waiting, encode_usage
from service.metrics import PoolMetrics
from service.queue import Claim, Control, Ending, Holding, Lost, Queue, Verdict
from service.settings import Settings
from workers.backends import Backend

log = logging.getLogger(__name__)

BLOCK = 5.0  # s a read may wait on purpose
_RETRY = 0.25  # s
_LAST_WORDS = 5.0  # s to part with what is left when the grace period is over; Redis may be slow, or away

_REFUSALS = {
    Verdict.LATE: (Failure.QUEUE_DEADLINE, "The request waited too long in the queue of this tier."),
    Verdict.POISON: (Failure.ATTEMPTS, "The request was given up: every worker that took it up was lost."),
}


class Runner:
    """One worker of one pool, whose jobs are of these `bands`; a waiting one gains a band in `aging` seconds.

    `commands` carries commands; `bell` and `words` only reads that wait.
    """

    def __init__(
        self,
        settings: Settings,
        queue: Queue,
        backend: Backend,
        metrics: PoolMetrics,
        commands: Client,
        bell: Client,
        words: Client,
        *,
        aging: float,
        bands: Collection[int],
    ) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._settings = settings
        self._queue = queue
        self._backend = backend
        self._metrics = metrics
        self._commands = commands
        self._bell = bell
        self._words = words
        self._aging = aging
        self._bands = frozenset(bands)
        self._held: dict[str, tuple[Job, int]] = {}
        self._progress: dict[str, tuple[int, tuple[int, ...]]] = {}  # of each claim held at the last renewal
        self._ended: list[Ending] = []
        self._something_ended = asyncio.Event()
        self._slot_free = asyncio.Event()
        self._idle = asyncio.Event()
        self._draining = asyncio.Event()
        self._idle.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`, then drain."""
        async with asyncio.TaskGroup() as tasks:
            claiming = tasks.create_task(self._claim())
            beside = [
                tasks.create_task(self._backend.run(self._emit)),
                tasks.create_task(self._finish()),
                tasks.create_task(self._keep_renewing()),
                tasks.create_task(self._listen()),
            ]
            await stop.wait()
            self._draining.set()
            self._slot_free.set()
            await self._drain(claiming)
            for task in beside:
                task.cancel()

    async def _claim(self) -> None:
        in_doubt = False
        while not self._draining.is_set():
            self._slot_free.clear()
            free = self._free()
            if max(free) <= 0:
                await self._slot_free.wait()
                continue
            try:
                if in_doubt:
                    await self._renew()  # what is held stays ours, if nobody else was there to take it
                    in_doubt = False
                settings = self._settings
                claims, held_up = await self._queue.claim(
                    self.name, free, settings.lease, settings.attempts_max, self._aging
                )
                await self._take_up(claims)
                if held_up and not claims:
                    await self._await_bell(or_else=self._slot_free)  # who is held up may leave, and others fit
                elif not held_up:
                    await self._await_bell(or_else=self._draining)
            except Unavailable:
                in_doubt = True
                await asyncio.sleep(_RETRY)

    def _free(self) -> list[int]:
        """Slots that jobs of each band may take: those free, and those of worse jobs that would make way.

        Who makes way waits in the backend and is still held. No more is held than twice the slots.
        """
        slots, held = self._backend.slots, sum(job.choices for job, _ in self._held.values())
        free = [slots - held] * BANDS
        if len(self._bands) > 1:
            for name in self._backend.untouched():
                job, _ = self._held[name]
                for band in self._bands & set(range(job.band)):
                    free[band] += job.choices
        return [min(most, 2 * slots - held) for most in free]

    async def _take_up(self, claims: list[Claim]) -> None:
        refused: dict[str, list[Event]] = defaultdict(list)
        failed = []
        for claim in claims:
            if claim.verdict is not Verdict.RUN:
                why = Failed(claim.job.id, claim.epoch, *_REFUSALS[claim.verdict])
                refused[claim.job.gateway].append(why)
            elif (failure := self._begin(claim)) is not None:
                refused[claim.job.gateway].append(failure)
                failed.append(claim)
        if refused:
            await self._write(refused)
        for claim in failed:
            self._let_go(claim.job.id, claim.epoch, "failed")

    def _begin(self, claim: Claim) -> Failed | None:
        job, epoch = claim.job, claim.epoch
        if job.id in self._held:
            self._backend.drop(job.id)  # our own claim of it ran out, and came back to us
        self._held[job.id] = (job, epoch)
        self._idle.clear()
        self._metrics.queue_wait.observe(claim.queued)
        if epoch > 1:
            self._metrics.recovered.inc()
        try:
            self._backend.submit(job, epoch, claim.queued, claim.progress)
        except Exception as error:  # a job nobody can serve must not take one worker after the other with it
            log.exception("job %s cannot be taken up", job.id)
            self._backend.drop(job.id)
            return Failed(job.id, epoch, Failure.BACKEND, f"The request cannot be served ({type(error).__name__}).")
        return None

    async def _await_bell(self, or_else: asyncio.Event) -> None:
        """Until the bell rings, or it may have been missed, or something else has happened."""
        listening = asyncio.ensure_future(self._queue.listen(self._bell, BLOCK))
        otherwise = asyncio.ensure_future(or_else.wait())
        try:
            await asyncio.wait({listening, otherwise}, return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                listening.result()
        finally:
            listening.cancel()
            otherwise.cancel()

    async def _emit(self, events: list[Event]) -> None:
        """Send the backend's events to the gateways that wait for them."""
        flush: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            held = self._held.get(event.job)
            if held is not None and held[1] == event.epoch:
                flush[held[0].gateway].append(event)
        if not flush:
            return
        await self._write(flush)
        for event in events:
            if isinstance(event, Finished):
                outcome = "cancelled" if event.cancelled else "ok"
                self._let_go(event.job, event.epoch, outcome, encode_usage(event.usage))
            elif isinstance(event, Failed):
                self._let_go(event.job, event.epoch, "failed")

    async def _write(self, flush: dict[str, list[Event]]) -> None:
        """Until Redis has taken it: the gateway drops what comes twice, and can do nothing about what never comes."""
        while True:
            try:
                gone = await replies.write(self._commands, flush)
            except Unavailable:
                await asyncio.sleep(_RETRY)
            else:
                break
        self._abandon(gone)

    def _abandon(self, gateways: Collection[str]) -> None:
        orphans = [(job, epoch) for job, epoch in self._held.values() if job.gateway in gateways]
        if not orphans:
            return
        log.warning("gateway %s is gone; its %d jobs are dropped", ", ".join(gateways), len(orphans))
        progress = self._backend.progress()
        for job, epoch in orphans:
            self._backend.drop(job.id)
            self._let_go(job.id, epoch, "cancelled", encode_usage(job.sent(sum(progress.get(job.id, ())))))

    def _let_go(self, job: str, epoch: int, outcome: str, used: bytes = b"") -> None:
        """The claim has ended: its slot is free at once, the queue hears of it in the background."""
        held = self._held.get(job)
        if held is None or held[1] != epoch:
            return
        del self._held[job]
        self._ended.append(Ending(job, epoch, outcome, used))
        self._something_ended.set()
        self._slot_free.set()
        if not self._held:
            self._idle.set()

    async def _finish(self) -> None:
        while True:
            await self._something_ended.wait()
            self._something_ended.clear()
            ended, self._ended = self._ended, []
            if not await self._try(self._queue.finish(ended)):
                self._ended += ended
                self._something_ended.set()
                await asyncio.sleep(_RETRY)

    async def _keep_renewing(self) -> None:
        while True:
            with suppress(Unavailable):
                await self._renew()
            self._slot_free.set()  # slots come back with a replica that was away, and nobody says so
            await asyncio.sleep(self._settings.lease / 3)

    async def _renew(self) -> None:
        """Keep the leases, let go of what is not ours any more, and announce that this worker lives."""
        gateways = {job.gateway for job, _ in self._held.values()}
        lateness, claiming = self._backend.lateness, not self._draining.is_set()
        holdings = self._holdings(self._held)
        waiting = self._standing_still(holdings)
        for lost in await self._queue.renew(self.name, self._settings.lease, lateness, holdings, claiming=claiming):
            self._lose(lost)
        if gateways:
            self._abandon(await replies.gone(self._commands, gateways))
        if waiting:
            self._abandon(await replies.write(self._commands, waiting))

    def _standing_still(self, holdings: Iterable[Holding]) -> dict[str, list[Event]]:
        """Jobs that are where they were at the last renewal: their gateways would take the silence for a loss."""
        before, self._progress = self._progress, {job: (epoch, tuple(sent)) for job, epoch, sent in holdings}
        flush: dict[str, list[Event]] = defaultdict(list)
        for job, (epoch, sent) in self._progress.items():
            if before.get(job) == (epoch, sent):
                flush[self._held[job][0].gateway].append(Waiting(job, epoch))
        return flush

    def _holdings(self, jobs: Iterable[str]) -> list[Holding]:
        progress = self._backend.progress()
        return [Holding(job, self._held[job][1], progress.get(job, ())) for job in jobs if job in self._held]

    def _lose(self, lost: Lost) -> None:
        held = self._held.get(lost.job)
        if held is None or held[1] != lost.epoch:
            return
        if lost.cancelled:
            self._backend.cancel(lost.job)  # the word that said so has not come, or not yet
        else:
            self._backend.drop(lost.job)
            self._let_go(lost.job, lost.epoch, "failed")

    async def _listen(self) -> None:
        """Words from gateways: cancel, pause, resume."""
        after: str | None = None
        while True:
            try:
                after = after or await self._queue.last_control()
                words, after = await self._queue.controls(self._words, after, BLOCK)
            except Unavailable:
                await asyncio.sleep(_RETRY)
                continue
            for word in words:
                if word.job in self._held:
                    self._heed(word)

    def _heed(self, word: Control) -> None:
        match word.verb:
            case "cancel":
                self._backend.cancel(word.job)
            case "pause":
                self._backend.pause(word.job)
            case "resume":
                self._backend.resume(word.job)

    async def _drain(self, claiming: asyncio.Task[None]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.grace):
                await claiming
                if await self._is_followed():
                    await self._hand_back(self._backend.untouched())
                await self._idle.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                if self._held:
                    log.warning("%d jobs have not ended within the grace period", len(self._held))
                    await self._part_with(list(self._held))
                await self._try(self._queue.finish(self._ended))
                await self._try(self._queue.release(self.name))

    async def _is_followed(self) -> bool:
        """Whether another worker claims what this one hands back. From here on, this one does not count as alive."""
        try:
            await self._queue.release(self.name)
            return (await self._queue.alive()).workers > 0
        except Unavailable:
            return False

    async def _part_with(self, jobs: list[str]) -> None:
        if await self._is_followed():
            await self._hand_back(jobs)
            return
        ends: dict[str, list[Event]] = defaultdict(list)
        for job in jobs:
            held, epoch = self._held[job]
            ends[held.gateway].append(Failed(job, epoch, Failure.WORKER_DRAINED, "The worker is shutting down."))
            self._backend.drop(job)
        await self._write(ends)
        for event in chain.from_iterable(ends.values()):
            self._let_go(event.job, event.epoch, "failed")

    async def _hand_back(self, jobs: list[str]) -> None:
        handed = self._holdings(jobs)
        for job, *_ in handed:
            self._backend.drop(job)
            del self._held[job]
        if not self._held:
            self._idle.set()
        if handed:
            await self._try(self._queue.release(self.name, handed))

    async def _try(self, call: Awaitable[object]) -> bool:
        """Whether Redis took it. If not, the lease will run out, and that does what the call would have done."""
        try:
            await call
        except Unavailable:
            return False
        return True
