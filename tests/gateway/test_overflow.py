"""A tier without room: what each policy makes of a request, as the official clients meet it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic
from anthropic import DefaultAsyncHttpxClient as AnthropicHttp
from calls import post
from evidence import depth, idle, scrape, until
from openai import AsyncOpenAI
from openai import DefaultAsyncHttpxClient as OpenAIHttp
from openai.types.chat import ChatCompletion
from pools import NARROW, SWIFT, catalog

from fastmode.up import Service
from service.connection import connect

MESSAGES: Any = [{"role": "user", "content": "Hello"}]
LONG = 20_000  # tokens; takes longer than any test here
OFFERS = """
[models.narrow.offers.fast]
pool = "narrow"
reported_as = "priority"
price = { input = 10, cached_input = 1, output = 20 }
overflow.policy = "reject"
overflow.waiting = 1
overflow.ramp = { tokens_per_minute = 50, growth = 0.5, within_s = 900, waiting = 0 }

[models.swift.offers.fast]
pool = "narrow"
reported_as = "priority"
price = { input = 10, cached_input = 1, output = 20 }
overflow = { policy = "downgrade", waiting = 1 }

[models.swift.offers.flex]
pool = "narrow"
reported_as = "flex"
price = { input = 0.5, cached_input = 0.05, output = 1 }
overflow = { policy = "reject", waiting = 1 }

[models.swift.offers.ultrafast]
pool = "narrow"
reported_as = "ultrafast"
price = { input = 6, cached_input = 0.6, output = 12 }
overflow = { policy = "spill", pool = "swift", waiting = 1 }

