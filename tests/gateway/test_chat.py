"""Chat completions through the real door, as the official SDK sees them."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import DefaultHttpxClient, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessageParam

from fastmode.up import Service
from service import tokenizer
from service.messages import Turn

CATALOG = Path(__file__).parent.parent / "catalogs" / "chat.toml"
MODEL = "three-tiers"
HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def url(module_stack: Callable[..., Service]) -> str:
    return module_stack(CATALOG).base_url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[OpenAI]:
    http = DefaultHttpxClient(trust_env=False)
    with OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, http_client=http) as client:
        yield client


@pytest.fixture(scope="module")
def pieces(client: OpenAI) -> list[str]:
    """An answer of 120 tokens, token by token."""
    return pieces_of(stream(client, max_tokens=120))


def ask(client: OpenAI, **fields: Any) -> ChatCompletion:
    answer: ChatCompletion = client.chat.completions.create(**{"model": MODEL, "messages": HELLO, **sdk(fields)})
    return answer


def stream(client: OpenAI, **fields: Any) -> list[ChatCompletionChunk]:
    return list(client.chat.completions.create(**{"model": MODEL, "messages": HELLO, "stream": True, **sdk(fields)}))


def sdk(fields: dict[str, Any]) -> dict[str, Any]:
    """The SDK has no arguments for what only engines like vLLM know: that goes into the body by another way."""
    beside = {name: fields[name] for name in ("ignore_eos", "min_tokens") if name in fields}
    return {**{name: value for name, value in fields.items() if name not in beside}, "extra_body": beside}


def text_of(answer: ChatCompletion, choice: int = 0) -> str:
    text = answer.choices[choice].message.content
    assert text is not None
    return text


def pieces_of(chunks: list[ChatCompletionChunk], choice: int = 0) -> list[str]:
    """The texts of a choice's content events, the opening one with its role left out."""
    mine = [each for chunk in chunks for each in chunk.choices if each.index == choice]
    return [each.delta.content for each in mine[1:] if each.delta.content is not None]


# ---- Length ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("tokens", [1, 2, 17, 1000])
def test_a_limit_on_tokens_is_exact(client: OpenAI, limit: str, tokens: int) -> None:
    fields = {limit: tokens, "ignore_eos": True}
    answer = ask(client, **fields)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == tokens == tokenizer.count(text_of(answer))


def test_the_newer_of_two_limits_counts(client: OpenAI) -> None:
    answer = ask(client, max_tokens=3, max_completion_tokens=5)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 5


@pytest.mark.parametrize("tokens", [1, 2, 500])
def test_a_stream_has_one_event_for_each_token(client: OpenAI, tokens: int) -> None:
    pieces = pieces_of(stream(client, max_tokens=tokens))
    assert len(pieces) == tokens
    counts = [tokenizer.count(text) for text in accumulate(pieces)]
    assert counts == list(range(1, tokens + 1))


def test_without_a_limit_an_answer_ends_by_itself_with_a_sentence(client: OpenAI) -> None:
    answer = ask(client)
    assert answer.choices[0].finish_reason == "stop"
    assert text_of(answer).endswith(".")
    assert answer.usage is not None
    assert answer.usage.completion_tokens == tokenizer.count(text_of(answer))


def test_an_answer_is_not_shorter_than_asked_for(client: OpenAI) -> None:
    answer = ask(client, min_tokens=3000)
    assert answer.usage is not None
    assert 3000 <= answer.usage.completion_tokens == tokenizer.count(text_of(answer))


@pytest.mark.parametrize("fields", [{}, {"ignore_eos": True}, {"min_tokens": 16}])
def test_no_answer_is_longer_than_its_model_can_say(client: OpenAI, fields: dict[str, Any]) -> None:
    answer = ask(client, model="short-of-breath", **fields)
    assert answer.usage is not None
    assert 0 < answer.usage.completion_tokens <= 16


