"""Brings events from Redis to the requests that wait for them: one reader per gateway process, one mailbox per request.

- A mailbox is opened before its job is visible to any worker, and closed once.
- Its text is bounded. At a first mark the job's sequence is paused, and goes on when its text has been taken; at the
  last mark the stream fails. Nothing is dropped.
- A request that is idle lets the reader hand its events straight to a sink, so that no task wakes per token.
- What goes wrong while one mailbox is served ends that mailbox's stream and nothing else.
- Words to workers are sent until they have arrived. A job that starts although nobody here waits for it is cancelled:
  its word may have been overtaken by the job itself.
- When the reply stream had to be made anew, what was in it is lost, and so every stream that was open.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from gateway.fence import Fence, Gap
from service import metrics
from service.errors import Broken, ServiceError, Unavailable
from service.messages import Delta, Event, Finished, Job, Started, Usage, Waiting
from service.queue import Control, Queue
from service.replies import Inbox
from service.settings import Settings

log = logging.getLogger(__name__)

Sink = Callable[[list[Event]], None]

_RETRY = 0.25  # s
_WORDS_AT_ONCE = 16


class Mailbox:
    """Events of one request, fenced and in order. `heard` is the loop time of the last one, s.

    `cut`: the client is to be left without another word, as if the connection had broken. `used`: what the job has used
    in all, where that is no more to be passed on.
    """

    __slots__ = (
        "_fence",
        "_ready",
        "_relay",
        "_size",
        "broken",
        "cut",
        "heard",
        "job",
        "paused",
        "sink",
        "used",
        "wake",
    )

    def __init__(self, relay: "Relay", job: Job, now: float) -> None:
        self.job = job
        self.wake = asyncio.Event()
        self.sink: Sink | None = None
        self.broken: ServiceError | None = None
        self.cut = False
        self.paused = False
        self.heard = now
        self.used: Usage | None = None
        self._relay = relay
        self._fence = Fence(job.choices)
        self._ready: list[Event] = []
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._ready)

    def put(self, event: Event, now: float) -> None:
        """Keep what is new in the event; called by the relay. A stream that has failed only hears what is charged."""
        if self.broken is not None:
            if isinstance(event, Finished):
                self.used = event.usage
                self.wake.set()
            return
        news = self._fence.admit(event)
        if news is None:
            metrics.frame_fenced()
            return
        self.heard = now
        if isinstance(news, Waiting):
            return
        self._ready.append(news)
        if isinstance(news, Delta):
            self._size += len(news.text)
        elif isinstance(news, Started):
            self.paused = False  # whoever has taken the job up does not know that it was

    def take(self) -> list[Event]:
        """Everything that has come, once."""
        ready, self._ready, self._size = self._ready, [], 0
        if self.paused:
            self.paused = False
            self._relay.tell(Control("resume", self.job.id), self.job.pool)
        return ready

    def deliver(self) -> None:
        """Pass on what has come, to the sink or to the task that waits; called by the relay after a read."""
        if not self._ready:
            return
        if self.sink is not None:
            self.sink(self.take())
        else:
            self.wake.set()
            self._relieve()

    def fail(self, error: ServiceError) -> None:
        """The stream cannot be completed; what has come before still counts."""
        self.broken = self.broken or error
        self.sink = None
        self.wake.set()

    def close(self) -> None:
        """Nobody will take from it any more."""

    def _relieve(self) -> None:
        bounds = self._relay.settings
        if self._size > bounds.mailbox_max:
            self.fail(Broken("The response was not read fast enough.", code="client_too_slow"))
        elif self._size > bounds.mailbox_pause and not self.paused:
            self.paused = True
            self._relay.tell(Control("pause", self.job.id), self.job.pool)


class Relay:
    """The mailboxes of one gateway process. `run` serves them until it is cancelled."""

    def __init__(self, settings: Settings, inbox: Inbox, queues: dict[str, Queue]) -> None:
        self.settings = settings
        self.connected = False
        self._inbox = inbox
        self._queues = queues
        self._boxes: dict[str, Mailbox] = {}
        self._words: dict[tuple[str, str], Control] = {}  # by job and pool; of jobs that were open here, so bounded
        self._word_given = asyncio.Event()
        self._in_doubt = asyncio.Event()
        self._has_connected = asyncio.Event()

    def open(self, job: Job, kind: "Callable[[Relay, Job, float], Mailbox]" = Mailbox) -> Mailbox:
        """A mailbox for the job, of another kind if its events are not to be passed on as they come."""
        box = self._boxes[job.id] = kind(self, job, asyncio.get_running_loop().time())
        return box

    def close(self, box: Mailbox) -> None:
        self._boxes.pop(box.job.id, None)
        box.close()

    def cancel(self, job: Job) -> None:
        """Nobody wants the job any more. Returns at once; the word is sent, and sent again, until it has arrived."""
        self.tell(Control("cancel", job.id), job.pool)

    async def withdraw(self, job: Job) -> bool:
        """Nobody wants a job of which nothing has been heard; whether a worker has it, as far as is known."""
        try:
            return await self._queues[job.pool].cancel(job.id) == "running"
        except Unavailable:
            self.cancel(job)
            return False

    def tell(self, word: Control, pool: str) -> None:
        """Send a word to the job's worker, in the background. Only the last one counts, and nothing after a cancel."""
        before = self._words.get((word.job, pool))
        if before is None or before.verb != "cancel":
            self._words[word.job, pool] = word
        self._word_given.set()

    def doubt(self) -> None:
        """Redis did not answer: nothing more is asked of it for new requests until it does."""
        self.connected = False
        self._in_doubt.set()

    def fail_all(self, error: ServiceError) -> None:
        """End every stream that is still open with an error."""
        for box in list(self._boxes.values()):
            box.fail(error)

    async def first_connected(self, at_most: float) -> None:
        """Until there was a connection, or for so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                await self._has_connected.wait()

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_alive())
            tasks.create_task(self._read())
            tasks.create_task(self._send_words())

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                events = await self._inbox.read(block=5)
            except Unavailable:
                self.doubt()
                await asyncio.sleep(_RETRY)
                continue
            self._distribute(events, loop.time())

    def _distribute(self, events: list[Event], now: float) -> None:
        """Each mailbox gets all its events of one read before it passes them on: they go out in one write."""
        boxes, touched = self._boxes, []
        for event in events:
            box = boxes.get(event.job)
            if box is None:
                if isinstance(event, Started):
                    self._disown(event.job)
                continue
            if not box or box.sink is None:  # one with a backlog may come twice, which does no harm
                touched.append(box)
            try:
                box.put(event, now)
            except Exception as error:  # noqa: BLE001 - one stream's fault must not end the others'
                self._spoil(box, error)
        for box in touched:
            try:
                box.deliver()
            except Exception as error:  # noqa: BLE001 - likewise
                self._spoil(box, error)

    def _disown(self, job: str) -> None:
        for pool in self._queues:
            self.tell(Control("cancel", job), pool)

    def _spoil(self, box: Mailbox, error: Exception) -> None:
        if isinstance(error, Gap):
            box.fail(Broken(f"Part of the response was lost: {error}.", code="stream_gap"))
            return
        log.exception("job %s: its stream ends, since an event could not be relayed", box.job.id)
        box.fail(Broken(f"The response could not be relayed ({type(error).__name__})."))

    async def _keep_alive(self) -> None:
        """Keep the reply stream, now and then and whenever there is doubt; `connected` is what came of it."""
        period = min(1.0, self.settings.reply_ttl / 4)
        had_one = heard = False
        while True:
            self._in_doubt.clear()
            try:
                made = await self._inbox.keep_alive()
            except Unavailable as trouble:
                if heard:
                    log.warning("Redis does not answer: %r", trouble.__cause__)
                self.connected = heard = False
                await asyncio.sleep(_RETRY)
                continue
            if made and had_one:
                log.warning("the reply stream is gone: %d open streams end", len(self._boxes))
                self.fail_all(Broken("The response was lost on its way.", reason="lost"))
            if not heard:
                log.info("Redis answers")
            self.connected = heard = had_one = True
            self._has_connected.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(period):
                    await self._in_doubt.wait()

    async def _send_words(self) -> None:
        while True:
            await self._word_given.wait()
            self._word_given.clear()
            words, self._words = list(self._words.items()), {}
            for first in range(0, len(words), _WORDS_AT_ONCE):
                batch = words[first : first + _WORDS_AT_ONCE]
                sent = await asyncio.gather(*(self._send(word, pool) for (_, pool), word in batch))
                unsent = [word for word, gone in zip(batch, sent, strict=True) if not gone]
                if unsent:
                    self._words = dict(unsent) | self._words
                    self._word_given.set()
                    await asyncio.sleep(_RETRY)

    async def _send(self, word: Control, pool: str) -> bool:
        queue = self._queues[pool]
        try:
            if word.verb == "cancel":
                await queue.cancel(word.job)
            else:
                await queue.tell(word)
        except Unavailable:
            return False
        return True