[models.swift.offers.spark]
pool = "narrow"
reported_as = "spark"
price = { input = 6, cached_input = 0.6, output = 12 }
overflow.policy = "downgrade"
overflow.waiting = 3
overflow.ramp = { tokens_per_minute = 50, growth = 0.5, within_s = 900, waiting = 1 }
"""


@pytest.fixture(scope="module")
def service(module_stack: Callable[..., Service], tmp_path_factory: pytest.TempPathFactory) -> Service:
    """The pool `narrow` does one job at a time, and one may wait; `swift` has room."""
    pools = catalog(tmp_path_factory.mktemp("overflow"), SWIFT, NARROW)
    pools.write_text(pools.read_text() + OFFERS)
    return module_stack(catalog=pools, FASTMODE_DEBUG_HEADERS="1")


@pytest.fixture
async def clients(service: Service) -> AsyncIterator[tuple[AsyncOpenAI, AsyncAnthropic]]:
    async with OpenAIHttp(trust_env=False) as http, AnthropicHttp(trust_env=False) as theirs:
        yield (
            AsyncOpenAI(base_url=f"{service.base_url}/v1", api_key="any", max_retries=0, http_client=http),
            AsyncAnthropic(base_url=service.base_url, api_key="any", max_retries=0, http_client=theirs),
        )


@pytest.fixture
async def full(service: Service) -> AsyncIterator[None]:
    """One job runs in `narrow`, and one waits."""
    async with post(service.base_url, "narrow", LONG) as running:
        await running.pieces(1)
        async with post(service.base_url, "narrow", LONG):
            await until(lambda: depth(service, "narrow", 1), "one waits")
            yield
    await until(lambda: idle(service), "all gauges are zero")


async def chat(client: AsyncOpenAI, tier: str, model: str = "swift") -> tuple[str | None, Mapping[str, str]]:
    """The tier that an answer says has served it, and its headers."""
    answer = await client.chat.completions.with_raw_response.create(
        model=model,
        messages=MESSAGES,
        max_tokens=2,
        service_tier=tier,  # type: ignore[call-overload]
    )
    return answer.parse().service_tier, answer.headers


async def test_fast_is_served_as_default_says_so_and_is_charged_so(
    service: Service, clients: tuple[AsyncOpenAI, AsyncAnthropic], full: None
) -> None:
    before = await scrape(service)
    served, headers = await chat(clients[0], "priority")
    assert served == "default"
    told = [headers[f"x-fastmode-{name}"] for name in ("tier-requested", "tier-served", "pool")]
    assert told == ["priority", "standard", "swift"]
    after = await scrape(service)
    labels = {"tier_served": "standard", "model": "swift"}
    counted = [
        after.sum(name, **labels) - before.sum(name, **labels)
        for name in ("fastmode_requests_total", "fastmode_input_tokens_total", "fastmode_cost_nanodollars_total")
    ]
    assert counted[0] == 1
    assert counted[2] == counted[1] * 1000 + 2 * 2000, "at the default tier's price"
    assert after.sum("fastmode_requests_total", tier_served="fast", model="swift") == 0


async def test_a_response_is_asked_for_as_fast_and_completed_as_default(
    clients: tuple[AsyncOpenAI, AsyncAnthropic], full: None
) -> None:
    stream = await clients[0].responses.create(
        model="swift", input="Hello", max_output_tokens=16, service_tier="priority", stream=True
    )
    told = [(event.type, event.response.service_tier) async for event in stream if hasattr(event, "response")]
    assert told[0] == ("response.created", "priority")
    assert told[-1][1] == "default"


async def test_with_room_fast_is_fast(clients: tuple[AsyncOpenAI, AsyncAnthropic]) -> None:
    assert (await chat(clients[0], "priority"))[0] == "priority"


async def test_flex_is_refused_and_not_charged(
    service: Service, clients: tuple[AsyncOpenAI, AsyncAnthropic], full: None
) -> None:
    before = (await scrape(service)).sum("fastmode_cost_nanodollars_total")
    with pytest.raises(openai.RateLimitError) as refused:
        await chat(clients[0], "flex")
    assert (refused.value.code, refused.value.type) == ("resource_unavailable", "resource_unavailable")
    assert refused.value.response.headers["x-should-retry"] == "false"
    assert refused.value.response.headers["x-fastmode-reason"] == "queue_full"
    assert (await scrape(service)).sum("fastmode_cost_nanodollars_total") == before


async def test_what_spills_is_served_elsewhere_as_the_same_tier(
    clients: tuple[AsyncOpenAI, AsyncAnthropic], full: None
) -> None:
    served, headers = await chat(clients[0], "ultrafast")
    assert served == "ultrafast"
    assert (headers["x-fastmode-tier-served"], headers["x-fastmode-pool"]) == ("ultrafast", "swift")


async def test_anthropics_fast_mode_is_overloaded_and_never_something_else(
    clients: tuple[AsyncOpenAI, AsyncAnthropic], full: None
) -> None:
    asked: Any = {"model": "narrow", "messages": MESSAGES, "max_tokens": 2, "extra_body": {"speed": "fast"}}
    with pytest.raises(anthropic.APIStatusError) as refused:
        await clients[1].messages.create(**asked)
    body: Any = refused.value.body
    assert (refused.value.status_code, body["error"]) == (529, {"type": "overloaded_error", "message": "Overloaded"})


async def test_a_tier_that_queues_refuses_when_its_queue_is_full(
    service: Service, clients: tuple[AsyncOpenAI, AsyncAnthropic], full: None
) -> None:
    async with AsyncExitStack() as waiting:
        for _ in range(NARROW.queue - 1):
            await waiting.enter_async_context(post(service.base_url, "narrow", LONG))
        await until(lambda: depth(service, "narrow", NARROW.queue), "the queue is full")
        with pytest.raises(openai.RateLimitError) as refused:
            await chat(clients[0], "default", model="narrow")
        assert refused.value.code == "rate_limit_exceeded"


async def test_who_grows_too_fast_is_served_as_default_while_the_pool_is_short(
    service: Service, clients: tuple[AsyncOpenAI, AsyncAnthropic]
) -> None:
    eager = clients[0].with_options(api_key="eager")
    assert await generate(eager, 60) == "spark"
    await until(lambda: grown(service), "its use is known")
    assert await generate(eager, 1) == "spark", "with room, growth is no matter"
    async with post(service.base_url, "narrow", LONG) as running:
        await running.pieces(1)
        async with post(service.base_url, "narrow", LONG):
            await until(lambda: depth(service, "narrow", 1), "one waits")
            assert (await chat(eager, "spark"))[0] == "default"
            async with asyncio.timeout(20), asyncio.TaskGroup() as others:
                calm = others.create_task(chat(clients[0].with_options(api_key="calm"), "spark"))
                await until(lambda: depth(service, "narrow", 2), "who does not grow waits for the tier itself")
                calm.cancel()
    await until(lambda: idle(service), "all gauges are zero")


async def test_anthropics_fast_mode_tells_that_growth_is_too_fast(
    service: Service, clients: tuple[AsyncOpenAI, AsyncAnthropic]
) -> None:
    eager = clients[1].with_options(api_key="hasty")
    asked: Any = {"model": "narrow", "messages": MESSAGES, "max_tokens": 8, "extra_body": {"speed": "fast"}}

    refusals: list[anthropic.RateLimitError] = []

    async def refused() -> bool:
        try:
            await eager.messages.create(**asked)
        except anthropic.RateLimitError as error:
            refusals.append(error)
        return bool(refusals)

    await until(refused, "its use has grown, and is known")
    body: Any = refusals[0].body
    assert body["error"]["details"] == {"error_code": "ramp_limit_exceeded"}
    assert int(refusals[0].response.headers["retry-after"]) >= 1
    assert refusals[0].response.headers["x-fastmode-reason"] == "ramp"


async def generate(client: AsyncOpenAI, tokens: int) -> str | None:
    """The tier that has served an answer of so many tokens."""
    answer: ChatCompletion = await client.chat.completions.create(
        model="swift",
        messages=MESSAGES,
        max_tokens=tokens,
        service_tier="spark",  # type: ignore[call-overload]
        extra_body={"ignore_eos": True},
    )
    return answer.service_tier


async def grown(service: Service) -> bool:
    """The gateway has told what was used, and so it has learned it."""
    async with connect(service.stack.redis_url, timeout=5) as redis:
        return [key async for key in redis.scan_iter("fm:{a:*}:growth")] != []
