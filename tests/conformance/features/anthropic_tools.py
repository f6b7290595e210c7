"""Tools of messages."""

import json
from typing import Any

from features import Lacking, feature
from features.anthropic_door import MODEL, Door
from features.raising import raises


def _tool(name: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": f"Does {name}", "input_schema": schema}


WEATHER = _tool("get_weather", city={"type": "string"}, unit={"enum": ["C", "F"]})
CLOCK = _tool("get_time", zone={"type": "string"}, precision={"type": "integer", "minimum": 0, "maximum": 9})
ASK = [{"role": "user", "content": "What is the weather in Paris, and what time is it there?"}]


def _calls(message: Any) -> list[Any]:
    calls = [block for block in message.content if block.type == "tool_use"]
    for call in calls:
        assert call.id.startswith("toolu_")
        assert call.input.keys() == ({"city", "unit"} if call.name == "get_weather" else {"zone", "precision"})
    return calls


def _ask(door: Door, **fields: Any) -> Any:
    return door.say(**{"messages": ASK, "tools": [WEATHER, CLOCK], "max_tokens": 4000, **fields})


@feature
def any_calls_a_tool(door: Door) -> None:
    """tool_choice any gives a call with a valid input and stops with tool_use"""
    message = _ask(door, tool_choice={"type": "any"})
    assert message.stop_reason == "tool_use"
    assert _calls(message)


@feature
def a_named_tool_is_called(door: Door) -> None:
    """tool_choice tool calls the tool of that name"""
    message = _ask(door, tool_choice={"type": "tool", "name": "get_time"})
    assert {call.name for call in _calls(message)} == {"get_time"}


@feature
def auto_calls_a_tool_that_is_asked_for(door: Door) -> None:
    """tool_choice auto, which is the default, calls a tool when the message is about one"""
    for beside in ({}, {"tool_choice": {"type": "auto"}}):
        assert _calls(_ask(door, **beside))


@feature
def none_calls_no_tool(door: Door) -> None:
    """tool_choice none gives text"""
    message = _ask(door, tool_choice={"type": "none"})
    assert message.stop_reason == "end_turn"
    assert [block.type for block in message.content] == ["text"]


@feature
def parallel_use_can_be_disabled(door: Door) -> None:
    """disable_parallel_tool_use gives exactly one call"""
    for word in range(4):
        asked = [{"role": "user", "content": f"{ASK[0]['content']} {word}"}]
        message = _ask(door, messages=asked, tool_choice={"type": "any", "disable_parallel_tool_use": True})
        assert len(_calls(message)) == 1


@feature
def inputs_are_streamed_as_json(door: Door) -> None:
    """A streamed call begins with an empty input; its fragments, the first of them empty, join to the input"""
    asked = {"tool_choice": {"type": "any"}}
    whole = _calls(_ask(door, **asked))
    events = door.events(messages=ASK, tools=[WEATHER, CLOCK], max_tokens=4000, **asked)
    begun = {
        event.index: event.content_block
        for event in events
        if event.type == "content_block_start" and event.content_block.type == "tool_use"
    }
    assert all(block.input == {} for block in begun.values())
    fragments = {
        index: [e.delta.partial_json for e in events if e.type == "content_block_delta" and e.index == index]
        for index in begun
    }
    assert all(parts[0] == "" for parts in fragments.values())
    assert [json.loads("".join(parts)) for parts in fragments.values()] == [call.input for call in whole]
    assert events[-2].delta.stop_reason == "tool_use"


@feature
def results_are_answered_with_text(door: Door) -> None:
    """After the results of its calls, as text, blocks or errors, the model answers with text"""
    message = _ask(door, tool_choice={"type": "any"})
    for content in ("21 degrees", [{"type": "text", "text": "21 degrees"}]):
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": content, "is_error": False}
            for call in _calls(message)
        ]
        said = [block.model_dump(exclude_none=True) for block in message.content]
        turns = [*ASK, {"role": "assistant", "content": said}, {"role": "user", "content": results}]
        answer = _ask(door, messages=turns)
        assert answer.stop_reason == "end_turn"
        assert [block.type for block in answer.content] == ["text"]


@feature
def tools_are_counted(door: Door) -> None:
    """Definitions of tools count as input"""
    without = door.say(messages=ASK).usage.input_tokens
    assert _ask(door, tool_choice={"type": "none"}).usage.input_tokens > without + 20


@feature
def tools_that_make_no_sense_are_refused(door: Door) -> None:
    """Unknown names, missing schemas, results without calls and calls without results are 400"""
    lonely = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}]}]
    for wrong in (
        {"tool_choice": {"type": "tool", "name": "nothing"}},
        {"tools": [{"name": "a"}]},
        {"tools": [WEATHER, WEATHER]},
        {"messages": lonely},
    ):
        with raises(door.library.BadRequestError) as raised:
            _ask(door, **wrong)
        assert raised.error.body["error"]["type"] == "invalid_request_error"


@feature
def the_stream_helper_snapshots_calls(door: Door) -> None:
    """The stream helper assembles the calls of the whole message"""
    asked = {"messages": ASK, "tools": [WEATHER, CLOCK], "tool_choice": {"type": "any"}, "max_tokens": 4000}
    with door.client.messages.stream(model=MODEL, **asked) as stream:
        final = stream.get_final_message()
    assert [call.input for call in _calls(final)] == [call.input for call in _calls(door.say(**asked))]


@feature
def hosted_tools_are_no_matter(door: Door) -> None:
    """Tools that the API runs itself are taken beside others"""
    hosted = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    assert _ask(door, tools=[hosted, WEATHER], tool_choice={"type": "auto"}).content


@feature
def the_tool_runner_runs_to_the_end(door: Door) -> None:
    """The tool runner calls a function and ends with text"""
    asked: list[str] = []

    def get_weather(city: str) -> str:
        """The weather in a city

        Args:
            city: Its name
        """
        asked.append(city)
        return "21 degrees"

    if not hasattr(door.library, "beta_tool"):
        raise Lacking("this generation has no tool runner")
    weather = [{"role": "user", "content": "What is the weather in Paris?"}]
    runner = door.client.beta.messages.tool_runner(
        model=MODEL, max_tokens=4000, messages=weather, tools=[door.library.beta_tool(get_weather)]
    )
    last = runner.until_done()
    assert len(asked) >= 1
    assert last.stop_reason == "end_turn"
    assert last.content[-1].type == "text"
