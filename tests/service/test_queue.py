"""The queue's promises, kept by a real server: every test is a sentence of service/queue.py."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest
from evidence import until

from service.connection import Client, connect
from service.errors import Contended, Unavailable
from service.messages import BANDS, Job, Turn
from service.queue import Bounds, Claim, Control, Ending, Holding, Lost, Queue, Verdict

ROOM = Bounds(jobs=100, bytes=1_000_000, wait=60)
ROOMY = Bounds(jobs=1000, bytes=1_000_000, wait=60)
LEASE = 5.0
AGING = 3600.0
NOW = 0.05  # s; a lease short enough to run out within a test


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Client]:
    client = connect(redis_url, timeout=2)
    yield client
    await client.aclose()


@pytest.fixture
async def queue(redis: Client) -> Queue:
    """A queue of a fresh name, with one worker alive."""
    fresh = Queue(redis, f"pool-{uuid.uuid4().hex[:8]}")
    await fresh.claim("first", (0, 0, 0), LEASE, 3, AGING)
    return fresh


def job(name: str, **fields: object) -> Job:
    return Job(id=name, gateway="g", pool="p", model="m", tier="t", **fields)  # type: ignore[arg-type]


async def claim(queue: Queue, free: int = 100, worker: str = "first", lease: float = LEASE) -> list[Claim]:
    return (await queue.claim(worker, (free,) * BANDS, lease, attempts_max=3, aging=AGING)).claims


def names(claims: list[Claim]) -> list[str]:
    return [claim.job.id for claim in claims]


async def run_out(lease: float = NOW) -> None:
    """Let a lease of that length pass; the server's clock has milliseconds."""
    await asyncio.sleep(lease + 0.01)


async def test_a_job_comes_back_as_it_was_sent(queue: Queue) -> None:
    sent = job("a", stop=("x", "ü"), max_tokens=7, prompt_tokens=3)
    await queue.enqueue(sent, ROOM)
    [claimed] = await claim(queue)
    assert claimed.job == sent
    assert (claimed.epoch, claimed.verdict) == (1, Verdict.RUN)


async def test_a_worker_gets_no_more_jobs_than_it_has_free_slots(queue: Queue) -> None:
    for name in "abc":
        await queue.enqueue(job(name), ROOM)
    assert names(await claim(queue, free=2)) == ["a", "b"]
    assert names(await claim(queue, free=2)) == ["c"]


async def test_a_job_is_handed_to_one_worker_while_its_lease_lasts(queue: Queue) -> None:
    await queue.enqueue(job("a"), ROOM)
    assert names(await claim(queue, worker="first")) == ["a"]
    assert await claim(queue, worker="second") == []


async def test_a_job_whose_lease_ran_out_is_claimed_again_with_a_higher_epoch(queue: Queue) -> None:
    await queue.enqueue(job("a"), ROOM)
    await claim(queue, lease=NOW)
    await run_out()
    [again] = await claim(queue, worker="second")
    assert (again.job.id, again.epoch, again.verdict) == ("a", 2, Verdict.RUN)


@pytest.mark.parametrize("given_up", [True, False])
async def test_who_takes_a_job_over_is_told_how_far_it_is(queue: Queue, given_up: bool) -> None:
    await queue.enqueue(job("a", choices=2), ROOM)
    [first] = await claim(queue, lease=NOW)
    assert first.progress == ()
    holding = Holding("a", first.epoch, (17, 4))
    assert await queue.renew("first", NOW, 0.0, [holding]) == []
    if given_up:
        await queue.release("first", [holding._replace(progress=(18, 5))])
    await run_out()
    [second] = await claim(queue)
    assert second.progress == ((18, 5) if given_up else (17, 4))


async def test_renewing_keeps_a_job(queue: Queue) -> None:
    await queue.enqueue(job("a"), ROOM)
    [held] = await claim(queue, lease=NOW)
    assert await queue.renew("first", LEASE, 0.0, [Holding("a", held.epoch)]) == []
    await run_out()
    assert await claim(queue, worker="second") == []


async def test_a_frozen_worker_that_comes_back_can_neither_end_nor_keep_nor_return_its_job(queue: Queue) -> None:
    await queue.enqueue(job("a"), ROOM)
    [stale] = await claim(queue, lease=NOW)
    await run_out()
    [fresh] = await claim(queue, worker="second")
    assert await queue.renew("first", LEASE, 0.0, [Holding("a", stale.epoch)]) == [
        Lost("a", stale.epoch, cancelled=False)
    ]
    assert await queue.finish([Ending("a", stale.epoch)]) == 0
    assert await queue.release("first", [Holding("a", stale.epoch)]) == 0
    assert await queue.finish([Ending("a", fresh.epoch)]) == 1


