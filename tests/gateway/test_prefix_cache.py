"""A prompt that was sent before is not read again: usage, first token and bill say so, through the real door."""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic
from anthropic import DefaultHttpxClient as AnthropicHttp
from evidence import Samples, scrape
from openai import BadRequestError, DefaultHttpxClient, OpenAI
from openai.types import CompletionUsage

from fastmode.up import Service

CATALOG = Path(__file__).parent.parent / "catalogs" / "slow_to_read.toml"
BLOCK = 128  # tokens
READING = 2000  # tokens per second
INPUT, CACHED, OUTPUT = 1000, 100, 2000  # nano-dollars per token at the standard tier
TOKENS = 5
SHORT = 400  # tokens; the model `forgets` takes them for enough


@pytest.fixture(scope="module")
def service(module_stack: Callable[..., Service]) -> Service:
    return module_stack(CATALOG)


@pytest.fixture
def keys(service: Service) -> Iterator[Callable[[str], OpenAI]]:
    """A client with the key of that name; keys of one test have nothing to do with those of others."""
    run = uuid.uuid4().hex
    with DefaultHttpxClient(trust_env=False) as http:
        yield lambda name: OpenAI(
            base_url=f"{service.base_url}/v1", api_key=f"{name} {run}", max_retries=0, http_client=http
        )


