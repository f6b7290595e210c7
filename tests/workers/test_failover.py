"""Workers that die or freeze: what they were at goes on elsewhere, without a token lost or doubled."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from calls import Call, Heard, post
from evidence import clean, gauges, idle, scrape, until
from fleet import Fleet, freeze, kill, pid, thaw
from pools import LEASE
from redis.asyncio import Redis

from fastmode.child import Child
from service.connection import connect

STREAMS, TOKENS = 20, 1500
UNDISTURBED: list[str] = []  # what those streams say; asked once


@pytest.fixture
async def store(fleet: Fleet) -> AsyncIterator[Redis]:
    client = connect(fleet.redis_url, timeout=5)
    yield client
    await client.aclose()


async def test_streams_of_a_killed_worker_go_on_with_another(fleet: Fleet, store: Redis) -> None:
    _, workers = await fleet.up("swift", workers=2)
    async with streams(fleet) as calls, paid_for(fleet, STREAMS * TOKENS):
        heard = await asyncio.gather(*(call.pieces(TOKENS // 2) for call in calls))
        kill(await busiest(store, workers))
        silences = await asyncio.gather(*map(rest_and_longest_silence, calls, heard))
        print(f"longest silence {max(silences):.2f} s, with a lease of {LEASE} s")
    await is_whole(fleet, heard)
    await nothing_is_left(fleet, store)


async def test_what_a_killed_worker_has_not_begun_is_begun_by_another(fleet: Fleet, store: Redis) -> None:
    _, workers = await fleet.up("swift", workers=2)
    async with streams(fleet, tokens=20, prompt="word " * 2000) as calls, paid_for(fleet, STREAMS * 20):
        await until(lambda: in_batch(fleet, STREAMS), "all prompts are being read")
        kill(await busiest(store, workers))
        heard = await asyncio.gather(*(call.rest() for call in calls))
    assert all(each.done and len(each.pieces) == 20 for each in heard)
    await nothing_is_left(fleet, store)


async def test_a_frozen_worker_is_overtaken_and_serves_again_when_it_wakes(fleet: Fleet, store: Redis) -> None:
    _, workers = await fleet.up("swift", workers=2)
    async with streams(fleet) as calls, paid_for(fleet, STREAMS * TOKENS):
        heard = await asyncio.gather(*(call.pieces(100) for call in calls))
        frozen = await busiest(store, workers)
        freeze(frozen)
        await until(lambda: owns_nothing(store, frozen), "all of its streams are taken over")
        thaw(frozen)
        await asyncio.gather(*(call.rest(each) for call, each in zip(calls, heard, strict=True)))
    await is_whole(fleet, heard)
    await nothing_is_left(fleet, store)
    kill(next(worker for worker in workers if worker is not frozen))
    await fleet.ready(swift=1)
    async with post(fleet.base_url, "swift", 5) as call:
        assert (await call.rest()).done


async def test_a_worker_that_was_frozen_takes_its_own_jobs_up_again(fleet: Fleet, store: Redis) -> None:
    _, [only] = await fleet.up("swift")
    async with streams(fleet) as calls, paid_for(fleet, STREAMS * TOKENS):
        heard = await asyncio.gather(*(call.pieces(100) for call in calls))
        freeze(only)
        await until(lambda: counted(fleet, 0), "it is not heard of any more")
        thaw(only)
        await asyncio.gather(*(call.rest(each) for call, each in zip(calls, heard, strict=True)))
    await is_whole(fleet, heard)
    await nothing_is_left(fleet, store)


async def test_a_job_that_outlives_its_workers_is_given_up_with_the_reason(fleet: Fleet, store: Redis) -> None:
    _, [victim] = await fleet.up("swift")
    async with post(fleet.base_url, "swift", 5, prompt="word " * 100_000) as call:
        await until(lambda: in_batch(fleet, 1), "its prompt is being read")
        kill(victim)
        survivor = fleet.worker("swift", FASTMODE_ATTEMPTS_MAX="1")
        answer = await call.json()
    assert (call.status, call.headers["x-fastmode-reason"]) == (500, "attempts_exhausted")
    assert "every worker" in answer["error"]["message"]
    await nothing_is_left(fleet, store)
    assert survivor.running
    kill(survivor)


@asynccontextmanager
async def streams(fleet: Fleet, tokens: int = TOKENS, prompt: str = "Hello") -> AsyncIterator[list[Call]]:
    """Open streams, each of another text."""
    async with AsyncExitStack() as opened:
        calls = (post(fleet.base_url, "swift", tokens, prompt=prompt, seed=number) for number in range(STREAMS))
        yield [await opened.enter_async_context(call) for call in calls]


@asynccontextmanager
async def paid_for(fleet: Fleet, tokens: int) -> AsyncIterator[None]:
    """What happens inside costs exactly so many tokens of output."""
    before = await scrape(fleet)
    yield
    await until(lambda: idle(fleet), "all gauges are zero")
    name = "fastmode_output_tokens_total"
    assert (await scrape(fleet)).sum(name) - before.sum(name) == tokens


async def rest_and_longest_silence(call: Call, heard: Heard) -> float:
    """Reads to the end; the longest time without an event, in seconds."""
    last, longest = time.monotonic(), 0.0
    async for block in call.blocks():
        heard.add(block)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    return longest


async def is_whole(fleet: Fleet, heard: Iterable[Heard]) -> None:
    """Every stream has said what it says without any trouble."""
    if not UNDISTURBED:
        async with streams(fleet) as calls:
            UNDISTURBED.extend(each.text for each in await asyncio.gather(*(call.rest() for call in calls)))
    for each, text in zip(heard, UNDISTURBED, strict=True):
        assert each.done, each.error
        assert each.text == text


async def nothing_is_left(fleet: Fleet, store: Redis) -> None:
    await until(lambda: idle(fleet), "all gauges are zero")
    await until(lambda: clean(store, "swift"), "nothing is left in the queue")


async def busiest(store: Redis, workers: Iterable[Child]) -> Child:
    """The worker that has most of the jobs."""
    jobs = await owned(store)
    assert jobs
    return max(workers, key=lambda worker: jobs[pid(worker)])


async def owns_nothing(store: Redis, worker: Child) -> bool:
    return not (await owned(store))[pid(worker)]


async def owned(store: Redis) -> Counter[int]:
    """Jobs by the process that has them."""
    owners: list[bytes] = await store.hvals("fm:{swift}:owners")  # type: ignore[assignment] # nothing is decoded
    return Counter(int(owner.decode().split("-")[-2]) for owner in owners)


async def in_batch(fleet: Fleet, sequences: int) -> bool:
    _, running, waiting = await gauges(fleet)
    return running + waiting == sequences


async def counted(fleet: Fleet, workers: int) -> bool:
    _, report = await fleet.readiness()
    return bool(report["pools"] == {"swift": workers})
