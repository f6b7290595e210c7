"""Responses over a WebSocket: one connection for a whole conversation, and what ends it."""

from contextlib import suppress
from typing import Any

import pytest
from evidence import gauges, idle, scrape, until
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, DefaultHttpxClient, OpenAI
from sockets import ENDS, LONG, opened
from websockets.exceptions import ConnectionClosed

from fastmode.up import Service


async def test_a_socket_says_what_http_says(steady: Service) -> None:
    http = DefaultAsyncHttpxClient(trust_env=False)
    async with AsyncOpenAI(base_url=f"{steady.base_url}/v1", api_key="k", http_client=http) as client:
        given: Any = {"model": "swift", "input": "Hello", "max_output_tokens": 24}
        over_http = [event.type async for event in await client.responses.create(**given, stream=True)]
        async with client.responses.connect() as socket:
            await socket.response.create(**given)
            events = [await socket.recv()]
            while events[-1].type not in ENDS:
                events.append(await socket.recv())
    assert [event.type for event in events] == over_http
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_the_synchronous_sdk_speaks_it_too(steady: Service) -> None:
    http = DefaultHttpxClient(trust_env=False)
    with (
        OpenAI(base_url=f"{steady.base_url}/v1", api_key="k", http_client=http) as client,
        client.responses.connect() as socket,
    ):
        socket.response.create(model="swift", input="Hello", max_output_tokens=16)
        kinds = [socket.recv().type]
        while kinds[-1] not in ENDS:
            kinds.append(socket.recv().type)
    assert kinds[-1] == "response.incomplete"


async def test_a_conversation_goes_on_without_being_kept(steady: Service) -> None:
    async with opened(steady) as socket:
        first = await socket.ask("One", store=False)
        second = await socket.ask("Two", store=False, previous_response_id=first["response"]["id"])
        usage = [event["response"]["usage"]["input_tokens"] for event in (first, second)]
        assert usage[1] > usage[0] + 16
        older = await socket.ask("Three", store=False, previous_response_id=first["response"]["id"])
        assert (older["type"], older["status"]) == ("error", 400)
        assert older["error"]["code"] == "previous_response_not_found"
    async with opened(steady) as other:
        elsewhere = await other.ask("Three", store=False, previous_response_id=second["response"]["id"])
        assert elsewhere["error"]["code"] == "previous_response_not_found"


async def test_what_is_kept_can_be_gone_on_with_from_everywhere(steady: Service) -> None:
    async with opened(steady) as socket:
        first = await socket.ask("One")
        await socket.ask("Two")
    async with opened(steady) as other:
        second = await other.ask("Three", previous_response_id=first["response"]["id"])
        assert second["response"]["usage"]["input_tokens"] > first["response"]["usage"]["input_tokens"] + 16


async def test_an_error_makes_a_lane_forget(steady: Service) -> None:
    async with opened(steady) as socket:
        first = (await socket.ask("One", store=False))["response"]["id"]
        refused = await socket.ask("Two", store=False, previous_response_id=first, service_tier="warp")
        assert refused["error"]["param"] == "service_tier"
        again = await socket.ask("Two", store=False, previous_response_id=first)
        assert again["error"]["code"] == "previous_response_not_found"


async def test_a_request_can_lead_the_way_without_an_answer(steady: Service) -> None:
    async with opened(steady) as socket:
        await socket.create("One", store=False, generate=False)
        events = await socket.rest()
        assert [event["type"] for event in events][:: len(events) - 1] == ["response.created", "response.completed"]
        led = events[-1]["response"]
        assert led["output"] == []
        assert led["usage"]["total_tokens"] == 0
        after = await socket.ask("Two", store=False, previous_response_id=led["id"])
        alone = await socket.ask("Two", store=False)
        more = [event["response"]["usage"]["input_tokens"] for event in (after, alone)]
        assert more[0] > more[1]


