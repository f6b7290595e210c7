"""What is left behind when sixteen clients leave in the middle of long streams: how soon nothing, for whom comes next.

On the shipped fast pool, and on one of eight slots without a front end, where the sixteen hold every slot and half of
them wait: there the next request is only served at once if all of that has been released.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import uvloop

from loadtests.bench import stand
from loadtests.bench.report import Aim, Figure, Sheet
from loadtests.client import Address, Connection, Wrong, chat, check, clock, get
from service import tiers
from service.metrics import BATCH_RUNNING, BATCH_WAITING, IN_FLIGHT, QUEUE_DEPTH
from service.pools import Pool

STREAMS = 16
_TOKENS = 50_000
_ROUNDS = 15
_DEADLINE = 5.0  # s until every slot is taken, and until the gauges are at zero
_POLL = 0.002
_GAUGES = (IN_FLIGHT, BATCH_RUNNING, BATCH_WAITING, QUEUE_DEPTH)
_SAMPLE = re.compile(rf"^(?:{'|'.join(gauge.name for gauge in _GAUGES)})(?:{{.*}})? (\S+)$".encode(), re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Round:
    """Seconds. `zero` runs from the abort to the end of the first scrape that shows nothing, `scrape` is its part."""

    idle: float
    zero: float
    scrape: float
    after: float
    at_once: float


def run() -> Iterator[Sheet]:
    for path, model in ((None, "gpt-5.3-codex"), (stand.KNOWN_RATES, "test-tiers")):
        yield _sheet(path, model, "fast")


def _sheet(path: Path | None, model: str, tier: str) -> Sheet:
    pool = tiers.load(path).models[model].offers[tier].pool
    with stand.service(path, [pool]) as service:
        crowd = _Crowd(service.address, service.catalog.pools[pool], chat(model, _TOKENS, service_tier=tier))
        rounds = uvloop.run(_rounds(crowd, chat(model, 1, service_tier=tier)))

    def middle(of: Callable[[_Round], float]) -> float:
        return median(map(of, rounds)) * 1e3

    figures = [
        Figure("abort to gauges at zero, median", middle(lambda each: each.zero), "ms", Aim("<=", 50)),
        Figure("abort to gauges at zero, longest", max(each.zero for each in rounds) * 1e3, "ms"),
        Figure("the scrape that shows it, median", middle(lambda each: each.scrape), "ms"),
        Figure("TTFT of an idle pool, median", middle(lambda each: each.idle), "ms"),
        Figure("TTFT once the gauges are at zero, median", middle(lambda each: each.after), "ms"),
        Figure("TTFT of a request sent with the abort, median", middle(lambda each: each.at_once), "ms"),
    ]
    setting = (
        f"{_ROUNDS} rounds: {STREAMS} streams of {model} at {tier}, {crowd.seated} of them in the batch, connections"
        f" aborted at once; gauges: {', '.join(gauge.name for gauge in _GAUGES)}, scraped without pause"
    )
    if crowd.pool.frontend_sigma:
        setting += f"; the front end draws {crowd.pool.frontend_median * 1e3:g} ms in the median, lognormal"
    return Sheet("abort", f"{STREAMS} streams aborted: {model}, {tier}", setting, figures)


class _Crowd:
    """Sixteen clients with long streams, as many of them in the batch as the pool seats."""

    def __init__(self, address: Address, pool: Pool, request: bytes) -> None:
        self.address = address
        self.pool = pool
        self.seated = min(STREAMS, pool.replicas * pool.slots)
        self._request = request

    async def come_and_go(self) -> float:
        """Returns when they left (s, the client's clock), which is now. Raises Wrong when they are not served."""
        connections = [await Connection.connect(self.address) for _ in range(STREAMS)]
        asking = [asyncio.create_task(connection.ask(self._request)) for connection in connections]
        deadline = clock() + _DEADLINE
        while sum(connection.response.content > 0 for connection in connections) < self.seated:
            if clock() > deadline:
                raise Wrong(f"fewer than {self.seated} streams run after {_DEADLINE:g} s")
            await asyncio.sleep(_POLL)
        for connection in connections:
            connection.abort()
        left = clock()
        await asyncio.gather(*asking, return_exceptions=True)
        return left


async def _rounds(crowd: _Crowd, single: bytes) -> list[_Round]:
    connection = await Connection.connect(crowd.address)
    await _ttft(connection, single)
    rounds = [await _round(crowd, connection, single) for _ in range(_ROUNDS)]
    connection.close()
    return rounds


async def _round(crowd: _Crowd, connection: Connection, single: bytes) -> _Round:
    idle = await _ttft(connection, single)
    zero, scrape = await _until_zero(connection, await crowd.come_and_go())
    after = await _ttft(connection, single)
    await crowd.come_and_go()
    at_once = await _ttft(connection, single)
    await _until_zero(connection, clock())
    return _Round(idle, zero, scrape, after, at_once)


async def _ttft(connection: Connection, request: bytes) -> float:
    timing = await connection.ask(request)
    check(timing, 1)
    return timing.ttft


async def _until_zero(connection: Connection, since: float) -> tuple[float, float]:
    """Seconds until a scrape has shown all gauges at zero, and what that scrape took. Raises Wrong."""
    while clock() < since + _DEADLINE:
        scrape = await connection.ask(get("/metrics"))
        values = [float(value) for value in _SAMPLE.findall(scrape.response.body)]
        if len(values) < len(_GAUGES):
            raise Wrong("gauges are missing in /metrics")
        if not any(values):
            return clock() - since, scrape.duration
    raise Wrong(f"gauges are not at zero {_DEADLINE:g} s after the abort")
