"""Responses that are streamed."""

import asyncio
from typing import Any

from pydantic import BaseModel

from features import feature
from features.openai_door import FAULT, HELLO, MODEL, Door
from features.plain_http import post
from features.raising import listen, raises


class Trip(BaseModel):
    place: str
    days: int


@feature
def response_events_come_in_order(door: Door) -> None:
    """The events of a text come in the documented order"""
    kinds = [event.type.removeprefix("response.") for event in door.events(max_output_tokens=None)]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    assert kinds[-4:] == ["output_text.done", "content_part.done", "output_item.done", "completed"]
    assert set(kinds[4:-4]) == {"output_text.delta"}


@feature
def events_are_numbered(door: Door) -> None:
    """Sequence numbers count up from 0 without a gap"""
    events = door.events()
    assert [event.sequence_number for event in events] == list(range(len(events)))


@feature
def deltas_join_to_what_is_done(door: Door) -> None:
    """Deltas join to the text that is done, to the item, and to the response"""
    events = door.events(max_output_tokens=None)
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    text = "".join(event.delta for event in deltas)
    done = {event.type: event for event in events}
    assert done["response.output_text.done"].text == text
    assert done["response.content_part.done"].part.text == text
    assert done["response.output_item.done"].item.content[0].text == text
    completed = done["response.completed"].response
    assert completed.output_text == text
    assert completed.usage.output_tokens >= len(deltas)
    (item_id,) = {event.item_id for event in deltas}
    assert item_id == completed.output[0].id
    assert text == door.respond(max_output_tokens=None).output_text


@feature
def the_opening_says_what_was_asked(door: Door) -> None:
    """The first events have a response in progress that has no output, and the same id as the last"""
    events = door.events(service_tier="priority")
    first, last = events[0].response, events[-1].response
    assert (first.status, first.output, first.usage) == ("in_progress", [], None)
    assert first.id == last.id
    assert first.service_tier in ("auto", "priority")
    assert last.service_tier == "priority"


@feature
def limits_end_a_stream_as_incomplete(door: Door) -> None:
    """A limit ends a stream with response.incomplete"""
    last = door.events(max_output_tokens=16)[-1]
    assert last.type == "response.incomplete"
    assert last.response.incomplete_details.reason == "max_output_tokens"


@feature
def reasoning_is_streamed(door: Door) -> None:
    """Reasoning is streamed as an item of its own, with its summary in parts"""
    events = door.events(reasoning={"effort": "low", "summary": "auto"}, max_output_tokens=None)
    added = [event.item.type for event in events if event.type == "response.output_item.added"]
    assert added == ["reasoning", "message"]
    kinds = [event.type for event in events]
    summary = "".join(e.delta for e in events if e.type == "response.reasoning_summary_text.delta")
    assert summary
    assert kinds.index("response.reasoning_summary_part.added") < kinds.index("response.reasoning_summary_text.delta")
    final = events[-1].response
    assert "".join(part.text for part in final.output[0].summary) == summary


@feature
def on_the_wire_events_are_named(door: Door) -> None:
    """On the wire events are named as their types, deltas are obfuscated, and no [DONE] follows"""
    answer = post(
        door.url, "/v1/responses", {"model": MODEL, "input": "Hello", "max_output_tokens": 20, "stream": True}
    )
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = answer.events()
    assert all(name == data["type"] for name, data in events)
    assert all(data["obfuscation"] for name, data in events if name == "response.output_text.delta")
    assert b"[DONE]" not in answer.body


@feature
def the_response_stream_helper_assembles(door: Door) -> None:
    """The stream helper assembles the response"""
    with door.client.responses.stream(model=MODEL, input="Hello") as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(deltas) == final.output_text


@feature
def failures_end_a_stream_as_failed(door: Door) -> None:
    """A failure in the middle is said by an error or response.failed, never by response.completed"""
    asked = {"model": MODEL, "input": "Hello", "stream": True, "extra_headers": {FAULT: "error=503@5"}}
    events, error = listen(door.client.responses.create(**asked))
    kinds = [event.type for event in events]
    assert kinds.count("response.output_text.delta") >= 5
    assert kinds[-1] in ("error", "response.failed") or isinstance(error, door.library.APIError)
    assert "response.completed" not in kinds


@feature
def refusals_of_response_streams_are_statuses(door: Door) -> None:
    """A request for a stream that is refused gets a status"""
    with raises(door.library.RateLimitError) as raised:
        door.client.responses.create(
            model=MODEL, input="Hello", stream=True, extra_headers={FAULT: "status=429; retry_after=2"}
        )
    assert "try again in 2" in raised.error.message


@feature
def responses_are_streamed_asynchronously(door: Door) -> None:
    """The asynchronous client streams"""

    async def ask() -> list[Any]:
        async with door.asynchronous() as client:
            stream = await client.responses.create(model=MODEL, input=HELLO, max_output_tokens=20, stream=True)
            return [event.type async for event in stream]

    assert asyncio.run(ask())[-1] in ("response.completed", "response.incomplete")


@feature
def the_response_stream_helper_parses(door: Door) -> None:
    """The stream helper gives an instance of a pydantic model"""
    with door.client.responses.stream(model=MODEL, input="Plan a trip", text_format=Trip) as stream:
        final = stream.get_final_response()
    assert isinstance(final.output_parsed, Trip)
