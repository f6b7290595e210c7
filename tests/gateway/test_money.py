"""Every nano-dollar: ledger, metrics and budgets say the same whatever becomes of requests, and nothing stays reserved.

`MIXED` in the environment says how many requests; `make money` asks for ten thousand.
"""

import asyncio
import os
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import quick
from anthropic import APIError as AnthropicError
from anthropic import AsyncAnthropic
from anthropic import DefaultAsyncHttpxClient as AnthropicHttp
from evidence import scrape, until
from openai import APIError, AsyncOpenAI, DefaultAsyncHttpxClient
from redis.asyncio import Redis

from fastmode.up import Service
from service import pricing, profiles, tiers
from service.connection import connect
from service.messages import Usage

REQUESTS = int(os.environ.get("MIXED", "200"))
AT_ONCE = 40
SETTLED = 30.0 + REQUESTS / 100  # s
CATALOG = profiles.load("2026-11", tiers.load()).catalog
OPENAI_TIERS = {None: "standard", "priority": "fast", "flex": "flex"}
STREAMED = "gpt-5.3-codex"  # nobody is told what these answers used
FAULTS = ["cut@5", "status=500", "status=429", "error@3", "slow=0.01", "stall=0.01@3"]
LONG = " ".join(f"and {number}" for number in range(1500))  # enough to be kept in a cache


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def service(stack: Callable[..., Service], tmp_path: Path, book: Path) -> Service:
    return stack(catalog=quick.catalog(tmp_path), gateways=2, FASTMODE_LEDGER=str(book), **quick.SETTINGS)


class Clients:
    """Official clients with the key of one account, and what the answers to them should have cost."""

    def __init__(self, service: Service, key: str, dice: random.Random) -> None:
        self._dice = dice
        self._openai = AsyncOpenAI(
            base_url=f"{service.base_url}/v1",
            api_key=key,
            max_retries=0,
            http_client=DefaultAsyncHttpxClient(trust_env=False),
        )
        self._anthropic = AsyncAnthropic(
            base_url=service.base_url, api_key=key, max_retries=0, http_client=AnthropicHttp(trust_env=False)
        )
        self.cost = 0
        self.downgraded = 0
        self.outcomes: Counter[str] = Counter()

    async def ask(self) -> None:
        one = self._dice.choice([self._chat, self._chat, self._message, self._left, self._faulty, self._wrong])
        try:
            await one()
        except (APIError, AnthropicError, httpx.HTTPError) as error:
            self.outcomes[f"{one.__name__} {type(error).__name__}"] += 1
        else:
            self.outcomes[one.__name__] += 1

    async def close(self) -> None:
        await self._openai.close()
        await self._anthropic.close()

    async def _chat(self) -> None:
        dice = self._dice
        model, word = dice.choice(["gpt-5.4", "gpt-5.6-luna"]), dice.choice([*OPENAI_TIERS])
        asked: dict[str, Any] = {"model": model, "messages": self._said(), "max_tokens": dice.randint(1, 50)}
        asked |= {"service_tier": word} if word is not None else {}
        answer = await self._openai.chat.completions.create(**asked)
        used, details = answer.usage, answer.usage.prompt_tokens_details
        usage = Usage(
            prompt=used.prompt_tokens,
            cached=details.cached_tokens,
            written=details.cache_write_tokens or 0,
            completion=used.completion_tokens,
        )
        offers = CATALOG.models[model].offers.values()  # who grows fast may be served as default, and says so
        served = next(offer for offer in offers if offer.reported_as == answer.service_tier)
        self.downgraded += served.tier != OPENAI_TIERS[word]
        self.cost += pricing.cost(served.price, usage)

    async def _message(self) -> None:
        speed = self._dice.choice([{}, {"speed": "fast"}])
        ttl = self._dice.choice(["5m", "1h"])
        content = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral", "ttl": ttl}}]
        said: Any = [{"role": "user", "content": content if self._dice.random() < 0.5 else "Hello"}]
        tokens = self._dice.randint(1, 50)
        answer = await self._anthropic.messages.create(
            model="claude-opus-5-5", messages=said, max_tokens=tokens, extra_body=speed
        )
        used = answer.usage
        written = used.cache_creation_input_tokens or 0
        cached = used.cache_read_input_tokens or 0
        usage = Usage(
            prompt=used.input_tokens + written + cached,
            cached=cached,
            written=written,
            written_long=used.cache_creation.ephemeral_1h_input_tokens if used.cache_creation else 0,
            completion=used.output_tokens,
        )
        offer = CATALOG.models["claude-opus-5-5"].offers["fast" if speed else "standard"]
        self.cost += pricing.cost(offer.price, usage)

    async def _left(self) -> None:
        asked: dict[str, Any] = {"model": STREAMED, "messages": self._said(), "max_tokens": 20_000, "stream": True}
        stream = await self._openai.chat.completions.create(**asked, extra_body={"ignore_eos": True})
        async with stream:
            for _ in range(self._dice.randint(0, 5)):
                await anext(aiter(stream))

    async def _faulty(self) -> None:
        header = {"x-fastmode-fault": self._dice.choice(FAULTS)}
        asked: dict[str, Any] = {"model": STREAMED, "messages": self._said(), "max_tokens": 30, "stream": True}
        async for _ in await self._openai.chat.completions.create(**asked, extra_headers=header):
            pass

    async def _wrong(self) -> None:
        await self._openai.chat.completions.create(model="gpt-5.4", messages=self._said(), max_tokens=-1)

    def _said(self) -> Any:
        return [{"role": "user", "content": self._dice.choice(["Hello", LONG])}]


