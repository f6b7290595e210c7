"""SIGTERM: what runs may finish, nothing new begins, and who runs out of time is told so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from calls import Call, Heard, post
from evidence import clean, gauges, until
from fleet import Fleet, ended
from redis.asyncio import Redis

from service.connection import connect

STREAMS = 10
SHORT, LONG = 1500, 50_000  # tokens: ends within the grace period, does not


async def test_a_gateway_is_unready_first_then_refuses_then_finishes_what_runs(fleet: Fleet) -> None:
    [gateway], _ = await fleet.up("swift")
    async with streams(fleet, SHORT) as calls:
        heard = await asyncio.gather(*(call.pieces(100) for call in calls))
        gateway.terminate()
        await until(lambda: is_draining(fleet), "it is not ready")
        await is_refused(fleet, "draining")
        await asyncio.gather(*(call.rest(each) for call, each in zip(calls, heard, strict=True)))
    assert {(each.done, len(each.pieces)) for each in heard} == {(True, SHORT)}
    assert await ended(gateway) == 0


async def test_streams_that_outlast_the_grace_period_end_with_an_error(fleet: Fleet) -> None:
    """Neither those who do not read, nor connections on which nothing happens, keep a gateway from leaving."""
    [gateway], _ = await fleet.up("swift")
    async with (
        streams(fleet, LONG) as calls,
        post(fleet.base_url, "swift", LONG, stream=False) as whole,
        post(fleet.base_url, "swift", LONG, receive_buffer=4096),
        post(fleet.base_url, "swift", 1, stream=False) as idle,
        connected(fleet) as store,
    ):
        await idle.json()
        heard = await asyncio.gather(*(call.pieces(100) for call in calls))
        gateway.terminate()
        await asyncio.gather(*(call.rest(each) for call, each in zip(calls, heard, strict=True)))
        assert all(not each.done and each.error is not None for each in heard)
        assert {each.error["code"] for each in heard if each.error} == {"server_is_overloaded"}
        await whole.json()
        assert (whole.status, whole.headers["x-fastmode-reason"]) == (503, "draining")
        assert await ended(gateway) == 0
        await until(lambda: clean(store, "swift"), "the workers have dropped its jobs")


async def test_a_worker_finishes_what_it_has_begun_and_others_take_what_is_new(fleet: Fleet) -> None:
    _, [worker] = await fleet.up("swift")
    async with streams(fleet, SHORT) as calls:
        heard = await asyncio.gather(*(call.pieces(100) for call in calls))
        other = fleet.worker("swift")
        worker.terminate()
        await asyncio.gather(*(call.rest(each) for call, each in zip(calls, heard, strict=True)))
        assert {(each.done, len(each.pieces)) for each in heard} == {(True, SHORT)}
    assert await ended(worker) == 0
    await fleet.ready(swift=1)
    async with post(fleet.base_url, "swift", 5) as call:
        assert (await call.rest()).done
    assert other.running


async def test_a_worker_hands_over_what_it_has_not_begun_and_what_it_cannot_finish(fleet: Fleet) -> None:
    _, workers = await fleet.up("swift", workers=2)
    tokens, prompt = 3000, "word " * 3000
    async with streams(fleet, tokens) as calls, AsyncExitStack() as opened:
        heard = await asyncio.gather(*(call.pieces(100) for call in calls))
        for _ in range(4):
            calls.append(await opened.enter_async_context(post(fleet.base_url, "swift", tokens, prompt=prompt)))
            heard.append(Heard())
        await until(lambda: in_batch(fleet, len(calls)), "all prompts are being read")
        workers[0].terminate()
        assert await ended(workers[0]) == 0
        await asyncio.gather(*(call.rest(each) for call, each in zip(calls, heard, strict=True)))
    assert {(each.done, len(each.pieces)) for each in heard} == {(True, tokens)}


async def test_the_last_worker_of_a_pool_ends_what_it_cannot_finish_with_an_error(fleet: Fleet) -> None:
    _, [worker] = await fleet.up("swift")
    async with streams(fleet, LONG) as calls, connected(fleet) as store:
        heard = await asyncio.gather(*(call.pieces(100) for call in calls))
        worker.terminate()
        await until(lambda: is_without_workers(fleet), "it does not count as alive any more")
        await is_refused(fleet, "no_workers")
        await asyncio.gather(*(call.rest(each) for call, each in zip(calls, heard, strict=True)))
        assert all(not each.done and each.error is not None for each in heard)
        assert await ended(worker) == 0
        await until(lambda: clean(store, "swift"), "nothing is left in the queue")


@asynccontextmanager
async def streams(fleet: Fleet, tokens: int) -> AsyncIterator[list[Call]]:
    async with AsyncExitStack() as opened:
        calls = (post(fleet.base_url, "swift", tokens, seed=number) for number in range(STREAMS))
        yield [await opened.enter_async_context(call) for call in calls]


@asynccontextmanager
async def connected(fleet: Fleet) -> AsyncIterator[Redis]:
    client = connect(fleet.redis_url, timeout=5)
    yield client
    await client.aclose()


async def is_refused(fleet: Fleet, reason: str) -> None:
    async with post(fleet.base_url, "swift", 5) as call:
        await call.json()
    assert (call.status, call.headers["x-fastmode-reason"]) == (503, reason)
    assert int(call.headers["retry-after"]) > 0


async def is_draining(fleet: Fleet) -> bool:
    status, report = await fleet.readiness()
    return status == 503 and bool(report["status"] == "draining")


async def is_without_workers(fleet: Fleet) -> bool:
    return bool((await fleet.readiness())[1]["pools"] == {"swift": 0})


async def in_batch(fleet: Fleet, sequences: int) -> bool:
    _, running, waiting = await gauges(fleet)
    return running + waiting == sequences
