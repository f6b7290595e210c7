"""Tools of responses."""

import json
from typing import Any

from features import feature
from features.openai_door import Door


def _tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "name": name, "description": f"Does {name}", "parameters": parameters, "strict": True}


WEATHER = _tool("get_weather", city={"type": "string"}, unit={"type": "string", "enum": ["C", "F"]})
CLOCK = _tool("get_time", zone={"type": "string"}, precision={"type": "integer"})
ASK = [{"role": "user", "content": "What is the weather in Paris, and what time is it there?"}]


def _ask(door: Door, **fields: Any) -> Any:
    asked = {"input": ASK, "tools": [WEATHER, CLOCK], "tool_choice": "required", "max_output_tokens": None, **fields}
    return door.respond(**asked)


def _calls(answer: Any) -> list[Any]:
    calls = [item for item in answer.output if item.type == "function_call"]
    for call in calls:
        assert call.id.startswith("fc_")
        assert call.call_id.startswith("call_")
        assert call.status == "completed"
        wanted = {"city", "unit"} if call.name == "get_weather" else {"zone", "precision"}
        assert json.loads(call.arguments).keys() == wanted
    return calls


@feature
def required_calls_a_function(door: Door) -> None:
    """tool_choice required gives function calls with valid arguments"""
    answer = _ask(door)
    assert answer.status == "completed"
    assert _calls(answer)


@feature
def chosen_functions_are_called(door: Door) -> None:
    """A named function, allowed tools, auto and none are kept to"""
    named = {"type": "function", "name": "get_time"}
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [named]}
    for choice in (named, allowed):
        assert {call.name for call in _calls(_ask(door, tool_choice=choice))} == {"get_time"}
    assert _calls(_ask(door, tool_choice="auto"))
    assert not _calls(_ask(door, tool_choice="none"))
    assert len(_calls(_ask(door, parallel_tool_calls=False))) == 1


@feature
def function_calls_are_streamed(door: Door) -> None:
    """A streamed call is added without arguments, whose deltas join to what is done"""
    asked = {"input": ASK, "tools": [WEATHER, CLOCK], "tool_choice": "required", "max_output_tokens": None}
    events = door.events(**asked)
    added = [e.item for e in events if e.type == "response.output_item.added" and e.item.type == "function_call"]
    assert added
    for item in added:
        assert (item.arguments, item.status) == ("", "in_progress")
        mine = [event for event in events if getattr(event, "item_id", None) == item.id]
        deltas = "".join(e.delta for e in mine if e.type == "response.function_call_arguments.delta")
        (done,) = [e.arguments for e in mine if e.type == "response.function_call_arguments.done"]
        (final,) = [e.item for e in events if e.type == "response.output_item.done" and e.item.id == item.id]
        assert deltas == done == final.arguments
    assert [item.name for item in added] == [call.name for call in _calls(events[-1].response)]
    assert [call.arguments for call in _calls(events[-1].response)] == [c.arguments for c in _calls(_ask(door))]


@feature
def outputs_of_functions_are_answered_with_text(door: Door) -> None:
    """After the outputs of its calls, the model answers with text"""
    first = _ask(door)
    outputs = [
        {"type": "function_call_output", "call_id": call.call_id, "output": '{"answer": 21}'} for call in _calls(first)
    ]
    whole = _ask(door, input=[*ASK, *first.output, *outputs], tool_choice="auto")
    assert whole.output_text
    assert not _calls(whole)
    stored = _ask(door, input=outputs, previous_response_id=first.id, tool_choice="auto")
    assert stored.output_text
    assert not _calls(stored)


@feature
def hosted_and_custom_tools_are_no_matter(door: Door) -> None:
    """Hosted tools and custom tools beside functions are accepted"""
    others = [
        {"type": "web_search"},
        {
            "type": "custom",
            "name": "apply_patch",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: /x/"},
        },
    ]
    assert _ask(door, tools=[WEATHER, *others], tool_choice="auto").status == "completed"
