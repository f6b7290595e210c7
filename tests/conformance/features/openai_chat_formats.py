"""Structured output of chat completions."""

import json
from typing import Any, Literal

from pydantic import BaseModel, Field

from features import feature
from features.openai_door import MODEL, Door
from features.raising import raises

ASK = [{"role": "user", "content": "Make up a meeting, as JSON"}]


class Person(BaseModel):
    name: str
    role: Literal["host", "guest"]


class Meeting(BaseModel):
    title: str
    people: list[Person]
    minutes: int
    place: str | None
    priority: float = Field(description="from 0 to 1")


def _schema(strict: bool = True) -> Any:
    properties = {
        "kind": {"enum": ["a", "b"]},
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
    }
    item: dict[str, Any] = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    schema = {
        "type": "object", "properties": properties, "required": ["kind", "items"], "additionalProperties": False,
        "$defs": {"item": item},
    }  # fmt: skip
    return {"type": "json_schema", "json_schema": {"name": "thing", "strict": strict, "schema": schema}}


@feature
def json_object_gives_an_object(door: Door) -> None:
    """response_format json_object gives a JSON object"""
    content = (
        door.chat(messages=ASK, response_format={"type": "json_object"}, max_tokens=None).choices[0].message.content
    )
    assert isinstance(json.loads(content), dict)


@feature
def json_schema_is_kept(door: Door) -> None:
    """response_format json_schema gives what the schema says, at every seed"""
    for seed in range(5):
        answer = door.chat(messages=ASK, response_format=_schema(), seed=seed, max_tokens=None)
        assert answer.choices[0].finish_reason == "stop"
        content = json.loads(answer.choices[0].message.content)
        assert content.keys() == {"kind", "items"}
        assert content["kind"] in ("a", "b")
        assert all(item.keys() == {"n"} and isinstance(item["n"], int) for item in content["items"])


@feature
def parse_gives_the_model(door: Door) -> None:
    """The parse helper gives an instance of a pydantic model"""
    answer = door.client.chat.completions.parse(model=MODEL, messages=ASK, response_format=Meeting)
    meeting = answer.choices[0].message.parsed
    assert isinstance(meeting, Meeting)
    assert all(isinstance(person, Person) for person in meeting.people)


@feature
def parse_says_when_the_limit_was_reached(door: Door) -> None:
    """The parse helper raises LengthFinishReasonError when the limit cuts the answer"""
    with raises(door.library.LengthFinishReasonError):
        door.client.chat.completions.parse(model=MODEL, messages=ASK, response_format=Meeting, max_tokens=3)


@feature
def strict_tools_are_parsed(door: Door) -> None:
    """The parse helper gives the arguments of a strict tool as a pydantic model"""
    tool = door.library.pydantic_function_tool(Meeting, name="book")
    named = {"type": "function", "function": {"name": "book"}}
    answer = door.client.chat.completions.parse(model=MODEL, messages=ASK, tools=[tool], tool_choice=named)
    (call, *_) = answer.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Meeting)


@feature
def structured_output_is_streamed(door: Door) -> None:
    """Structured output streams to the same text as at once"""
    asked = {"messages": ASK, "response_format": _schema(), "seed": 6, "max_tokens": None}
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in door.stream(**asked))
    assert streamed == door.chat(**asked).choices[0].message.content


@feature
def schemas_that_strict_mode_refuses_are_400(door: Door) -> None:
    """A strict schema without additionalProperties: false is 400, as is one that is no schema"""
    lax = _schema()
    del lax["json_schema"]["schema"]["additionalProperties"]
    broken = _schema(strict=False)
    broken["json_schema"]["schema"] = {"type": "nonsense"}
    for wanted in (lax, broken, {"type": "json_schema"}, {"type": "yaml"}):
        with raises(door.library.BadRequestError) as raised:
            door.chat(messages=ASK, response_format=wanted)
        assert raised.error.param, raised.error.body
