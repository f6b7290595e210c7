"""Buckets, holds and budgets against a real server, whose clock it is."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from service.connection import Client, connect
from service.limits import Limits
from service.rooms import Draw, Way


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Client]:
    client = connect(redis_url, 5)
    yield client
    await client.aclose()


@pytest.fixture
def limits(redis: Client) -> Limits:
    return Limits(redis)


@pytest.fixture
def account() -> str:
    return uuid.uuid4().hex


def requests(capacity: int = 5, amount: int = 1) -> Way:
    return Way((Draw("x:requests", capacity, amount),))


async def test_five_a_minute_are_five_whoever_asks(redis: Client, account: str) -> None:
    gateways = [Limits(redis) for _ in range(3)]
    held = await asyncio.gather(
        *(gateways[number % 3].hold(account, f"job {number}", [requests()]) for number in range(20))
    )
    assert sum(each.way == 0 for each in held) == 5
    refused = [each for each in held if each.way is None]
    assert {each.reason for each in refused} == {"limit"}
    assert all(0 < each.rooms[0].enough_in <= 12 for each in refused)


async def test_all_that_a_way_needs_is_taken_or_nothing(limits: Limits, account: str) -> None:
    both = Way((Draw("x:requests", 10, 1), Draw("x:tokens", 1000, 600)))
    assert (await limits.hold(account, "a", [both])).way == 0
    refused = await limits.hold(account, "b", [both])
    assert (refused.way, refused.reason) == (None, "limit")
    alone = await limits.hold(account, "c", [requests(10)])
    assert alone.rooms[0].level == pytest.approx(8, abs=0.9), "the refused one took no request"


async def test_the_first_way_with_room_is_taken(limits: Limits, account: str) -> None:
    ways = [Way((Draw("fast", 1, 1),)), Way((Draw("standard", 10, 1),))]
    assert [(await limits.hold(account, name, ways)).way for name in "abc"] == [0, 1, 1]


async def test_what_was_not_used_comes_back_and_never_more_than_fits(limits: Limits, account: str) -> None:
    tokens = Way((Draw("x:tokens", 1000, 900),))
    assert (await limits.hold(account, "a", [tokens])).way == 0
    assert await limits.settle(account, "a", {"tokens": 100}, 0)
    again = await limits.hold(account, "b", [Way((Draw("x:tokens", 1000, 0),))])
    assert again.rooms[0].level == pytest.approx(900, abs=30)
    assert not await limits.settle(account, "a", {"tokens": 0}, 0), "it was settled"
    assert (await limits.hold(account, "c", [Way((Draw("x:tokens", 1000, 0),))])).rooms[0].level <= 1000


async def test_what_is_charged_as_it_comes_may_go_below_zero_and_then_nobody_else_comes_in(
    limits: Limits, account: str
) -> None:
    output = Way((Draw("x:output_tokens", 100, 0),))
    assert (await limits.hold(account, "a", [output])).way == 0
    await limits.used(account, "a", {"output_tokens": 90})
    assert (await limits.hold(account, "b", [output])).way == 0
    await limits.used(account, "a", {"output_tokens": 250})
    refused = await limits.hold(account, "c", [output])
    assert refused.way is None
    assert refused.rooms[0].level == pytest.approx(-150, abs=10)
    assert refused.rooms[0].enough_in == pytest.approx(90, abs=6)


async def test_nothing_of_nothing_is_refused(limits: Limits, account: str) -> None:
    refused = await limits.hold(account, "a", [Way((Draw("fast", 0, 0),))])
    assert (refused.way, refused.rooms[0].enough_in) == (None, float("inf"))


async def test_so_many_at_once(limits: Limits, account: str) -> None:
    held = [await limits.hold(account, name, [requests(100)], parallel=2) for name in "abc"]
    assert [each.reason for each in held] == ["", "", "parallel"]
    await limits.settle(account, "a", {}, 0)
    assert (await limits.hold(account, "c", [requests(100)], parallel=2)).way == 0


@pytest.mark.parametrize("period", ["day", "month", "total"])
async def test_a_budget_for_ten_admits_ten_and_every_end_gives_its_reservation_back(
    redis: Client, limits: Limits, account: str, period: str
) -> None:
    way = Way((), reserve=100)

    async def ask(number: int) -> bool:
        return (await limits.hold(account, f"{number}", [way], budget=1000, period=period)).way == 0

    admitted = [number for number, ok in enumerate(await asyncio.gather(*map(ask, range(50)))) if ok]
    assert len(admitted) == 10
    for number in admitted:
        await limits.settle(account, f"{number}", {}, 60)
    held = [await ask(number) for number in range(100, 105)]
    assert held == [True, True, True, True, False], "600 are spent, and 100 a time are reserved"
    told: dict[bytes, bytes] = await redis.hgetall(f"fm:{{a:{account}}}:spend")  # type: ignore[assignment]
    spend = {field: int(text) for field, text in told.items()}
    assert spend.pop(b"reserved") == 400
    ((field, spent),) = spend.items()
    assert spent == 600
    assert field.startswith(period.encode())


async def test_a_job_is_held_once(limits: Limits, account: str) -> None:
    for _ in range(3):
        held = await limits.hold(account, "a", [requests(2)])
    assert held.rooms[0].level == pytest.approx(1, abs=0.1)


async def test_nothing_stays_of_holds_that_are_settled(redis: Client, limits: Limits, account: str) -> None:
    for number in range(20):
        await limits.hold(account, f"{number}", [requests(100)], budget=10**9)
        await limits.settle(account, f"{number}", {}, 5)
    assert await redis.hlen(f"fm:{{a:{account}}}:holds") == 0
    assert await redis.zcard(f"fm:{{a:{account}}}:expiries") == 0
    assert int(await redis.hget(f"fm:{{a:{account}}}:spend", "total") or 0) == 100
