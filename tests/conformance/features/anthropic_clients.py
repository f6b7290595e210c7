"""Other ways to use the client."""

import asyncio
from typing import Any

from features import feature
from features.anthropic_door import FAULT, HELLO, MODEL, Door
from features.raising import raises

ASKED: dict[str, Any] = {"model": MODEL, "messages": HELLO, "max_tokens": 20}


@feature
def the_asynchronous_client_asks_and_streams(door: Door) -> None:
    """The asynchronous client asks, streams, counts, and leaves a stream"""

    async def ask() -> None:
        async with door.asynchronous() as client:
            whole = await client.messages.create(**ASKED)
            async with client.messages.stream(**ASKED) as stream:
                assert "".join([text async for text in stream.text_stream]) == whole.content[0].text
            counted = await client.messages.count_tokens(model=MODEL, messages=HELLO)
            assert counted.input_tokens == whole.usage.input_tokens
            async with client.messages.stream(**{**ASKED, "max_tokens": 5000}) as stream:
                async for _ in stream:
                    break
            assert (await client.messages.create(**ASKED)).content

    asyncio.run(ask())


@feature
def many_at_once_are_kept_apart(door: Door) -> None:
    """Twenty streams at once are each what they would be alone"""

    async def one(client: Any, number: int) -> str:
        messages = [{"role": "user", "content": f"Say something about {number}"}]
        async with client.messages.stream(**{**ASKED, "messages": messages}) as stream:
            return "".join([text async for text in stream.text_stream])

    async def ask() -> None:
        async with door.asynchronous() as client:
            together = await asyncio.gather(*(one(client, number) for number in range(20)))
            assert together[7] == await one(client, 7)

    asyncio.run(ask())


@feature
def raw_responses_have_the_headers(door: Door) -> None:
    """Raw responses have request-id and the organization's id"""
    raw = door.client.messages.with_raw_response.create(**ASKED)
    assert raw.headers["request-id"].startswith("req_")
    assert raw.headers["anthropic-organization-id"]
    assert raw.headers["content-type"] == "application/json"
    assert raw.parse()._request_id == raw.headers["request-id"]


@feature
def timeouts_are_the_clients(door: Door) -> None:
    """A client that loses patience raises APITimeoutError"""
    with raises(door.library.APITimeoutError):
        door.client.messages.create(**ASKED, extra_headers={FAULT: "slow=5"}, timeout=0.2)