async def test_a_job_that_loses_its_workers_again_and_again_is_set_aside(queue: Queue) -> None:
    await queue.enqueue(job("a"), ROOM)
    for _ in range(3):
        [claimed] = await claim(queue, lease=NOW)
        assert claimed.verdict is Verdict.RUN
        await run_out()
    [poison] = await claim(queue)
    assert (poison.verdict, poison.epoch) == (Verdict.POISON, 4)
    assert await claim(queue) == []


async def test_handing_a_job_back_does_not_count_as_an_attempt_and_keeps_its_place(queue: Queue) -> None:
    await queue.enqueue(job("a"), ROOM)
    await queue.enqueue(job("b"), ROOM)
    for _ in range(5):
        [first] = await claim(queue, free=1)
        assert (first.job.id, first.verdict) == ("a", Verdict.RUN)
        assert await queue.release("first", [Holding("a", first.epoch)]) == 1


async def test_a_job_that_waited_too_long_is_refused_not_run(queue: Queue) -> None:
    await queue.enqueue(job("a"), Bounds(jobs=9, bytes=9999, wait=0.001))
    await run_out()
    [late] = await claim(queue)
    assert late.verdict is Verdict.LATE
    assert late.queued >= 0.001


async def test_a_job_that_has_begun_is_not_late_however_often_it_moves(queue: Queue) -> None:
    await queue.enqueue(job("a"), Bounds(jobs=9, bytes=9999, wait=0.04))
    await claim(queue, lease=NOW)
    await run_out()
    [again] = await claim(queue)
    assert again.verdict is Verdict.RUN


async def test_a_cancelled_queued_job_is_never_claimed(queue: Queue) -> None:
    await queue.enqueue(job("a"), ROOM)
    await queue.enqueue(job("b"), ROOM)
    assert await queue.cancel("a") == "queued"
    assert await queue.cancel("a") == "gone"
    assert names(await claim(queue)) == ["b"]


async def test_a_cancelled_running_job_is_told_its_worker_and_never_claimed_again(queue: Queue, redis_url: str) -> None:
    blocking = connect(redis_url, timeout=2, blocking=1)
    await queue.enqueue(job("a"), ROOM)
    [held] = await claim(queue, lease=NOW)
    after = await queue.last_control()
    assert await queue.cancel("a") == "running"
    words, _ = await queue.controls(blocking, after, block=1)
    await blocking.aclose()
    assert words == [Control("cancel", "a")]
    assert await queue.renew("first", NOW, 0.0, [Holding("a", held.epoch)]) == [Lost("a", held.epoch, cancelled=True)]
    await run_out()
    assert await claim(queue) == []


async def test_nothing_is_left_of_jobs_that_ended(queue: Queue, redis: Client) -> None:
    for name in "abc":
        await queue.enqueue(job(name), ROOM)
    [a, b, _] = await claim(queue)
    await queue.finish([Ending("a", a.epoch), Ending("b", b.epoch)])
    await queue.cancel("c")
    await queue.finish([Ending("c", 1)])
    kept = {key.decode().rsplit(":", 1)[1] async for key in redis.scan_iter(f"fm:{{{queue.pool}}}:*")}
    assert kept <= {"workers", "control", "bytes", "lateness"}
    assert int(await redis.get(f"fm:{{{queue.pool}}}:bytes") or 0) == 0


async def test_a_full_queue_refuses_and_keeps_what_it_has(queue: Queue) -> None:
    small = Bounds(jobs=2, bytes=9999, wait=60)
    await queue.enqueue(job("a"), small)
    await queue.enqueue(job("b"), small)
    with pytest.raises(Contended) as refusal:
        await queue.enqueue(job("c"), small)
    assert (refusal.value.reason, refusal.value.status) == ("queue_full", 429)
    assert names(await claim(queue)) == ["a", "b"]


async def test_bytes_are_bounded_too(queue: Queue) -> None:
    with pytest.raises(Contended):
        await queue.enqueue(job("a" * 600), Bounds(jobs=9, bytes=500, wait=60))


