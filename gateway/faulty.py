"""Answers that meet a fault: events that wait or end on their way to the client, and an event that is not JSON.

It stands between the relay and whatever answers a request, and so acts alike on all surfaces: what comes late is a
silence as any other, with its keep-alives; what is held is bounded as what a client does not read; what is cut off is
charged as what a client left. Knows how a mailbox is served; what happens when is `service.course`'s.
"""

import asyncio
from collections.abc import Iterable

from gateway.relay import Mailbox, Relay
from gateway.surface import Encoder
from service.course import Course
from service.faults import Step
from service.messages import Delta, Event, Finished, Job, Usage
from service.queue import Control


class FaultyMailbox(Mailbox):
    """A mailbox whose events take a course of their own. Invariant: `_ready` holds what may be taken now."""

    __slots__ = ("_course", "_timer")

    def __init__(self, relay: Relay, job: Job, now: float, steps: Iterable[Step]) -> None:
        super().__init__(relay, job, now)
        self._course = Course(steps, job.choices)
        self._timer: asyncio.TimerHandle | None = None

    def put(self, event: Event, now: float) -> None:
        if self.cut:
            super().put(event, now)
            return
        ready, self._ready = self._ready, []
        super().put(event, now)
        news, self._ready = self._ready, ready
        self._pass_on(news, now)

    def take(self) -> list[Event]:
        ready, self._ready, self._size = self._ready, [], self._course.holding
        if self.paused and not self._size:
            self.paused = False
            self._relay.tell(Control("resume", self.job.id), self.job.pool)
        if self._course.cut and not self.cut:
            asyncio.get_running_loop().call_soon(self._hang_up)  # once what was taken has been written
        return ready

    def deliver(self) -> None:
        super().deliver()
        if not self._ready:
            self._relieve()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _pass_on(self, news: list[Event], now: float) -> None:
        course = self._course
        self._ready += course.take(news, now)
        if course.error is not None:
            self.fail(course.error)
            self.used = next((event.usage for event in course.rest() if isinstance(event, Finished)), self.used)
        self.close()
        if course.holding and not course.cut:
            # What is held on purpose is not lost, and must not be given up as if it were.
            due = min(course.due, now + self._relay.settings.event_wait_max / 4)
            self._timer = asyncio.get_running_loop().call_at(due, self._look_again)

    def _look_again(self) -> None:
        self.heard = asyncio.get_running_loop().time()
        self._pass_on([], self.heard)
        self.deliver()

    def _hang_up(self) -> None:
        self.cut = True
        self.sink = None
        self._ready += self._course.rest()  # for the bill
        self.wake.set()


class Corrupting:
    """An encoder whose first event after `at` tokens is not JSON, or else the first of its closing."""

    def __init__(self, encoder: Encoder, at: int) -> None:
        self.opens_early = encoder.opens_early
        self.opening = encoder.opening
        self.keepalive = encoder.keepalive
        self.failure = encoder.failure
        self._encoder = encoder
        self._left: int | None = at  # tokens before it happens; None: it has happened

    def delta(self, delta: Delta) -> bytes:
        body = self._encoder.delta(delta)
        if self._left is None:
            return body
        if self._left > 0:
            self._left -= delta.count
            return body
        return self._corrupt(body)

    def closing(self, usage: Usage) -> bytes:
        body = self._encoder.closing(usage)
        return body if self._left is None else self._corrupt(body)

    def _corrupt(self, body: bytes) -> bytes:
        spoilt = corrupted(body)
        if spoilt != body:
            self._left = None
        return spoilt


def corrupted(body: bytes) -> bytes:
    """The first JSON object of a body, which is the body or a line of it, loses its second half."""
    start = body.find(b"{")
    if start < 0:
        return body
    end = body.find(b"\n", start)
    end = len(body) if end < 0 else end
    return body[: (start + end) // 2] + body[end:]
