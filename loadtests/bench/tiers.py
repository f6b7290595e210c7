"""Does each get what he was sold when all want more than there is? Tiers beside each other, accounts, bands, contracts.

Every load is closed: so many clients that ask again as soon as they have their answer. Waits are those that the service
tells with its debug headers.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, quantiles
from typing import Any

import orjson
import uvloop

from loadtests.bench import stand
from loadtests.bench.report import Aim, Figure, Sheet
from loadtests.client import Address, Connection, Timing, Wrong, chat, check, clock, post

CATALOG = Path(__file__).with_name("tiers.toml")
MODEL = "gpt-5.3-codex"  # sold at standard and fast, each from a pool of its own
CROWD = {"fast": 64, "standard": 16, "flex": 4}  # clients that want the same slots, the better band first
_DEBUG = {"x-fastmode-debug": "1"}
_WAIT = b"x-fastmode-queue-wait-ms"
_RATES = {"standard": 65, "fast": 170, "ultrafast": 500, "spark": 900}  # as in the catalog, with a burst of _BURST
_BURST = 8
_INTAKE, _INTAKE_BURST = 2000, 100


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of it: seconds of each load, clients of the flood, and how often a fast request comes (s)."""

    seconds: float = 40.0
    flood: int = 200
    every: float = 1.0


@dataclass(slots=True)
class Served:
    """What came of some clients' requests."""

    answers: int = 0
    tokens: int = 0
    waits: list[float] = field(default_factory=list)  # ms
    refused: int = 0


def run(scale: Scale = Scale()) -> Iterator[Sheet]:
    with stand.service(None, [offer.pool for offer in stand.sold(None, MODEL, "standard", "fast")]) as service:
        yield uvloop.run(_flood(service, scale))
    with stand.service(CATALOG) as service:
        yield uvloop.run(_accounts(service, scale))
        yield uvloop.run(_bands(service, scale))
        yield uvloop.run(_contracts(service, scale))


