"""SIGTERM: what runs may finish, nothing new begins, and who runs out of time is told so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from calls import Call, post
from conftest import StartFleet
from evidence import clean, until
from fleet import Fleet, ended
from pools import Pool
from redis.asyncio import Redis

from service.connection import connect

SWIFT = Pool(name="swift", rate=1000, prefill=20_000)
GRACE = 2.0  # s
STREAMS = 10
SHORT, LONG = 1500, 50_000  # tokens: ends within the grace period, does not


@pytest.fixture(scope="module")
def service(module_fleet: StartFleet) -> Fleet:
    return module_fleet(SWIFT, FASTMODE_LEASE="1", FASTMODE_GRACE=str(GRACE), FASTMODE_DRAIN_DELAY="1")


async def test_a_gateway_is_unready_first_then_refuses_then_finishes_what_runs(service: Fleet) -> None:
    [gateway], _ = await service.up("swift")
    async with streams(service, SHORT) as calls:
        heard = await asyncio.gather(*(call.pieces(100) for call in calls))
        gateway.terminate()
        await until(lambda: is_draining(service), "it is not ready")
        await is_refused(service, "draining")
        await asyncio.gather(*(call.rest(each) for call, each in zip(calls, heard, strict=True)))
    assert {(each.done, len(each.pieces)) for each in heard} == {(True, SHORT)}
    assert await ended(gateway) == 0


async def test_streams_that_outlast_the_grace_period_end_with_an_error(service: Fleet) -> None:
    """Neither those who do not read, nor connections on which nothing happens, keep a gateway from leaving."""
    [gateway], _ = await service.up("swift")
    async with (
        streams(service, LONG) as calls,
        post(service.base_url, "swift", LONG, stream=False) as whole,
        post(service.base_url, "swift", LONG, receive_buffer=4096),
        post(service.base_url, "swift", 1, stream=False) as idle,
        connected(service) as store,
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


async def test_a_worker_finishes_what_it_has_begun_and_others_take_what_is_new(service: Fleet) -> None:
    _, [worker] = await service.up("swift")
    async with streams(service, SHORT) as calls:
        heard = await asyncio.gather(*(call.pieces(100) for call in calls))
        other = service.worker("swift")
        worker.terminate()
        await asyncio.gather(*(call.rest(each) for call, each in zip(calls, heard, strict=True)))
        assert {(each.done, len(each.pieces)) for each in heard} == {(True, SHORT)}
    assert await ended(worker) == 0
    await service.ready(swift=1)
    async with post(service.base_url, "swift", 5) as call:
        assert (await call.rest()).done
    assert other.running


async def test_a_worker_hands_over_what_it_has_not_begun_and_what_it_cannot_finish(service: Fleet) -> None:
    _, [worker] = await service.up("swift")
    tokens = 6000
    async with (
        streams(service, tokens) as calls,
        post(service.base_url, "swift", 5, prompt="word " * 100_000) as unread,
    ):
        heard = await asyncio.gather(*(call.pieces(100) for call in calls))
        service.worker("swift")
        await service.ready(swift=2)
        worker.terminate()
        assert await ended(worker) == 0
        assert (await unread.rest()).done
        await asyncio.gather(*(call.rest(each) for call, each in zip(calls, heard, strict=True)))
    assert {(each.done, len(each.pieces)) for each in heard} == {(True, tokens)}


async def test_the_last_worker_of_a_pool_ends_what_it_cannot_finish_with_an_error(service: Fleet) -> None:
    _, [worker] = await service.up("swift")
    async with streams(service, LONG) as calls, connected(service) as store:
        heard = await asyncio.gather(*(call.pieces(100) for call in calls))
        worker.terminate()
        await until(lambda: is_without_workers(service), "it does not count as alive any more")
        await is_refused(service, "no_workers")
        await asyncio.gather(*(call.rest(each) for call, each in zip(calls, heard, strict=True)))
        assert all(not each.done and each.error is not None for each in heard)
        assert await ended(worker) == 0
        await until(lambda: clean(store, "swift"), "nothing is left in the queue")


@asynccontextmanager
async def streams(service: Fleet, tokens: int) -> AsyncIterator[list[Call]]:
    async with AsyncExitStack() as opened:
        calls = (post(service.base_url, "swift", tokens, seed=number) for number in range(STREAMS))
        yield [await opened.enter_async_context(call) for call in calls]


@asynccontextmanager
async def connected(service: Fleet) -> AsyncIterator[Redis]:
    client = connect(service.redis_url, timeout=5)
    yield client
    await client.aclose()


async def is_refused(service: Fleet, reason: str) -> None:
    async with post(service.base_url, "swift", 5) as call:
        await call.json()
    assert (call.status, call.headers["x-fastmode-reason"]) == (503, reason)
    assert int(call.headers["retry-after"]) > 0


async def is_draining(service: Fleet) -> bool:
    status, report = await service.readiness()
    return status == 503 and bool(report["status"] == "draining")


async def is_without_workers(service: Fleet) -> bool:
    return bool((await service.readiness())[1]["pools"] == {"swift": 0})
