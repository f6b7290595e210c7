"""What an account may use in a minute and may spend, as the official clients meet it."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import anthropic
import httpx
import openai
import pytest
import quick

from fastmode.up import Service

MESSAGES: Any = [{"role": "user", "content": "Hello"}]
OPENAI_HEADERS = {
    f"x-ratelimit-{what}-{kind}" for what in ("limit", "remaining", "reset") for kind in ("requests", "tokens")
}
ANTHROPIC_HEADERS = {
    f"anthropic-ratelimit-{kind}-{what}"
    for kind in ("requests", "tokens", "input-tokens", "output-tokens")
    for what in ("limit", "remaining", "reset")
}
FAST_HEADERS = {
    f"anthropic-fast-{kind}-tokens-{what}" for kind in ("input", "output") for what in ("limit", "remaining", "reset")
}
TINY = """
[plans.tiny]
default = { requests = 100 }
source = "synthetic"

[plans.tiny.groups]
claude-opus = { input_tokens = 1000, output_tokens = 50 }
count_tokens = { requests = 2 }
"""
GO = re.compile(r"(\d+h)?(\d+m)?(\d+s)?(\d+ms)?")


@pytest.fixture(scope="module")
def service(module_stack: Callable[..., Service], tmp_path_factory: pytest.TempPathFactory) -> Service:
    """Three gateways, of which each connection meets any."""
    pools = quick.catalog(tmp_path_factory.mktemp("quick"))
    pools.write_text(pools.read_text() + TINY)
    return module_stack(catalog=pools, gateways=3, FASTMODE_AUTH="required", **quick.SETTINGS)


@pytest.fixture
def key(service: Service) -> Callable[..., str]:
    def make(**fields: Any) -> str:
        made = httpx.post(f"{service.base_url}/admin/keys", json={"name": "test", **fields}, trust_env=False)
        assert made.status_code == 201, made.text
        text: str = made.json()["key"]
        return text

    return make


@contextmanager
def _openai(service: Service, key: str, retries: int = 0) -> Iterator[openai.OpenAI]:
    with openai.DefaultHttpxClient(trust_env=False) as http:
        yield openai.OpenAI(base_url=f"{service.base_url}/v1", api_key=key, max_retries=retries, http_client=http)


@contextmanager
def _anthropic(service: Service, key: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.DefaultHttpxClient(trust_env=False) as http:
        yield anthropic.Anthropic(base_url=service.base_url, api_key=key, max_retries=0, http_client=http)


def chat(client: openai.OpenAI, **fields: Any) -> Any:
    asked = {"model": "gpt-5.3-codex", "messages": MESSAGES, "max_tokens": 2, **fields}
    return client.chat.completions.with_raw_response.create(**asked)


def message(client: anthropic.Anthropic, **fields: Any) -> Any:
    asked = {"model": "claude-opus-5-5", "messages": MESSAGES, "max_tokens": 2, **fields}
    return client.messages.with_raw_response.create(**asked)


def at_once(service: Service, key: str, number: int) -> tuple[list[int], list[openai.RateLimitError]]:
    """So many requests at the same time: their statuses in order, and the refusals."""

    def ask(_: int) -> openai.RateLimitError | None:
        with _openai(service, key) as client:
            try:
                chat(client)
            except openai.RateLimitError as refused:
                return refused
        return None

    with ThreadPoolExecutor(number) as pool:
        refusals = [refused for refused in pool.map(ask, range(number)) if refused is not None]
    return [200] * (number - len(refusals)) + [429] * len(refusals), refusals


def test_a_request_that_cannot_be_served_is_told_what_is_left_and_takes_nothing(
    service: Service, key: Callable[..., str]
) -> None:
    own = key(requests=5, plan="start")
    with _openai(service, own) as client:
        for _ in range(3):
            with pytest.raises(openai.BadRequestError) as wrong:
                chat(client, max_tokens=10_000_000)
            assert wrong.value.response.headers.items() >= {"x-ratelimit-remaining-requests": "5"}.items()
            assert wrong.value.response.headers.keys() >= OPENAI_HEADERS
    with _anthropic(service, own) as client:
        with pytest.raises(anthropic.BadRequestError) as faulty:
            message(client, model="claude-haiku-4-5", inference_geo="us")
        assert faulty.value.response.headers.keys() >= ANTHROPIC_HEADERS


def test_five_requests_a_minute_are_five_over_all_gateways(service: Service, key: Callable[..., str]) -> None:
    own = key(requests=5)

    codes, refusals = at_once(service, own, 20)
    assert codes == [200] * 5 + [429] * 15
    for refused in refusals:
        assert (refused.code, refused.type) == ("rate_limit_exceeded", "requests")
        assert re.search(r"try again in \d+(\.\d+)?m?s", refused.message)
        assert 1 <= int(refused.response.headers["retry-after"]) <= 12
        assert refused.response.headers["x-fastmode-reason"] == "rate_limit"


def test_a_client_that_waits_as_it_is_told_succeeds(service: Service, key: Callable[..., str]) -> None:
    with _openai(service, key(requests=120), retries=0) as client:
        own = client.with_options(max_retries=5)
        for _ in range(120):
            try:
                chat(client)
            except openai.RateLimitError:
                break
        assert chat(own).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_every_openai_answer_says_what_is_left(service: Service, key: Callable[..., str], stream: bool) -> None:
    with _openai(service, key(plan="start")) as client:
        first, second = (chat(client, stream=stream, max_tokens=100).headers for _ in range(2))
    assert first.keys() >= OPENAI_HEADERS
    assert (first["x-ratelimit-limit-requests"], first["x-ratelimit-limit-tokens"]) == ("500", "500000")
    assert first["x-ratelimit-remaining-requests"] == "499"
    assert int(second["x-ratelimit-remaining-requests"]) in (498, 499)
    assert 499_700 <= int(first["x-ratelimit-remaining-tokens"]) < 500_000 - 100
    for name in ("requests", "tokens"):
        assert GO.fullmatch(first[f"x-ratelimit-reset-{name}"])
        assert first[f"x-ratelimit-reset-{name}"] != "0ms"


@pytest.mark.parametrize("stream", [False, True])
def test_every_anthropic_answer_says_what_is_left_and_a_fast_one_more(
    service: Service, key: Callable[..., str], stream: bool
) -> None:
    with _anthropic(service, key(plan="build")) as client:
        standard = message(client, stream=stream).headers
        fast = message(client, stream=stream, extra_body={"speed": "fast"}).headers
    assert standard.keys() >= ANTHROPIC_HEADERS
    assert not standard.keys() & FAST_HEADERS
    assert fast.keys() >= ANTHROPIC_HEADERS | FAST_HEADERS
    limits = [fast[f"anthropic-{kind}-input-tokens-limit"] for kind in ("ratelimit", "fast")]
    assert limits == ["4000000", "400000"]
    assert all(
        int(standard[f"anthropic-ratelimit-{kind}-tokens-remaining"]) % 1000 == 0 for kind in ("input", "output")
    )
    reset = datetime.fromisoformat(standard["anthropic-ratelimit-requests-reset"])
    assert abs((reset - datetime.now(UTC)).total_seconds()) < 60


def test_output_is_charged_as_it_comes_and_ends_no_answer(service: Service, key: Callable[..., str]) -> None:
    """Of 50 output tokens a minute, an answer of 200 takes more than there are; the next one has to wait."""
    with _anthropic(service, key(plan="tiny")) as client:
        assert message(client, max_tokens=300).parse().usage.output_tokens > 60
        with pytest.raises(anthropic.RateLimitError, match="of 50 output tokens per minute") as refused:
            message(client, max_tokens=300)
        assert refused.value.response.headers["anthropic-ratelimit-output-tokens-remaining"] == "0"
        assert int(refused.value.response.headers["retry-after"]) >= 1


def test_a_prompt_beyond_the_input_tokens_of_a_minute_is_refused(service: Service, key: Callable[..., str]) -> None:
    said: Any = [{"role": "user", "content": "word " * 1500}]
    with _anthropic(service, key(plan="tiny")) as client:
        with pytest.raises(anthropic.RateLimitError, match="of 1,000 input tokens per minute") as refused:
            message(client, messages=said)
        assert refused.value.response.headers["x-should-retry"] == "false"
        assert message(client).status_code == 200


def test_counting_tokens_has_a_limit_of_its_own(service: Service, key: Callable[..., str]) -> None:
    with _anthropic(service, key(plan="tiny")) as client:
        asked: Any = {"model": "claude-opus-5-5", "messages": MESSAGES}
        assert client.messages.count_tokens(**asked) == client.messages.count_tokens(**asked)
        with pytest.raises(anthropic.RateLimitError, match="2 requests per minute"):
            client.messages.count_tokens(**asked)
        assert message(client).status_code == 200


def test_who_has_no_fast_quota_is_refused_it_and_not_the_rest(service: Service, key: Callable[..., str]) -> None:
    with _anthropic(service, key(plan="start")) as client:
        with pytest.raises(
            anthropic.RateLimitError, match="rate limit of 0 fast mode input tokens per minute"
        ) as refused:
            message(client, extra_body={"speed": "fast"})
        assert refused.value.response.headers["anthropic-fast-input-tokens-limit"] == "0"
        assert refused.value.response.headers["x-should-retry"] == "false"
        assert message(client).status_code == 200


def test_a_request_that_can_never_fit_is_called_too_large(service: Service, key: Callable[..., str]) -> None:
    with _openai(service, key(tokens=1000)) as client:
        with pytest.raises(openai.RateLimitError, match="Request too large") as refused:
            chat(client, max_tokens=5000)
        assert (refused.value.type, refused.value.response.headers["x-should-retry"]) == ("tokens", "false")
        assert chat(client).status_code == 200


def test_what_was_not_generated_is_given_back(service: Service, key: Callable[..., str]) -> None:
    """Of 1,000 tokens, 900 are taken for an answer that stops after a few."""
    with _openai(service, key(tokens=1000)) as client:
        for _ in range(3):
            chat(client, max_tokens=900, stop=["e"])


def test_a_budget_for_ten_admits_ten_and_ends_where_it_ends(service: Service, key: Callable[..., str]) -> None:
    with _openai(service, key()) as client:
        usage = chat(client).parse().usage
    cost = usage.prompt_tokens * 1750 + 2 * 14000
    own = key(budget=10 * cost, period="day")

    codes, refusals = at_once(service, own, 50)
    assert codes == [200] * 10 + [429] * 40
    assert {(refused.code, refused.type) for refused in refusals} == {("insufficient_quota", "insufficient_quota")}
    assert {refused.response.headers["x-should-retry"] for refused in refusals} == {"false"}
    with _anthropic(service, own) as client, pytest.raises(anthropic.RateLimitError, match="spend limit"):
        message(client)


def test_so_many_at_once_and_no_more(service: Service, key: Callable[..., str]) -> None:
    with _openai(service, key(parallel=1)) as client:
        slow = {"stream": True, "max_tokens": 100_000, "extra_body": {"ignore_eos": True}}
        with client.chat.completions.create(model="gpt-5.3-codex", messages=MESSAGES, **slow) as stream:  # type: ignore[call-overload]
            next(iter(stream))
            with pytest.raises(openai.RateLimitError) as refused:
                chat(client)
            assert refused.value.response.headers["x-fastmode-reason"] == "parallel"
        assert chat(client.with_options(max_retries=5)).status_code == 200


def test_without_a_plan_nothing_is_counted_and_the_headers_are_there_all_the_same(
    service: Service, key: Callable[..., str]
) -> None:
    with _openai(service, key()) as client, _anthropic(service, key()) as theirs:
        told = chat(client).headers
        assert told.keys() >= OPENAI_HEADERS
        assert told["x-ratelimit-remaining-requests"] == told["x-ratelimit-limit-requests"] == "1000000"
        assert message(theirs).headers.keys() >= ANTHROPIC_HEADERS
