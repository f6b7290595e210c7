"""The chat dialect inwards as a pure function: bodies to calls and wishes, faults to words."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from service.errors import InvalidRequest, ServiceError
from service.messages import Tool, Wish
from service.wire import openai_chat
from service.wire.openai_errors import envelope
from service.wire.openai_messages import Message

USER = {"role": "user", "content": "Hello"}
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
SAY = {"type": "function", "function": {"name": "say", "description": "Aloud", "strict": True}}
PATCH = {"type": "custom", "custom": {"name": "patch", "description": "A diff"}}
TOOLS = (
    Tool("look", b'{"type":"object"}'),
    Tool("say", description="Aloud", strict=True),
    Tool("patch", b'{"type":"string"}', "A diff"),
)
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OPEN, "required": ["a"], "additionalProperties": False}
BITMAP = "data:image/bmp;base64,AAAA"
CALLS = {
    "role": "assistant",
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
        {"id": "call_2", "type": "custom", "custom": {"name": "patch", "input": "+"}},
    ],
}


def result(call: str) -> dict[str, str]:
    return {"role": "tool", "tool_call_id": call, "content": "4"}


def tooled(**fields: Any) -> dict[str, Any]:
    return {"tools": [LOOK, SAY, PATCH], **fields}


def allowed(mode: str, *tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": list(tools)}}


def called(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def call(**fields: Any) -> openai_chat.ChatRequest:
    return openai_chat.parse(json.dumps({"model": "m", "messages": [USER], **fields}).encode())


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"model": None}, "invalid_type", "model"),
        ({"model": ""}, "empty_string", "model"),
        ({"messages": None}, "invalid_type", "messages"),
        ({"messages": []}, "empty_array", "messages"),
        ({"messages": "Hello"}, "invalid_type", "messages"),
        ({"messages": [USER] * 2049}, "array_above_max_length", "messages"),
        ({"messages": [USER, "Hello"]}, "invalid_type", "messages[1]"),
        ({"messages": [{"content": "Hello"}]}, "missing_required_parameter", "messages[0].role"),
        ({"messages": [{**USER, "role": "wizard"}]}, "invalid_value", "messages[0].role"),
        ({"messages": [{**USER, "role": {}}]}, "invalid_value", "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "missing_required_parameter", "messages[0].content"),
        ({"messages": [{**USER, "content": None}]}, "invalid_value", "messages.[0].content"),
        ({"messages": [{**USER, "content": 5}]}, "invalid_type", "messages[0].content"),
        ({"messages": [USER, {**USER, "content": {"str": 1}}]}, "invalid_type", "messages[1].content"),
        ({"messages": [{**USER, "content": ["Hello"]}]}, "invalid_type", "messages[0].content[0]"),
        (
            {"messages": [{**USER, "content": [{"text": "Hello"}]}]},
            "missing_required_parameter",
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{**USER, "content": [{"type": "smell"}]}]},
            "invalid_value",
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{**USER, "content": [{"type": "text", "text": "a"}, {"type": "text", "text": 5}]}]},
            "invalid_type",
            "messages[0].content[1].text",
        ),
        (
            {"messages": [{**USER, "content": [{"type": "text"}]}]},
            "missing_required_parameter",
            "messages[0].content[0].text",
        ),
        (
            {"messages": [{**USER, "content": [{"type": "image_url", "image_url": {}}]}]},
            "missing_required_parameter",
            "messages[0].content[0].image_url.url",
        ),
        (
            {"messages": [{"role": "tool", "content": "4"}]},
            "missing_required_parameter",
            "messages[0].tool_call_id",
        ),
        ({"messages": [{"role": "assistant", "tool_calls": [1]}]}, "invalid_type", "messages[0].tool_calls[0]"),
        ({"messages": [{"role": "assistant", "tool_calls": []}]}, "empty_array", "messages[0].tool_calls"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "type": "function"}]}]},
            "missing_required_parameter",
            "messages[0].tool_calls[0].function",
        ),
        ({"messages": [{"role": "assistant"}]}, "invalid_value", "messages.[0].content"),
        ({"messages": [{"role": "function", "content": "4"}]}, "missing_required_parameter", "messages[0].name"),
        ({"messages": [result("call_1")]}, "invalid_value", "messages.[0].role"),
        ({"messages": [CALLS, result("call_1")]}, "invalid_value", "messages"),
        ({"messages": [CALLS, USER]}, "invalid_value", "messages.[1].role"),
        ({"messages": [CALLS, result("call_3")]}, "invalid_value", "messages.[1].role"),
        ({"messages": [{**USER, "content": []}]}, "empty_array", "messages[0].content"),
        (
            {"messages": [{"role": "system", "content": [{"type": "image_url", "image_url": {"url": "https://a"}}]}]},
            "invalid_value",
            "messages[0]",
        ),
        (
            {"messages": [{**USER, "content": [{"type": "refusal", "refusal": "no"}]}]},
            "invalid_value",
            "messages[0].content[0].type",
        ),
        (
            {
                "messages": [
                    {**USER, "content": [{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}]}
                ]
            },
            "invalid_value",
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{**USER, "content": [{"type": "file", "file": {"file_id": "f"}}]}]},
            "invalid_value",
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{**USER, "content": [{"type": "image_url", "image_url": {"url": "file:///a"}}]}]},
            "invalid_value",
            "messages[0].content[0].image_url.url",
        ),
        (
            {"messages": [{**USER, "content": [{"type": "image_url", "image_url": {"url": "data:image/png,AAAA"}}]}]},
            "invalid_value",
            "messages[0].content[0].image_url.url",
        ),
        (
            {"messages": [{**USER, "content": [{"type": "image_url", "image_url": {"url": BITMAP}}]}]},
            "invalid_image_format",
            "messages[0].content[0].image_url.url",
        ),
        (
            {"messages": [{**USER, "content": [{"type": "image_url", "image_url": {"url": "x", "detail": "x"}}]}]},
            "invalid_value",
            "messages[0].content[0].image_url.detail",
        ),
        ({"max_tokens": 0}, "integer_below_min_value", "max_tokens"),
        ({"max_tokens": "5"}, "invalid_type", "max_tokens"),
        ({"max_tokens": 5.0}, "invalid_type", "max_tokens"),
        ({"max_tokens": True}, "invalid_type", "max_tokens"),
        ({"max_completion_tokens": -1}, "integer_below_min_value", "max_completion_tokens"),
        ({"min_tokens": -1}, "integer_below_min_value", "min_tokens"),
        ({"n": 0}, "integer_below_min_value", "n"),
        ({"n": 129}, "integer_above_max_value", "n"),
        ({"seed": 2**63}, "integer_above_max_value", "seed"),
        ({"temperature": 2.1}, "decimal_above_max_value", "temperature"),
        ({"temperature": -1}, "integer_below_min_value", "temperature"),
        ({"temperature": "hot"}, "invalid_type", "temperature"),
        ({"top_p": 1.5}, "decimal_above_max_value", "top_p"),
        ({"presence_penalty": -2.5}, "decimal_below_min_value", "presence_penalty"),
        ({"frequency_penalty": 3}, "integer_above_max_value", "frequency_penalty"),
        ({"stop": ""}, "empty_string", "stop"),
        ({"stop": [""]}, "empty_string", "stop[0]"),
        ({"stop": 5}, "invalid_type", "stop"),
        ({"stop": ["a", 5]}, "invalid_type", "stop[1]"),
        ({"stop": ["a"] * 5}, "array_above_max_length", "stop"),
        ({"stream": "yes"}, "invalid_type", "stream"),
        ({"stream": 1, "stream_options": 1}, "invalid_type", "stream"),
        ({"stream": True, "stream_options": []}, "invalid_type", "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "invalid_type", "stream_options.include_usage"),
        ({"stream_options": {"include_usage": True}}, "invalid_value", "stream_options"),
        ({"service_tier": 5}, "invalid_type", "service_tier"),
        ({"tools": {}}, "invalid_type", "tools"),
        ({"tools": ["hammer"]}, "invalid_type", "tools[0]"),
        ({"tool_choice": "perhaps"}, "invalid_value", "tool_choice"),
        ({"tool_choice": "required"}, "invalid_value", "tool_choice"),
        ({"parallel_tool_calls": False}, "invalid_value", "parallel_tool_calls"),
        ({"function_call": "auto"}, "invalid_value", "function_call"),
        ({"tools": []}, "empty_array", "tools"),
        ({"tools": [LOOK] * 129}, "array_above_max_length", "tools"),
        ({"tools": [{"type": "function"}]}, "missing_required_parameter", "tools[0].function"),
        ({"tools": [{"type": "custom"}]}, "missing_required_parameter", "tools[0].custom"),
        ({"tools": [{"type": "browser"}]}, "invalid_value", "tools[0].type"),
        ({"tools": [LOOK, called("two words")]}, "invalid_value", "tools[1].function.name"),
        ({"tools": [called("x" * 65)]}, "string_above_max_length", "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {}}]}, "missing_required_parameter", "tools[0].function.name"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}]},
            "invalid_function_parameters",
            "tools[0].function.parameters",
        ),
        (
            {
                "tools": [
                    {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "required": 5}}}
                ]
            },
            "invalid_function_parameters",
            "tools[0].function.parameters",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": OPEN, "strict": True}}]},
            "invalid_function_parameters",
            "tools[0].function.parameters",
        ),
        (tooled(tool_choice=called("hear")), "invalid_value", "tool_choice.function.name"),
        (tooled(tool_choice={"type": "function"}), "missing_required_parameter", "tool_choice.function"),
        (tooled(tool_choice={"type": "allowed_tools"}), "missing_required_parameter", "tool_choice.allowed_tools"),
        (
            tooled(tool_choice=allowed("auto", called("hear"))),
            "invalid_value",
            "tool_choice.allowed_tools.tools",
        ),
        (
            tooled(tool_choice=allowed("all", LOOK)),
            "invalid_value",
            "tool_choice.allowed_tools.mode",
        ),
        (tooled(functions=[{"name": "f"}]), "invalid_value", "functions"),
        ({"functions": []}, "empty_array", "functions"),
        ({"functions": [{"name": "f"}], "function_call": {"name": "g"}}, "invalid_value", "function_call.name"),
        ({"logprobs": "yes"}, "invalid_type", "logprobs"),
        ({"top_logprobs": 3}, "invalid_value", "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "integer_above_max_value", "top_logprobs"),
        ({"logit_bias": {"50256": 101}}, "integer_above_max_value", "logit_bias"),
        ({"response_format": {"type": "json_object"}}, "invalid_value", "messages"),
        ({"response_format": {"type": "yaml"}}, "invalid_value", "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "missing_required_parameter", "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a b"}}},
            "invalid_value",
            "response_format.json_schema.name",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": []}}},
            "invalid_type",
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "string"}}}},
            "invalid_json_schema",
            "response_format",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": OPEN, "strict": True}}},
            "invalid_json_schema",
            "response_format",
        ),
        ({"response_format": "json"}, "invalid_type", "response_format"),
        ({"reasoning_effort": "huge"}, "invalid_value", "reasoning_effort"),
        ({"verbosity": "loud"}, "invalid_value", "verbosity"),
        ({"metadata": {"a": 1}}, "invalid_type", "metadata"),
        ({"metadata": {"a": "x" * 513}}, "string_above_max_length", "metadata"),
        ({"metadata": {"a" * 65: "x"}}, "string_above_max_length", "metadata"),
        ({"metadata": {str(n): "x" for n in range(17)}}, "object_above_max_properties", "metadata"),
        ({"prediction": {"type": "content"}}, "missing_required_parameter", "prediction.content"),
        ({"prediction": {"type": "content", "content": "a"}, "n": 2}, "unsupported_parameter", "n"),
        (tooled(prediction={"type": "content", "content": "a"}), "unsupported_parameter", "tools"),
        ({"web_search_options": {}}, "unsupported_parameter", "web_search_options"),
        ({"max_token": 5}, "unknown_parameter", "max_token"),
        ({"\N{SNOWMAN}": 5}, "unknown_parameter", "\N{SNOWMAN}"),
        ({"modalities": ["text", "audio"]}, "unsupported_value", "modalities"),
    ],
)
def test_a_fault_is_named_with_its_code_and_the_path_to_it(fields: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        call(**fields).wish()
    assert (refused.value.code, refused.value.param) == (code, param)
    assert refused.value.status == 400


def test_a_body_full_of_faults_costs_no_more_than_one() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": [1] * 50}] * 50, "tools": [1] * 50}
    with pytest.raises(ValidationError) as refused:
        openai_chat.ChatRequest.model_validate(body)
    assert refused.value.error_count() < 10


@pytest.mark.parametrize("required", ["model", "messages"])
def test_what_is_required_is_asked_for(required: str) -> None:
    body = {"model": "m", "messages": [USER]}
    del body[required]
    with pytest.raises(InvalidRequest) as refused:
        openai_chat.parse(orjson.dumps(body))
    assert (refused.value.code, refused.value.param) == ("missing_required_parameter", required)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"n": 129}, "Invalid 'n': integer above maximum value. Expected a value <= 128, but got 129 instead."),
        (
            {"temperature": 3.5},
            "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3.5 instead.",
        ),
        ({"max_tokens": "5"}, "Invalid type for 'max_tokens': expected an integer, but got a string instead."),
        (
            {"messages": [{**USER, "content": 5}]},
            "Invalid type for 'messages[0].content': expected one of a string or an array, but got an integer instead.",
        ),
        (
            {"stop": list("abcde")},
            "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length 5"
            " instead.",
        ),
        ({"messages": [{**USER, "role": "wizard" * 99}]}, f"Invalid value: '{('wizard' * 99)[:64]}'."),
    ],
)
def test_a_fault_is_explained(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        call(**fields)
    assert refused.value.message.startswith(says)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"Hello"',
        b"{",
        b'{"model": "m", "messages": [{"role": "user", "content": "a"}], "temperature": NaN}',
        b'{"model": "m", "messages": [{"role": "user", "content": "a"}], "unheard_of": -Infinity}',
        b'{"model": "m", "messages": [{"role": "user", "content": "\\ud83d"}]}',
        b'{"model": "m", "messages": [{"role": "user", "content": "\xff"}]}',
        b'{"model": "m", "messages": [{"role": "user", "content": "a"}]} {}',
        b'{"model": "m", "messages": [{"role": "user", "content": "a"}], "n": ' + b"9" * 5000 + b"}",
        b"[" * 10_000 + b"]" * 10_000,
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    ],
)
def test_what_is_not_a_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as refused:
        openai_chat.parse(body)
    assert refused.value.code in ("invalid_json", "invalid_type")
    assert refused.value.param is None


def test_the_last_of_duplicate_keys_counts() -> None:
    body = b'{"model": "a", "model": "b", "messages": [{"role": "user", "content": "a"}]}'
    assert openai_chat.parse(body).model == "b"


def test_null_means_not_given() -> None:
    optional = set(openai_chat.ChatRequest.model_fields) - {"model", "messages"}
    assert call(**dict.fromkeys(optional)) == call()


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 0, "top_p": 1, "presence_penalty": -2, "frequency_penalty": 2.0},
        {"user": "u", "store": True, "metadata": {"a": "b"}, "logit_bias": {"50256": -100}, "reasoning_effort": "high"},
        {"top_k": 40, "repetition_penalty": 1.1, "skip_special_tokens": True, "guided_json": {}},
        {
            "tools": [{"type": "function", "function": {"name": "f"}}],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
        },
        {"functions": [{"name": "f"}], "function_call": "auto"},
        {"response_format": {"type": "text"}, "logprobs": False, "top_logprobs": 0, "modalities": ["text"]},
        {"stop": []},
        {"stop": ["a", "b", "c", "d"]},
        {"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": False}},
        {"messages": [{"role": "system", "content": "s", "name": "n"}, {"role": "developer", "content": ""}]},
        {"messages": [{**CALLS, "content": None}, result("call_2"), result("call_1"), USER]},
        {"messages": [CALLS, result("call_1"), result("call_2"), CALLS, result("call_1"), result("call_2")]},
        {"messages": [{"role": "assistant", "refusal": "no"}, {"role": "assistant", "content": ""}]},
        {"messages": [{"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}]},
        {"messages": [{"role": "function", "name": "f", "content": None}]},
        {"messages": [CALLS, result("call_1"), {**result("call_2"), "content": [{"type": "text", "text": "4"}]}]},
        {
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a", "detail": "low"}}]}
            ]
        },
        {"prediction": {"type": "content", "content": [{"type": "text", "text": "a"}]}, "max_completion_tokens": 5},
        {"x_trace": 1, "thinking": {}, "provider": {"order": []}, "prompt_cache_options": {"mode": "explicit"}},
        {"messages": [{"role": "user", "content": "a", "cache_control": {"type": "ephemeral"}}]},
    ],
)
def test_what_clients_send_is_accepted(fields: dict[str, Any]) -> None:
    assert call(**fields).model == "m"


def test_unknown_fields_may_be_let_through() -> None:
    body = json.dumps({"model": "m", "messages": [USER], "max_token": 5}).encode()
    assert openai_chat.parse(body, strict=False) == call()


@pytest.mark.parametrize(
    ("fields", "wish"),
    [
        ({}, Wish()),
        (tooled(), Wish(tools=TOOLS)),
        (tooled(tool_choice="none"), Wish(tools=TOOLS, tool_choice="none")),
        (
            tooled(tool_choice="required", parallel_tool_calls=False),
            Wish(tools=TOOLS, tool_choice="required", parallel=False),
        ),
        (tooled(tool_choice=called("say")), Wish(tools=TOOLS[1:2], tool_choice="required")),
        (
            tooled(tool_choice={"type": "custom", "custom": {"name": "patch"}}),
            Wish(tools=TOOLS[2:], tool_choice="required"),
        ),
        (
            tooled(
                tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [PATCH, LOOK]}}
            ),
            Wish(tools=TOOLS[::2], tool_choice="required"),
        ),
        ({"functions": [LOOK["function"]]}, Wish(tools=TOOLS[:1], parallel=False)),
        (
            {"functions": [LOOK["function"], SAY["function"]], "function_call": {"name": "say"}},
            Wish(tools=TOOLS[1:2], tool_choice="required", parallel=False),
        ),
        (
            {"response_format": {"type": "json_object"}, "messages": [{**USER, "content": "As JSON, please"}]},
            Wish(schema=b'{"type":"object"}', strict=True),
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"minProperties": 2}}}},
            Wish(schema=b'{"minProperties":2}'),
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "a", "schema": CLOSED, "strict": True},
                }
            },
            Wish(schema=json.dumps(CLOSED, separators=(",", ":")).encode(), strict=True),
        ),
        ({"logprobs": True}, Wish(logprobs=0)),
        ({"logprobs": True, "top_logprobs": 20}, Wish(logprobs=20)),
        ({"prediction": {"type": "content", "content": "a"}}, Wish(prediction="a")),
        ({"reasoning_effort": "low"}, Wish(reasoning=128)),
        ({"reasoning_effort": "none"}, Wish()),
    ],
)
def test_a_request_says_how_its_answer_is_to_look(fields: dict[str, Any], wish: Wish) -> None:
    assert call(**fields).wish() == wish


def test_verbosity_is_about_answers_without_a_limit() -> None:
    assert call(verbosity="low").verboseness < call().verboseness == 1 < call(verbosity="high").verboseness


def test_more_effort_means_more_reasoning() -> None:
    lengths = [call(reasoning_effort=effort).wish().reasoning for effort in openai_chat.REASONING]
    assert lengths == sorted(lengths)


def test_the_model_reads_parts_and_tool_calls_as_text() -> None:
    parts = [{"type": "text", "text": "Look: "}, {"type": "image_url", "image_url": {"url": "https://a"}}]
    messages = [{"role": "user", "content": parts}, CALLS, result("call_1"), result("call_2")]
    user, assistant, tool, _ = call(messages=messages).turns()
    assert (user.role, user.text) == ("user", "Look: ")
    assert (assistant.role, json.loads(assistant.text)) == ("assistant", CALLS["tool_calls"])
    assert (tool.role, tool.text) == ("tool", "4")


def test_images_are_told_apart_by_what_they_are() -> None:
    def images(*urls: str) -> tuple[tuple[bytes, ...], ...]:
        parts = [{"type": "text", "text": ""}, *({"type": "image_url", "image_url": {"url": url}} for url in urls)]
        return call(messages=[{"role": "user", "content": parts}, {"role": "user", "content": "x"}]).images()

    assert images() == ()
    (first, second), none = images("data:image/png;base64,AAAA", "data:image/png;base64,AAAB")
    assert first != second
    assert none == ()
    assert images("data:image/png;base64,AAAA")[0] == (first,)


def test_what_the_model_reads_is_not_nested_without_end() -> None:
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"a": deep}
    tool = {"type": "function", "function": {"name": "f", "parameters": deep}}
    asked = call(tools=[tool])
    for read in (asked.tool_text, asked.wish):
        with pytest.raises(InvalidRequest) as refused:
            read()
        assert refused.value.param in ("tools", "tools[0].function.parameters")


scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5)
words = st.sampled_from([*openai_chat.ChatRequest.model_fields, *Message.model_fields, "type", "text", "url"])
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4), max_leaves=12
)


@given(st.dictionaries(words, documents, max_size=6))
def test_any_document_is_a_call_or_a_refusal_in_the_dialect(fields: dict[str, Any]) -> None:
    body = json.dumps({"model": "m", "messages": [USER], **fields}).encode()
    error: ServiceError | None = None
    try:
        asked = openai_chat.parse(body, strict=False)
        asked.wish()
        asked.turns()
        asked.tool_text()
    except InvalidRequest as refused:
        error = refused
    if error is not None:
        assert set(orjson.loads(envelope(error))["error"]) == {"message", "type", "param", "code"}
        assert len(error.message) < 1000
