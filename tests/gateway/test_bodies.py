"""What clients send and do not end, or ask for and do not read, is bounded for all of them together."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest
from calls import Call, post
from evidence import gauges, scrape, until
from pools import Pool, catalog

from fastmode.up import Service

QUICK = Pool(name="quick", rate=100_000)
EACH, TOGETHER = 1_000_000, 2_500_000  # bytes
LONG = 120_000  # tokens; their text is more than the kernel and the server buffer for a client
SMALL = 4096  # bytes; the kernel hides megabytes from the sender otherwise


@pytest.fixture(scope="module")
def service(module_stack: Callable[..., Service], tmp_path_factory: pytest.TempPathFactory) -> Service:
    pools = catalog(tmp_path_factory.mktemp("catalog"), QUICK)
    limits = {"FASTMODE_BODY_MAX": str(EACH), "FASTMODE_BODIES_MAX": str(TOGETHER)}
    return module_stack(catalog=pools, FASTMODE_STALL_MAX="1", **limits)


async def test_bodies_are_bounded_together_and_their_room_comes_back(service: Service) -> None:
    """Three clients have sent nearly all of a body each when there is no room for the last one's."""
    async with AsyncExitStack() as unfinished:
        calls = [await unfinished.enter_async_context(unended(service, EACH - 1000)) for _ in range(3)]
        refusals = [asyncio.create_task(call.json()) for call in calls]
        done, waiting = await asyncio.wait(refusals, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result()["error"]["code"] for task in done] == ["rate_limit_exceeded"]
        (refused,) = [call for call, task in zip(calls, refusals, strict=True) if task in done]
        assert (refused.status, refused.headers["x-fastmode-reason"]) == (429, "bodies")
        assert refused.headers["retry-after"] == "1"
        for task in waiting:
            task.cancel()
        await until(lambda: gets(service, EACH // 2 + 100_000, 429), "the others have taken their room")
        assert await status_of(service, 1000) == 200
    await until(lambda: gets(service, EACH - 1000, 200), "the room of those that left is free")
    for _ in range(4):  # more than fits at once
        assert await status_of(service, EACH - 1000) == 200


async def test_a_large_body_is_judged_as_a_small_one(service: Service) -> None:
    torn = b"{" + b" " * 500_000
    async with Call(service.base_url, head(len(torn)) + torn) as call:
        assert (await call.json())["error"]["code"] == "invalid_json"
        assert call.status == 400


async def test_a_whole_answer_that_is_not_read_is_cut_off(service: Service) -> None:
    before = (await scrape(service)).sum("fastmode_requests_total", outcome="stalled")
    async with post(service.base_url, "quick", LONG, stream=False, receive_buffer=SMALL) as call:
        await until(lambda: in_flight(service, 1), "it runs")
        await until(lambda: in_flight(service, 0), "the client is cut off")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await call.json()
    assert (await scrape(service)).sum("fastmode_requests_total", outcome="stalled") == before + 1


async def test_a_whole_answer_that_is_read_slowly_is_whole(service: Service) -> None:
    async with post(service.base_url, "quick", LONG, stream=False, receive_buffer=SMALL) as call:
        answer = await call.json()
    assert answer["usage"]["completion_tokens"] == LONG


def head(size: int) -> bytes:
    path = f"/v1/chat/completions HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {size}"
    return f"POST {path}\r\ncontent-type: application/json\r\n\r\n".encode()


def padded(size: int) -> bytes:
    """A good body of that many bytes."""
    messages = [{"role": "user", "content": "Hello"}]
    return json.dumps({"model": "quick", "messages": messages, "max_tokens": 1}).encode().ljust(size)


def unended(service: Service, size: int) -> Call:
    """That many bytes of a body, and never the last one."""
    return Call(service.base_url, head(size + 1) + padded(size))


async def status_of(service: Service, size: int) -> int:
    async with Call(service.base_url, head(size) + padded(size)) as call:
        await call.json()
        return call.status


async def gets(service: Service, size: int, status: int) -> bool:
    return await status_of(service, size) == status


async def in_flight(service: Service, requests: int) -> bool:
    return (await gauges(service))[0] == requests
