"""The chat dialect as a pure function: events to bytes, bodies to calls, faults to words."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from service.errors import Broken, InvalidRequest, ServiceError
from service.messages import Delta, FinishReason, Part, Usage
from service.wire import openai_chat
from service.wire.gathered import Gathered
from service.wire.openai_errors import envelope

HEAD = openai_chat.Head("chatcmpl-1", 1796000000, 'a "model"', "priority", "fp_1")
USAGE = Usage(prompt=7, cached=2, completion=5)
FINISHES: list[FinishReason] = ["stop", "length", "tool_calls", "content_filter"]


@dataclass(frozen=True)
class Answer:
    """One choice: the texts of its tokens, and how many tokens without text follow them."""

    texts: list[str]
    silent: int
    finish: FinishReason

    def deltas(self, choice: int, cuts: list[int]) -> Iterator[Delta]:
        """The choice as a worker tells it, in runs that end at the cuts."""
        total = len(self.texts) + self.silent
        start = 0
        for end in [*sorted({cut for cut in cuts if 0 < cut < total}), total]:
            text = b"\n".join(escaped(text) for text in self.texts[start:end])
            finish, part = self.finish if end == total else None, None if start else Part()
            yield Delta("job", 1, choice, start, end - start, text, finish, part)
            start = end


def escaped(text: str) -> bytes:
    return orjson.dumps(text)[1:-1]


texts = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6), max_size=8)
answers = st.lists(
    st.builds(Answer, texts, st.integers(0, 2), st.sampled_from(FINISHES)).filter(lambda a: a.texts or a.silent),
    min_size=1,
    max_size=4,
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[Answer], list[Delta]]:
    """Answers, and their deltas in any order that keeps each choice's own."""
    given_answers = draw(answers)
    cuts = st.lists(st.integers(1, 9), max_size=4)
    queues = [list(answer.deltas(choice, draw(cuts))) for choice, answer in enumerate(given_answers)]
    order = draw(st.permutations([choice for choice, queue in enumerate(queues) for _ in queue]))
    return given_answers, [queues[choice].pop(0) for choice in order]


def payloads(stream: bytes) -> list[bytes]:
    """The data of each event. Every event is one line, and the last one is whole."""
    assert stream.endswith(b"\n\n")
    events = stream[:-2].split(b"\n\n")
    assert all(event.startswith(b"data: ") and b"\n" not in event for event in events)
    return [event.removeprefix(b"data: ") for event in events]


@given(conversations(), st.booleans())
def test_any_events_make_a_grammatical_stream(told: tuple[list[Answer], list[Delta]], include_usage: bool) -> None:
    given_answers, deltas = told
    encoder = openai_chat.Chunks(HEAD, len(given_answers), include_usage)
    stream = encoder.opening(USAGE) + b"".join(map(encoder.delta, deltas)) + encoder.closing(USAGE)
    *chunks, done = payloads(stream)
    assert done == b"[DONE]"
    said = [orjson.loads(chunk) for chunk in chunks]
    for chunk in said:
        assert {name: chunk[name] for name in ("id", "created", "model", "service_tier", "system_fingerprint")} == {
            "id": "chatcmpl-1",
            "created": 1796000000,
            "model": 'a "model"',
            "service_tier": "priority",
            "system_fingerprint": "fp_1",
        }
        assert chunk["object"] == "chat.completion.chunk"
    if include_usage:
        last = said.pop()
        assert last["choices"] == []
        assert last["usage"]["total_tokens"] == 12
        assert all(chunk["usage"] is None for chunk in said)
    else:
        assert all("usage" not in chunk for chunk in said)
    assert all(len(chunk["choices"]) == 1 for chunk in said)
    for index, answer in enumerate(given_answers):
        mine = [choice for chunk in said for choice in chunk["choices"] if choice["index"] == index]
        assert [choice["finish_reason"] for choice in mine] == [None] * (len(mine) - 1) + [answer.finish]
        opening, *contents, closing = [choice["delta"] for choice in mine]
        assert opening == {"role": "assistant", "content": "", "refusal": None}
        assert contents == [{"content": text} for text in answer.texts]
        assert closing == {}


