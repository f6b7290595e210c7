"""Messages that are streamed."""

from typing import Any

from features import feature
from features.anthropic_door import FAULT, HELLO, MODEL, Door
from features.plain_http import Answer, post
from features.raising import listen

_LONG = 4000


def _raw(door: Door, **fields: Any) -> Answer:
    headers = fields.pop("headers", {})
    body = {"model": MODEL, "messages": HELLO, "max_tokens": 40, "stream": True, **fields}
    return post(door.url, "/v1/messages", body, anthropic_version="2023-06-01", x_api_key="k", **headers)


def _meeting(door: Door, fault: str) -> Any:
    """The events of a message that meets a fault."""
    headers = {FAULT: fault}
    return door.client.messages.create(model=MODEL, messages=HELLO, max_tokens=40, stream=True, extra_headers=headers)


@feature
def events_come_in_order(door: Door) -> None:
    """message_start, a block with its deltas, message_delta and message_stop come in this order"""
    kinds = [event.type for event in door.events()]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[2:-3]) == {"content_block_delta"}


@feature
def the_opening_has_the_input_side(door: Door) -> None:
    """message_start has an empty message with the usage of the input"""
    message = door.events()[0].message
    assert (message.content, message.stop_reason, message.role, message.model) == ([], None, "assistant", MODEL)
    assert message.usage.input_tokens == door.say().usage.input_tokens
    assert message.usage.output_tokens >= 1


@feature
def the_closing_has_the_whole_usage(door: Door) -> None:
    """message_delta has the stop reason and the cumulative usage"""
    delta = door.events(max_tokens=17)[-2]
    assert (delta.delta.stop_reason, delta.delta.stop_sequence) == ("max_tokens", None)
    assert delta.usage.output_tokens == 17


@feature
def on_the_wire_events_are_named_and_none_is_done(door: Door) -> None:
    """On the wire every event has the name of its type, a ping is among them, and no [DONE] follows"""
    answer = _raw(door)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = answer.events()
    assert all(name == data["type"] for name, data in events)
    assert "ping" in [name for name, _ in events]
    assert b"[DONE]" not in answer.body
    assert answer.headers["request-id"].startswith("req_")


@feature
def pings_fill_silences(door: Door) -> None:
    """Before a first token that takes long, the message is opened, and pings come"""
    answer = _raw(door, headers={FAULT: "slow=0.7"})
    names = [name for name, _ in answer.events()]
    first = names.index("content_block_start")
    assert names[0] == "message_start"
    assert names[1:first].count("ping") >= 1
    assert names.count("message_start") == 1


@feature
def the_helper_assembles_the_message(door: Door) -> None:
    """The stream helper assembles what the same request is answered with at once"""
    with door.client.messages.stream(model=MODEL, messages=HELLO, max_tokens=_LONG) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    whole = door.say(max_tokens=_LONG)
    assert text == final.content[0].text == whole.content[0].text
    assert final.usage.output_tokens == whole.usage.output_tokens
    assert final.usage.input_tokens == whole.usage.input_tokens
    assert final.stop_reason == whole.stop_reason == "end_turn"


@feature
def errors_of_a_stream_are_raised(door: Door) -> None:
    """An overload in the middle of a stream is raised, with its type, after what came before"""
    events, error = listen(_meeting(door, "error=overloaded@5"))
    assert sum(event.type == "content_block_delta" for event in events) >= 5
    assert isinstance(error, door.library.APIStatusError)
    assert error.body["error"]["type"] == "overloaded_error"


@feature
def a_stream_that_is_cut_is_not_complete(door: Door) -> None:
    """A stream that is cut off has no stop reason"""
    events, error = listen(_meeting(door, "cut@5"))
    kinds = {event.type for event in events}
    assert "content_block_delta" in kinds
    assert not {"message_delta", "message_stop"} & kinds
    assert not isinstance(error, door.library.APIStatusError)


@feature
def stop_sequences_are_streamed(door: Door) -> None:
    """A stop sequence ends a stream as it ends a whole message"""
    whole = door.say(max_tokens=_LONG).content[0].text
    stop = whole[20:24]
    events = door.events(max_tokens=_LONG, stop_sequences=[stop])
    text = "".join(event.delta.text for event in events if event.type == "content_block_delta")
    assert text == whole[: whole.index(stop)]
    assert (events[-2].delta.stop_reason, events[-2].delta.stop_sequence) == ("stop_sequence", stop)