async def test_lanes_answer_side_by_side_and_each_in_order(steady: Service) -> None:
    async with opened(steady) as socket:
        await socket.create("Slow", tokens=LONG, stream_id="slow")
        for text in ("One", "Two"):
            await socket.create(text, stream_id="quick")
        quick: list[dict[str, Any]] = []
        while sum(event["type"] in ENDS for event in quick) < 2:
            event = await socket.next()
            assert event["stream_id"] in ("slow", "quick")
            quick += [event] if event["stream_id"] == "quick" else []
        socket.connection.transport.abort()  # it would read to the end of what is slow
    numbers = [event["sequence_number"] for event in quick]
    assert numbers == [*range(len(numbers) // 2)] * 2


async def test_there_are_so_many_lanes_and_no_more(steady: Service) -> None:
    async with opened(steady) as socket:
        for number in range(33):
            await socket.create(generate=False, stream_id=f"lane {number}")
        ends: dict[str, dict[str, Any]] = {}
        while len(ends) < 33:
            event = await socket.next()
            if event["type"] in ENDS:
                ends[event["stream_id"]] = event
    assert ends.pop("lane 32")["error"]["code"] == "websocket_stream_limit_reached"
    assert {event["type"] for event in ends.values()} == {"response.completed"}


@pytest.mark.parametrize(
    ("frame", "status", "code"),
    [
        ("{", 400, "invalid_json"),
        ("5", 400, "invalid_type"),
        ("{}", 400, "invalid_value"),
        ('{"type":"response.steer"}', 400, "invalid_value"),
        ('{"type":"response.create","stream_id":5}', 400, "invalid_type"),
        ('{"type":"response.create","stream_id":""}', 400, "invalid_value"),
        ('{"type":"response.create","input":"a"}', 400, "missing_required_parameter"),
        ('{"type":"response.create","model":"gpt-0","input":"a"}', 404, "model_not_found"),
    ],
)
async def test_a_refusal_is_an_event_and_no_end(steady: Service, frame: str, status: int, code: str) -> None:
    async with opened(steady) as socket:
        await socket.connection.send(frame)
        refusal = await socket.next()
        assert (refusal["type"], refusal["status"], refusal["error"]["code"]) == ("error", status, code)
        assert refusal["headers"]["x-request-id"].startswith("req_")
        assert (await socket.ask())["type"] == "response.incomplete"


async def test_a_refusal_says_when_to_come_back(steady: Service) -> None:
    async with opened(steady, fault="status=429; retry_after=2") as socket:
        refusal = await socket.ask()
    assert (refusal["status"], refusal["error"]["code"]) == (429, "rate_limit_exceeded")
    assert refusal["headers"]["retry-after"] == "2"


async def test_frames_of_bytes_are_refused(steady: Service) -> None:
    async with opened(steady) as socket:
        await socket.connection.send(b"{}")
        assert await socket.closed() == 1003


async def test_frames_are_as_large_as_bodies_and_no_larger(steady: Service) -> None:
    async with opened(steady) as socket:
        with suppress(ConnectionClosed):
            await socket.connection.send("x" * (steady.settings.body_max + 1))
        assert await socket.closed() == 1009


async def test_frames_are_compressed_for_who_wants_it(steady: Service) -> None:
    async with opened(steady) as socket, opened(steady, compression=None) as plain:
        assert [extension.name for extension in socket.connection.protocol.extensions] == ["permessage-deflate"]
        assert not plain.connection.protocol.extensions
        assert (await plain.ask())["type"] == (await socket.ask())["type"] == "response.incomplete"


async def test_a_client_that_leaves_stops_what_is_generated_for_it(steady: Service) -> None:
    before = await scrape(steady)
    async with opened(steady) as socket:
        for lane in ("a", "b"):
            await socket.create(tokens=LONG, stream_id=lane)
            while (await socket.next())["type"] != "response.output_text.delta":
                pass
        await socket.create(tokens=LONG, stream_id="b")  # waits behind its lane's first
        assert (await gauges(steady))[0] == 2
        socket.connection.transport.abort()
        await until(lambda: idle(steady), "all gauges are zero")
    after = await scrape(steady)
    name = "fastmode_requests_total"
    assert after.sum(name, outcome="cancelled") - before.sum(name, outcome="cancelled") == 2


@pytest.mark.parametrize("fault", ["cut@3", "error@3"])
async def test_faults_are_met_and_settled(steady: Service, fault: str) -> None:
    async with opened(steady, fault=fault) as socket:
        await socket.create(tokens=100)
        if fault == "cut@3":
            await socket.closed()
        else:
            events = await socket.rest()
            assert (events[-1]["type"], events[-1]["error"]["code"]) == ("error", "server_error")
            assert (await socket.next())["type"] == "response.failed"
    await until(lambda: idle(steady), "all gauges are zero")
