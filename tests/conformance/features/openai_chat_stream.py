"""Chat completions that are streamed."""

from typing import Any

from pydantic import BaseModel

from features import feature
from features.openai_door import HELLO, MODEL, Door
from features.plain_http import post


class Trip(BaseModel):
    place: str
    days: int


def _text(chunks: list[Any], choice: int = 0) -> str:
    return "".join(delta.delta.content or "" for chunk in chunks for delta in chunk.choices if delta.index == choice)


@feature
def streams_have_the_documented_shape(door: Door) -> None:
    """A stream begins with the role and an empty content, goes on with content, and has one finish reason at its end"""
    chunks = door.stream(max_tokens=9)
    first, *middle, last = (chunk.choices[0] for chunk in chunks)
    assert (first.delta.role, first.delta.content, first.finish_reason) == ("assistant", "", None)
    assert all(choice.delta.content and choice.delta.role is None and choice.finish_reason is None for choice in middle)
    assert len(middle) == 9
    assert (last.delta.content, last.finish_reason) == (None, "length")


@feature
def all_chunks_say_the_same_of_themselves(door: Door) -> None:
    """id, created, model, object, service_tier and fingerprint are the same on all chunks"""
    chunks = door.stream()
    assert len({(c.id, c.created, c.model, c.object, c.service_tier, c.system_fingerprint) for c in chunks}) == 1
    assert (chunks[0].object, chunks[0].service_tier) == ("chat.completion.chunk", "default")


@feature
def streams_say_what_whole_answers_say(door: Door) -> None:
    """A stream joins to what the same request is answered with at once"""
    for fields in ({"max_tokens": 150, "seed": 8}, {"max_tokens": None, "seed": 9}, {"n": 2, "seed": 3}):
        whole, chunks = door.chat(**fields), door.stream(**fields)
        for choice in whole.choices:
            assert _text(chunks, choice.index) == choice.message.content


@feature
def usage_comes_in_a_chunk_of_its_own(door: Door) -> None:
    """With include_usage one last chunk without choices has the usage, and all others have none"""
    *others, last = door.stream(stream_options={"include_usage": True})
    assert last.choices == []
    assert last.usage.total_tokens == last.usage.prompt_tokens + 12
    assert all(chunk.usage is None for chunk in others)
    assert all("usage" in chunk.model_fields_set for chunk in others)
    for options in (None, {"include_usage": False}):
        chunks = door.stream(stream_options=options)
        assert not any("usage" in chunk.model_fields_set for chunk in chunks)
        assert all(len(chunk.choices) == 1 for chunk in chunks)


@feature
def every_choice_of_a_stream_is_whole(door: Door) -> None:
    """With n=3 each choice has its role, its content and its finish"""
    chunks = door.stream(n=3, max_tokens=6)
    for index in range(3):
        mine = [c.choices[0] for c in chunks if c.choices[0].index == index]
        assert mine[0].delta.role == "assistant"
        assert [choice.finish_reason for choice in mine if choice.finish_reason] == ["length"]
        assert mine[-1].finish_reason


@feature
def logprobs_are_streamed(door: Door) -> None:
    """Streamed logprobs come with the tokens they belong to"""
    chunks = door.stream(logprobs=True, top_logprobs=2, max_tokens=10)
    entries = [entry for c in chunks if c.choices[0].logprobs for entry in c.choices[0].logprobs.content]
    assert len(entries) == 10
    assert bytes(byte for entry in entries for byte in entry.bytes).decode() == _text(chunks)
    assert all(len(entry.top_logprobs) == 2 for entry in entries)


@feature
def obfuscation_can_be_left_out(door: Door) -> None:
    """Chunks are padded by `obfuscation`, unless it is to be left out"""
    padded = door.stream()
    plain = door.stream(stream_options={"include_obfuscation": False})
    assert all(getattr(chunk, "obfuscation", None) for chunk in padded[:-1])
    assert not any(getattr(chunk, "obfuscation", None) for chunk in plain)


@feature
def streams_are_event_streams_that_end_with_done(door: Door) -> None:
    """A stream is text/event-stream of data lines, and ends with [DONE]"""
    body = {"model": MODEL, "messages": HELLO, "max_tokens": 5, "stream": True}
    answer = post(door.url, "/v1/chat/completions", body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert answer.body.count(b"[DONE]") == 1
    assert {name for name, _ in answer.events()} == {""}


@feature
def the_stream_helper_assembles_the_answer(door: Door) -> None:
    """The stream helper assembles what was streamed"""
    with door.client.chat.completions.stream(model=MODEL, messages=HELLO, seed=4) as stream:
        kinds = [event.type for event in stream]
        answer = stream.get_final_completion()
    assert answer.choices[0].message.content == door.chat(max_tokens=None, seed=4).choices[0].message.content
    assert kinds[-1] == "content.done"
    assert "content.delta" in kinds


@feature
def streams_can_be_left(door: Door) -> None:
    """A stream can be left in the middle, and the client goes on"""
    with door.client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=5000, stream=True) as stream:
        assert next(iter(stream)).choices[0].delta.role == "assistant"
    assert door.chat().choices


@feature
def the_stream_helper_assembles_calls(door: Door) -> None:
    """The stream helper says when the arguments of a call are complete, and parses those of a strict tool"""
    tool = door.library.pydantic_function_tool(Trip, name="book")
    named = {"type": "function", "function": {"name": "book"}}
    with door.client.chat.completions.stream(model=MODEL, messages=HELLO, tools=[tool], tool_choice=named) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        (call, *_) = stream.get_final_completion().choices[0].message.tool_calls
    assert done[0].name == "book"
    assert isinstance(call.function.parsed_arguments, Trip)
