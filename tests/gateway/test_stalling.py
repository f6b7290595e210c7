"""Clients that do not read: they cost no memory and no time of others, and lose nothing if they go on in time."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from calls import Heard, post
from evidence import gauges, idle, process, resident, scrape, until
from pools import STALL_MAX

from fastmode.up import Service

LONG = 100_000
SMALL = 4096  # bytes; the kernel hides megabytes from the sender otherwise
MEGABYTE = 1 << 20
PAUSED, CUT = (1, 0, 0), (0, 0, 0)


async def test_a_client_that_never_reads_is_paused_then_cut_off(steady: Service) -> None:
    processes = [process(steady, "gateway"), process(steady, "worker swift")]
    before = await scrape(steady)
    async with post(steady.base_url, "swift", LONG, receive_buffer=SMALL) as call:
        await call.pieces(1)
        memory = [resident(pid) for pid in processes]
        await until(lambda: shows(steady, PAUSED), "the sequence is paused")
        await until(lambda: shows(steady, CUT), "the client is cut off and the slot is free")
        grown = [resident(pid) - then for pid, then in zip(processes, memory, strict=True)]
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await call.rest()
    after = await scrape(steady)
    stalled = {"model": "swift", "outcome": "stalled"}
    assert max(grown) < 4 * MEGABYTE
    assert after.sum("fastmode_requests_total", **stalled) == before.sum("fastmode_requests_total", **stalled) + 1


async def test_a_client_that_reads_again_in_time_gets_every_token_in_order(steady: Service) -> None:
    tokens = 4000

    async def halting() -> Heard:
        async with post(steady.base_url, "swift", tokens, receive_buffer=SMALL) as call:
            heard = await call.pieces(1)
            await until(lambda: is_paused(steady, 1), "the sequence is paused")
            heard = await call.pieces(500, heard)
            await until(lambda: is_paused(steady, 0), "it goes on")
            return await call.rest(heard)

    async def whole() -> str:
        async with post(steady.base_url, "swift", tokens, stream=False) as call:
            text: str = (await call.json())["choices"][0]["message"]["content"]
            return text

    heard, text = await asyncio.gather(halting(), whole())
    assert heard.done
    assert heard.text == text
    assert len(heard.pieces) == tokens


async def test_those_who_read_are_served_beside_those_who_do_not(steady: Service) -> None:
    async with AsyncExitStack() as open_calls:
        for _ in range(20):
            await open_calls.enter_async_context(post(steady.base_url, "swift", LONG, receive_buffer=SMALL))
        async with post(steady.base_url, "swift", 1000) as call:
            heard = await call.rest()
        assert heard.done
        assert len(heard.pieces) == 1000
        await until(lambda: idle(steady), "all others are cut off", 30)


async def test_a_client_that_leaves_while_paused_is_gone(steady: Service) -> None:
    async with post(steady.base_url, "swift", LONG, receive_buffer=SMALL) as call:
        await call.pieces(1)
        await until(lambda: shows(steady, PAUSED), "the sequence is paused")
        call.abort()
        await until(lambda: shows(steady, CUT), "the slot is free", STALL_MAX / 2)


async def is_paused(steady: Service, sequences: int) -> bool:
    in_flight, running, _ = await gauges(steady)
    return in_flight - running == sequences


async def shows(steady: Service, expected: tuple[int, int, int]) -> bool:
    return await gauges(steady) == expected