# ---- Stream and whole ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 1},
        {"max_tokens": 300},
        {},
        {"seed": 7},
        {"n": 3, "max_tokens": 40},
        {"stop": [" the", "."], "n": 2},
        {"min_tokens": 400, "stop": "."},
        {"messages": [{"role": "user", "content": 'Say "é\r\n\t\\\U0001f600"'}], "max_tokens": 60},
    ],
)
def test_a_stream_says_what_the_whole_answer_says(client: OpenAI, fields: dict[str, Any]) -> None:
    whole = ask(client, **fields)
    chunks = stream(client, stream_options={"include_usage": True}, **fields)
    for choice in whole.choices:
        assert "".join(pieces_of(chunks, choice.index)).encode() == text_of(whole, choice.index).encode()
        finishes = [each.finish_reason for chunk in chunks for each in chunk.choices if each.index == choice.index]
        assert finishes == [None] * (len(finishes) - 1) + [choice.finish_reason]
    assert chunks[-1].usage == whole.usage


@pytest.mark.parametrize(
    ("options", "expected"),
    [(None, 0), ({}, 0), ({"include_usage": None}, 0), ({"include_usage": False}, 0), ({"include_usage": True}, 1)],
)
def test_usage_comes_once_and_only_to_who_asks(client: OpenAI, options: dict[str, Any] | None, expected: int) -> None:
    chunks = stream(client, max_tokens=3, stream_options=options)
    assert sum(chunk.usage is not None for chunk in chunks) == expected
    assert [bool(chunk.choices) for chunk in chunks] == [True] * (len(chunks) - expected) + [False] * expected


