"""The queue of one pool, in Redis. What it promises:

- A job is handed to one worker at a time: a claim takes a lease and raises the job's epoch. When the lease runs out the
  job can be claimed again, a bounded number of times; the next worker is told how far the last one was.
- A worker that lost its lease cannot end or hand back the job: both compare the epoch.
- The better band first, and who waits gains a band in each `aging` seconds, so that nobody waits for ever; start-time
  fair queueing between tenants within a band, weighted.
- A better band may be claimed into the slots of worse jobs that would make way. Those stay with their worker.
- A cancelled job is never claimed again, whether it was queued or running.
- It holds a bounded number of jobs and of bytes; a job that waited too long is refused, not served late.
- Each job that is billed is entered into the pool's ledger once, by the script that ends it, whatever ended it.
- Nothing polls: an enqueue rings a bell that wakes one idle worker, and so does a renewal that finds what was missed.

Jobs are delivered at least once, since a worker can die between its last event and `finish`. Their events carry epoch
and offset, so that a gateway relays each token once (see service.messages).

The scripts in service/lua hold the policy; this module only names keys and converts values.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import msgspec

from service.connection import Client
from service.errors import Contended, Unavailable
from service.messages import BANDS, Job, decode_job, encode_job

log = logging.getLogger(__name__)

LEDGER_MAX = 1_000_000  # entries that nobody has read yet; beyond them no job is taken

_KEYS = (
    *(f"band:{band}" for band in range(BANDS)),
    *(
        "jobs",
        "places",
        "epochs",
        "attempts",
        "leases",
        "owners",
        "workers",
        "tags",
        "clock",
        "bell",
        "control",
        "bytes",
        "lateness",
        "progress",
        "bills",
        "ledger",
    ),
)


class Verdict(StrEnum):
    RUN = "run"
    LATE = "late"
    POISON = "poison"


@dataclass(frozen=True, slots=True)
class Claim:
    """A job as a worker got it. `queued` is how long it waited since it was submitted, in seconds.

    `progress` are the tokens of each choice that an earlier worker is known to have sent; empty if there is none.
    """

    job: Job
    epoch: int
    queued: float
    verdict: Verdict
    progress: tuple[int, ...] = ()


class Claims(NamedTuple):
    """`held_up`: there is another job, which did not fit."""

    claims: list[Claim]
    held_up: bool


class Holding(NamedTuple):
    """A claim that a worker goes on with, and how far it is: tokens of each choice that it has sent."""

    job: str
    epoch: int
    progress: Collection[int] = ()


class Ending(NamedTuple):
    """How a claim ended: ok, cancelled or failed, and what it used, packed; empty: nothing that is charged."""

    job: str
    epoch: int
    outcome: str = "ok"
    used: bytes = b""


@dataclass(frozen=True, slots=True)
class Lost:
    """A claim that is no longer its worker's to run: nobody wants the job, or it has ended or is another's by now."""

    job: str
    epoch: int
    cancelled: bool


@dataclass(frozen=True, slots=True)
class Control:
    """A word from a gateway about a running job."""

    verb: Literal["cancel", "pause", "resume"]
    job: str


@dataclass(frozen=True, slots=True)
class Alive:
    """Living workers of a pool, and how late the latest of them is with its events (s)."""

    workers: int
    lateness: float


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one pool's queue may hold: jobs, bytes of payload, and seconds of waiting."""

    jobs: int
    bytes: int
    wait: float