async def test_a_pool_without_workers_refuses(redis: Client) -> None:
    with pytest.raises(Unavailable) as refusal:
        await Queue(redis, f"pool-{uuid.uuid4().hex}").enqueue(job("a"), ROOM)
    assert refusal.value.reason == "no_workers"


async def test_enqueueing_one_job_twice_queues_it_once(queue: Queue) -> None:
    await queue.enqueue(job("a"), ROOM)
    await queue.enqueue(job("a"), ROOM)
    assert names(await claim(queue)) == ["a"]


async def test_a_higher_band_goes_first(queue: Queue) -> None:
    await queue.enqueue(job("late", band=2), ROOM)
    await queue.enqueue(job("normal", band=1), ROOM)
    await queue.enqueue(job("urgent", band=0), ROOM)
    assert names(await claim(queue)) == ["urgent", "normal", "late"]


async def test_a_tenant_with_many_jobs_does_not_hold_up_one_with_few(queue: Queue) -> None:
    for number in range(10):
        await queue.enqueue(job(f"many-{number}", tenant="many", cost=100), ROOM)
    await queue.enqueue(job("few-0", tenant="few", cost=100), ROOM)
    await queue.enqueue(job("few-1", tenant="few", cost=100), ROOM)
    order = names(await claim(queue))
    assert order.index("few-0") <= 1
    assert order.index("few-1") <= 3


async def test_who_has_waited_long_enough_goes_before_a_better_band_that_came_later(queue: Queue) -> None:
    """One band is worth 0.2 s here, and the last urgent one comes later than that."""
    await queue.enqueue(job("patient", band=1), ROOM)
    await queue.enqueue(job("urgent", band=0), ROOM)
    await asyncio.sleep(0.25)
    await queue.enqueue(job("urgent, too late", band=0), ROOM)
    claims = (await queue.claim("first", (100,) * BANDS, LEASE, 3, aging=0.2)).claims
    assert names(claims) == ["urgent", "patient", "urgent, too late"]


async def test_a_better_band_may_take_the_slots_of_those_who_would_make_way(queue: Queue) -> None:
    await queue.enqueue(job("normal", band=1), ROOM)
    for number in range(3):
        await queue.enqueue(job(f"urgent {number}", band=0), ROOM)
    for slots, urgent in ((2, ["urgent 0", "urgent 1"]), (1, ["urgent 2"])):
        assert names((await queue.claim("first", (slots, 0, 0), LEASE, 3, AGING)).claims) == urgent
    claims, held_up = await queue.claim("first", (1, 0, 0), LEASE, 3, AGING)
    assert (claims, held_up) == ([], True), "the normal one has no slot to take"
    assert names(await claim(queue)) == ["normal"]


async def test_shares_within_a_band_follow_the_weights(queue: Queue) -> None:
    for number in range(40):
        await queue.enqueue(job(f"heavy-{number}", tenant="heavy", cost=10, weight=3), ROOM)
        await queue.enqueue(job(f"light-{number}", tenant="light", cost=10, weight=1), ROOM)
    served = names(await claim(queue, free=40))
    assert 28 <= sum(name.startswith("heavy") for name in served) <= 32


async def test_an_enqueue_wakes_a_worker_that_listens(queue: Queue, redis: Client, redis_url: str) -> None:
    blocking = connect(redis_url, timeout=2, blocking=30)
    listening = asyncio.create_task(queue.listen(blocking, block=30))
    async with asyncio.timeout(10):
        await until(lambda: listens(redis), "a worker listens")
        await queue.enqueue(job("a"), ROOM)
        assert await listening
    await blocking.aclose()


async def listens(redis: Client) -> bool:
    """Whether some client waits for a bell."""
    return any(client["cmd"] == "blpop" and "b" in client["flags"] for client in await redis.client_list())


async def test_the_dead_are_not_counted_and_the_latest_speaks_for_the_pool(queue: Queue) -> None:
    await queue.renew("first", LEASE, 0.25, [])
    await queue.renew("second", LEASE, 0.001, [])
    await queue.renew("dead", NOW, 9.0, [])
    await run_out()
    alive = await queue.alive()
    assert (alive.workers, alive.lateness) == (2, 0.25)
    await queue.release("first")
    assert (await queue.alive()).workers == 1


