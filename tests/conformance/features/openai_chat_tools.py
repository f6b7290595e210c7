"""Tools of chat completions."""

import json
from collections import defaultdict
from typing import Any

from features import feature
from features.openai_door import Door
from features.raising import raises


def _tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": f"Does {name}", "parameters": parameters}}


WEATHER = _tool("get_weather", city={"type": "string"}, unit={"type": "string", "enum": ["C", "F"]})
CLOCK = _tool("get_time", zone={"type": "string"}, precision={"type": "integer", "minimum": 0, "maximum": 9})
ASK = [{"role": "user", "content": "What is the weather in Paris, and what time is it there?"}]
NAMED = {"type": "function", "function": {"name": "get_time"}}


def _check(call: Any) -> None:
    """Whether a call is one of those that are declared, with the arguments it needs."""
    assert call.type == "function"
    assert call.id.startswith("call_")
    arguments = json.loads(call.function.arguments)
    if call.function.name == "get_weather":
        assert arguments.keys() == {"city", "unit"}
        assert arguments["unit"] in ("C", "F")
    else:
        assert call.function.name == "get_time"
        assert arguments.keys() == {"zone", "precision"}
        assert 0 <= arguments["precision"] <= 9


@feature
def required_calls_a_tool(door: Door) -> None:
    """tool_choice=required gives calls whose arguments are valid, no content, and finishes with `tool_calls`"""
    answer = door.chat(messages=ASK, tools=[WEATHER, CLOCK], tool_choice="required", max_tokens=None)
    (choice,) = answer.choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert choice.message.tool_calls
    for call in choice.message.tool_calls:
        _check(call)
    assert answer.usage.completion_tokens > 0


@feature
def a_named_tool_is_called(door: Door) -> None:
    """A tool that tool_choice names is called, and no other"""
    answer = door.chat(messages=ASK, tools=[WEATHER, CLOCK], tool_choice=NAMED, max_tokens=None)
    assert {call.function.name for call in answer.choices[0].message.tool_calls} == {"get_time"}
    _check(answer.choices[0].message.tool_calls[0])


@feature
def only_allowed_tools_are_called(door: Door) -> None:
    """allowed_tools restricts the calls to those allowed"""
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}
    for seed in range(3):
        answer = door.chat(messages=ASK, tools=[WEATHER, CLOCK], tool_choice=choice, seed=seed, max_tokens=None)
        assert {call.function.name for call in answer.choices[0].message.tool_calls} == {"get_time"}


@feature
def none_calls_no_tool(door: Door) -> None:
    """tool_choice=none gives text"""
    message = door.chat(messages=ASK, tools=[WEATHER], tool_choice="none").choices[0].message
    assert message.content
    assert message.tool_calls is None


@feature
def auto_calls_a_tool_that_is_asked_for(door: Door) -> None:
    """tool_choice=auto calls a tool when the message is about one"""
    answer = door.chat(messages=ASK[:1], tools=[WEATHER], max_tokens=None)
    assert answer.choices[0].finish_reason == "tool_calls"
    _check(answer.choices[0].message.tool_calls[0])


@feature
def parallel_calls_can_be_forbidden(door: Door) -> None:
    """parallel_tool_calls=False gives one call at most"""
    for seed in range(4):
        asked = {"messages": ASK, "tools": [WEATHER, CLOCK], "tool_choice": "required", "seed": seed}
        answer = door.chat(**asked, parallel_tool_calls=False, max_tokens=None)
        assert len(answer.choices[0].message.tool_calls) == 1


@feature
def parallel_calls_are_made(door: Door) -> None:
    """Several calls come in one answer where several are called for, with ids of their own"""
    asked = {"messages": ASK, "tools": [WEATHER, CLOCK], "tool_choice": "required", "max_tokens": None}
    calls = [door.chat(**asked, seed=seed).choices[0].message.tool_calls for seed in range(6)]
    several = max(calls, key=len)
    assert len(several) > 1
    assert len({call.id for call in several}) == len(several)


@feature
def calls_are_streamed_in_fragments(door: Door) -> None:
    """A streamed call has its id, type and name once, and its fragments join to the arguments of the whole answer"""
    asked = {"messages": ASK, "tools": [WEATHER, CLOCK], "tool_choice": "required", "seed": 2, "max_tokens": None}
    whole = door.chat(**asked).choices[0].message.tool_calls
    begun: dict[int, Any] = {}
    arguments: dict[int, str] = defaultdict(str)
    chunks = door.stream(**asked)
    for chunk in chunks:
        for piece in chunk.choices[0].delta.tool_calls or ():
            if piece.index not in begun:
                begun[piece.index] = piece
                assert piece.id
                assert piece.type == "function"
                assert piece.function.arguments == ""
            else:
                assert (piece.id, piece.type, piece.function.name) == (None, None, None)
            arguments[piece.index] += piece.function.arguments
    assert list(begun) == list(range(len(whole)))
    assert [begun[index].function.name for index in begun] == [call.function.name for call in whole]
    assert [arguments[index] for index in begun] == [call.function.arguments for call in whole]
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    first = chunks[0].choices[0].delta
    assert (first.role, first.content) == ("assistant", None)


@feature
def results_of_tools_are_answered_with_text(door: Door) -> None:
    """After the results of its calls, the model answers with text"""
    asked = {"tools": [WEATHER, CLOCK], "max_tokens": None}
    message = door.chat(messages=ASK, **asked, tool_choice="required").choices[0].message
    results = [{"role": "tool", "tool_call_id": call.id, "content": '{"answer": 21}'} for call in message.tool_calls]
    answer = door.chat(messages=[*ASK, message.model_dump(exclude_none=True), *results], **asked)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content
    assert answer.choices[0].message.tool_calls is None


@feature
def tools_are_part_of_the_prompt(door: Door) -> None:
    """The definitions of tools are counted as part of the prompt"""
    without, with_tools = door.chat(), door.chat(tools=[WEATHER, CLOCK], tool_choice="none")
    assert with_tools.usage.prompt_tokens > without.usage.prompt_tokens + 20


@feature
def a_tool_that_is_not_declared_cannot_be_chosen(door: Door) -> None:
    """A tool_choice without tools, or of a tool that is not among them, is 400"""
    for fields in ({"tool_choice": "required"}, {"tools": [WEATHER], "tool_choice": NAMED}):
        with raises(door.library.BadRequestError):
            door.chat(**fields)


@feature
def the_legacy_functions_are_called(door: Door) -> None:
    """The older `functions` and `function_call` are still understood"""
    answer = door.chat(messages=ASK, functions=[CLOCK["function"]], function_call={"name": "get_time"}, max_tokens=None)
    call = answer.choices[0].message.function_call
    assert call.name == "get_time"
    assert json.loads(call.arguments).keys() == {"zone", "precision"}
