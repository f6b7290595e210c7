"""Prompts go into a backend at the speed by contract of their offer, in order, and leave no trace if they do not."""

import asyncio

import pytest
from by_hand import ByHand
from hypothesis import given, settings
from hypothesis import strategies as st

from service.messages import Event, Finished, Job, Pace, Started, Usage
from workers.intake import Intake


class Stage:
    """An intake on a clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.backend = ByHand()
        self.intake = Intake(self.backend, lambda: self.now)
        self.gone: list[tuple[float, Event]] = []

    async def __aenter__(self) -> "Stage":
        self._running = asyncio.ensure_future(self.intake.run(self._emit))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._running

    async def _emit(self, events: list[Event]) -> None:
        self.gone += [(self.now, event) for event in events]

    async def at(self, now: float) -> None:
        self.now = now
        for _ in range(10):
            self.intake._wake.set()  # a real clock would have woken it
            await asyncio.sleep(0)

    def submit(self, name: str, prompt: int, intake: Pace | None, progress: tuple[int, ...] = ()) -> None:
        job = Job(id=name, gateway="g", pool="p", model="m", tier="t", prompt_tokens=prompt, intake=intake)
        self.intake.submit(job, 1, 0.5, progress)


@settings(max_examples=20)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=8), st.integers(50, 1000), st.integers(1, 800))
def test_by_any_time_no_more_has_gone_in_than_the_contract_allows_but_for_the_last(
    prompts: list[int], rate: int, burst: int
) -> None:
    async def play() -> None:
        async with Stage() as stage:
            for number, prompt in enumerate(prompts):
                stage.submit(str(number), prompt, Pace(rate, burst))
            before, step = 0, 20 / rate
            while len(stage.backend.taken) < len(prompts):
                taken = len(stage.backend.taken)
                if taken > before:
                    assert sum(prompts[: taken - 1]) < rate * stage.now + burst + 1e-6
                    before = taken
                await stage.at(stage.now + step)
                assert stage.now <= sum(prompts[:-1]) / rate + 2 * step, "and it is not held up for longer"
            assert stage.backend.taken == [str(number) for number in range(len(prompts))]

    asyncio.run(play())


async def test_the_wait_counts_as_a_wait_in_the_queue() -> None:
    async with Stage() as stage:
        for name in ("a", "b"):
            stage.submit(name, 100, Pace(100, 1))
        await stage.at(0.9)
        assert stage.backend.taken == ["a"]
        await stage.at(1.0)
        assert [event for _, event in stage.gone] == [Started("a", 1, 0.5), Started("b", 1, 1.5)]


async def test_who_leaves_while_he_waits_costs_nothing_and_holds_nobody_up() -> None:
    async with Stage() as stage:
        for name in ("a", "b", "c", "d"):
            stage.submit(name, 100, Pace(100, 1))
        assert stage.intake.untouched() == ["b", "c", "d"]
        stage.intake.cancel("b")
        stage.intake.drop("c")
        await stage.at(1.0)
        assert stage.backend.taken == ["a", "d"]
        assert stage.backend.asked == []
        assert [event for _, event in stage.gone if isinstance(event, Finished)] == [
            Finished("b", 1, Usage(prompt=0), cancelled=True)
        ]


async def test_who_does_not_read_while_he_waits_is_paused_when_he_gets_in() -> None:
    async with Stage() as stage:
        for name in ("a", "b", "c"):
            stage.submit(name, 100, Pace(100, 1))
        stage.intake.pause("b")
        stage.intake.pause("c")
        stage.intake.resume("c")
        await stage.at(2.0)
        assert stage.backend.asked == [("pause", "b")]


async def test_without_a_contract_and_begun_elsewhere_nobody_waits() -> None:
    async with Stage() as stage:
        stage.submit("a", 100, Pace(1, 1))
        stage.submit("b", 100, None)
        stage.submit("c", 100, Pace(1, 1), progress=(3,))
        assert stage.backend.taken == ["a", "b", "c"]
