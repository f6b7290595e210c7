"""Responses over a WebSocket."""

import asyncio
from typing import Any

from features import Lacking, feature
from features.openai_door import FAULT, MODEL, Door
from features.raising import raises

_ENDS = {"response.completed", "response.incomplete", "response.failed", "error"}


def _connect(door: Door) -> Any:
    """Raises Lacking where the client has no WebSocket."""
    if not hasattr(door.client.responses, "connect"):
        raise Lacking("this generation has no WebSocket")
    return door.client.responses.connect()


def _events(connection: Any) -> list[Any]:
    events: list[Any] = []
    while not events or events[-1].type not in _ENDS:
        events.append(connection.recv())
    return events


@feature
def a_socket_answers_with_the_same_events(door: Door) -> None:
    """A socket answers response.create with the events of a stream"""
    with _connect(door) as connection:
        connection.response.create(model=MODEL, input="Hello")
        events = _events(connection)
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert kinds == [event.type for event in door.events(max_output_tokens=None)]
    assert events[-1].response.output_text == door.respond(max_output_tokens=None).output_text


@feature
def a_socket_goes_on_from_its_last_response(door: Door) -> None:
    """On a socket the last response can be gone on from, although it was not stored"""
    with _connect(door) as connection:
        connection.response.create(model=MODEL, input="Hello", store=False)
        first = _events(connection)[-1].response
        connection.response.create(model=MODEL, input="Go on", store=False, previous_response_id=first.id)
        second = _events(connection)[-1].response
    assert second.usage.input_tokens > first.usage.input_tokens + 5


@feature
def a_socket_can_be_warmed_up(door: Door) -> None:
    """generate=False is answered at once, with a response that has no output and can be gone on from"""
    with _connect(door) as connection:
        connection.response.create(model=MODEL, input="Be brief", store=False, generate=False)
        warm = _events(connection)[-1].response
        assert warm.output == []
        connection.response.create(model=MODEL, input="Hello", store=False, previous_response_id=warm.id)
        assert _events(connection)[-1].type == "response.completed"


@feature
def a_socket_survives_errors(door: Door) -> None:
    """What is refused on a socket is an error event with a status, and the socket goes on"""
    with _connect(door) as connection:
        for wrong, status in (({"model": "gpt-nonexistent"}, 404), ({"previous_response_id": "resp_none"}, 400)):
            connection.response.create(**{"model": MODEL, "input": "Hello", **wrong})
            event = _events(connection)[-1]
            assert event.type == "error"
            assert event.model_extra.get("status", getattr(event, "status", None)) == status
        connection.response.create(model=MODEL, input="Hello")
        assert _events(connection)[-1].type == "response.completed"


@feature
def the_asynchronous_client_has_a_socket(door: Door) -> None:
    """The asynchronous client has the same socket, and several sockets are kept apart"""
    _connect(door)

    async def say(client: Any, text: str) -> Any:
        async with client.responses.connect() as connection:
            await connection.response.create(model=MODEL, input=text)
            async for event in connection:
                if event.type in _ENDS:
                    return event.response
        raise AssertionError("the socket was closed")

    async def ask() -> None:
        async with door.asynchronous() as client:
            said = await asyncio.gather(*(say(client, f"Say something about {number}") for number in range(5)))
        assert {response.status for response in said} == {"completed"}
        assert len({response.id for response in said}) == 5
        assert said[3].output_text == door.respond(input="Say something about 3", max_output_tokens=None).output_text

    asyncio.run(ask())


@feature
def a_socket_that_is_cut_does_not_look_complete(door: Door) -> None:
    """A socket that is cut off in the middle ends without an end of the response"""
    _connect(door)
    kinds: list[str] = []
    with door.client.responses.connect(extra_headers={FAULT: "cut@3"}) as connection:
        connection.response.create(model=MODEL, input="Hello")
        with raises(Exception):
            while True:
                kinds.append(connection.recv().type)
    assert "response.output_text.delta" in kinds
    assert not _ENDS & set(kinds)
