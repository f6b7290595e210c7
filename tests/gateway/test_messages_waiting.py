"""Messages that wait, and a server that has no room, as clients of the Messages API are told of it."""

import json
from contextlib import AsyncExitStack
from typing import Any

import httpx
from calls import post
from evidence import idle, scrape, until
from pools import NARROW

from fastmode.up import Service

LONG = 50_000  # tokens; holds a slot until its client leaves
HEADERS = {"anthropic-version": "2023-06-01"}


def asks(model: str, tokens: int = 5) -> dict[str, Any]:
    return {"model": model, "max_tokens": tokens, "messages": [{"role": "user", "content": "Hello"}]}


async def test_a_stream_that_waits_begins_and_pings_until_there_is_something_to_say(steady: Service) -> None:
    async with AsyncExitStack() as opened:
        running = await opened.enter_async_context(post(steady.base_url, "narrow", LONG))
        await running.pieces(1)
        http = await opened.enter_async_context(httpx.AsyncClient(base_url=steady.base_url, trust_env=False))
        call = http.stream("POST", "/v1/messages", json={**asks("narrow"), "stream": True}, headers=HEADERS)
        answer = await opened.enter_async_context(call)
        events = [json.loads(line[6:]) async for line in _data(answer, until_ping=2, then=running.abort)]
    kinds = [event["type"] for event in events]
    assert kinds[:4] == ["message_start", "ping", "ping", "content_block_start"]
    assert kinds.count("message_start") == kinds.count("message_stop") == 1
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert events[-2]["usage"]["output_tokens"] == 5
    await until(lambda: idle(steady), "all gauges are zero")


async def _data(answer: httpx.Response, until_ping: int, then: Any) -> Any:
    """The data lines of a stream; after so many pings something happens."""
    pings = 0
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            pings += line == 'data: {"type": "ping"}'
            if pings == until_ping:
                then()
                pings = LONG
            yield line


async def test_without_room_a_request_is_refused_as_one_of_too_many(steady: Service) -> None:
    async with AsyncExitStack() as opened:
        first = await opened.enter_async_context(post(steady.base_url, "narrow", LONG))
        await first.pieces(1)
        for _ in range(NARROW.queue):
            await opened.enter_async_context(post(steady.base_url, "narrow", LONG))
        await until(lambda: _full(steady), "the queue is full")
        http = await opened.enter_async_context(httpx.AsyncClient(base_url=steady.base_url, trust_env=False))
        refused = await http.post("/v1/messages", json=asks("narrow"), headers=HEADERS)
    assert (refused.status_code, refused.json()["error"]["type"]) == (429, "rate_limit_error")
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["x-fastmode-reason"] == "queue_full"
    assert refused.headers["request-id"] == refused.json()["request_id"]
    await until(lambda: idle(steady), "all gauges are zero")


async def test_an_error_after_pings_is_an_event(steady: Service) -> None:
    async with AsyncExitStack() as opened:
        running = await opened.enter_async_context(post(steady.base_url, "hasty", LONG))
        await running.pieces(1)
        http = await opened.enter_async_context(httpx.AsyncClient(base_url=steady.base_url, trust_env=False))
        late = await http.post("/v1/messages", json={**asks("hasty"), "stream": True}, headers=HEADERS)
    events = [json.loads(line[6:]) for line in late.text.split("\n") if line.startswith("data: ")]
    assert late.status_code == 200
    assert [event["type"] for event in events][:2] == ["message_start", "ping"]
    assert (events[-1]["type"], events[-1]["error"]["type"]) == ("error", "rate_limit_error")


async def _full(service: Service) -> bool:
    return (await scrape(service)).sum("fastmode_queue_depth", pool="narrow") == NARROW.queue