async def _flood(service: stand.Service, scale: Scale) -> Sheet:
    """One fast request after the other in equal times, without and with a flood of standard ones."""
    fast, usual = chat(MODEL, 300, service_tier="fast", headers=_DEBUG), chat(MODEL, 100, service_tier="default")
    await _at_times(service.address, fast, 4, 0.0)  # the first requests of a process find nothing warm
    alone = await _at_times(service.address, fast, 6, 0.0)
    flooding = Served()
    async with _clients(service.address, usual, scale.flood, flooding):
        await asyncio.sleep(min(3.0, scale.seconds / 4))  # until the flood has filled its pool
        flooded = await _at_times(service.address, fast, max(6, round(scale.seconds / scale.every)), scale.every)
    waits = sorted(_wait(timing) for timing in flooded)
    rate, lone = (mean(timing.rate for timing in timings) for timings in (flooded, alone))
    pool = service.catalog.pools[service.catalog.models[MODEL].offers["fast"].pool]
    figures = [
        Figure("fast alone", lone, "tok/s"),
        Figure("fast beside the flood", rate, "tok/s"),
        Figure("off by", abs(rate / lone - 1) * 100, "%", Aim("<=", 2)),
        Figure("queue wait of fast, p50", waits[len(waits) // 2], "ms"),
        Figure("queue wait of fast, p99", _p99(waits), "ms", Aim("<=", pool.queue_wait_max * 1000)),
        Figure("the flood's answers", flooding.answers, ""),
        Figure("the flood's refusals", flooding.refused, ""),
    ]
    setting = (
        f"shipped catalog, {MODEL}; {scale.flood} clients want 100 tokens at standard, while a request for 300 tokens"
        f" at fast comes every {scale.every:g} s, {len(flooded)} times; the aim of the wait is the pool's wait_max_s"
    )
    return Sheet("tiers", "A flood of standard and some fast requests", setting, figures)


async def _accounts(service: stand.Service, scale: Scale) -> Sheet:
    """Ten times the clients of another account get what their account is entitled to."""
    figures: list[Figure] = []
    for weights in ((1.0, 1.0), (1.0, 0.5)):
        keys = [await _key(service.address, weight) for weight in weights]
        counts = [Served(), Served()]
        requests = [chat("crowded", 100, headers={"authorization": f"Bearer {key}"}) for key in keys]
        async with AsyncExitStack() as stack:
            for request, clients, count in zip(requests, (80, 8), counts, strict=True):
                await stack.enter_async_context(_clients(service.address, request, clients, count))
            await asyncio.sleep(min(3.0, scale.seconds / 4))
            before = [count.tokens for count in counts]
            await asyncio.sleep(scale.seconds / 2)
            got = [count.tokens - was for count, was in zip(counts, before, strict=True)]
        shares = [tokens / weight for tokens, weight in zip(got, weights, strict=True)]
        fair = sum(shares) ** 2 / (2 * sum(share**2 for share in shares))
        of = ":".join(f"{weight:g}" for weight in weights)
        figures += [
            Figure(f"weights {of}: tokens of 80 clients", got[0], ""),
            Figure(f"weights {of}: tokens of 8 clients", got[1], ""),
            Figure(f"weights {of}: shares off by", abs(shares[0] / shares[1] - 1) * 100, "%", Aim("<=", 10)),
            Figure(f"weights {of}: Jain's index", fair, "", Aim(">=", 0.98)),
        ]
    setting = "two accounts, with 80 and with 8 clients, want 100 tokens from a pool with 8 slots, again and again"
    return Sheet("tiers", "Two accounts in one tier", setting, figures)


async def _bands(service: stand.Service, scale: Scale) -> Sheet:
    """Who is served first, and that the others are served."""
    key = {"authorization": f"Bearer {await _key(service.address, 1.0)}"}
    counts = {tier: Served() for tier in CROWD}
    async with AsyncExitStack() as stack:
        for tier, clients in CROWD.items():
            request = chat("crowded", 100, service_tier=tier, headers={**_DEBUG, **key})
            await stack.enter_async_context(_clients(service.address, request, clients, counts[tier]))
        await asyncio.sleep(scale.seconds / 2)
    aging = service.catalog.pools["narrow"].aging
    figures = []
    for band, (tier, count) in enumerate(counts.items()):
        bound = max(counts["fast"].waits, default=0.0) + band * aging * 1000
        aim = Aim("<=", round(bound + 500)) if band else None
        figures += [
            Figure(f"{tier}, {CROWD[tier]} clients: answers", count.answers, ""),
            Figure(f"{tier}: longest queue wait", max(count.waits, default=0.0), "ms", aim),
        ]
    setting = f"one pool with 8 slots, a band is worth {aging:g} s; the aims are fast's longest wait and that"
    return Sheet("tiers", "Three bands of one pool", setting, figures)


async def _contracts(service: stand.Service, scale: Scale) -> Sheet:
    """Streams and prompts at the rates that their offers state."""
    key = {"authorization": f"Bearer {await _key(service.address, 1.0)}"}
    seconds = min(5.0, scale.seconds / 4)
    figures = []
    for tier, rate in _RATES.items():
        tokens = round(rate * seconds)
        (timing,) = await _at_times(service.address, chat("held", tokens, service_tier=tier, headers=key), 1, 0.0)
        check(timing, tokens)
        assert timing.response.first is not None
        assert timing.response.last is not None
        got = (tokens - _BURST) / (timing.response.last - timing.response.first)
        figures.append(Figure(f"{rate} tok/s: off by", abs(got / rate - 1) * 100, "%", Aim("<=", 1)))
    number = max(4, round(seconds * 4))
    request = chat("held", 1, service_tier="flex", headers=key, prompt="word " * 500)
    begun = clock()
    timings = await _at_times(service.address, request, number, 0.0, side_by_side=True)
    prompt = _prompt_tokens(timings[0])
    took = max(timing.response.first or 0.0 for timing in timings) - begun
    got = ((number - 1) * prompt - _INTAKE_BURST) / took
    figures.append(Figure(f"{_INTAKE} prompt tok/s: off by", abs(got / _INTAKE - 1) * 100, "%", Aim("<=", 1)))
    setting = f"one pool at 1,000 tok/s; streams of {seconds:g} s one after the other, then {number} prompts at once"
    return Sheet("tiers", "Speeds by contract on one shared engine", setting, figures)


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _clients(address: Address, request: bytes, number: int, served: Served) -> AsyncIterator[None]:
    """So many ask again and again meanwhile; who is refused waits a second."""

    async def ask(connection: Connection) -> None:
        while True:
            timing = await connection.ask(request)
            if timing.response.status == 200:
                served.answers += 1
                served.tokens += timing.response.content
                served.waits.append(_wait(timing))
            else:
                served.refused += 1
                await asyncio.sleep(1)

    async with AsyncExitStack() as stack:
        connections = [await Connection.connect(address) for _ in range(number)]
        asking = [asyncio.create_task(ask(connection)) for connection in connections]
        stack.push_async_callback(_ended, asking)
        for task, connection in zip(asking, connections, strict=True):
            stack.callback(task.cancel)
            stack.callback(connection.abort)
        yield


async def _at_times(
    address: Address, request: bytes, number: int, every: float, *, side_by_side: bool = False
) -> Sequence[Timing]:
    """So many requests, each on a connection of its own: one `every` so many seconds, or one after the other."""
    connections = [await Connection.connect(address) for _ in range(number)]
    try:
        if every or side_by_side:
            starts = [clock() + each * every for each in range(number)]
            asked = [_later(start, each, request) for start, each in zip(starts, connections, strict=True)]
            timings = await asyncio.gather(*asked)
        else:
            timings = [await connection.ask(request) for connection in connections]
    finally:
        for connection in connections:
            connection.close()
    for timing in timings:
        if timing.response.status != 200:
            raise Wrong(f"status {timing.response.status}: {timing.response.body[:300].decode(errors='replace')}")
    return timings


async def _later(start: float, connection: Connection, request: bytes) -> Timing:
    await asyncio.sleep(max(0.0, start - clock()))
    return await connection.ask(request)


async def _key(address: Address, weight: float) -> str:
    """Of a new account."""
    connection = await Connection.connect(address)
    try:
        made = await connection.ask(post("/admin/keys", {"name": "bench", "weight": weight}))
    finally:
        connection.close()
    body: Mapping[str, Any] = orjson.loads(made.response.body)
    if made.response.status != 201:
        raise Wrong(f"no key was made: {body}")
    return str(body["key"])


def _wait(timing: Timing) -> float:
    return float(timing.response.headers.get(_WAIT, b"0"))


def _prompt_tokens(timing: Timing) -> int:
    usage = timing.response.ending().usage
    assert usage is not None
    return usage.prompt_tokens


def _p99(ordered: Sequence[float]) -> float:
    return quantiles(ordered, n=100, method="inclusive")[-1]
