"""Who pays for it gets on first, and nobody who has begun to speak is interrupted: a pool with a single slot."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
from calls import Call, post
from evidence import idle, scrape, until

from fastmode.up import Service

CATALOG = Path(__file__).parent.parent / "catalogs" / "slow_to_read.toml"
LONG = "and so on " * 1000  # takes 1.5 s to read
SHORT = "Hello"


@pytest.fixture(scope="module")
def service(module_stack: Callable[..., Service]) -> Service:
    return module_stack(CATALOG)


def board(service: Service, tier: str, prompt: str, tokens: int = 20) -> Call:
    return post(service.base_url, "bus", tokens, prompt=prompt, service_tier=tier)


async def preemptions(service: Service) -> float:
    return (await scrape(service)).sum("fastmode_preemptions_total", pool="one-slot")


async def boarded(service: Service, queued: int) -> bool:
    samples = await scrape(service)
    running = samples.sum("fastmode_batch_running", pool="one-slot")
    return running == 1 and samples.sum("fastmode_queue_depth", pool="one-slot") == queued


async def test_a_better_band_has_its_first_token_before_those_who_came_earlier_and_have_none(service: Service) -> None:
    before = await preemptions(service)
    first: list[str] = []

    async def ride(name: str, call: Call) -> None:
        heard = await call.pieces(1)
        first.append(name)
        heard = await call.rest(heard)
        assert heard.done
        assert len(heard.pieces) == 20

    async with AsyncExitStack() as opened, asyncio.TaskGroup() as rides:
        for number in range(2):
            call = await opened.enter_async_context(board(service, "standard", LONG))
            rides.create_task(ride(f"standard {number}", call))
            await until(partial(boarded, service, number), "the first one is read, who comes later waits")
        call = await opened.enter_async_context(board(service, "fast", SHORT))
        rides.create_task(ride("fast", call))
    assert first == ["fast", "standard 0", "standard 1"]
    assert await preemptions(service) == before + 1
    await until(lambda: idle(service), "all gauges are zero")


async def test_a_stream_that_has_begun_is_not_interrupted(service: Service) -> None:
    before = await preemptions(service)
    async with board(service, "standard", SHORT, tokens=500) as running:
        heard = await running.pieces(1)
        async with board(service, "fast", LONG) as urgent:
            spoken = asyncio.create_task(urgent.pieces(1))
            heard = await running.rest(heard)
            assert heard.done
            assert len(heard.pieces) == 500
            assert not spoken.done(), "it is read only when the slot is free"
            assert (await urgent.rest(await spoken)).done
    assert await preemptions(service) == before