def book(tokens: int = 1500) -> str:
    """So many tokens at least that nobody has sent yet."""
    return f"{uuid.uuid4().hex} " + " ".join(f"and {number}" for number in range(tokens // 2))


def ask(client: OpenAI, *said: str, tier: str = "standard", stream: bool = False, **fields: Any) -> CompletionUsage:
    messages = [{"role": ("user", "assistant")[turn % 2], "content": text} for turn, text in enumerate(said)]
    call: dict[str, Any] = {"model": "remembers", "messages": messages, "max_tokens": TOKENS, "service_tier": tier}
    call |= {"extra_body": {"ignore_eos": True}, **fields}
    if stream:
        options = {"include_usage": True}
        *_, answer = client.chat.completions.create(**{"stream": True, "stream_options": options, **call})
    else:
        answer = client.chat.completions.create(**call)
    usage: CompletionUsage = answer.usage
    return usage


def cached(usage: CompletionUsage) -> int:
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens is not None
    return usage.prompt_tokens_details.cached_tokens


def whole_blocks(usage: CompletionUsage) -> int:
    """What can be found at most: one token at least is left to compute."""
    return (usage.prompt_tokens - 1) // BLOCK * BLOCK


def scraped(service: Service) -> Samples:
    return asyncio.run(scrape(service))


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_sent_again_is_found(keys: Callable[[str], OpenAI], stream: bool) -> None:
    text = book()
    first, second = (ask(keys("a"), text, stream=stream) for _ in range(2))
    assert first.prompt_tokens == second.prompt_tokens
    assert cached(first) == 0
    assert cached(second) == whole_blocks(second) >= 1024


def test_another_tier_does_not_find_it_although_the_machines_are_the_same(keys: Callable[[str], OpenAI]) -> None:
    text = book()
    assert [cached(ask(keys("a"), text, tier=tier)) for tier in ("standard", "fast")] == [0, 0]
    assert cached(ask(keys("a"), text, tier="fast")) > 0


def test_another_key_does_not_find_it(keys: Callable[[str], OpenAI]) -> None:
    text = book()
    assert [cached(ask(keys(name), text)) for name in ("a", "b")] == [0, 0]


def test_a_conversation_that_goes_on_finds_what_was_said(keys: Callable[[str], OpenAI]) -> None:
    text = book()
    before = ask(keys("a"), text)
    after = ask(keys("a"), text, "I see.", book())
    assert whole_blocks(before) - BLOCK <= cached(after) <= before.prompt_tokens < after.prompt_tokens
    assert cached(after) % BLOCK == 0
    assert cached(ask(keys("a"), f"Not so. {text}", "I see.")) == 0, "only beginnings are found"


def test_tools_stand_before_all_that_is_said(keys: Callable[[str], OpenAI]) -> None:
    tool = {"type": "function", "function": {"name": "look", "description": book(), "parameters": {"type": "object"}}}
    asked = [cached(ask(keys("a"), said, tools=[tool])) for said in ("What is here?", "What is there?")]
    assert asked[0] == 0
    assert asked[1] >= 1024


def test_a_prompt_with_another_image_is_another_prompt(keys: Callable[[str], OpenAI]) -> None:
    text = book()

    def look(at: str) -> int:
        parts = [{"type": "text", "text": "Look: "}, {"type": "image_url", "image_url": {"url": at}}]
        return cached(ask(keys("a"), messages=[{"role": "user", "content": parts}, {"role": "user", "content": text}]))

    assert [look("https://a.test/a.png"), look("https://a.test/b.png"), look("https://a.test/a.png")][:2] == [0, 0]
    assert look("https://a.test/a.png") >= 1024


def test_short_prompts_are_not_kept(keys: Callable[[str], OpenAI]) -> None:
    assert [cached(ask(keys("a"), "x " * 500)) for _ in range(2)] == [0, 0]


def test_what_is_found_is_not_computed_and_costs_less(service: Service, keys: Callable[[str], OpenAI]) -> None:
    text = book()
    first = ask(keys("a"), text)
    before = scraped(service)
    second = ask(keys("a"), text)
    after = scraped(service)

    def gained(name: str, **labels: str) -> float:
        return after.sum(name, **labels) - before.sum(name, **labels)

    found = cached(second)
    bill = (second.prompt_tokens - found) * INPUT + found * CACHED + TOKENS * OUTPUT
    assert gained("fastmode_cost_nanodollars_total") == bill < first.prompt_tokens * INPUT
    assert gained("fastmode_input_tokens_total") == second.prompt_tokens
    assert gained("fastmode_cached_input_tokens_total") == found
    assert gained("fastmode_prefix_cache_hits_total", pool="remembers") == found
    assert gained("fastmode_prefix_cache_queries_total", pool="remembers") == whole_blocks(second)
    assert after.sum("fastmode_kv_idle_tokens", pool="remembers") >= found
    assert gained("gen_ai_server_time_to_first_token_seconds_sum") < found / READING, "reading it takes longer"


def test_what_nobody_asks_for_is_forgotten_when_what_it_was_kept_for_is_over(
    keys: Callable[[str], OpenAI], service: Service
) -> None:
    """OpenAI keeps ten minutes or a day, Anthropic five minutes or an hour; here they pass 600 times as fast."""
    client = keys("a")
    for_minutes, for_a_day = book(SHORT), book(SHORT)
    day: dict[str, Any] = {"model": "forgets", "prompt_cache_retention": "24h"}
    marked = [Marked(service, keys("a").api_key, ttl) for ttl in ("5m", "1h")]
    found = [
        [cached(ask(client, for_minutes, model="forgets")) for _ in range(2)],
        [cached(ask(client, for_a_day, **day)) for _ in range(2)],
        *([each.read() for _ in range(2)] for each in marked),
    ]
    assert all(first == 0 and again > 0 for first, again in found)
    time.sleep(600 / 600 + 0.1)
    assert cached(ask(client, for_a_day, **day)) > 0
    assert [each.read() > 0 for each in marked] == [False, True]
    assert cached(ask(client, for_minutes, model="forgets")) == 0
    assert cached(ask(client, for_minutes, model="forgets")) > 0, "and is kept again"


def test_prompts_under_another_key_are_not_found(keys: Callable[[str], OpenAI]) -> None:
    text = book(SHORT)
    day: dict[str, Any] = {"model": "forgets", "prompt_cache_retention": "24h"}
    found = [cached(ask(keys("a"), text, prompt_cache_key=name, **day)) for name in ("one", "two", "one")]
    assert found[:2] == [0, 0]
    assert found[2] > 0


def test_who_marks_what_to_keep_and_marks_nothing_keeps_nothing(keys: Callable[[str], OpenAI]) -> None:
    text = book(SHORT)
    for _ in range(2):
        assert cached(ask(keys("a"), text, model="forgets", prompt_cache_options={"mode": "explicit"})) == 0


@pytest.mark.parametrize("field", [{"prompt_cache_options": {"ttl": "5m"}}, {"prompt_cache_retention": "1h"}])
def test_a_time_that_is_not_sold_is_refused(keys: Callable[[str], OpenAI], field: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError) as refused:
        ask(keys("a"), "Hello", extra_body=field)
    assert str(refused.value.param).startswith(next(iter(field)))


class Marked:
    """A prompt that says for how long it wants to be kept."""

    def __init__(self, service: Service, key: str, ttl: str) -> None:
        control: Any = {"type": "ephemeral", "ttl": ttl}
        self._call: Any = {"system": [{"type": "text", "text": book(SHORT), "cache_control": control}]}
        self._call |= {"model": "forgets", "max_tokens": 1, "messages": [{"role": "user", "content": "Hello"}]}
        self._server = {"base_url": service.base_url, "api_key": key, "max_retries": 0}

    def read(self) -> int:
        """Tokens found in the cache."""
        with AnthropicHttp(trust_env=False) as http:
            client = Anthropic(http_client=http, **self._server)  # type: ignore[arg-type]
            return client.messages.create(**self._call).usage.cache_read_input_tokens or 0
