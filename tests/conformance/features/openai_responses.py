"""Responses that are answered at once."""

import json
from typing import Any, Literal

from pydantic import BaseModel

from features import feature
from features.openai_door import HELLO, LATEST, MODEL, PNG, SIGHTED, SPARK, Door
from features.raising import raises


class Trip(BaseModel):
    place: str
    days: int
    kind: Literal["work", "leisure"]


@feature
def responses_have_the_documented_shape(door: Door) -> None:
    """A response has its ids, its status, one message of text, and the settings it was asked with"""
    answer = door.respond(max_output_tokens=None, instructions="Be brief.", metadata={"a": "b"})
    assert answer.id.startswith("resp_")
    assert (answer.object, answer.status, answer.model) == ("response", "completed", MODEL)
    assert (answer.error, answer.incomplete_details, answer.previous_response_id) == (None, None, None)
    message = answer.output[-1]
    assert message.id.startswith("msg_")
    assert (message.type, message.role, message.status) == ("message", "assistant", "completed")
    (text,) = message.content
    assert (text.type, text.annotations) == ("output_text", [])
    assert text.text == answer.output_text
    assert answer.output_text
    assert (answer.instructions, answer.metadata) == ("Be brief.", {"a": "b"})
    assert (answer.parallel_tool_calls, answer.tool_choice, answer.tools) == (True, "auto", [])
    assert answer.created_at > 1_700_000_000


@feature
def response_usage_has_its_details(door: Door) -> None:
    """Usage counts input and output with their details"""
    usage = door.respond().usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert usage.input_tokens_details.cached_tokens == 0
    assert usage.output_tokens_details.reasoning_tokens >= 0


@feature
def chat_and_responses_count_alike(door: Door) -> None:
    """The same conversation has as many input tokens as in chat completions"""
    assert door.respond(input=HELLO).usage.input_tokens == door.chat().usage.prompt_tokens
    assert door.respond(input="Hello").usage.input_tokens == door.chat().usage.prompt_tokens


@feature
def a_limit_leaves_a_response_incomplete(door: Door) -> None:
    """max_output_tokens leaves a response incomplete, and says why"""
    answer = door.respond(max_output_tokens=16)
    assert answer.status == "incomplete"
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert answer.usage.output_tokens == 16


@feature
def input_is_text_or_items(door: Door) -> None:
    """Input is text or items: messages, easy or full, with text and images"""
    text = [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}]
    full = [{"type": "message", **text[0]}]
    same = {door.respond(input=asked).usage.input_tokens for asked in ("Hello", text, full)}
    assert len(same) == 1
    image = {"type": "input_image", "image_url": PNG, "detail": "auto"}
    seen = [{"role": "user", "content": [*text[0]["content"], image]}]
    assert door.respond(model=SIGHTED, input=seen).usage.input_tokens > same.pop()
    with raises(door.library.BadRequestError):
        door.respond(model=SPARK, input=seen)


@feature
def reasoning_is_an_item(door: Door) -> None:
    """Reasoning is an item before the message, has a summary where one is wanted, and is counted"""
    asked = {"reasoning": {"effort": "medium", "summary": "auto"}, "max_output_tokens": None}
    answer = door.respond(**asked, include=["reasoning.encrypted_content"])
    assert [item.type for item in answer.output] == ["reasoning", "message"]
    reasoning = answer.output[0]
    assert reasoning.id.startswith("rs_")
    assert all(part.type == "summary_text" and part.text for part in reasoning.summary)
    assert reasoning.encrypted_content
    assert answer.usage.output_tokens_details.reasoning_tokens > 0
    assert door.respond(input=[*HELLO, *answer.output, *HELLO], max_output_tokens=None).output_text


@feature
def structured_output_is_parsed(door: Door) -> None:
    """The parse helper gives an instance of a pydantic model"""
    answer = door.client.responses.parse(model=MODEL, input="Plan a trip", text_format=Trip)
    assert isinstance(answer.output_parsed, Trip)


@feature
def text_formats_are_kept(door: Door) -> None:
    """text.format json_object and json_schema are kept to"""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    strict = {"type": "json_schema", "name": "number", "schema": schema, "strict": True}
    assert isinstance(json.loads(_said(door, {"type": "json_object"})), dict)
    assert isinstance(json.loads(_said(door, strict))["n"], int)


def _said(door: Door, wanted: dict[str, Any]) -> Any:
    return door.respond(input="A number, as JSON", text={"format": wanted}, max_output_tokens=None).output_text


@feature
def response_tiers_are_reported(door: Door) -> None:
    """service_tier is reported as served: default, priority, fast, ultrafast"""
    for model, asked, echo in (
        (MODEL, None, "default"), (MODEL, "auto", "default"), (MODEL, "priority", "priority"),
        (MODEL, "fast", "priority"), (LATEST, "fast", "fast"), (LATEST, "ultrafast", "ultrafast"),
    ):  # fmt: skip
        assert door.respond(model=model, service_tier=asked).service_tier == echo
    with raises(door.library.BadRequestError):
        door.respond(service_tier="warp")


@feature
def input_tokens_are_counted(door: Door) -> None:
    """input_tokens counts what usage says"""
    tool = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False}
    for beside in ({}, {"instructions": "Be brief."}, {"tools": [tool], "tool_choice": "none"}):
        counted = door.client.responses.input_tokens.count(model=MODEL, input="Hello", **beside)
        assert counted.object == "response.input_tokens"
        assert counted.input_tokens == door.respond(**beside).usage.input_tokens


@feature
def response_errors_are_named(door: Door) -> None:
    """Unknown models, missing input and wrong types are refused and named"""
    with raises(door.library.NotFoundError) as raised:
        door.respond(model="gpt-nonexistent")
    assert raised.error.code == "model_not_found"
    for wrong in ({"temperature": 9}, {"max_output_tokens": 0}, {"input": 5}, {"tools": [{"type": "function"}]}):
        with raises(door.library.BadRequestError) as raised:
            door.respond(**wrong)
        assert (raised.error.param or "").startswith(next(iter(wrong))), raised.error.body


@feature
def response_logprobs_are_told(door: Door) -> None:
    """Log probabilities are part of the text, where they are asked for"""
    asked = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    (text,) = door.respond(**asked).output[-1].content
    assert "".join(token.token for token in text.logprobs) == text.text
    assert all(len(token.top_logprobs) == 2 for token in text.logprobs)
