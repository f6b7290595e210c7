"""Responses that outlive requests: shared by gateways, run by one of them, and lost or finished with it."""

import asyncio
import json
from typing import Any

import httpx
from evidence import idle, scrape, until
from fleet import Fleet, ended, kill
from sockets import LONG, opened

PENDING = ("queued", "in_progress")


async def call(fleet: Fleet, method: str, path: str = "", **body: Any) -> tuple[int, dict[str, Any]]:
    """Over a connection of its own, which any gateway may get."""
    async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
        content = json.dumps(body) if body else None
        answer = await client.request(
            method,
            f"{fleet.base_url}/v1/responses{path}",
            content=content,
            headers={"authorization": "Bearer k", "content-type": "application/json"},
        )
    told: dict[str, Any] = answer.json()
    return answer.status_code, told


async def background(fleet: Fleet, tokens: int) -> str:
    given: dict[str, Any] = {"model": "swift", "input": "Hello", "max_output_tokens": tokens, "ignore_eos": True}
    status, told = await call(fleet, "POST", background=True, **given)
    assert (status, told.get("status")) == (200, "queued"), told
    name: str = told["id"]
    return name


async def look(fleet: Fleet, name: str) -> dict[str, Any]:
    status, told = await call(fleet, "GET", f"/{name}")
    assert status == 200, told
    return told


async def test_any_gateway_knows_and_cancels_a_response_of_any_other(fleet: Fleet) -> None:
    await fleet.up("swift", gateways=2)
    before = await scrape(fleet)
    names = await asyncio.gather(*(background(fleet, LONG) for _ in range(4)))
    seen = await asyncio.gather(*(look(fleet, name) for name in names for _ in range(3)))
    assert {told["status"] for told in seen} <= set(PENDING)
    ends = [told for _, told in await asyncio.gather(*(call(fleet, "POST", f"/{name}/cancel") for name in names))]
    assert {told["status"] for told in ends} == {"cancelled"}
    assert all(told["usage"]["output_tokens"] < LONG for told in ends)
    assert [await look(fleet, name) for name in names] == ends
    await until(lambda: idle(fleet), "all gauges are zero")
    after = await scrape(fleet)
    spent = after.sum("fastmode_output_tokens_total") - before.sum("fastmode_output_tokens_total")
    assert spent == sum(told["usage"]["output_tokens"] for told in ends)


async def test_a_gateway_that_stops_finishes_what_it_answers(fleet: Fleet) -> None:
    [gateway], _ = await fleet.up("swift")
    async with opened(fleet) as socket:
        await socket.create(tokens=1000)
        name = await background(fleet, 1000)
        gateway.terminate()
        *_, told = await socket.rest()
        assert told["type"] == "response.incomplete"
        assert await socket.closed() == 1012
    assert await ended(gateway) == 0
    await fleet.up("swift")
    told = await look(fleet, name)
    assert (told["status"], told["usage"]["output_tokens"]) == ("incomplete", 1000)


async def test_what_outlasts_the_grace_period_fails(fleet: Fleet) -> None:
    [gateway], _ = await fleet.up("swift")
    async with opened(fleet) as socket:
        await socket.create(tokens=LONG)
        name = await background(fleet, LONG)
        gateway.terminate()
        events = [*await socket.rest(), await socket.next()]
        assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
        assert events[-1]["response"]["error"]["code"] == "server_is_overloaded"
        assert await socket.closed() == 1012
    assert await ended(gateway) == 0
    await fleet.up("swift")
    assert (await look(fleet, name))["status"] == "failed"


async def test_a_response_fails_with_its_gateway(fleet: Fleet) -> None:
    [gateway], _ = await fleet.up("swift")
    name = await background(fleet, LONG)
    kill(gateway)
    await fleet.up("swift")

    async def has_failed() -> bool:
        return (await look(fleet, name))["status"] not in PENDING

    await until(has_failed, "it has ended")
    told = await look(fleet, name)
    assert (told["status"], told["error"]["code"]) == ("failed", "server_error")


async def test_an_old_connection_ends_with_what_it_answers(fleet: Fleet) -> None:
    [gateway], _ = await fleet.up("swift")
    kill(gateway)
    gateway = fleet.gateway(FASTMODE_SOCKET_AGE_MAX="0.3")
    await fleet.ready(swift=1)
    async with opened(fleet) as socket:
        await socket.create(tokens=700)
        *_, told = await socket.rest()
        assert told["type"] == "response.incomplete"
        assert (await socket.next())["error"]["code"] == "websocket_connection_limit_reached"
        assert await socket.closed() == 1000
    kill(gateway)


async def test_while_redis_is_away_nobody_is_told_that_there_is_no_such_response(fleet: Fleet) -> None:
    await fleet.up("swift")
    status, kept = await call(fleet, "POST", model="swift", input="Hello", max_output_tokens=16)
    assert status == 200
    await asyncio.to_thread(kill, fleet.store())
    status, told = await call(fleet, "GET", f"/{kept['id']}")
    assert (status, told["error"]["code"]) == (503, "server_is_overloaded")
    status, told = await call(fleet, "POST", model="swift", input="Hi", previous_response_id=kept["id"])
    assert (status, told["error"]["code"]) == (503, "server_is_overloaded")
