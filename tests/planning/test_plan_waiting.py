"""The queue of a plan keeps the rules of the real one: the same requests come out in the same order."""

import uuid
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning.waiting import Waiting
from service.connection import connect
from service.errors import Contended
from service.messages import BANDS, Job
from service.queue import Bounds, Queue


@pytest.mark.parametrize("seed", range(5))
async def test_it_hands_out_what_the_real_queue_hands_out(redis_url: str, seed: int) -> None:
    """Tenants of different appetite, all bands, more than there is room for, claims in between."""
    random = Random(seed)
    redis = connect(redis_url, timeout=2)
    real = Queue(redis, f"pool-{uuid.uuid4().hex[:8]}")
    await real.claim("worker", (0,) * BANDS, 60, 3, 3600)
    twin: Waiting[str] = Waiting(most=12, patience=3600, aging=3600)
    for number in range(120):
        if random.random() < 0.6:
            tenant, band, cost = random.randrange(3), random.randrange(BANDS), random.randint(1, 1000)
            job = Job(
                id=str(number), gateway="g", pool="p", model="m", tier="t", tenant=str(tenant), band=band, cost=cost
            )
            taken = twin.offer(0.0, job.id, tenant, cost, band)
            try:
                await real.enqueue(job, Bounds(jobs=12, bytes=10**6, wait=3600))
            except Contended:
                assert not taken
            else:
                assert taken
        else:
            claims = (await real.claim("worker", (random.randint(1, 3),) * BANDS, 60, 3, 3600)).claims
            assert [claim.job.id for claim in claims] == [twin.claim() for _ in range(min(len(claims), len(twin)))]
        assert await real.depth() == len(twin)
    await redis.aclose()


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=60))
def test_everybody_leaves_once_in_time_or_late(steps: list[tuple[float, int, int, bool]]) -> None:
    queue: Waiting[int] = Waiting(most=10, patience=4.0, aging=2.0)
    now = 0.0
    came: dict[int, float] = {}
    left: list[int] = []
    for number, (gap, tenant, band, claims) in enumerate(steps):
        now += gap
        late = queue.expire(now)
        assert all(now - came[item] > 4 - 1e-9 for item in late)
        left += late
        if claims and queue:
            item = queue.claim()
            assert now - came[item] < 4 + 1e-9
            left.append(item)
        elif queue.offer(now, number, tenant, 100.0, band):
            came[number] = now
    left += queue.expire(now + 100)
    assert sorted(left) == sorted(came)
    assert not queue


def test_a_request_that_has_waited_overtakes_better_bands_that_came_later() -> None:
    queue: Waiting[str] = Waiting(most=10, patience=100, aging=5)
    queue.offer(0.0, "patient", 0, 1, 2)
    queue.offer(4.0, "better, before it has aged", 0, 1, 1)
    queue.offer(11.0, "best, too late", 0, 1, 0)
    assert [queue.claim() for _ in range(3)] == ["better, before it has aged", "patient", "best, too late"]


def test_tenants_take_turns_however_many_requests_one_has() -> None:
    queue: Waiting[str] = Waiting(most=10, patience=100, aging=5)
    for number in range(4):
        queue.offer(0.0, f"many {number}", 1, 100, 1)
    queue.offer(0.0, "few", 2, 100, 1)
    assert [queue.claim() for _ in range(5)] == ["many 0", "few", "many 1", "many 2", "many 3"]