async def test_ledger_metrics_and_budgets_agree_to_the_nano_dollar(service: Service, book: Path) -> None:
    dice = random.Random(20_261_201)
    async with httpx.AsyncClient(base_url=service.base_url, trust_env=False) as http:
        made = [
            (await http.post("/admin/keys", json={"name": name, "period": "total", **fields})).json()
            for name, fields in (
                ("rich", {"budget": 10**15}),
                ("poor", {"budget": 3_000_000}),
                ("slow", {"plan": "build", "budget": 10**15, "requests": 60}),
            )
        ]
    everybody = [Clients(service, key["key"], dice) for key in made]
    room = asyncio.Semaphore(AT_ONCE)

    async def ask() -> None:
        async with room:
            await dice.choices(everybody, [6, 1, 1])[0].ask()

    await asyncio.gather(*(ask() for _ in range(REQUESTS)))
    for clients in everybody:
        await clients.close()
    redis = connect(service.stack.redis_url, timeout=5)
    await until(lambda: _settled(service, redis), "nothing is in flight, and all is in the ledger", SETTLED)
    rows = _rows(book)
    outcomes = sum((clients.outcomes for clients in everybody), Counter())
    print(outcomes, sum(clients.downgraded for clients in everybody), "downgraded,", len(rows), "entries")

    recomputed = sum(_recomputed(row) for row in rows)
    assert sum(row["cost"] for row in rows) == recomputed
    assert (await scrape(service)).sum("fastmode_cost_nanodollars_total") == recomputed
    answered = sum(row["cost"] for row in rows if row["outcome"] == "ok" and row["model"] != STREAMED)
    assert answered == sum(clients.cost for clients in everybody), "what clients were told is what they were charged"
    for key, clients in zip(made, everybody, strict=True):
        spent: Any = await redis.hgetall(f"fm:{{a:{key['id']}}}:spend")
        own = sum(row["cost"] for row in rows if row["account"] == key["id"])
        assert {name.decode(): int(text) for name, text in spent.items()} == {"reserved": 0, "total": own}
        assert not await redis.exists(f"fm:{{a:{key['id']}}}:holds", f"fm:{{a:{key['id']}}}:expiries")
        assert clients.outcomes
    await redis.aclose()


async def _settled(service: Service, redis: "Redis") -> bool:
    in_flight = (await scrape(service)).sum("fastmode_requests_in_flight")
    left = [await redis.xlen(key) async for key in redis.scan_iter("fm:*:ledger")]
    left += [await redis.hlen(key) async for key in redis.scan_iter("fm:*:bills")]
    left += [await redis.hlen(key) async for key in redis.scan_iter("fm:*:holds")]
    return in_flight == 0 and not any(left)


def _rows(path: Path) -> list[sqlite3.Row]:
    with closing(sqlite3.connect(path)) as book:
        book.row_factory = sqlite3.Row
        return book.execute("SELECT * FROM entries").fetchall()


def _recomputed(row: sqlite3.Row) -> int:
    price = CATALOG.models[row["model"]].offers[row["tier"]].price.of(row["prompt"])
    fresh = row["prompt"] - row["cached"] - row["written"]
    parts = fresh * price.input + row["cached"] * price.cached_input + row["completion"] * price.output
    assert row["cost"] == row["cost_input"] + row["cost_cached"] + row["cost_written"] + row["cost_output"]
    return int(parts + row["cost_written"])