@pytest.mark.parametrize("fields", [{}, {"n": 2}, {"stop": "zebra"}, {"reasoning_effort": "low"}])
def test_usage_in_every_chunk_grows_with_the_tokens_to_what_it_is_in_the_end(
    client: OpenAI, fields: dict[str, Any]
) -> None:
    """As vLLM has it, for clients that count tokens by it."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = stream(client, max_tokens=40, ignore_eos=True, stream_options=options, **fields)
    told = [chunk.usage for chunk in chunks]
    assert all(told)
    tokens = [usage.completion_tokens for usage in told if usage]
    assert tokens == sorted(tokens)
    assert tokens[-1] == tokens[-2] == 40 * fields.get("n", 1)
    assert {usage.prompt_tokens for usage in told if usage} == {told[-1].prompt_tokens}  # type: ignore[union-attr]
    alone = {"include_usage": False, "continuous_usage_stats": True}
    assert not any(chunk.usage for chunk in stream(client, max_tokens=5, stream_options=alone))


def test_the_chunks_of_a_stream_belong_together(client: OpenAI) -> None:
    first, second = (stream(client, max_tokens=5) for _ in range(2))
    assert len({(chunk.id, chunk.created, chunk.model, chunk.system_fingerprint) for chunk in first}) == 1
    assert first[0].choices[0].delta.role == "assistant"
    assert all(chunk.choices[0].delta.role is None for chunk in first[1:])
    assert first[0].id.startswith("chatcmpl-")
    assert first[0].id != second[0].id
    assert first[0].model == MODEL


def test_whoever_wants_to_know_hears_what_it_cost_at_the_end_of_a_stream_as_of_a_whole_answer(url: str) -> None:
    told = "x-fastmode-cost-nanodollars"
    body = {"model": MODEL, "messages": HELLO, "max_tokens": 20, "ignore_eos": True}
    with httpx.Client(base_url=url, headers={"x-fastmode-debug": "1"}, trust_env=False) as http:
        whole = http.post("/v1/chat/completions", json=body)
        events = http.post("/v1/chat/completions", json={**body, "stream": True}).text.strip().split("\n\n")
    assert [event for event in events if event.startswith(": ")] == [f": {told}: {whole.headers[told]}"]
    assert events[-1] == "data: [DONE]"


def test_the_sdk_puts_a_stream_together_again(client: OpenAI) -> None:
    with client.chat.completions.stream(model=MODEL, messages=HELLO, n=2) as events:
        for _ in events:
            pass
        final = events.get_final_completion()
    assert [choice.message.content for choice in final.choices] == [text_of(ask(client, n=2), n) for n in range(2)]


def test_a_stream_is_served_as_events_that_nobody_may_keep(url: str) -> None:
    body = {"model": MODEL, "messages": HELLO, "stream": True, "max_tokens": 3}
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, trust_env=False) as answer:
        raw = answer.read()
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert raw.endswith(b"\n\ndata: [DONE]\n\n")
    assert all(event.startswith(b"data: ") for event in raw.removesuffix(b"\n\n").split(b"\n\n"))


def test_an_answer_says_how_it_was_made(client: OpenAI) -> None:
    answers = [
        client.chat.completions.with_raw_response.create(model=MODEL, messages=HELLO, max_tokens=1) for _ in "ab"
    ]
    assert all(answer.headers["openai-version"] == "2020-10-01" for answer in answers)
    assert all(int(answer.headers["openai-processing-ms"]) >= 0 for answer in answers)
    ids = {answer.parse()._request_id for answer in answers}
    assert len(ids) == 2
    assert all(name is not None and name.startswith("req_") for name in ids)


# ---- Tiers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ({}, "default"),
        ({"service_tier": None}, "default"),
        ({"service_tier": "auto"}, "default"),
        ({"service_tier": "default"}, "default"),
        ({"service_tier": "standard"}, "default"),
        ({"service_tier": "fast"}, "priority"),
        ({"service_tier": "priority"}, "priority"),
        ({"service_tier": "spark"}, "spark"),
    ],
)
def test_the_answer_and_every_chunk_name_the_tier_that_served(
    client: OpenAI, asked: dict[str, Any], served: str
) -> None:
    assert ask(client, max_tokens=2, **asked).service_tier == served
    chunks = stream(client, max_tokens=2, stream_options={"include_usage": True}, **asked)
    assert [chunk.service_tier for chunk in chunks] == [served] * 5


def test_the_same_model_says_the_same_at_every_tier(client: OpenAI) -> None:
    said = {text_of(ask(client, max_tokens=50, service_tier=tier)) for tier in ("default", "priority", "spark")}
    assert len(said) == 1


# ---- Stop, seed, n ---------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(data=st.data())
def test_a_stop_sequence_ends_the_text_before_it_wherever_token_borders_lie(
    client: OpenAI, pieces: list[str], data: st.DataObject
) -> None:
    text, ends = "".join(pieces), list(accumulate(map(len, pieces)))
    stops = []
    for _ in range(data.draw(st.integers(1, 4), label="stops")):
        start = data.draw(st.integers(0, len(text) - 1), label="start")
        stops.append(text[start : start + data.draw(st.integers(1, 12), label="length")])
    # An engine looks after every token: the match that is complete first counts, of several the one that begins first.
    found = [(text.find(stop), len(stop)) for stop in stops]
    complete, at = min((bisect_left(ends, start + length), start) for start, length in found)
    answer = ask(client, max_tokens=120, stop=stops)
    assert text_of(answer) == text[:at]
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == complete + 1
    assert "".join(pieces_of(stream(client, max_tokens=120, stop=stops))) == text[:at]


def test_a_stop_sequence_that_does_not_occur_changes_nothing(client: OpenAI) -> None:
    plain, stopped = ask(client, max_tokens=50), ask(client, max_tokens=50, stop=["\N{SNOWMAN}", "zzz"])
    assert (plain.choices, plain.usage) == (stopped.choices, stopped.usage)


def test_a_stop_sequence_waits_for_the_least_number_of_tokens(client: OpenAI) -> None:
    answer = ask(client, max_tokens=200, min_tokens=100, stop=".")
    assert answer.usage is not None
    assert 100 < answer.usage.completion_tokens < 200
    assert "." in text_of(answer)


def test_a_seed_decides_what_is_said(client: OpenAI) -> None:
    first, again, other = (text_of(ask(client, max_tokens=80, seed=seed)) for seed in (1, 1, -1))
    assert first == again != other


def test_each_choice_has_a_text_and_an_end_of_its_own(client: OpenAI) -> None:
    answer = ask(client, n=4, max_tokens=30, stop=".")
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert len({choice.message.content for choice in answer.choices}) > 1
    alone = ask(client, max_tokens=30, stop=".")
    assert alone.choices[0].message == answer.choices[0].message
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == tokenizer.count_chat([Turn("user", "Hello")])


def test_usage_counts_the_tokens_of_every_choice(client: OpenAI) -> None:
    answer = ask(client, n=8, max_tokens=25)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8 * 25 == sum(tokenizer.count(text_of(answer, n)) for n in range(8))
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 200


def test_choices_of_a_stream_come_side_by_side(client: OpenAI) -> None:
    order = [chunk.choices[0].index for chunk in stream(client, model="narrow", n=2, max_tokens=40)]
    first_end = max(place for place, index in enumerate(order) if index == 0)
    assert sum(index == 1 for index in order[:first_end]) > 20


# ---- Prompts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "a",
        "Grüße, 世界! 👩‍👩‍👧‍👦 e\u0301",
        "line\r\nline\rline\n",
        "\x00\x07\x7f\u2028",
        "<|endoftext|>",
        "x" * 20_000,
        "word " * 20_000,
    ],
)
def test_prompt_tokens_are_those_of_the_tokenizer(client: OpenAI, prompt: str) -> None:
    answer = ask(client, messages=[{"role": "user", "content": prompt}], max_tokens=1)
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == tokenizer.count_chat([Turn("user", prompt)])


def test_a_conversation_may_have_every_role_and_part(client: OpenAI) -> None:
    weather = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"in": "Oslo"}'}}
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "name": "ann", "content": "Is it cold in Oslo?"},
        {"role": "assistant", "content": None, "tool_calls": [weather]},
        {"role": "tool", "tool_call_id": "call_1", "content": "-7"},
        {"role": "assistant", "name": "bot", "content": [{"type": "refusal", "refusal": "I would rather not say."}]},
        {"role": "function", "name": "weather", "content": None},
        {"role": "user", "content": ""},
    ]
    said = ask(client, messages=messages, max_tokens=4)
    assert said.usage is not None
    assert said.usage.completion_tokens == 4
    without_call = ask(client, messages=[messages[0], *messages[5:]], max_tokens=4)
    assert without_call.usage is not None
    assert said.usage.prompt_tokens > without_call.usage.prompt_tokens + tokenizer.count("Is it cold in Oslo?")


def test_definitions_of_tools_are_part_of_the_prompt(client: OpenAI) -> None:
    schema = {"type": "object", "properties": {"in": {"type": "string", "description": "A city, by its name"}}}
    tools = [{"type": "function", "function": {"name": "weather", "description": "Says it", "parameters": schema}}]
    plain, tooled = ask(client, max_tokens=1), ask(client, max_tokens=1, tools=tools, tool_choice="auto")
    assert plain.usage is not None
    assert tooled.usage is not None
    assert tooled.usage.prompt_tokens >= plain.usage.prompt_tokens + tokenizer.count("A city, by its name")


def test_an_image_is_read_by_a_model_that_can(client: OpenAI) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}
    asked = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}]
    answer = ask(client, model="tests/sees-images", messages=asked, max_tokens=1)
    assert answer.usage is not None
    assert answer.usage.prompt_tokens > tokenizer.count_chat([Turn("user", "What is it?")])


@pytest.mark.parametrize(
    "fields",
    [
        dict.fromkeys(["stream", "stream_options", "max_tokens", "n", "stop", "seed", "temperature", "top_p", "user"]),
        dict.fromkeys(
            ["tools", "tool_choice", "response_format", "logprobs", "service_tier", "metadata", "min_tokens"]
        ),
        {"temperature": 0.7, "top_p": 0.9, "presence_penalty": 0.5, "frequency_penalty": -0.5, "logit_bias": {"1": 2}},
        {"top_k": 40, "repetition_penalty": 1.1, "min_p": 0.05, "stop_token_ids": [1], "chat_template_kwargs": {}},
        {"store": False, "metadata": {"a": "b"}, "user": "u", "reasoning_effort": "low", "prompt_cache_key": "k"},
        {"litellm_call_id": "x", "caching": True, "provider": {"order": ["a"]}, "x_note": [[[]]]},
    ],
)
def test_what_clients_send_beside_is_no_obstacle(url: str, fields: dict[str, Any]) -> None:
    body = {"model": MODEL, "messages": HELLO, **fields, "max_completion_tokens": 2}
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, trust_env=False)
    assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["completion_tokens"] == 2
