"""Gateways that die, and a Redis that is late, away, forgetful or unfit: nothing hangs, nothing leaks, nothing lies."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from calls import Call, post
from evidence import Samples, clean, gauges, idle, scrape, until
from fleet import Fleet, ended, freeze, kill, thaw
from pools import LEASE
from redis.asyncio import Redis

from service.connection import connect

LONG = 50_000
STREAMS = 10
LINES = 40  # of log that one incident may cost, whatever was running


async def test_a_killed_gateway_leaves_nothing_behind(fleet: Fleet) -> None:
    """Not even a sequence that was paused, which sends nothing and so cannot be told that nobody is there."""
    [gateway], _ = await fleet.up("swift")
    async with streams(fleet, LONG) as calls, connected(fleet) as redis:
        async with post(fleet.base_url, "swift", LONG, receive_buffer=4096) as stalled:
            await stalled.pieces(1)
            await asyncio.gather(*(call.pieces(10) for call in calls))
            for call in calls:
                if call is not calls[0]:
                    call.abort()
            await until(lambda: shows(fleet, (2, 1, 0)), "one stream runs and one is paused")
            kill(gateway)
        fleet.gateway()
        await until(lambda: answers(fleet), "another gateway answers", 30)
        await until(lambda: idle(fleet), "all gauges are zero")
        await until(lambda: clean(redis, "swift"), "nothing is left in the queue")
        assert len([key async for key in redis.scan_iter("fm:reply:*")]) == 1, "the reply stream has expired"


async def test_gateways_count_together_and_never_back(fleet: Fleet) -> None:
    gateways, _ = await fleet.up("swift", gateways=2)
    before = (await scrape(fleet)).sum("fastmode_requests_total")
    for _ in range(4):
        async with streams(fleet, 5) as calls:
            await asyncio.gather(*(call.rest() for call in calls))
    scrapes = [await scrape(fleet) for _ in range(10)]
    assert {samples.sum("fastmode_requests_total") - before for samples in scrapes} == {4 * STREAMS}
    async with streams(fleet, LONG) as calls:
        await asyncio.gather(*(call.pieces(1) for call in calls))
        all_alive = await scrape(fleet)
        kill(gateways[0])
        await until(lambda: answers(fleet), "the other gateway answers")
        never_back(all_alive, await scrape(fleet))
        for call in calls:
            call.abort()
    await until(lambda: idle(fleet), "all gauges are zero")
    await fleet.up("swift", gateways=2)
    async with streams(fleet, 5) as calls:
        await asyncio.gather(*(call.rest() for call in calls))
    never_back(all_alive, await scrape(fleet))


async def test_a_gateway_that_joins_others_refuses_nobody(fleet: Fleet) -> None:
    await fleet.up("swift")
    gateway = fleet.gateway()

    async def is_served() -> bool:
        async with post(fleet.base_url, "swift", 1, stream=False) as call:
            assert (await call.json())["usage"]["completion_tokens"] == 1
        return True

    async with connected(fleet) as redis:
        while await is_served() and len([key async for key in redis.scan_iter("fm:reply:*")]) == 1:
            assert gateway.running
        for _ in range(50):
            await is_served()


async def test_who_starts_before_redis_is_ready_when_redis_is(fleet: Fleet) -> None:
    fleet.down()
    fleet.gateway()
    fleet.worker("swift")
    await until(lambda: answers(fleet), "the gateway answers", 30)
    assert await fleet.readiness() == (503, {"status": "not_ready", "redis": False, "pools": {}, "lateness": {}})
    await is_refused(fleet, "redis")
    fleet.store()
    await fleet.ready(swift=1)
    async with post(fleet.base_url, "swift", 5) as call:
        assert (await call.rest()).done


async def test_streams_go_on_after_redis_was_frozen_and_new_requests_are_refused_meanwhile(fleet: Fleet) -> None:
    await fleet.up("swift")
    tokens, lines = 2000, len(fleet.said)
    async with streams(fleet, tokens) as calls:
        heard = await asyncio.gather(*(call.pieces(500) for call in calls))
        freeze(fleet.store())
        refused = [await is_refused(fleet, "redis") for _ in range(5)]
        print(f"refused after {', '.join(f'{seconds:.2f}' for seconds in refused)} s")
        assert refused[-1] < 0.9, "once it is known, nobody has to wait"
        await until(lambda: is_unready(fleet), "the gateway is not ready")
        await asyncio.sleep(2.5 * LEASE)  # and it has taken a second to be refused: less than replies are kept for
        thaw(fleet.store())
        await asyncio.gather(*(call.rest(each) for call, each in zip(calls, heard, strict=True)))
    said = fleet.said[lines:]
    assert [each.error for each in heard if not each.done] == [], said
    assert {len(each.pieces) for each in heard} == {tokens}
    await fleet.ready(swift=1)
    async with post(fleet.base_url, "swift", tokens, seed=3) as call:
        assert heard[3].text == (await call.rest()).text
    await until(lambda: idle(fleet), "all gauges are zero")
    async with connected(fleet) as redis:
        await until(lambda: clean(redis, "swift"), "nothing is left in the queue")
    assert len(said) < LINES, said


async def test_streams_end_with_an_error_when_redis_has_lost_them(fleet: Fleet) -> None:
    await fleet.up("swift")
    lines = len(fleet.said)
    async with streams(fleet, LONG) as calls:
        heard = await asyncio.gather(*(call.pieces(100) for call in calls))
        kill(fleet.store())
        await is_refused(fleet, "redis")
        fleet.store()
        await asyncio.gather(*(call.rest(each) for call, each in zip(calls, heard, strict=True)))
    assert all(each.error is not None and each.error["code"] for each in heard)
    await fleet.ready(swift=1)
    async with post(fleet.base_url, "swift", 5) as call:
        assert (await call.rest()).done
    await until(lambda: idle(fleet), "all gauges are zero")
    async with connected(fleet) as redis:
        await until(lambda: clean(redis, "swift"), "nothing is left in the queue")
    assert len(fleet.said[lines:]) < LINES, fleet.said


async def test_a_redis_that_evicts_keys_is_refused(fleet: Fleet) -> None:
    fleet.store()
    async with connected(fleet) as redis:
        await redis.config_set("maxmemory-policy", "allkeys-lru")
        processes = [fleet.gateway(), fleet.worker("swift")]
        codes = [await ended(process) for process in processes]
        await redis.config_set("maxmemory-policy", "noeviction")
    assert codes == [1, 1]
    for process in processes:
        [line] = process.tail
        assert "allkeys-lru" in line
        assert "noeviction" in line


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


async def is_refused(fleet: Fleet, reason: str) -> float:
    """How long a request takes to be told so, in seconds."""
    begun = time.monotonic()
    async with post(fleet.base_url, "swift", 5) as call:
        await call.json()
    assert (call.status, call.headers["x-fastmode-reason"], call.headers["retry-after"]) == (503, reason, "1")
    return time.monotonic() - begun


async def shows(fleet: Fleet, expected: tuple[int, int, int]) -> bool:
    return await gauges(fleet) == expected


async def answers(fleet: Fleet) -> bool:
    return (await fleet.readiness())[0] > 0


async def is_unready(fleet: Fleet) -> bool:
    return (await fleet.readiness())[0] == 503


def never_back(before: Samples, after: Samples) -> None:
    later = after.counters()
    assert {
        name: (value, later.get(name)) for name, value in before.counters().items() if later.get(name, 0) < value
    } == {}
