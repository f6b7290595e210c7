"""A worker process, given jobs by hand: what its gateway is told, whatever the job, the gateway or a word is like."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from evidence import DEADLINE, clean, until
from fleet import Fleet
from pools import SWIFT

from service.connection import Client, connect
from service.messages import Delta, Event, Failed, Failure, Finished, Job, Waiting
from service.queue import Bounds, Control, Queue
from service.replies import Inbox

ROOM = Bounds(jobs=100, bytes=1_000_000, wait=60)


@dataclass
class Gateway:
    """As much of one as a worker sees: a name, and a stream of replies."""

    name: str
    inbox: Inbox
    queue: Queue
    redis: Client

    async def submit(self, tokens: int, **fields: object) -> str:
        name = uuid.uuid4().hex
        limits = {"max_tokens": tokens, "context_left": tokens, "ignore_eos": True, **fields}
        await self.queue.enqueue(
            Job(id=name, gateway=self.name, pool="swift", model="swift", tier="standard", **limits),  # type: ignore[arg-type]
            ROOM,
        )
        return name

    async def end(self) -> tuple[list[Delta], Finished | Failed]:
        """What was told up to the event that ends a job."""
        deltas: list[Delta] = []
        async with asyncio.timeout(DEADLINE):
            while True:
                for event in await self.inbox.read(block=1):
                    if isinstance(event, Finished | Failed):
                        return deltas, event
                    if isinstance(event, Delta):
                        deltas.append(event)

    async def tokens(self) -> int:
        """Read on until tokens have come; returns how many."""
        async with asyncio.timeout(DEADLINE):
            while not (tokens := counted(await self.inbox.read(block=1))):
                pass
        return tokens


@pytest.fixture
async def gateway(fleet: Fleet) -> AsyncIterator[Gateway]:
    await fleet.up("swift")
    redis, blocking = connect(fleet.redis_url, timeout=5), connect(fleet.redis_url, timeout=5, blocking=5)
    queue = Queue(redis, "swift")
    name = uuid.uuid4().hex
    inbox = Inbox(redis, blocking, name, ttl=30)
    await inbox.keep_alive()
    yield Gateway(name, inbox, queue, redis)
    await until(lambda: clean(redis, "swift"), "nothing is left in the queue")
    await inbox.remove()
    await redis.aclose()
    await blocking.aclose()


async def test_a_job_that_cannot_be_taken_up_fails_and_the_worker_lives_on(gateway: Gateway, fleet: Fleet) -> None:
    job = await gateway.submit(5, context_left=0)  # impossible: a gateway lets no such job through
    _, failed = await gateway.end()
    assert isinstance(failed, Failed)
    assert failed.why is Failure.BACKEND
    await until(lambda: any(job in line for line in fleet.said), "it is logged")
    await until(lambda: "AssertionError" in fleet.said[-1], "all of it is")
    fleet.said.clear()  # the traceback is wanted
    await gateway.submit(5)
    deltas, finished = await gateway.end()
    assert isinstance(finished, Finished)
    assert sum(delta.count for delta in deltas) == finished.usage.completion == 5


async def test_a_cancelled_job_says_what_it_has_generated(gateway: Gateway) -> None:
    job = await gateway.submit(100_000)
    await gateway.tokens()
    assert await gateway.queue.cancel(job) == "running"
    deltas, finished = await gateway.end()
    assert isinstance(finished, Finished)
    assert finished.cancelled
    assert sum(delta.count for delta in deltas) < finished.usage.completion < 50_000


async def test_a_job_is_cancelled_although_the_word_was_lost(gateway: Gateway) -> None:
    """The renewal of its lease notices that its payload is gone."""
    job = await gateway.submit(100_000)
    await gateway.tokens()
    size = len(await gateway.redis.hget("fm:{swift}:jobs", job) or b"")
    await gateway.redis.hdel("fm:{swift}:jobs", job)
    await gateway.redis.decrby("fm:{swift}:bytes", size)
    _, finished = await gateway.end()
    assert isinstance(finished, Finished)
    assert finished.cancelled
    assert finished.usage.completion > 0


async def test_a_paused_job_generates_nothing_until_it_is_resumed(gateway: Gateway) -> None:
    job = await gateway.submit(2000)
    sent = await gateway.tokens()
    await gateway.queue.tell(Control("pause", job))
    while tokens := counted(await gateway.inbox.read(block=0.5)):
        sent += tokens
    assert sent < 2000
    await gateway.queue.tell(Control("resume", job))
    deltas, finished = await gateway.end()
    assert deltas[0].offset == sent
    assert isinstance(finished, Finished)
    assert finished.usage.completion == 2000


async def test_a_job_that_stands_still_says_that_it_waits(gateway: Gateway) -> None:
    """Its gateway would take the silence for a loss."""
    job = await gateway.submit(100_000)
    await gateway.tokens()
    await gateway.queue.tell(Control("pause", job))
    async with asyncio.timeout(DEADLINE):
        while Waiting(job, 1) not in await gateway.inbox.read(block=1):
            pass
    await gateway.queue.cancel(job)
    assert isinstance((await gateway.end())[1], Finished)


async def test_who_waits_behind_a_job_that_needs_many_slots_is_served_when_that_job_leaves(gateway: Gateway) -> None:
    running = await gateway.submit(5000, choices=SWIFT.slots - 1)
    await gateway.tokens()
    wide = await gateway.submit(5, choices=2)
    for _ in range(10):  # while others go on, it is found not to fit
        await gateway.tokens()
    narrow = await gateway.submit(5)
    assert await gateway.queue.cancel(wide) == "queued"
    assert (await gateway.end())[1].job == narrow
    await gateway.queue.cancel(running)
    assert (await gateway.end())[1].job == running


async def test_jobs_of_a_gateway_that_is_gone_are_dropped(gateway: Gateway) -> None:
    await gateway.submit(100_000)
    await gateway.tokens()
    await gateway.inbox.remove()
    await until(lambda: clean(gateway.redis, "swift"), "its job is forgotten")


async def test_a_paused_job_of_a_gateway_that_is_gone_is_dropped_too(gateway: Gateway) -> None:
    job = await gateway.submit(100_000)
    await gateway.tokens()
    await gateway.queue.tell(Control("pause", job))
    while counted(await gateway.inbox.read(block=0.5)):
        pass
    await gateway.inbox.remove()
    await until(lambda: clean(gateway.redis, "swift"), "its job is forgotten")


def counted(events: list[Event]) -> int:
    return sum(event.count for event in events if isinstance(event, Delta))