class Queue:
    """One pool's queue. Every method is one round trip, and raises Unavailable when Redis does not answer in time."""

    def __init__(self, redis: Client, pool: str) -> None:
        self.pool = pool
        self._redis = redis
        self._keys = [f"fm:{{{pool}}}:{key}" for key in _KEYS]
        self._bell, self._control = self._key("bell"), self._key("control")
        self._scripts = {name: redis.register_script(_source(name)) for name in _SCRIPTS}

    async def enqueue(self, job: Job, bounds: Bounds, bill: bytes = b"") -> int:
        """Make the job visible to workers; returns how many were ahead of it. `bill` is what the ledger is to know.

        Raises Contended when the queue is full and Unavailable when the pool has no living worker.
        """
        wait_ms = max(1, int(bounds.wait * 1000))
        share = repr(job.cost / job.weight)
        verdict, ahead = await self._run(
            "enqueue",
            job.id,
            encode_job(job),
            job.tenant,
            share,
            job.band + 1,
            bounds.jobs,
            bounds.bytes,
            wait_ms,
            job.choices,
            bill,
            LEDGER_MAX,
        )
        if verdict == b"full":
            raise Contended(
                f"The queue of this tier is full ({ahead} requests wait). Please try again in 1s.",
                reason="queue_full",
                retry_after=1,
            )
        if verdict == b"no_workers":
            raise Unavailable(
                "No capacity serves this tier at the moment. Please try again later.",
                reason="no_workers",
                retry_after=5,
            )
        if verdict == b"unbilled":
            raise Unavailable("What is served cannot be billed at the moment.", reason="ledger", retry_after=5)
        return int(ahead)

    async def claim(self, worker: str, free: Sequence[int], lease: float, attempts_max: int, aging: float) -> Claims:
        """Jobs to run, and any number to refuse. `free`: for each band, the slots that its jobs may take, one a choice.

        A waiting job gains one band in `aging` seconds. Requeues jobs whose lease ran out first.
        """
        assert len(free) == BANDS
        aging_ms = max(1, int(aging * 1000))
        held_up, rows = await self._run("claim", worker, int(lease * 1000), attempts_max, aging_ms, *free)
        return Claims([claim for row in rows if (claim := _claim(row)) is not None], bool(held_up))

    async def renew(
        self, worker: str, lease: float, lateness: float, held: Iterable[Holding], *, claiming: bool = True
    ) -> list[Lost]:
        """Keep the leases of all that is held, and note how far it is; returns what the worker has lost.

        A worker that is not `claiming` any more keeps its jobs, and does not count as alive.
        """
        flags = f"{lateness:.6f}", int(claiming)
        lost = await self._run("renew", worker, int(lease * 1000), *flags, *_holdings(held))
        return [Lost(job.decode(), int(epoch), cancelled=bool(cancelled)) for job, epoch, cancelled in lost]

    async def finish(self, ended: Sequence[Ending]) -> int:
        """Forget jobs that have ended; returns how many this claim still owned."""
        return int(await self._run("finish", *(part for ending in ended for part in ending)))

    async def release(self, worker: str, held: Iterable[Holding] = ()) -> int:
        """Hand jobs back to the front of the queue and stop counting as alive."""
        return int(await self._run("release", worker, *_holdings(held)))

    async def cancel(self, job: str) -> Literal["queued", "running", "gone"]:
        """Nobody wants this job any more, wherever it is."""
        where: Literal["queued", "running", "gone"] = (await self._run("cancel", job)).decode()
        return where

    async def tell(self, control: Control) -> None:
        """Send a word to whichever worker runs the job."""
        async with self._redis.answered():
            await self._redis.xadd(self._control, {control.verb: control.job}, maxlen=10_000)

    async def controls(self, blocking: Client, after: str, block: float) -> tuple[list[Control], str]:
        """Words sent after the given id, and the id to continue from; waits up to `block` seconds for the first."""
        async with blocking.answered():
            answer: Any = await blocking.xread({self._control: after}, block=int(block * 1000), count=256)
        if not answer:
            return [], after
        [(_, entries)] = answer
        words = [Control(verb.decode(), job.decode()) for _, fields in entries for verb, job in fields.items()]
        return words, entries[-1][0].decode()

    async def last_control(self) -> str:
        """The id of the newest word, from which a worker that starts now has to listen."""
        async with self._redis.answered():
            newest: Any = await self._redis.xrevrange(self._control, count=1)
        return newest[0][0].decode() if newest else "0-0"

    async def listen(self, blocking: Client, block: float) -> bool:
        """Wait up to `block` seconds for the bell, on a connection of its own; False if it did not ring."""
        async with blocking.answered():
            return await blocking.blpop([self._bell], timeout=block) is not None

    async def depth(self) -> int:
        """How many jobs are queued."""
        async with self._redis.answered(), self._redis.pipeline(transaction=False) as pipe:
            for band in range(BANDS):
                pipe.zcard(self._keys[band])
            return sum(await pipe.execute())

    async def alive(self) -> Alive:
        """The workers that have been heard of within their lease."""
        workers, lateness = await self._run("alive")
        return Alive(int(workers), float(lateness))

    async def _run(self, script: str, *arguments: Any) -> Any:
        async with self._redis.answered():
            return await self._scripts[script](keys=self._keys, args=arguments)

    def _key(self, name: str) -> str:
        return self._keys[_KEYS.index(name)]


def _claim(row: list[Any]) -> Claim | None:
    """None for a job that cannot be read: it stays leased, is tried by others, and is set aside in the end."""
    verdict, epoch, queued_ms, payload, progress = row
    try:
        job = decode_job(payload)
    except msgspec.DecodeError as error:
        log.error("a job of %d bytes cannot be read and is left alone: %s", len(payload), error)
        return None
    sent = tuple(map(int, progress.split()))
    return Claim(job, int(epoch), queued_ms / 1000, Verdict(verdict.decode()), sent)


def _holdings(held: Iterable[Holding]) -> Iterator[str | int]:
    for job, epoch, progress in held:
        yield from (job, epoch, " ".join(map(str, progress)))


_SCRIPTS = ("enqueue", "claim", "renew", "finish", "release", "cancel", "alive")


def _source(name: str) -> str:
    folder = files("service") / "lua"
    return (folder / "prelude.lua").read_text() + (folder / f"{name}.lua").read_text()
