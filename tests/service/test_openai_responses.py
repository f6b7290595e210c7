"""What bodies and frames of the Responses API are taken for, as pure functions: a request, or a fault in its words."""

from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InvalidRequest
from service.wire import openai_responses, openai_responses_frames, openai_responses_items
from service.wire.ids import derived
from service.wire.openai_responses_ids import identified, item_id, response_of

LOOK: dict[str, Any] = {"type": "function", "name": "look", "parameters": {"type": "object"}}
PATCH = {"type": "custom", "name": "patch", "description": "Takes text"}

SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "message", "user", "function"])
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "role", "content", "text", "name", "call_id", "id"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)
KINDS = st.sampled_from(
    [
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
        "local_shell_call_output",
        "reasoning",
        "item_reference",
        "additional_tools",
        "compaction",
    ]
)
FIELDS = (
    "tools",
    "tool_choice",
    "text",
    "reasoning",
    "include",
    "metadata",
    "stream_options",
    "previous_response_id",
    "max_output_tokens",
    "instructions",
    "background",
    "store",
    "top_logprobs",
)
ITEMS = st.fixed_dictionaries(
    {"type": KINDS | JSON},
    optional={
        "role": JSON | st.just("user"),
        "content": JSON | st.just("a"),
        "call_id": JSON | st.just("c"),
        "name": JSON | st.just("look"),
        "arguments": JSON | st.just("{"),
        "input": JSON,
        "output": JSON | st.just("a"),
        "id": JSON,
        "tools": JSON | st.just([LOOK]),
    },
)
BODIES = st.fixed_dictionaries(
    {"model": st.just("m") | JSON, "input": st.lists(ITEMS, max_size=4) | JSON},
    optional=dict.fromkeys(FIELDS, JSON),
)


def read(body: dict[str, Any]) -> None:
    """As a gateway reads it."""
    request = openai_responses.parse(orjson.dumps(body))
    items = openai_responses.conversation(request, openai_responses.own_items(request))
    documents = openai_responses.tool_documents(request, items)
    openai_responses.tool_text(documents)
    openai_responses.wish(request, documents)
    openai_responses_items.turns(items)
    openai_responses_items.images(items)
    orjson.dumps([openai_responses.echo(request), identified(items, "resp_1")])


@given(BODIES)
def test_whatever_is_sent_is_read_or_refused(body: dict[str, Any]) -> None:
    with suppress(InvalidRequest):
        read(body)


@given(st.text(max_size=20) | JSON.map(lambda value: orjson.dumps(value).decode()))
def test_any_frame_has_a_lane_or_is_refused(frame: str) -> None:
    with suppress(InvalidRequest):
        openai_responses_frames.lane(frame.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("name", ["a", "ü🙂", 'quo"te'])
def test_events_are_frames_of_their_lane(name: str) -> None:
    frame = orjson.dumps({"type": "response.create", "stream_id": name})
    assert openai_responses_frames.lane(frame) == name
    events = b'{"type":"a","text":"\\u2028"}\n{"type":"b"}\n'
    told = [orjson.loads(each) for each in openai_responses_frames.frames(events, name)]
    assert told == [{"stream_id": name, "type": "a", "text": "\u2028"}, {"stream_id": name, "type": "b"}]
    assert openai_responses_frames.frames(events, None) == events.splitlines()


@given(st.sampled_from(["message", "function_call", "reasoning", "mcp_call"]), st.integers(0, 500))
def test_an_item_says_which_response_it_belongs_to(kind: str, index: int) -> None:
    response = derived("resp_", 29, "any")
    name = item_id(kind, response, "output", index)
    assert response_of(name) == response
    assert name != item_id(kind, response, "input", index)


def wish_of(**fields: Any) -> Any:
    request = openai_responses.parse(orjson.dumps({"model": "m", "input": "a", **fields}))
    items = openai_responses.own_items(request)
    return openai_responses.wish(request, openai_responses.tool_documents(request, items))


def names(wish: Any) -> list[str]:
    return [tool.name for tool in wish.tools]


def test_tools_are_found_wherever_they_are_told() -> None:
    within = {"type": "namespace", "name": "n", "tools": [PATCH, LOOK]}
    added = {"type": "additional_tools", "role": "developer", "tools": [within]}
    assert names(wish_of(input=[added])) == ["patch", "look"]
    assert names(wish_of(tools=[within, {"type": "web_search"}, {"type": "never_heard_of"}])) == ["patch", "look"]


@pytest.mark.parametrize(
    ("choice", "mode", "left"),
    [
        (None, "auto", ["look", "patch"]),
        ("none", "none", ["look", "patch"]),
        ("required", "required", ["look", "patch"]),
        ({"type": "custom", "name": "patch"}, "required", ["patch"]),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "patch"}]}, "auto", ["patch"]),
        ({"type": "web_search"}, "auto", ["look", "patch"]),
    ],
)
def test_a_choice_leaves_some_tools(choice: Any, mode: str, left: list[str]) -> None:
    wish = wish_of(tools=[LOOK, PATCH, {"type": "web_search"}], tool_choice=choice)
    assert (wish.tool_choice, names(wish)) == (mode, left)


def test_a_function_is_strict_where_it_can_be_unless_it_is_not_to_be() -> None:
    closed = {**LOOK, "parameters": {"type": "object", "properties": {}, "required": [], "additionalProperties": False}}
    tools = [LOOK, {**closed, "name": "closed"}, {**closed, "name": "loose", "strict": False}]
    assert [tool.strict for tool in wish_of(tools=tools).tools] == [False, True, False]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 0),
        ({"reasoning": {"effort": "low"}}, 128),
        ({"reasoning": {"summary": "auto"}}, 512),
        ({"reasoning": {"effort": "none", "summary": "auto"}}, 0),
    ],
)
def test_effort_is_tokens_of_reasoning(fields: dict[str, Any], expected: int) -> None:
    assert wish_of(**fields).reasoning == expected


def test_a_call_and_its_result_are_read_as_what_was_said() -> None:
    items = openai_responses_items.items(
        [
            {"role": "developer", "content": "Be terse."},
            {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{torn"},
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "Nothing."}]},
            {"type": "reasoning", "summary": [], "encrypted_content": "x" * 1000},
        ]
    )
    turns = openai_responses_items.turns(items)
    assert [(turn.role, turn.text) for turn in turns] == [
        ("developer", "Be terse."),
        ("assistant", '{"name":"look","arguments":"{torn"}'),
        ("tool", "Nothing."),
    ]
