"""What a gateway makes of events that it did not expect, told to it by hand through Redis."""

from collections.abc import AsyncIterator

import pytest
from calls import post
from evidence import clean, idle, until
from fleet import Fleet, freeze, thaw

from service.connection import Client, connect
from service.messages import Job, Started, encode_events
from service.queue import Bounds, Queue

LONG = 50_000


@pytest.fixture
async def store(fleet: Fleet) -> AsyncIterator[Client]:
    await fleet.up("swift")
    client = connect(fleet.redis_url, timeout=5)
    yield client
    await until(lambda: clean(client, "swift"), "nothing is left in the queue")
    await client.aclose()


async def test_a_job_that_starts_although_nobody_waits_for_it_is_cancelled(fleet: Fleet, store: Client) -> None:
    """Its cancel may have come before the job itself, when Redis was slow to carry out what had been given up."""
    job = Job(
        id="nobody's",
        gateway=await reply_stream(store),
        pool="swift",
        model="swift",
        tier="standard",
        max_tokens=LONG,
        context_left=LONG,
        ignore_eos=True,
    )
    await Queue(store, "swift").enqueue(job, Bounds(jobs=10, bytes=100_000, wait=60))
    await until(lambda: clean(store, "swift"), "it is forgotten, long before it could have finished")


async def test_a_flush_that_cannot_be_read_concerns_nobody_else(fleet: Fleet, store: Client) -> None:
    async with post(fleet.base_url, "swift", 1000) as call:
        heard = await call.pieces(10)
        for frame in (b"of another version", encode_events([Started("x", 1, 0.0)])[:-1], b""):
            await store.xadd(f"fm:reply:{{{await reply_stream(store)}}}", {"f": frame})
        heard = await call.rest(heard)
    assert heard.done
    assert len(heard.pieces) == 1000


async def test_a_gateway_that_was_frozen_ends_its_streams_with_an_error(fleet: Fleet, store: Client) -> None:
    """Its reply stream has expired, and the workers have dropped its jobs."""
    [gateway], _ = await fleet.up("swift")
    async with post(fleet.base_url, "swift", LONG) as call:
        heard = await call.pieces(10)
        freeze(gateway)
        await until(lambda: has_no_replies(store), "its reply stream is gone")
        await until(lambda: clean(store, "swift"), "its job is dropped")
        thaw(gateway)
        heard = await call.rest(heard)
    assert heard.error is not None
    assert not heard.done
    await fleet.ready(swift=1)
    async with post(fleet.base_url, "swift", 5) as call:
        assert (await call.rest()).done
    await until(lambda: idle(fleet), "all gauges are zero")


async def reply_stream(store: Client) -> str:
    """The name of the one gateway there is."""
    [key] = [key.decode() async for key in store.scan_iter("fm:reply:*")]
    return str(key.removeprefix("fm:reply:{").removesuffix("}"))


async def has_no_replies(store: Client) -> bool:
    return [key async for key in store.scan_iter("fm:reply:*")] == []
