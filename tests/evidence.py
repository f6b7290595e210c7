"""What a running service shows of itself to those who look: its metrics, its keys in Redis, its processes."""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from pathlib import Path
from typing import Protocol

from calls import fetch
from redis.asyncio import Redis

from fastmode.up import Service


class Served(Protocol):
    """Where a gateway answers."""

    @property
    def base_url(self) -> str: ...


DEADLINE = 10.0  # s; what is waited for here takes a few tens of milliseconds
_POLL = 0.005
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


async def until(true: Callable[[], bool | Awaitable[bool]], what: str, deadline: float = DEADLINE) -> float:
    """Seconds until it was true. Fails with `what` was waited for."""
    begun = time.monotonic()
    while True:
        answer = true()
        if await answer if isawaitable(answer) else answer:
            return time.monotonic() - begun
        assert time.monotonic() - begun < deadline, f"in {deadline:g} s it did not happen: {what}"
        await asyncio.sleep(_POLL)


class Samples:
    """One scrape of /metrics."""

    def __init__(self, exposition: str) -> None:
        self._samples = [
            (name, dict(_LABEL.findall(labels)), float(value)) for name, labels, value in _SAMPLE.findall(exposition)
        ]

    def sum(self, name: str, **labels: str) -> float:
        """Of all series of that name with at least these labels."""
        return sum(v for n, has, v in self._samples if n == name and labels.items() <= has.items())

    def counters(self) -> dict[tuple[str, ...], float]:
        """Every series that may never go back."""
        never_back = ("_total", "_bucket", "_count", "_sum")
        return {
            (name, *(f"{k}={v}" for k, v in sorted(labels.items()))): value
            for name, labels, value in self._samples
            if name.endswith(never_back)
        }


async def scrape(service: Served) -> Samples:
    status, body = await fetch(service.base_url, "/metrics")
    assert status == 200
    return Samples(body.decode())


async def gauges(service: Served) -> tuple[float, float, float]:
    """Requests in flight, sequences running, sequences waiting."""
    samples = await scrape(service)
    return (
        samples.sum("fastmode_requests_in_flight"),
        samples.sum("fastmode_batch_running"),
        samples.sum("fastmode_batch_waiting"),
    )


async def depth(service: Served, pool: str, jobs: int) -> bool:
    """So many jobs wait in the pool."""
    return (await scrape(service)).sum("fastmode_queue_depth", pool=pool) == jobs


async def idle(service: Served) -> bool:
    """Nothing is in flight, as far as the gauges say."""
    return await gauges(service) == (0, 0, 0)


async def leftovers(redis: Redis, pool: str) -> dict[str, object]:
    """What the queue of a pool keeps of jobs; empty when they have all ended."""
    kept: dict[str, object] = {}
    for key in ("band:0", "band:1", "band:2", "jobs", "places", "epochs", "attempts", "leases", "owners", "tags"):
        name = f"fm:{{{pool}}}:{key}"
        if await redis.exists(name):
            kept[key] = await redis.type(name)
    held = int(await redis.get(f"fm:{{{pool}}}:bytes") or 0)
    return {**kept, "bytes": held} if held else kept


async def clean(redis: Redis, *pools: str) -> bool:
    return not any([await leftovers(redis, pool) for pool in pools])


def process(service: Service, name: str) -> int:
    """The process id of a role, behind its guard."""
    guard = service.stack.pids[name]
    (only,) = Path(f"/proc/{guard}/task/{guard}/children").read_text().split()
    return int(only)


def resident(pid: int) -> int:
    """Resident memory in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
