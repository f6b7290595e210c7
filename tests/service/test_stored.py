"""What is kept of responses: found by everybody at once, bounded, and gone when its time is over."""

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from service.connection import connect
from service.errors import Unavailable
from service.stored import Kept, Stored

Open = Callable[..., Stored]


@pytest.fixture
async def stored(redis_url: str) -> AsyncIterator[Open]:
    """The shelf of one gateway, in an empty database."""
    async with AsyncExitStack() as open_clients:
        store = connect(redis_url, timeout=5)
        await store.flushdb()

        def shelf(ttl: float = 60.0, together: int = 1_000_000) -> Stored:
            client = connect(redis_url, timeout=5)
            open_clients.push_async_callback(client.aclose)
            return Stored(client, ttl, together)

        open_clients.push_async_callback(store.aclose)
        open_clients.push_async_callback(store.flushdb)
        yield shelf


def kept(size: int = 10, **fields: object) -> Kept:
    return Kept(id=f"resp_{uuid.uuid4().hex}", account="a", response=b"x" * size, **fields)  # type: ignore[arg-type]


async def written(shelf: Stored, *records: Kept) -> None:
    for record in records:
        shelf.put(record)
    await shelf.write(at_most=5)


async def test_what_is_put_is_found_here_at_once_and_elsewhere_once_written(stored: Open) -> None:
    here, elsewhere, record = stored(), stored(), kept(items=b"[1]", previous="resp_before")
    here.put(record)
    assert await here.find(record.id, "a") == record
    assert await elsewhere.find(record.id, "a") is None
    await here.write(at_most=5)
    assert await elsewhere.find(record.id, "a") == record


async def test_another_account_finds_nothing(stored: Open) -> None:
    shelf, record = stored(), kept()
    await written(shelf, record)
    assert await shelf.find(record.id, "b") is None


async def test_the_oldest_make_room_and_what_is_replaced_counts_once(stored: Open) -> None:
    shelf = stored(together=10_000)
    records = [kept(1000) for _ in range(30)]
    for record in records:
        await written(shelf, record, record)
    found = [await shelf.find(record.id, "a") is not None for record in records[-12:]]
    assert found == sorted(found), "the newest stay"
    assert 8 <= sum(found) <= 9
    await written(shelf, large := kept(20_000))
    assert await shelf.find(large.id, "a") is None
    assert await shelf.find(records[-1].id, "a") is not None


async def test_what_is_removed_gives_its_room_back(stored: Open) -> None:
    shelf = stored(together=10_000)
    stays = kept(4000)
    await written(shelf, stays)
    for _ in range(20):
        record = kept(4000)
        await written(shelf, record)
        await shelf.remove(record)
        assert await shelf.find(record.id, "a") is None
    assert await shelf.find(stays.id, "a") == stays


async def test_what_is_removed_before_it_is_written_is_not_written(stored: Open) -> None:
    shelf, record = stored(), kept()
    shelf.put(record)
    await shelf.remove(record)
    await shelf.write(at_most=5)
    assert await stored().find(record.id, "a") is None


async def test_records_expire_and_leave_their_room(stored: Open) -> None:
    shelf = stored(ttl=0.05, together=10_000)
    for _ in range(3):
        await written(shelf, record := kept(9000))
        while await shelf.find(record.id, "a") is not None:
            pass


async def test_a_log_is_read_from_any_entry_on(stored: Open) -> None:
    here, elsewhere = stored(), stored()
    await here.log("resp_1", [b"a", b"b"])
    await here.log("resp_1", [b"c"])
    assert await elsewhere.logged("resp_1", 0) == [b"a", b"b", b"c"]
    assert await elsewhere.logged("resp_1", 2) == [b"c"]
    assert await elsewhere.logged("resp_2", 0) == []


async def test_while_redis_is_away_records_wait_and_the_oldest_are_lost_beyond_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("service.stored._WAITING_MAX", 25_000)
    client = connect("redis://127.0.0.1:1/0", timeout=0.2)
    shelf = Stored(client, 60, 1_000_000)
    records = [kept(10_000) for _ in range(3)]
    for record in records:
        shelf.put(record)
    assert [await shelf.find(record.id, "a") for record in records[1:]] == records[1:]
    with pytest.raises(Unavailable):
        await shelf.find(records[0].id, "a")
    await client.aclose()
