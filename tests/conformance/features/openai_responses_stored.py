"""Responses that are kept."""

import time

from features import feature
from features.openai_door import FAULT, Door
from features.raising import raises

_PATIENCE = 10.0  # s


@feature
def responses_can_be_retrieved(door: Door) -> None:
    """A response can be retrieved as it was, with its input items, until it is deleted"""
    made = door.respond()
    found = door.client.responses.retrieve(made.id)
    assert found.output_text == made.output_text
    assert found.usage == made.usage
    (item,) = door.client.responses.input_items.list(made.id).data
    assert item.content[0].text == "Hello"
    door.client.responses.delete(made.id)
    with raises(door.library.NotFoundError):
        door.client.responses.retrieve(made.id)


@feature
def what_is_not_to_be_stored_is_not(door: Door) -> None:
    """With store=False a response cannot be retrieved"""
    made = door.respond(store=False)
    with raises(door.library.NotFoundError):
        door.client.responses.retrieve(made.id)


@feature
def a_previous_response_is_gone_on_with(door: Door) -> None:
    """previous_response_id puts the conversation so far before the input, which is counted"""
    first = door.respond()
    second = door.respond(input="And then?", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens - 5
    third = door.respond(input="And then?", previous_response_id=second.id)
    assert third.usage.input_tokens > second.usage.input_tokens
    with raises(door.library.BadRequestError) as raised:
        door.respond(previous_response_id="resp_nonexistent")
    assert raised.error.code == "previous_response_not_found"


@feature
def background_responses_are_looked_up(door: Door) -> None:
    """A response in the background is queued or in progress at first, and completed in the end"""
    made = door.respond(background=True, max_output_tokens=None)
    assert made.status in ("queued", "in_progress")
    assert made.background
    deadline = time.monotonic() + _PATIENCE
    while (found := door.client.responses.retrieve(made.id)).status in ("queued", "in_progress"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert found.status == "completed"
    assert found.output_text


@feature
def background_responses_can_be_cancelled(door: Door) -> None:
    """A response in the background can be cancelled, and others cannot"""
    made = door.respond(background=True, extra_headers={FAULT: "slow=30"})
    assert door.client.responses.cancel(made.id).status == "cancelled"
    assert door.client.responses.retrieve(made.id).status == "cancelled"
    with raises(door.library.BadRequestError):
        door.client.responses.cancel(door.respond().id)


@feature
def streams_are_stored_too(door: Door) -> None:
    """A streamed response is stored as well"""
    last = door.events(max_output_tokens=None)[-1].response
    assert door.client.responses.retrieve(last.id).output_text == last.output_text


@feature
def background_responses_are_streamed(door: Door) -> None:
    """A response in the background can be streamed, and its stream be taken up again where it was left"""
    events = door.events(background=True, max_output_tokens=None)
    assert events[0].type in ("response.queued", "response.created")
    assert events[-1].type == "response.completed"
    name, left = events[0].response.id, len(events) // 2
    again = list(door.client.responses.retrieve(name, stream=True, starting_after=left))
    assert [event.sequence_number for event in again] == list(range(left + 1, len(events)))
    assert again == events[left + 1 :]


@feature
def input_items_come_in_pages(door: Door) -> None:
    """Input items come in pages, in either order"""
    turns = [
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": "Two"},
        {"role": "user", "content": "3"},
    ]
    made = door.respond(input=turns)
    listed = {
        order: list(door.client.responses.input_items.list(made.id, order=order, limit=2)) for order in ("asc", "desc")
    }
    assert [item.role for item in listed["asc"]] == ["user", "assistant", "user"]
    assert [item.id for item in listed["asc"]] == [item.id for item in reversed(listed["desc"])]
