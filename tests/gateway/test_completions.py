"""Legacy completions through the real door, as the official SDK sees them."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openai import DefaultHttpxClient, OpenAI
from openai.types import Completion

from fastmode.up import Service
from service import tokenizer

MODEL = "swift"
PROMPT = "Once upon a time, 👩‍👩‍👧 said:"


@pytest.fixture(scope="module")
def url(steady: Service) -> str:
    return steady.base_url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[OpenAI]:
    http = DefaultHttpxClient(trust_env=False)
    with OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, http_client=http) as client:
        yield client


def ask(client: OpenAI, **fields: Any) -> Completion:
    answer: Completion = client.completions.create(**{"model": MODEL, "prompt": PROMPT, "max_tokens": 12, **fields})
    return answer


def stream(client: OpenAI, **fields: Any) -> list[Completion]:
    return list(
        client.completions.create(**{"model": MODEL, "prompt": PROMPT, "max_tokens": 12, "stream": True, **fields})
    )


def texts(answer: Completion) -> list[str]:
    return [choice.text for choice in answer.choices]


def test_a_prompt_is_continued_without_anything_around_it(client: OpenAI) -> None:
    answer = ask(client)
    assert (answer.object, answer.model) == ("text_completion", MODEL)
    assert answer.id.startswith("cmpl-")
    assert answer.system_fingerprint is not None
    assert "service_tier" not in answer.model_dump()
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == tokenizer.count(PROMPT)
    assert answer.usage.completion_tokens == tokenizer.count(answer.choices[0].text) == 12
    assert answer.choices[0].finish_reason == "length"


def test_without_a_limit_there_are_sixteen_tokens(client: OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt=PROMPT)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"prompt": ["One", "Two", "Three"], "n": 2},
        {"prompt": tokenizer.encode(PROMPT)},
        {"prompt": [tokenizer.encode("One"), tokenizer.encode("Two")], "echo": True},
        {"echo": True, "n": 2, "suffix": " The end."},
        {"echo": True, "logprobs": 3},
        {"logprobs": 0, "n": 2},
        {"stop": [" a", ","], "max_tokens": 60, "logprobs": 2},
        {"prompt": ""},
        {"seed": 5},
    ],
)
def test_a_stream_says_what_the_whole_answer_says(client: OpenAI, fields: dict[str, Any]) -> None:
    whole, events = ask(client, **fields), stream(client, stream_options={"include_usage": True}, **fields)
    assert events[-1].usage == whole.usage
    assert events[-1].choices == []
    for choice in whole.choices:
        mine = [each for event in events for each in event.choices if each.index == choice.index]
        assert "".join(each.text for each in mine) == choice.text
        assert [each.finish_reason for each in mine] == [None] * (len(mine) - 1) + [choice.finish_reason]
        if choice.logprobs is None:
            assert all(each.logprobs is None for each in mine)
            continue
        for name in ("tokens", "token_logprobs", "text_offset"):
            parts = [getattr(each.logprobs, name) for each in mine if each.logprobs is not None]
            assert [value for part in parts for value in part] == getattr(choice.logprobs, name)


def test_each_prompt_has_its_choices_one_after_another(client: OpenAI) -> None:
    together = ask(client, prompt=["One", "Two"], n=2, echo=True)
    assert [choice.index for choice in together.choices] == [0, 1, 2, 3]
    assert [text[:3] for text in texts(together)] == ["One", "One", "Two", "Two"]
    assert together.usage is not None
    assert (together.usage.prompt_tokens, together.usage.completion_tokens) == (2, 48)
    assert texts(together)[0] == texts(ask(client, prompt="One", echo=True))[0]


def test_tokens_say_what_their_text_says(client: OpenAI) -> None:
    by_text, by_tokens = ask(client), ask(client, prompt=tokenizer.encode(PROMPT))
    assert texts(by_text) == texts(by_tokens)
    assert by_text.usage == by_tokens.usage


def test_what_stands_behind_the_text_counts_as_prompt(client: OpenAI) -> None:
    answer = ask(client, suffix=" The end.")
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == tokenizer.count(PROMPT) + tokenizer.count(" The end.")


def test_the_best_of_several_are_paid_for_together(client: OpenAI) -> None:
    answer = ask(client, prompt=["One", "Two"], best_of=3, n=2)
    assert len(answer.choices) == 4
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 2 * 3 * 12


@pytest.mark.parametrize("prompt", [PROMPT, "word " * 50, "Grüße, 世界"])
@pytest.mark.parametrize("alternatives", [0, 5])
def test_log_probabilities_are_lists_side_by_side(client: OpenAI, prompt: str, alternatives: int) -> None:
    choice = ask(client, prompt=prompt, logprobs=alternatives, echo=True).choices[0]
    told = choice.logprobs
    assert told is not None
    assert told.tokens is not None
    assert told.token_logprobs is not None
    assert told.text_offset is not None
    assert len(told.tokens) == len(told.token_logprobs) == len(told.text_offset) == tokenizer.count(prompt) + 12
    assert told.token_logprobs[0] is None
    assert all(logprob <= 0 for logprob in told.token_logprobs[1:])
    for token, offset in zip(told.tokens, told.text_offset, strict=True):
        assert token.startswith("bytes:") or choice.text.startswith(token, offset)
    assert (told.top_logprobs is None) == (alternatives == 0)
    for likeliest, token in zip(told.top_logprobs or [], told.tokens, strict=False):
        assert likeliest is None or token in likeliest
        assert likeliest is None or len(likeliest) <= alternatives + 1


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"prompt": []}, "empty_array", "prompt"),
        ({"prompt": 5}, "invalid_type", "prompt"),
        ({"prompt": ["a", 5]}, "invalid_type", "prompt[1]"),
        ({"prompt": [-1]}, "invalid_value", "prompt"),
        ({"logprobs": 6}, "integer_above_max_value", "logprobs"),
        ({"logprobs": True}, "invalid_type", "logprobs"),
        ({"best_of": 1, "n": 2}, "invalid_value", "best_of"),
        ({"best_of": 2, "stream": True}, "invalid_value", "best_of"),
        ({"stream_options": {}}, "invalid_value", "stream_options"),
        ({"max_tokens": 0}, "integer_below_min_value", "max_tokens"),
        ({"prompt": "word " * 50_000, "n": 20, "echo": True}, "invalid_value", "echo"),
        ({"prompt": "word " * 9000, "echo": True, "logprobs": 0}, "invalid_value", "logprobs"),
        ({"max_tokens": 9000, "logprobs": 0}, "invalid_value", "logprobs"),
        ({"messages": []}, "unknown_parameter", "messages"),
        ({"model": "gpt-0"}, "model_not_found", "model"),
    ],
)
def test_a_fault_is_named(url: str, fields: dict[str, Any], code: str, param: str) -> None:
    body = {"model": MODEL, "prompt": "a", **fields}
    answer = httpx.post(f"{url}/v1/completions", json=body, trust_env=False)
    error = answer.json()["error"]
    assert answer.status_code == (404 if code == "model_not_found" else 400)
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", code, param)


def test_a_stream_ends_as_chat_streams_do(url: str) -> None:
    body = {"model": MODEL, "prompt": ["a", "b"], "stream": True, "max_tokens": 2}
    with httpx.stream("POST", f"{url}/v1/completions", json=body, trust_env=False) as answer:
        raw = answer.read()
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert raw.endswith(b"\n\ndata: [DONE]\n\n")
    assert b'"usage"' not in raw
