"""How many jobs a worker takes, and whose: against a real store, with a backend whose slots a test sets by hand."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field

import pytest
from evidence import until

from service import metrics
from service.connection import Client, connect
from service.messages import Event, Finished, Job, Usage
from service.queue import Bounds, Queue
from service.replies import Inbox
from service.settings import Settings
from workers.backends import Emit
from workers.runner import BLOCK, Runner

ROOM = Bounds(jobs=100, bytes=1_000_000, wait=60)
GATEWAY = "gateway"


@dataclass
class ByHand:
    """Jobs get tokens, and end, when the test says so."""

    slots: int
    lateness: float = 0.0
    jobs: dict[str, tuple[Job, int]] = field(default_factory=dict)
    taken_up: list[str] = field(default_factory=list)
    most: int = 0  # jobs at once
    talking: set[str] = field(default_factory=set)
    events: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)

    def submit(self, job: Job, epoch: int, queued: float, progress: tuple[int, ...] = ()) -> None:
        self.jobs[job.id] = job, epoch
        self.taken_up.append(job.id)
        self.most = max(self.most, len(self.jobs))

    def progress(self) -> dict[str, Collection[int]]:
        return {}

    def cancel(self, job: str) -> None:
        self.end(job)

    def drop(self, job: str) -> None:
        self.jobs.pop(job, None)

    def pause(self, job: str) -> None: ...

    def resume(self, job: str) -> None: ...

    def untouched(self) -> list[str]:
        return [job for job in self.jobs if job not in self.talking]

    async def run(self, emit: Emit) -> None:
        while True:
            await emit([await self.events.get()])

    def end(self, job: str) -> None:
        _, epoch = self.jobs.pop(job)
        self.events.put_nowait(Finished(job, epoch, Usage(prompt=1)))


@dataclass
class Bench:
    queue: Queue
    backend: ByHand
    redis: Client

    async def bells(self) -> int:
        """That nobody has heard."""
        bells: int = await self.redis.llen(f"fm:{{{self.queue.pool}}}:bell")
        return bells

    async def submit(self, *jobs: str, band: int) -> None:
        for job in jobs:
            await self.queue.enqueue(Job(id=job, gateway=GATEWAY, pool="p", model="m", tier="t", band=band), ROOM)

    async def taken_up(self, *jobs: str) -> None:
        await until(lambda: self.backend.taken_up == [*jobs], f"{jobs} have been taken up, in this order")


@pytest.fixture
async def bench(redis_url: str) -> AsyncIterator[Bench]:
    """A worker with two slots whose jobs do nothing by themselves."""
    commands, bell, words = (connect(redis_url, 2, blocking=blocking) for blocking in (0, BLOCK, BLOCK))
    queue, backend, stop = Queue(commands, f"pool-{uuid.uuid4().hex[:8]}"), ByHand(slots=2), asyncio.Event()
    inbox = Inbox(commands, bell, GATEWAY, ttl=60)
    await inbox.keep_alive()
    settings = Settings(lease=0.3, grace=0)
    runner = Runner(
        settings, queue, backend, metrics.pool_metrics("by-hand"), commands, bell, words, aging=3600, bands={0, 1, 2}
    )
    async with asyncio.TaskGroup() as running:
        running.create_task(runner.run(stop))
        await until(lambda: lives(queue), "it is there")
        yield Bench(queue, backend, commands)
        stop.set()
    await inbox.remove()
    for client in (commands, bell, words):
        await client.aclose()


async def lives(queue: Queue) -> bool:
    return (await queue.alive()).workers == 1


async def test_better_bands_take_the_slots_of_those_who_have_no_token_up_to_twice_the_slots(bench: Bench) -> None:
    await bench.submit("a", "b", "c", band=2)
    await bench.taken_up("a", "b")
    await bench.submit("d", "e", "f", band=1)
    await bench.taken_up("a", "b", "d", "e")
    await bench.submit("g", "h", band=0)
    bench.backend.end("a")
    await bench.taken_up("a", "b", "d", "e", "g")
    bench.backend.end("b")
    await bench.taken_up("a", "b", "d", "e", "g", "h")
    assert bench.backend.most == 4


async def test_who_has_a_token_makes_way_for_nobody(bench: Bench) -> None:
    await bench.submit("a", "b", band=1)
    await bench.taken_up("a", "b")
    bench.backend.talking |= {"a"}
    await bench.submit("c", "d", band=0)
    await bench.taken_up("a", "b", "c")
    bench.backend.end("b")
    bench.backend.end("c")
    await bench.taken_up("a", "b", "c", "d")
    assert bench.backend.most == 3


async def test_a_worker_whose_slots_come_back_takes_jobs_up_although_none_of_its_own_has_ended(bench: Bench) -> None:
    async def heard() -> bool:
        return await bench.bells() < 3

    bench.backend.slots = 0
    await bench.submit("a", "b", "c", band=1)
    await until(heard, "the worker looks, and has no slot")
    bench.backend.slots = 2
    await bench.taken_up("a", "b")
