"""What a backend emits goes out at the speed by contract, whole and in order; nobody is charged for what is held."""

import asyncio

import pytest
from by_hand import ByHand
from hypothesis import given, settings
from hypothesis import strategies as st

from service.messages import Delta, Event, Finished, Job, Pace, Part, Usage
from workers.pacing import HELD_MAX, Paced


class Stage:
    """A paced backend on a clock that only the test moves."""

    def __init__(self, pace: Pace | None, choices: int = 1, progress: tuple[int, ...] = ()) -> None:
        self.now = 0.0
        self.backend = ByHand()
        self.paced = Paced(self.backend, lambda: self.now)
        self.gone: list[tuple[float, Event]] = []
        self.job = Job(id="j", gateway="g", pool="p", model="m", tier="t", choices=choices, pace=pace)
        self._progress = progress

    async def __aenter__(self) -> "Stage":
        self._running = asyncio.ensure_future(self.paced.run(self._emit))
        self.paced.submit(self.job, 1, 0.0, self._progress)
        await self.at(0.0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._running

    async def _emit(self, events: list[Event]) -> None:
        self.gone += [(self.now, event) for event in events]

    async def at(self, now: float, *events: Event) -> None:
        """The backend emits these at that time."""
        self.now = now
        if events:
            self.backend.emissions.put_nowait(list(events))
        for _ in range(10):
            self.paced._wake.set()  # a real clock would have woken it
            await asyncio.sleep(0)

    def tokens(self, choice: int = 0) -> list[tuple[float, bytes]]:
        """When which token went out."""
        return [
            (time, piece)
            for time, event in self.gone
            if isinstance(event, Delta) and event.choice == choice
            for piece in event.text.split(b"\n")
        ]


def delta(offset: int, count: int, choice: int = 0, last: bool = False, part: Part | None = None) -> Delta:
    text = b"\n".join(b"%d" % number for number in range(offset, offset + count))
    return Delta("j", 1, choice, offset, count, text, "stop" if last else None, part)


END = Finished("j", 1, Usage(prompt=5, completion=100))


@settings(max_examples=15)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(5, 200), st.integers(1, 10))
def test_every_token_goes_out_once_in_order_and_at_the_rate(counts: list[int], rate: int, burst: int) -> None:
    async def play() -> None:
        async with Stage(Pace(rate, burst)) as stage:
            offset = 0
            for number, count in enumerate(counts):
                await stage.at(0.001 * number, delta(offset, count, last=number == len(counts) - 1))
                offset += count
            await stage.at(0.001 * len(counts), END)
            step = 0.25 / rate
            while not any(isinstance(event, Finished) for _, event in stage.gone):
                await stage.at(stage.now + step)
                assert stage.now < 1 + 2 * offset / rate
            told = stage.tokens()
            assert [piece for _, piece in told] == [b"%d" % number for number in range(offset)]
            assert told[0][0] == 0.0, "a first token waits for nothing"
            for number, (time, _) in enumerate(told):
                assert time >= (number + 1 - burst) / rate - 1e-9, "never ahead of the contract"
            last = max(0.0, (offset - burst) / rate)
            assert told[-1][0] <= max(last, 0.001 * len(counts)) + step + 0.01 * last
            assert stage.gone[-1][1] == END

    asyncio.run(play())


async def test_choices_do_not_hold_each_other_up() -> None:
    async with Stage(Pace(10, 2), choices=2) as stage:
        await stage.at(0, delta(0, 50), delta(0, 2, choice=1, last=True))
        assert [len(stage.tokens(choice)) for choice in (0, 1)] == [2, 2]
        await stage.at(1.0)
        assert len(stage.tokens(0)) == 12


async def test_a_job_that_is_cancelled_is_not_charged_for_what_is_held() -> None:
    async with Stage(Pace(10, 5)) as stage:
        await stage.at(0, delta(0, 100))
        stage.paced.cancel("j")
        assert stage.backend.asked == [("cancel", "j")]
        await stage.at(0, Finished("j", 1, Usage(prompt=5, completion=100), cancelled=True))
        assert stage.gone[-1][1] == Finished("j", 1, Usage(prompt=5, completion=5), cancelled=True)
        await stage.at(60)
        assert len(stage.tokens()) == 5


async def test_so_is_one_whose_backend_has_ended_it_already() -> None:
    async with Stage(Pace(10, 5)) as stage:
        await stage.at(0, delta(0, 100, last=True), END)
        stage.paced.cancel("j")
        await stage.at(0)
        assert stage.gone[-1][1] == Finished("j", 1, Usage(prompt=5, completion=5), cancelled=True)
        assert stage.backend.asked == []


async def test_a_backend_that_runs_ahead_stands_still_until_there_is_room() -> None:
    async with Stage(Pace(1000, 1)) as stage:
        tokens = HELD_MAX // 4
        await stage.at(0, delta(0, tokens))
        assert stage.backend.asked == [("pause", "j")]
        await stage.at(tokens / 1000 / 2)
        assert stage.backend.asked == [("pause", "j")]
        await stage.at(tokens / 1000 * 0.9)
        assert stage.backend.asked == [("pause", "j"), ("resume", "j")]


async def test_a_client_that_does_not_read_gets_nothing_until_it_does() -> None:
    async with Stage(Pace(10, 5)) as stage:
        await stage.at(0, delta(0, 20))
        stage.paced.pause("j")
        await stage.at(60)
        assert len(stage.tokens()) == 5
        stage.paced.resume("j")
        await stage.at(60)
        assert len(stage.tokens()) == 10, "a burst, and no more"
        assert stage.backend.asked == [("pause", "j"), ("resume", "j")]


async def test_progress_is_what_has_gone_out() -> None:
    async with Stage(Pace(10, 5), choices=2, progress=(3, 0)) as stage:
        assert stage.paced.progress() == {"j": [3, 0]}
        await stage.at(0, delta(3, 100))
        assert stage.paced.progress() == {"j": [8, 0]}


async def test_without_a_contract_everything_passes_as_it_is() -> None:
    async with Stage(None) as stage:
        said: list[Event] = [delta(0, 50, part=Part("text")), delta(50, 50, last=True), END]
        await stage.at(0, *said)
        assert [event for _, event in stage.gone[1:]] == said
