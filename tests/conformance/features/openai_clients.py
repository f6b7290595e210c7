"""Other ways to use the client."""

import asyncio
from typing import Any

from features import feature
from features.openai_door import HELLO, MODEL, Door

ASKED: dict[str, Any] = {"model": MODEL, "messages": HELLO, "max_tokens": 10}


@feature
def the_asynchronous_client_asks_and_streams(door: Door) -> None:
    """The asynchronous client asks, streams, and leaves a stream"""

    async def ask() -> None:
        async with door.asynchronous() as client:
            answer = await client.chat.completions.create(**ASKED, seed=1)
            chunks = [chunk async for chunk in await client.chat.completions.create(**ASKED, seed=1, stream=True)]
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            assert text == answer.choices[0].message.content
            left = await client.chat.completions.create(**{**ASKED, "max_tokens": 5000}, stream=True)
            async for _ in left:
                break
            await left.close()
            assert (await client.chat.completions.create(**ASKED)).choices

    asyncio.run(ask())


@feature
def many_at_once_are_kept_apart(door: Door) -> None:
    """Twenty streams at once are each what they would be alone"""

    async def one(client: Any, seed: int) -> str:
        chunks = await client.chat.completions.create(**{**ASKED, "max_tokens": 30}, seed=seed, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])

    async def ask() -> None:
        async with door.asynchronous() as client:
            together = await asyncio.gather(*(one(client, seed) for seed in range(20)))
            alone = await one(client, 11)
        assert together[11] == alone
        assert len(set(together)) == 20

    asyncio.run(ask())


@feature
def requests_that_are_cancelled_end(door: Door) -> None:
    """A request that is cancelled ends at once, and the client goes on"""

    async def ask() -> None:
        async with door.asynchronous() as client:
            slow = {**ASKED, "extra_headers": {"x-fastmode-fault": "slow=30"}}
            task = asyncio.create_task(client.chat.completions.create(**slow))
            await asyncio.sleep(0.1)
            task.cancel()
            assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
            assert (await client.chat.completions.create(**ASKED)).choices

    asyncio.run(ask())


@feature
def raw_responses_have_the_headers(door: Door) -> None:
    """Raw responses have x-request-id, openai-processing-ms and openai-version, and parse to the answer"""
    raw = door.client.chat.completions.with_raw_response.create(**ASKED)
    assert raw.headers["x-request-id"].startswith("req_")
    assert int(raw.headers["openai-processing-ms"]) >= 0
    assert raw.headers["openai-version"] == "2020-10-01"
    assert raw.headers["content-type"] == "application/json"
    answer = raw.parse()
    assert answer.choices
    assert door.chat()._request_id != answer._request_id


@feature
def streamed_responses_have_the_headers(door: Door) -> None:
    """A streamed response has its headers before its body"""
    with door.client.chat.completions.with_streaming_response.create(**ASKED, stream=True) as raw:
        assert raw.headers["x-request-id"].startswith("req_")
        assert raw.headers["content-type"].startswith("text/event-stream")
        assert "".join(raw.iter_lines()).endswith("[DONE]")


@feature
def any_key_and_organization_is_taken(door: Door) -> None:
    """Organization, project and further headers and query parameters are taken"""
    client = door.synchronous(organization="org-1", project="proj_1", default_headers={"x-custom": "1"})
    assert client.chat.completions.create(**ASKED, extra_query={"api-version": "x"}).choices