@given(conversations())
def test_a_whole_answer_says_what_the_stream_says(told: tuple[list[Answer], list[Delta]]) -> None:
    given_answers, deltas = told
    gathered = Gathered(len(given_answers))
    for delta in deltas:
        gathered.add(delta)
    whole = orjson.loads(openai_chat.completion(HEAD, gathered.answers, USAGE))
    assert whole["object"] == "chat.completion"
    assert whole["service_tier"] == "priority"
    assert [choice["index"] for choice in whole["choices"]] == list(range(len(given_answers)))
    for choice, answer in zip(whole["choices"], given_answers, strict=True):
        assert choice["message"]["role"] == "assistant"
        assert choice["message"]["content"] == "".join(answer.texts)
        assert choice["finish_reason"] == answer.finish


def test_usage_has_its_details_with_zeros() -> None:
    whole = orjson.loads(openai_chat.completion(HEAD, Gathered(1).answers, USAGE))
    assert whole["usage"] == {
        "prompt_tokens": 7,
        "completion_tokens": 5,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 2, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def test_a_stream_that_fails_says_so_and_does_not_claim_to_be_done() -> None:
    [payload] = payloads(openai_chat.Chunks(HEAD, 1, True).failure(Broken("The worker is gone.")))
    assert orjson.loads(payload) == {
        "error": {"message": "The worker is gone.", "type": "server_error", "param": None, "code": "server_error"}
    }


USER = {"role": "user", "content": "Hello"}


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
        ({"messages": [{**USER, "content": None}]}, "missing_required_parameter", "messages[0].content"),
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
        ({"tool_choice": "required"}, "unsupported_value", "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "unsupported_value", "tool_choice"),
        ({"function_call": {"name": "f"}}, "unsupported_value", "function_call"),
        ({"logprobs": True}, "unsupported_value", "logprobs"),
        ({"top_logprobs": 3}, "unsupported_value", "top_logprobs"),
        ({"response_format": {"type": "json_object"}}, "unsupported_value", "response_format"),
        ({"response_format": "json"}, "invalid_type", "response_format"),
        ({"modalities": ["text", "audio"]}, "unsupported_value", "modalities"),
    ],
)
def test_a_fault_is_named_with_its_code_and_the_path_to_it(fields: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        call(**fields)
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
        {"tool_choice": "none", "function_call": "auto"},
        {"response_format": {"type": "text"}, "logprobs": False, "top_logprobs": 0, "modalities": ["text"]},
        {"stop": []},
        {"stop": ["a", "b", "c", "d"]},
        {"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": False}},
        {"messages": [{"role": "system", "content": "s", "name": "n"}, {"role": "developer", "content": []}]},
        {"messages": [{"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}]},
        {"messages": [{"role": "assistant"}]},
        {"messages": [{"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "4"}]}]},
        {
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u", "detail": "low"}}]}
            ]
        },
        {"messages": [{"role": "user", "content": "a", "cache_control": {"type": "ephemeral"}}]},
    ],
)
def test_what_clients_send_is_accepted(fields: dict[str, Any]) -> None:
    assert call(**fields).model == "m"


def test_the_model_reads_parts_and_tool_calls_as_text() -> None:
    parts = [{"type": "text", "text": "Look: "}, {"type": "image_url", "image_url": {"url": "u"}}]
    asked = call(messages=[{"role": "user", "content": parts}, {"role": "assistant", "tool_calls": [{"id": "c"}]}])
    assert [(turn.role, turn.text) for turn in asked.turns()] == [("user", "Look: "), ("assistant", '[{"id":"c"}]')]


def test_images_are_told_apart_by_what_they_are() -> None:
    def images(*urls: str) -> tuple[tuple[bytes, ...], ...]:
        parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
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
    asked = call(tools=[deep], messages=[{"role": "assistant", "tool_calls": [deep]}])
    for read, param in ((asked.tool_text, "tools"), (asked.turns, "messages")):
        with pytest.raises(InvalidRequest) as refused:
            read()
        assert refused.value.param == param


scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5)
words = st.sampled_from(
    [*openai_chat.ChatRequest.model_fields, *openai_chat.Message.model_fields, "type", "text", "url"]
)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4), max_leaves=12
)


@given(st.dictionaries(words, documents, max_size=6))
def test_any_document_is_a_call_or_a_refusal_in_the_dialect(fields: dict[str, Any]) -> None:
    body = json.dumps({"model": "m", "messages": [USER], **fields}).encode()
    error: ServiceError | None = None
    try:
        openai_chat.parse(body)
    except InvalidRequest as refused:
        error = refused
    if error is not None:
        assert set(orjson.loads(envelope(error))["error"]) == {"message", "type", "param", "code"}
        assert len(error.message) < 1000
