"""Tiers told apart by nothing but their contract rates, on one pool: as official clients see it."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from openai import DefaultHttpxClient, OpenAI
from pools import SWIFT, catalog

from fastmode.up import Service

RATE, BURST = 100, 5
INTAKE = 1000
TOKENS = 60
OFFERS = f"""rate = {{ tokens_per_second = {RATE}, burst = {BURST} }}

[models.swift.offers.fast]
pool = "swift"
reported_as = "priority"
price = {{ input = 10, cached_input = 1, output = 20 }}

[models.swift.offers.spark]
pool = "swift"
reported_as = "spark"
price = {{ input = 10, cached_input = 1, output = 20 }}
intake = {{ tokens_per_second = {INTAKE} }}
"""


@pytest.fixture(scope="module")
def service(module_stack: Callable[..., Service], tmp_path_factory: pytest.TempPathFactory) -> Service:
    """Standard is held to a rate, and fast gets all that the pool gives."""
    pools = catalog(tmp_path_factory.mktemp("rates"), SWIFT)
    pools.write_text(pools.read_text() + OFFERS)
    return module_stack(catalog=pools)


@pytest.fixture
def client(service: Service) -> Iterator[OpenAI]:
    with DefaultHttpxClient(trust_env=False) as http:
        yield OpenAI(base_url=f"{service.base_url}/v1", api_key="any", max_retries=0, http_client=http)


def stream(client: OpenAI, tier: str) -> tuple[str, float]:
    """What is said, and how long it took, from the request to the last token."""
    asked: Any = {
        "model": "swift",
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": TOKENS,
        "service_tier": tier,
        "seed": 7,
        "stream": True,
        "extra_body": {"ignore_eos": True},
    }
    begun = time.monotonic()
    chunks = client.chat.completions.create(**asked)
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    return said, time.monotonic() - begun


def test_a_contract_changes_when_tokens_come_and_nothing_else(client: OpenAI) -> None:
    (held, slow), (free, _) = stream(client, "default"), stream(client, "fast")
    assert held == free
    assert slow >= (TOKENS - BURST) / RATE, "never ahead of the contract"


def test_prompts_go_in_at_the_rate_of_their_tier(client: OpenAI) -> None:
    """Others of the pool do not wait for them."""
    ask = partial(client.chat.completions.create, model="swift", messages=[{"role": "user", "content": "word " * 400}])
    begun = time.monotonic()

    def after(tier: str) -> tuple[int, float]:
        usage = ask(max_tokens=1, service_tier=tier).usage
        assert usage is not None
        return usage.prompt_tokens, time.monotonic() - begun

    with ThreadPoolExecutor() as clients:
        held = [clients.submit(after, "spark") for _ in range(4)]
        free = clients.submit(after, "fast")
        prompts, times = zip(*(each.result() for each in held), strict=True)
        assert max(times) >= sum(prompts[1:]) / INTAKE, "never ahead of the contract"
        assert free.result()[1] < max(times)


def test_an_answer_in_one_piece_is_held_to_it_too(client: OpenAI) -> None:
    begun = time.monotonic()
    hello: Any = [{"role": "user", "content": "Hello"}]
    client.chat.completions.create(model="swift", messages=hello, max_tokens=TOKENS, extra_body={"ignore_eos": True})
    assert time.monotonic() - begun >= (TOKENS - BURST) / RATE
