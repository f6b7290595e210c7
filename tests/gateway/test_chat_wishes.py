"""What a chat request wishes of its answer, as the official SDK sees it: calls, forms, probabilities, reasoning."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openai import DefaultHttpxClient, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel

from fastmode.up import Service
from service import tokenizer

MODEL = "swift"
ASKED: Any = {"role": "user", "content": "What is the weather in Oslo and in Rome? Answer as JSON."}
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"enum": ["C", "F"]}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
WEATHER: Any = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Weather of a city", "parameters": CITY},
}
TIME = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}}
PATCH = {"type": "custom", "custom": {"name": "patch", "description": "A diff"}}


class Step(BaseModel):
    explanation: str
    output: str


class Solution(BaseModel):
    steps: list[Step]
    answer: str


@pytest.fixture(scope="module")
def client(steady: Service) -> Iterator[OpenAI]:
    http = DefaultHttpxClient(trust_env=False)
    with OpenAI(base_url=f"{steady.base_url}/v1", api_key="k", max_retries=0, http_client=http) as client:
        yield client


def ask(client: OpenAI, **fields: Any) -> ChatCompletion:
    answer: ChatCompletion = client.chat.completions.create(**{"model": MODEL, "messages": [ASKED], **fields})
    return answer


def stream(client: OpenAI, **fields: Any) -> list[ChatCompletionChunk]:
    return list(client.chat.completions.create(**{"model": MODEL, "messages": [ASKED], "stream": True, **fields}))


def names(answer: ChatCompletion) -> set[str]:
    calls = [call.model_dump() for call in answer.choices[0].message.tool_calls or ()]
    return {call[call["type"]]["name"] for call in calls}


# ---- Calls -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("required", {"get_weather", "get_time", "patch"}),
        ({"type": "function", "function": {"name": "get_time"}}, {"get_time"}),
        ({"type": "custom", "custom": {"name": "patch"}}, {"patch"}),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [TIME]}}, {"get_time"}),
    ],
)
def test_a_call_is_made_where_one_is_called_for(client: OpenAI, choice: Any, expected: set[str]) -> None:
    answer = ask(client, tools=[WEATHER, TIME, PATCH], tool_choice=choice)
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.content is None
    assert names(answer) <= expected
    assert names(answer)


def test_no_call_is_made_where_none_may_be(client: OpenAI) -> None:
    answer = ask(client, tools=[WEATHER], tool_choice="none", max_tokens=20)
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].message.content


@pytest.mark.parametrize("parallel", [True, False])
def test_a_streamed_call_says_what_it_is_once_and_then_its_arguments(client: OpenAI, parallel: bool) -> None:
    fields = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": parallel, "seed": 3}
    whole = ask(client, **fields).choices[0].message.tool_calls
    assert whole is not None
    assert parallel or len(whole) == 1
    fragments = [call for chunk in stream(client, **fields) for call in (chunk.choices[0].delta.tool_calls or ())]
    for index, call in enumerate(whole):
        opening, *rest = [fragment for fragment in fragments if fragment.index == index]
        assert (opening.type, opening.function and opening.function.name) == ("function", "get_weather")
        assert opening.id is not None
        assert opening.id.startswith("call_")
        assert all((fragment.id, fragment.type) == (None, None) for fragment in rest)
        said = "".join(fragment.function.arguments or "" for fragment in rest if fragment.function)
        assert call.type == "function"
        assert said == call.function.arguments
        assert set(json.loads(said)) == {"city", "unit"}


def test_the_sdk_puts_streamed_calls_together_again(client: OpenAI) -> None:
    with client.chat.completions.stream(
        model=MODEL,
        messages=[ASKED],
        tools=[WEATHER],
        tool_choice="required",
    ) as events:
        for _ in events:
            pass
        calls = events.get_final_completion().choices[0].message.tool_calls
    assert calls
    assert json.loads(calls[0].function.arguments)["unit"] in ("C", "F")


def test_after_a_result_there_is_text(client: OpenAI) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    answered = [
        ASKED,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "-7"},
    ]
    answer = ask(client, messages=answered, tools=[WEATHER])
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content


def test_functions_are_called_in_the_older_form(client: OpenAI) -> None:
    fields = {"functions": [WEATHER["function"]], "function_call": {"name": "get_weather"}, "seed": 3}
    answer = ask(client, **fields)
    call = answer.choices[0].message.function_call
    assert answer.choices[0].finish_reason == "function_call"
    assert call is not None
    assert (call.name, set(json.loads(call.arguments))) == ("get_weather", {"city", "unit"})
    fragments = [chunk.choices[0].delta.function_call for chunk in stream(client, **fields)]
    assert "".join(fragment.arguments or "" for fragment in fragments if fragment) == call.arguments


# ---- Forms -----------------------------------------------------------------------------------------------------------


def test_a_schema_is_kept_to(client: OpenAI) -> None:
    parsed = client.chat.completions.parse(model=MODEL, messages=[ASKED], response_format=Solution)
    assert isinstance(parsed.choices[0].message.parsed, Solution)
    assert json.loads(parsed.choices[0].message.content or "")


def test_a_form_is_streamed_as_text(client: OpenAI) -> None:
    fields = {"response_format": {"type": "json_object"}, "seed": 5}
    whole = ask(client, **fields).choices[0].message.content
    assert whole is not None
    assert isinstance(json.loads(whole), dict)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream(client, **fields)) == whole


# ---- Tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alternatives", [None, 0, 20])
def test_each_token_comes_with_what_it_was_likely_to_be(client: OpenAI, alternatives: int | None) -> None:
    fields = {"logprobs": True, "top_logprobs": alternatives, "max_tokens": 30}
    answer = ask(client, **fields)
    told = answer.choices[0].logprobs
    assert told is not None
    assert told.content is not None
    assert len(told.content) == 30
    assert (
        bytes(byte for token in told.content for byte in token.bytes or ()).decode()
        == answer.choices[0].message.content
    )
    for token in told.content:
        assert token.logprob <= 0
        assert len(token.top_logprobs) == (alternatives or 0)
    streamed = [chunk.choices[0].logprobs for chunk in stream(client, **fields)]
    assert [token for part in streamed if part for token in part.content or ()] == told.content


def test_reasoning_is_paid_for_and_not_shown(client: OpenAI) -> None:
    answer = ask(client, reasoning_effort="low")
    assert answer.usage is not None
    assert answer.usage.completion_tokens_details is not None
    reasoning = answer.usage.completion_tokens_details.reasoning_tokens
    assert reasoning
    said = tokenizer.count(answer.choices[0].message.content or "")
    assert answer.usage.completion_tokens == reasoning + said
    assert ask(client, reasoning_effort="none").usage.completion_tokens_details.reasoning_tokens == 0  # type: ignore[union-attr]


def test_what_was_predicted_is_accepted_or_paid_for_all_the_same(client: OpenAI) -> None:
    predicted = "\n".join(f"def function_{number}(x):\n    return x + {number}" for number in range(20))
    usage = ask(client, prediction={"type": "content", "content": predicted}).usage
    assert usage is not None
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.accepted_prediction_tokens
    assert usage.completion_tokens_details.rejected_prediction_tokens is not None


def test_verbosity_is_how_long_answers_are_that_end_by_themselves(client: OpenAI) -> None:
    plain = [{"role": "user", "content": "Tell me about queues"}]
    lengths = []
    for verbosity in ("low", "medium", "high"):
        usage = ask(client, messages=plain, verbosity=verbosity).usage
        assert usage is not None
        lengths.append(usage.completion_tokens)
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


@pytest.mark.parametrize("wanted", [None, True, False])
def test_chunks_are_padded_unless_that_is_not_wanted(steady: Service, wanted: bool | None) -> None:
    body: dict[str, Any] = {"model": MODEL, "messages": [ASKED], "max_tokens": 3, "stream": True}
    if wanted is not None:
        body["stream_options"] = {"include_obfuscation": wanted}
    raw = httpx.post(f"{steady.base_url}/v1/chat/completions", json=body, trust_env=False).text
    chunks = [json.loads(line[6:]) for line in raw.split("\n\n") if line.startswith("data: {")]
    assert all(("obfuscation" in chunk) == (wanted is not False) for chunk in chunks)
