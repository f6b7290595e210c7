"""Clients that leave: whatever they asked for is stopped, freed, and charged for what was made of it, at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from calls import Call, post
from evidence import Samples, clean, depth, gauges, idle, scrape, until
from pools import NARROW
from redis.asyncio import Redis

from fastmode.up import Service
from service.connection import connect

LONG = 20_000  # tokens; takes far longer than any test here
AT_ONCE = 2.0  # s; tens of milliseconds on a machine with nothing else to do


@pytest.fixture
async def redis(steady: Service) -> AsyncIterator[Redis]:
    client = connect(steady.stack.redis_url, timeout=5)
    yield client
    await client.aclose()


@pytest.mark.parametrize("clients", [1, 16, 100])
async def test_aborted_streams_are_stopped_freed_and_charged(steady: Service, redis: Redis, clients: int) -> None:
    before = await scrape(steady)
    async with AsyncExitStack() as open_calls:
        calls = [await open_calls.enter_async_context(post(steady.base_url, "swift", LONG)) for _ in range(clients)]
        heard = await asyncio.gather(*(call.pieces(20) for call in calls))
        assert await gauges(steady) == (clients, clients, 0)
        for call in calls:
            call.abort()
        took = await until(lambda: idle(steady), "all gauges are zero", AT_ONCE)
    print(f"{clients} aborted: all gauges zero after {took * 1000:.0f} ms")
    await until(lambda: clean(redis, "swift"), "nothing is left in the queue")
    spent = Spent(before, await scrape(steady), "swift")
    read = sum(len(each.pieces) for each in heard)
    assert spent.cancelled == clients
    assert read <= spent.completion < clients * LONG / 2
    assert spent.nanodollars == spent.prompt * 1000 + spent.completion * 2000
    assert spent.prompt == clients * await prompt_tokens(steady)


async def test_a_request_that_waits_for_a_slot_leaves_the_queue_with_its_client(steady: Service, redis: Redis) -> None:
    before = await scrape(steady)
    async with post(steady.base_url, "narrow", LONG) as running:
        await running.pieces(1)
        async with post(steady.base_url, "narrow", LONG) as waiting:
            await until(lambda: depth(steady, "narrow", 1), "it is queued")
            waiting.abort()
            await until(lambda: depth(steady, "narrow", 0), "it is not queued any more", AT_ONCE)
        assert (await gauges(steady))[:2] == (1, 1)
        await running.pieces(2)
        running.abort()
        await until(lambda: idle(steady), "all gauges are zero", AT_ONCE)
    await until(lambda: clean(redis, "narrow"), "nothing is left in the queue")
    spent = Spent(before, await scrape(steady), "narrow")
    assert spent.cancelled == 2
    assert spent.prompt == await prompt_tokens(steady), "who was not served is not charged"


async def test_a_prompt_is_not_read_to_its_end_for_a_client_that_left(steady: Service, redis: Redis) -> None:
    before = await scrape(steady)
    async with post(steady.base_url, "reader", LONG, prompt="word " * 1000) as call:
        await until(lambda: running(steady, 1), "its prompt is being read")
        call.abort()
        await until(lambda: idle(steady), "all gauges are zero", AT_ONCE)
    await until(lambda: clean(redis, "reader"), "nothing is left in the queue")
    spent = Spent(before, await scrape(steady), "reader")
    assert (spent.cancelled, spent.completion) == (1, 0)
    assert spent.prompt > 1000, "the prompt has been worked on"


async def test_a_client_that_does_not_stream_leaves_no_job_behind_either(steady: Service, redis: Redis) -> None:
    before = await scrape(steady)
    async with post(steady.base_url, "swift", LONG, stream=False) as call:
        await until(lambda: running(steady, 1), "it is being generated")
        call.abort()
        await until(lambda: idle(steady), "all gauges are zero", AT_ONCE)
    await until(lambda: clean(redis, "swift"), "nothing is left in the queue")
    spent = Spent(before, await scrape(steady), "swift")
    assert spent.cancelled == 1
    assert 0 < spent.completion < LONG / 2


async def test_clients_that_leave_as_their_streams_end_leave_nothing_behind(steady: Service, redis: Redis) -> None:
    """The word that a job is not wanted crosses the word that it has finished."""
    before = await scrape(steady)

    async def leave_at_the_end(call: Call, tokens: int) -> None:
        await call.pieces(tokens - 1)
        call.abort()

    async with AsyncExitStack() as open_calls:
        lengths = [20 + number for number in range(60)]
        calls = [await open_calls.enter_async_context(post(steady.base_url, "swift", length)) for length in lengths]
        await asyncio.gather(*map(leave_at_the_end, calls, lengths))
        await until(lambda: idle(steady), "all gauges are zero", AT_ONCE)
    await until(lambda: clean(redis, "swift"), "nothing is left in the queue")
    spent = Spent(before, await scrape(steady), "swift")
    assert spent.cancelled + spent.ok == len(lengths)
    assert sum(lengths) - len(lengths) <= spent.completion <= sum(lengths)


async def test_a_pool_that_was_left_serves_the_next_client_at_once(steady: Service) -> None:
    async with AsyncExitStack() as open_calls:
        calls = [
            await open_calls.enter_async_context(post(steady.base_url, "narrow", LONG)) for _ in range(NARROW.queue)
        ]
        await calls[0].pieces(1)
        for call in calls:
            call.abort()
        async with post(steady.base_url, "narrow", 5) as call:
            heard = await asyncio.wait_for(call.rest(), AT_ONCE)
        assert heard.done
        assert len(heard.pieces) == 5


class Spent:
    """What was counted between two scrapes, for one model."""

    def __init__(self, before: Samples, after: Samples, model: str) -> None:
        def more(name: str, **labels: str) -> float:
            return after.sum(name, model=model, **labels) - before.sum(name, model=model, **labels)

        self.cancelled = more("fastmode_requests_total", outcome="cancelled")
        self.ok = more("fastmode_requests_total", outcome="ok")
        self.prompt = more("fastmode_input_tokens_total")
        self.completion = more("fastmode_output_tokens_total")
        self.nanodollars = more("fastmode_cost_nanodollars_total")


async def prompt_tokens(steady: Service) -> int:
    async with post(steady.base_url, "swift", 1, stream=False) as call:
        count: int = (await call.json())["usage"]["prompt_tokens"]
        return count


async def running(steady: Service, sequences: int) -> bool:
    return (await gauges(steady))[1] == sequences