async def test_a_worker_that_claims_no_more_keeps_its_jobs_and_does_not_count_as_alive(queue: Queue) -> None:
    await queue.enqueue(job("a"), ROOM)
    [held] = await claim(queue, lease=NOW)
    await queue.release("first")
    assert await queue.renew("first", LEASE, 0.0, [Holding("a", held.epoch)], claiming=False) == []
    await run_out()
    assert (await queue.alive()).workers == 0
    assert await claim(queue, worker="second") == []


async def test_a_job_that_cannot_be_read_is_left_out_and_set_aside_in_the_end(queue: Queue, redis: Client) -> None:
    await queue.enqueue(job("a"), ROOM)
    await queue.enqueue(job("b"), ROOM)
    await redis.hset(f"fm:{{{queue.pool}}}:jobs", "a", b"of another version")
    assert names(await claim(queue, lease=NOW)) == ["b"]
    for _ in range(4):
        await run_out()
        assert "a" not in names(await claim(queue, lease=NOW))
    assert not await redis.hexists(f"fm:{{{queue.pool}}}:places", "a")


async def test_trouble_with_redis_is_ours_and_comes_in_time() -> None:
    nowhere = connect("unix:///nonexistent/valkey.sock", timeout=0.2)
    with pytest.raises(Unavailable) as trouble:
        await Queue(nowhere, "p").depth()
    assert (trouble.value.reason, trouble.value.retry_after) == ("redis", 1)


async def test_a_renewal_rings_for_a_lease_that_ran_out(queue: Queue, redis_url: str) -> None:
    await queue.enqueue(job("a"), ROOM)
    await claim(queue, worker="dead", lease=NOW)
    blocking = connect(redis_url, timeout=2, blocking=5)
    await run_out()
    assert not await queue.listen(blocking, block=0.01)
    await queue.renew("first", LEASE, 0.0, [])
    assert await queue.listen(blocking, block=5)
    assert names(await claim(queue)) == ["a"]
    await blocking.aclose()


async def test_a_renewal_rings_for_a_job_whose_bell_nobody_answered(queue: Queue, redis_url: str) -> None:
    blocking = connect(redis_url, timeout=2, blocking=5)
    await queue.enqueue(job("a"), ROOM)
    assert await queue.listen(blocking, block=5), "heard by a worker that died of it"
    await queue.renew("first", LEASE, 0.0, [])
    assert await queue.listen(blocking, block=5)
    await blocking.aclose()


async def test_a_slot_holds_one_choice_and_a_job_with_more_waits_for_as_many(queue: Queue) -> None:
    await queue.enqueue(job("wide", choices=3), ROOM)
    await queue.enqueue(job("slim"), ROOM)
    assert await queue.claim("first", (2,) * BANDS, LEASE, 3, AGING) == ([], True)
    claims, held_up = await queue.claim("first", (3,) * BANDS, LEASE, 3, AGING)
    assert (names(claims), held_up) == (["wide"], False)
    assert names(await claim(queue, free=1)) == ["slim"]


async def test_an_answer_to_a_worker_is_bounded_in_bytes(queue: Queue) -> None:
    large = Turn("user", "x" * 5_000_000)
    for name in "abc":
        await queue.enqueue(job(name, conversation=(large,)), Bounds(jobs=9, bytes=10**9, wait=60))
    claims, held_up = await queue.claim("first", (100,) * BANDS, LEASE, 3, AGING)
    assert (names(claims), held_up) == (["a"], True)
    assert names((await queue.claim("first", (100,) * BANDS, LEASE, 3, AGING)).claims) == ["b"]


@pytest.mark.parametrize("weight", [1.0, 3.0])
async def test_ten_times_the_demand_is_no_more_than_ones_share(queue: Queue, weight: float) -> None:
    """Of a crowded pool each tenant gets tokens by its weight, as long as both have jobs waiting: Jain's index is 1."""
    await claim(queue)
    for number in range(440):
        tenant = "eager" if number % 11 else "modest"
        share = {"eager": 1.0, "modest": weight}[tenant]
        await queue.enqueue(job(f"{tenant} {number}", tenant=tenant, cost=100.0 + number % 7, weight=share), ROOMY)
    served = {"eager": 0.0, "modest": 0.0}
    for _ in range(20):
        for each in (await queue.claim("w", [2] * BANDS, 60, 3, aging=3600)).claims:
            served[each.job.tenant] += each.job.cost
    by_weight = served["eager"], served["modest"] / weight
    assert by_weight[0] == pytest.approx(by_weight[1], rel=0.1)
    assert sum(by_weight) ** 2 / (2 * sum(share**2 for share in by_weight)) >= 0.98
