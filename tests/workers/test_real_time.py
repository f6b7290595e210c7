"""The emulator in real time and the engine in virtual time do the same with one workload."""

import asyncio
import time
from dataclasses import dataclass, replace
from random import Random
from statistics import mean

import pytest

from service import metrics
from service.messages import Delta, Event, Finished, Job
from service.tiers import load
from workers.backends.emulated import Emulated, seed_of
from workers.engine import Sequence
from workers.replicas import Replicas

# Batches that fill and empty, prompts that take several steps. No front end: its draws are a setting, not the engine's.
POOL = replace(load().pools["fast"], replicas=2, frontend_median=0.0)
REQUESTS = 80
RATE = 16.0  # requests per second


@dataclass(frozen=True, slots=True)
class Timed:
    """One request: when it came, when its first and last tokens were out (s)."""

    arrival: float
    first: float
    last: float
    tokens: int

    @property
    def ttft(self) -> float:
        return self.first - self.arrival

    @property
    def tpot(self) -> float:
        return (self.last - self.first) / (self.tokens - 1)


def job(number: int, random: Random) -> Job:
    tokens = random.randint(50, 250)
    return Job(
        id=str(number),
        gateway="g",
        pool="fast",
        model="m",
        tier="fast",
        prompt_tokens=random.randint(500, 12_000),
        max_tokens=tokens,
        context_left=tokens,
    )


async def in_real_time(jobs: list[Job]) -> tuple[dict[str, Timed], float]:
    """What a gateway would see, and how late the emulator says it was in the mean."""
    backend = Emulated(POOL, time.monotonic, 0.01, metrics.pool_metrics("fast"))
    arrivals: dict[str, float] = {}
    seen: dict[str, Timed] = {}
    ended = asyncio.Event()

    async def emit(events: list[Event]) -> None:
        now = time.monotonic()
        for event in events:
            if isinstance(event, Delta):
                before = seen.get(event.job, Timed(arrivals[event.job], now, now, 0))
                seen[event.job] = replace(before, last=now, tokens=before.tokens + event.count)
            elif isinstance(event, Finished):
                arrivals.pop(event.job)
                if not arrivals and len(seen) == len(jobs):
                    ended.set()

    running = asyncio.create_task(backend.run(emit))
    random = Random(7)
    for each in jobs:
        arrivals[each.id] = time.monotonic()
        backend.submit(each, epoch=1, queued=0.0)
        await asyncio.sleep(random.expovariate(RATE))
    async with asyncio.timeout(60):
        await ended.wait()
    running.cancel()
    return seen, backend.lateness


def in_virtual_time(jobs: list[Job], arrivals: dict[str, float]) -> dict[str, Timed]:
    replicas = Replicas(POOL, start=min(arrivals.values()))
    ended: dict[str, Timed] = {}

    def note(until: float) -> None:
        for ending in replicas.endings(until):
            ended[ending.id] = Timed(arrivals[ending.id], ending.first, ending.last, ending.tokens)

    for each in jobs:
        note(arrivals[each.id])
        assert each.max_tokens is not None
        seed = seed_of(f"{each.id}/0")
        replicas.add(Sequence(each.id, arrivals[each.id], each.prompt_tokens, each.max_tokens, seed=seed))
    while (event := replicas.next_event()) is not None:
        note(event)
    return ended


async def test_real_and_virtual_time_agree_on_mean_ttft_and_tpot_within_one_per_cent() -> None:
    """Beyond the lateness that the emulator itself reports: a busy machine must not be taken for a wrong engine."""
    random = Random(1)
    jobs = [job(number, random) for number in range(REQUESTS)]
    real, late = await in_real_time(jobs)
    virtual = in_virtual_time(jobs, {name: timed.arrival for name, timed in real.items()})
    assert len(real) == len(virtual) == REQUESTS
    ttft = [mean(timed.ttft for timed in run.values()) for run in (real, virtual)]
    tpot = [mean(timed.tpot for timed in run.values()) for run in (real, virtual)]
    print(f"TTFT {ttft[0] * 1e3:.2f} and {ttft[1] * 1e3:.2f} ms, TPOT {tpot[0] * 1e3:.4f} and {tpot[1] * 1e3:.4f} ms")
    print(f"lateness {late * 1e3:.2f} ms")
    assert ttft[0] - late == pytest.approx(ttft[1], rel=0.01)
    assert tpot[0] == pytest.approx(tpot[1], rel=0.01)
