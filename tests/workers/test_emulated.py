"""The emulated backend alone, on a clock that the test sets: what it emits, and when it does not."""

import asyncio
import time
from pathlib import Path

import pytest
from pools import Pool, catalog

from service import metrics, tiers
from service.messages import Delta, Event, Finished, Job
from workers.backends.emulated import Emulated

SWIFT = Pool(name="swift", rate=1000)
PATIENCE = 10.0  # s


class Clock:
    """The real one, which the test can put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def backend(tmp_path: Path, clock: Clock) -> Emulated:
    pool = tiers.load(catalog(tmp_path, SWIFT)).pools["swift"]
    return Emulated(pool, clock, 0.01, metrics.pool_metrics("swift"))


def job(tokens: int, **fields: object) -> Job:
    return Job(
        id="job",
        gateway="g",
        pool="swift",
        model="swift",
        tier="standard",
        max_tokens=tokens,
        context_left=tokens,
        ignore_eos=True,
        **fields,  # type: ignore[arg-type]
    )


async def test_the_engine_stands_still_while_its_events_are_not_taken(backend: Emulated, clock: Clock) -> None:
    """A store that was away for a minute is not flooded with a minute's tokens of all streams."""
    counts: list[int] = []
    told = asyncio.Event()

    async def emit(events: list[Event]) -> None:
        counts.extend(event.count for event in events if isinstance(event, Delta))
        if len(counts) == 3:
            clock.ahead += 60
        if len(counts) > 5:
            told.set()

    backend.submit(job(100_000), epoch=1, queued=0)
    await emitting(backend, emit, told)
    assert sum(counts) < 30_000


async def test_a_job_goes_on_where_its_last_worker_was(backend: Emulated) -> None:
    first = await everything(backend, job(50, choices=2), ())
    later = await everything(backend, job(50, choices=2), (20, 50))
    assert text(later, 0, 20) == text(first, 0, 0)[20:]
    assert text(later, 1, 50) == []
    assert [event.finish for event in later if isinstance(event, Delta) and event.choice == 1] == ["length"]
    assert later[-1] == first[-1]


async def test_a_job_of_which_all_was_sent_only_has_to_be_ended(backend: Emulated) -> None:
    events = await everything(backend, job(5), (5,))
    assert isinstance(events[-1], Finished)
    assert events[-1].usage.completion == 5
    assert sum(event.count for event in events if isinstance(event, Delta)) == 0


async def test_what_may_not_have_arrived_does_not_count_as_sent(backend: Emulated) -> None:
    sent: list[int] = []
    told = asyncio.Event()

    async def emit(events: list[Event]) -> None:
        before = sum(sent)
        for event in events:
            if isinstance(event, Delta):
                assert list(backend.progress()["job"]) == [before]
                sent.append(event.count)
        if sum(sent) > 50:
            told.set()

    backend.submit(job(100_000), epoch=1, queued=0)
    await emitting(backend, emit, told)


async def emitting(backend: Emulated, emit: object, until: asyncio.Event) -> None:
    running = asyncio.create_task(backend.run(emit))  # type: ignore[arg-type]
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait({running, asyncio.create_task(until.wait())}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    running.cancel()


async def everything(backend: Emulated, asked: Job, progress: tuple[int, ...]) -> list[Event]:
    """All events of a job, up to the one that ends it."""
    events: list[Event] = []
    told = asyncio.Event()

    async def emit(come: list[Event]) -> None:
        events.extend(come)
        if isinstance(come[-1], Finished):
            told.set()

    backend.submit(asked, epoch=1, queued=0, progress=progress)
    await emitting(backend, emit, told)
    return events


def text(events: list[Event], choice: int, start: int) -> list[bytes]:
    """The pieces of a choice, whose first token has to be number `start`."""
    pieces: list[bytes] = []
    for event in events:
        if isinstance(event, Delta) and event.choice == choice and event.count:
            assert event.offset == start + len(pieces)
            pieces += event.text.split(b"\n")
    return pieces
