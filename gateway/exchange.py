"""One admitted request from submission to settlement: how far it has come, how long it may wait, what it cost.

Whatever ends a request (refusal, finish, error, cancel, timeout), it is settled once: its mailbox closed, its job
cancelled if it still runs, its price counted, the gauges put back.
"""

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial

from gateway.admission import Ticket
from gateway.faulty import FaultyMailbox
from gateway.journal import Note
from gateway.relay import Mailbox, Relay
from gateway.scripted import PLAIN, Direction, revealed
from service import ledger, metrics, pricing
from service.connection import Unanswered
from service.entries import Bill
from service.errors import Broken, Contended, InvalidRequest, ServiceError, Unavailable
from service.messages import Delta, Event, Failed, Failure, Finished, Started, Usage
from service.metrics import Outcome, offer_metrics
from service.queue import Queue
from service.settings import Settings
from service.wire import sse

_FAREWELL = 1.0  # s a cancelled job's worker gets to say how much it generated
_COST = "x-fastmode-cost-nanodollars"
_NOTICE = 0.25  # s the queue gets to say itself that a job has waited too long


class Exchange:
    """Invariant: `ended` is set when no worker has the job or will get it; `error` says why no answer is complete."""

    def __init__(
        self,
        settings: Settings,
        relay: Relay,
        ticket: Ticket,
        arrived: float,
        direction: Direction = PLAIN,
        note: Note | None = None,
    ) -> None:
        self.ticket = ticket
        self.direction = direction
        steps = direction.steps
        self.box: Mailbox = (
            relay.open(ticket.job, partial(FaultyMailbox, steps=steps)) if steps else relay.open(ticket.job)
        )
        self.status: int | None = None  # of the answer, once it has begun
        self.ended = False
        self.error: ServiceError | None = None
        self.usage: Usage | None = None
        self._settings = settings
        self._relay = relay
        self._arrived = arrived
        self._started = False
        self._first: float | None = None
        self._last = arrived
        self._tokens = 0
        self._cached = 0
        self._queued = 0.0
        self._ahead = 0
        self._mistake = ""
        self._note = note
        self._metrics = offer_metrics(ticket.requested, ticket.offer.tier, ticket.offer.model)
        self._metrics.in_flight.inc()

    @property
    def known(self) -> Usage:
        """What has been consumed, as far as is known: of the prompt all, once a token has come."""
        job = self.ticket.job
        written, written_long = job.written(self._cached)
        return self.usage or Usage(
            prompt=job.prompt_tokens,
            cached=self._cached,
            completion=self._tokens,
            written=written,
            written_long=written_long,
        )

    @property
    def over(self) -> bool:
        """Nothing more is to come."""
        return self.ended or self.error is not None

    async def submit(self, queue: Queue) -> None:
        """Queue the job; the mailbox is already open. A refusal is an `error` like any other."""
        if not self._relay.connected:
            self.ended, self.error = True, Unanswered()
            return
        try:
            job = self.direction.job(self.ticket.job)
            self._ahead = await queue.enqueue(job, self.ticket.bounds, self._bill() if self._settings.ledger else b"")
            metrics.queue_position(job.pool, self._ahead)
        except Unanswered as silence:
            self.error = silence  # the job may have been queued
            self._relay.doubt()
        except ServiceError as refusal:
            self.ended, self.error = True, refusal
        self.box.job = self.ticket.job.without_conversation()
        self.ticket = replace(self.ticket, job=self.box.job)

    @property
    def overflowed(self) -> bool:
        """There was no room for the job, or nobody to do it."""
        return self.ended and self.error is not None and self.error.reason in ("queue_full", "no_workers")

    def withdraw(self) -> None:
        """It is as if there had been no such exchange."""
        self._relay.close(self.box)
        self._metrics.in_flight.dec()

    def _bill(self) -> bytes:
        ticket, job = self.ticket, self.ticket.job
        return ledger.encode(
            Bill(
                job=job.id,
                at=time.time(),
                account=job.tenant,
                model=job.model,
                requested=ticket.requested,
                tier=job.tier,
                prompt=job.prompt_tokens,
                price=ticket.offer.price,
                held=ticket.metered.held,
            )
        )

    def observe(self, events: list[Event]) -> None:
        """Take note of events about to be relayed."""
        if self._note is not None:
            self._note.hear(events)
        heard = self.box.heard
        for event in events:
            if type(event) is Delta:
                self._generated(event.count, heard)
                if event.part is not None and event.choice == event.offset == 0:
                    self._cached, self._mistake = event.part.cached, event.part.mistake
                continue
            match event:
                case Started():
                    self._started = True
                    self._queued = event.queued
                case Finished():
                    self.ended = True
                    self.usage = event.usage
                case Failed():
                    self.ended = True
                    self.error = _refused(event)

    def _generated(self, tokens: int, heard: float) -> None:
        if self._first is None:
            self._first = heard
        elif tokens:
            self._metrics.itl.observe((heard - self._last) / tokens, tokens)
        self._tokens += tokens
        self.ticket.metered.generated = self._tokens
        self._last = heard

    def patience(self, now: float) -> float:
        """Seconds until the silence is too long; a job may be queued longer than a started one may be silent."""
        if self._started:
            return self.box.heard + self._settings.event_wait_max - now
        return self._arrived + self.ticket.bounds.wait + _NOTICE - now

    def give_up(self) -> ServiceError:
        """The error of a silence that was too long."""
        if self._started:
            return Broken("The response stopped coming.", code="timeout", reason="lost")
        return Contended(
            "The request waited too long in the queue of this tier. Please try again in 1s.",
            reason="queue_deadline",
            retry_after=1,
        )

    async def settle(self, outcome: Outcome | None = None) -> None:
        """Close everything, and count what it cost. `outcome` names another end than that of the events."""
        outcome = outcome or ("failed" if self.error else "ok")
        if not self.ended:
            if self._started:
                self._relay.cancel(self.ticket.job)
            else:
                self._started = await self._relay.withdraw(self.ticket.job)
            await self._hear_the_rest()
        self._relay.close(self.box)
        self._metrics.in_flight.dec()
        if self.error is not None and not self._started:
            self._metrics.rejected(self.error.reason)
            self._tell(outcome, None)
            await self.ticket.metered.settle(None, 0)
            return
        served = self._started and self.error is None  # what fails costs nothing
        usage = self.usage or (self.known if served else Usage(prompt=0))
        self._metrics.usage(usage.prompt, usage.cached, usage.completion)
        cost = pricing.cost(self.ticket.offer.price, usage)
        self._metrics.cost(cost)
        self._metrics.outcome(outcome, self.error.reason if self.error else None)
        self._observe_times()
        self._tell(outcome, usage)
        await self.ticket.metered.settle(usage, cost)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """What an answer says of limits, and of how the request is served, as far as is known, if that is wanted."""
        return [
            (name.encode(), text.encode()) for name, text in {**self.ticket.metered.headers, **self._revealed()}.items()
        ]

    def remark(self) -> bytes:
        """What a stream says at its end beside its events, if that is wanted: what it cost, as a comment."""
        cost = self._revealed().get(_COST)
        return b"" if cost is None else sse.comment(f"{_COST}: {cost}")

    def _revealed(self) -> dict[str, str]:
        if not self.direction.reveals:
            return {}
        said = revealed(self.direction, self.ticket)
        said["x-fastmode-queue-position"] = str(self._ahead)
        if self._started:
            said["x-fastmode-queue-wait-ms"] = f"{self._queued * 1000:.1f}"
        if self.usage is not None:
            said[_COST] = str(pricing.cost(self.ticket.offer.price, self.usage))
        if self._mistake:
            said["x-fastmode-mistake"] = self._mistake
        return said

    def _tell(self, outcome: Outcome, usage: Usage | None) -> None:
        if self._note is not None:
            self._note.usage = usage
            self._note.settled(outcome, self.status, self.error)

    async def _hear_the_rest(self) -> None:
        """A running job's worker says what was generated before it stopped."""
        self.box.sink = None
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL):
                while True:
                    self.observe(self.box.take())
                    if self.box.used is not None:
                        self.ended, self.usage = True, self.box.used
                    if self.ended or not self._started:
                        return
                    self.box.wake.clear()
                    await self.box.wake.wait()

    def _observe_times(self) -> None:
        if self._first is None:
            return
        self._metrics.ttft.observe(self._first - self._arrived)
        if self._tokens > 1:
            self._metrics.tpot.observe((self._last - self._first) / (self._tokens - 1))
        if self.ended and not self.error:
            self._metrics.duration.observe(self._last - self._arrived)


def _refused(failed: Failed) -> ServiceError:
    match failed.why:
        case Failure.QUEUE_DEADLINE:
            return Contended(failed.message, reason=failed.why, retry_after=1)
        case Failure.WORKER_DRAINED:
            return Unavailable(failed.message, reason=failed.why, retry_after=1)
        case Failure.UNSATISFIABLE:
            return InvalidRequest(failed.message, code="invalid_schema", reason=failed.why)
        case _:
            return Broken(failed.message, reason=failed.why)
