"""The ledger: whatever ends a job, there is one entry for it, with what it used, in Redis and then in the book."""

import asyncio
import csv
import io
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service import ledger
from service.book import BY, Book, as_csv
from service.connection import Client, connect
from service.entries import Bill, Entry
from service.ledger import Ledger
from service.limits import Limits
from service.messages import BANDS, Job, Usage, encode_usage
from service.prices import Price
from service.queue import Bounds, Claim, Ending, Holding, Queue
from service.rooms import Way

PRICE = Price(1000, 100, 2000, 1250, 2000)
ROOM = Bounds(jobs=100, bytes=1_000_000, wait=60)
USED = Usage(prompt=10, cached=4, written=2, written_long=1, completion=5, reasoning=1)


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Client]:
    client = connect(redis_url, 5)
    yield client
    await client.aclose()


@pytest.fixture
def queue(redis: Client) -> Queue:
    return Queue(redis, f"pool-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path / "ledger.sqlite")


def bill(job: str, account: str = "a", day: int = 0, held: bool = False) -> Bill:
    return Bill(
        job=job,
        at=1_796_000_000 + 86_400 * day,
        account=account,
        model="m",
        requested="auto",
        tier="standard",
        prompt=10,
        price=PRICE,
        held=held,
    )


async def enqueue(queue: Queue, name: str, wait: float = 60) -> None:
    job = Job(id=name, gateway="g", pool=queue.pool, model="m", tier="standard", prompt_tokens=10)
    await queue.enqueue(job, Bounds(100, 1_000_000, wait), ledger.encode(bill(name)))


async def claim(queue: Queue, worker: str = "w", lease: float = 60, attempts: int = 3) -> list[Claim]:
    return (await queue.claim(worker, [10] * BANDS, lease, attempts, aging=30)).claims


async def entries(redis: Client, queue: Queue) -> dict[str, tuple[str, Usage]]:
    told: Any = await redis.xrange(f"fm:{{{queue.pool}}}:ledger")
    found = [ledger.entry_of(fields) for _, fields in told]
    assert len({entry.bill.job for entry in found}) == len(found)
    return {entry.bill.job: (entry.outcome, entry.usage) for entry in found}


async def test_every_end_of_a_job_is_one_entry(redis: Client, queue: Queue) -> None:
    await claim(queue)  # the pool lives
    for name in ("finished", "cancelled early", "cancelled late", "stopped", "late"):
        await enqueue(queue, name, wait=0.001 if name == "late" else 60)
    await queue.cancel("cancelled early")
    await asyncio.sleep(0.01)  # until it is late
    claims = {each.job.id: each for each in await claim(queue)}
    assert claims.keys() == {"finished", "cancelled late", "stopped", "late"}
    await queue.cancel("cancelled late")
    for _ in range(2):  # a word that is repeated changes nothing
        ends = [("finished", "ok", USED), ("cancelled late", "cancelled", USED), ("stopped", "failed", None)]
        await queue.finish(
            [Ending(job, claims[job].epoch, how, encode_usage(used) if used else b"") for job, how, used in ends]
        )
    nothing = Usage(prompt=0)
    assert await entries(redis, queue) == {
        "finished": ("ok", USED),
        "cancelled late": ("cancelled", USED),
        "cancelled early": ("cancelled", nothing),
        "stopped": ("failed", nothing),
        "late": ("rejected", nothing),
    }


async def test_a_job_that_is_lost_and_unwanted_pays_for_what_was_sent(redis: Client, queue: Queue) -> None:
    await claim(queue)
    await enqueue(queue, "lost")
    (lost,) = await claim(queue, "dies", lease=0.05)
    await queue.renew("dies", 0.05, 0.0, [Holding("lost", lost.epoch, (3, 4))])
    await queue.cancel("lost")
    await asyncio.sleep(0.06)  # until its lease is over
    assert await claim(queue, "another") == []
    assert await entries(redis, queue) == {"lost": ("cancelled", Usage(prompt=10, completion=7))}


async def test_a_job_that_kills_its_workers_costs_nothing(redis: Client, queue: Queue) -> None:
    await claim(queue)
    await enqueue(queue, "poison")
    await claim(queue, "dies", lease=0.02, attempts=1)
    await asyncio.sleep(0.03)  # until its lease is over
    await claim(queue, "another", attempts=1)
    assert await entries(redis, queue) == {"poison": ("failed", Usage(prompt=0))}


async def test_a_job_that_is_handed_back_is_entered_when_it_ends(redis: Client, queue: Queue) -> None:
    await claim(queue)
    await enqueue(queue, "twice")
    (first,) = await claim(queue, "first")
    await queue.release("first", [Holding("twice", first.epoch)])
    (second,) = await claim(queue, "second")
    await queue.finish([Ending("twice", first.epoch, "ok", encode_usage(USED))])
    assert await entries(redis, queue) == {}
    await queue.finish([Ending("twice", second.epoch, "ok", encode_usage(USED))])
    assert await entries(redis, queue) == {"twice": ("ok", USED)}


async def test_who_is_not_billed_is_not_entered(redis: Client, queue: Queue) -> None:
    await claim(queue)
    await queue.enqueue(Job(id="free", gateway="g", pool=queue.pool, model="m", tier="t"), ROOM)
    await queue.cancel("free")
    assert await entries(redis, queue) == {}


async def test_several_gateways_drain_each_entry_into_the_book_once(redis: Client, queue: Queue, book: Book) -> None:
    await claim(queue)
    for number in range(50):
        await enqueue(queue, f"{number}")
    await queue.finish([Ending(each.job.id, each.epoch, "ok", encode_usage(USED)) for each in await claim(queue)])
    for number in range(10, 50):
        await queue.cancel(f"{number}")
    drains = [Ledger(redis, [queue.pool], book, Limits(redis), f"gateway {number}") for number in range(3)]
    await asyncio.gather(*(each.drain() for each in drains))
    (row,) = book.usage(("account", "tier"))
    assert (row["account"], row["tier"], row["requests"], row["completion"]) == ("a", "standard", 50, 10 * 5)
    assert row["cost"] == 10 * (4 * 1000 + 4 * 100 + 1250 + 2000 + 5 * 2000)
    assert await redis.xlen(f"fm:{{{queue.pool}}}:ledger") == 0


async def test_what_a_dead_gateway_held_is_settled_by_its_entry(redis: Client, queue: Queue, book: Book) -> None:
    account, limits = uuid.uuid4().hex, Limits(redis)
    await limits.hold(account, "orphan", [Way((), reserve=10**9)], budget=10**10, period="total")
    await claim(queue)
    job = Job(id="orphan", gateway="dead", pool=queue.pool, model="m", tier="standard")
    await queue.enqueue(job, ROOM, ledger.encode(bill("orphan", account, held=True)))
    (each,) = await claim(queue)
    await queue.finish([Ending("orphan", each.epoch, "cancelled", encode_usage(USED))])
    await Ledger(redis, [queue.pool], book, limits, "another").drain()
    spend = await redis.hgetall(f"fm:{{a:{account}}}:spend")
    assert {name: int(text) for name, text in spend.items()} == {b"reserved": 0, b"total": 17_650}


USAGES = st.builds(
    lambda prompt, cached, completion: Usage(prompt=prompt + cached, cached=cached, completion=completion),
    *(st.integers(0, 10**6) for _ in range(3)),
)


@settings(max_examples=20)
@given(st.lists(st.tuples(USAGES, st.sampled_from("abc"), st.integers(0, 3)), max_size=30))
def test_sums_of_the_book_are_those_of_its_entries(rows: list[tuple[Usage, str, int]]) -> None:
    with TemporaryDirectory() as folder:
        book = Book(Path(folder) / "book")
        made = [Entry(bill(f"{n}", account, day), "ok", used) for n, (used, account, day) in enumerate(rows)]
        for _ in range(2):  # what is entered twice is there once
            book.add(made)
        total = sum(entry.cost for entry in made)
        for by in ((), ("account",), ("day", "account"), BY):
            told = book.usage(by)
            assert sum(row["cost"] for row in told) == total
            assert sum(row["requests"] for row in told) == len(made)
        for account in "abc":
            own = sum(entry.cost for entry in made if entry.bill.account == account)
            assert sum(row["cost"] for row in book.usage(("day",), account)) == own
        read = list(csv.DictReader(io.StringIO(as_csv(book.usage(BY), BY))))
        assert sum(int(row["cost"]) for row in read) == total
