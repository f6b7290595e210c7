"""Measure an endpoint politely: a bounded number of small requests, few at once, with pauses; after troubles, no more.

A plan says beforehand how much it will ask for. Levels of concurrency follow each other, each with its share of the
requests; at each level prompts of all sizes take turns. No two prompts begin alike, so that none is found in a cache.
Whoever is told to wait makes all wait.

Knows nothing of fits; how requests are asked is in loadtests.endpoint.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from loadtests.client import clock
from loadtests.endpoint import Answer, Endpoint, Failed, Refused
from planning.fit import Sample
from service.errors import CalibrationError

TROUBLES_MAX = 4  # requests that come to nothing before the endpoint is left alone
RETRY_AFTER = 5.0  # s, if a refusal does not say; twice as long after each further one
RETRY_AFTER_MAX = 60.0  # s; who is told to wait longer stops
TASK = "Write the whole numbers from one upwards in English words, with commas, and do not stop. Ignore what follows."
TASK_TOKENS = 38  # about, with what a chat format adds
WORDS = "time year people way day man thing woman life child world school state family student group country problem"

Report = Callable[[str, float], None]  # what was done, and which share of all


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`prompts` are the sizes that take turns, in tokens; `pause` and `timeout` in seconds."""

    requests: int
    levels: tuple[int, ...]
    prompts: tuple[int, ...]
    output: int
    pause: float
    timeout: float

    def at(self, level: int) -> list[int]:
        """The prompts that are asked at the level of that index, in order."""
        begin, end = (self.requests * number // len(self.levels) for number in (level, level + 1))
        return [self.prompts[(begin + number) % len(self.prompts)] for number in range(end - begin)]

    @property
    def prompt_tokens(self) -> int:
        """Of all requests, about: the endpoint's tokenizer counts otherwise."""
        return sum(sum(self.at(level)) for level in range(len(self.levels)))

    @property
    def output_tokens(self) -> int:
        """Of all requests, at most."""
        return self.requests * self.output

    @property
    def seconds_max(self) -> float:
        """When it is over in any case."""
        rounds = sum(-(-len(self.at(number)) // level) for number, level in enumerate(self.levels))
        return rounds * (self.timeout + self.pause) + TROUBLES_MAX * RETRY_AFTER_MAX


@dataclass(frozen=True, slots=True)
class Measured:
    """`troubles` are why requests came to nothing; `stopped` is why not all were made."""

    samples: tuple[Sample, ...]
    answers: tuple[Answer, ...]
    troubles: tuple[str, ...]
    stopped: str | None


async def measure(endpoint: Endpoint, plan: Plan, report: Report, seed: int) -> Measured:
    """Equal seeds, equal prompts, which the endpoint may have cached. Raises CalibrationError."""
    run = _Run(endpoint, plan, report, seed)
    try:
        async with asyncio.timeout(plan.seconds_max):
            for number, level in enumerate(plan.levels):
                await run.level(plan.at(number), level)
    except TimeoutError:
        run.stopped = f"it took longer than {plan.seconds_max:.0f} s"
    return run.measured()


def prompt(size: int, random: Random) -> str:
    """A text of about so many tokens that begins as no other does."""
    words = WORDS.split()
    filler = " ".join(random.choice(words) for _ in range(size - TASK_TOKENS))
    return f"{random.getrandbits(48):012x}. {TASK} {filler}".strip()


class _Run:
    def __init__(self, endpoint: Endpoint, plan: Plan, report: Report, seed: int) -> None:
        self._endpoint = endpoint
        self._plan = plan
        self._report = report
        self._random = Random(seed)
        self._begun = clock()
        self._asked = 0
        self._in_flight = _InFlight()
        self._not_before = 0.0  # clock; somebody was told to wait so long
        self._refusals = 0
        self._seen: list[tuple[Answer, int, float]] = []  # in flight at the beginning, and in the mean
        self._troubles: list[str] = []
        self.stopped: str | None = None

    def measured(self) -> Measured:
        samples = [
            Sample(
                at=answer.sent - self._begun,
                ttft=answer.ttft,
                rate=answer.rate,
                prompt=answer.prompt - answer.cached,
                output=answer.tokens,
                begun=begun,
                load=load,
            )
            for answer, begun, load in self._seen
        ]
        answers = tuple(answer for answer, _, _ in self._seen)
        return Measured(tuple(samples), answers, tuple(self._troubles), self.stopped)

    async def level(self, prompts: Sequence[int], many: int) -> None:
        """All of them, so many at once. Raises CalibrationError."""
        queue = iter(prompts)
        tasks = [asyncio.create_task(self._one_by_one(queue, many)) for _ in range(many)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _one_by_one(self, queue: Iterator[int], many: int) -> None:
        for size in queue:
            while self.stopped is None and clock() < self._not_before:  # noqa: ASYNC110 - for a time, not an event
                await asyncio.sleep(self._not_before - clock())
            if self.stopped is not None:
                return
            await self._one(size)
            self._report(f"{many} at once", self._asked / self._plan.requests)
            await asyncio.sleep(self._plan.pause)

    async def _one(self, size: int) -> None:
        self._asked += 1
        text = prompt(size, self._random)
        begun = self._in_flight.enter()
        since = self._in_flight.integral()
        start = clock()
        try:
            answer = await self._endpoint.ask(text, self._plan.output)
        except Refused as refused:
            self._trouble(str(refused))
            self._refusals += 1
            self._wait(refused.retry_after)
        except Failed as failed:
            self._trouble(str(failed))
        except CalibrationError as error:
            if not self._seen:
                raise
            self.stopped = str(error)
        else:
            load = (self._in_flight.integral() - since) / (clock() - start)
            self._seen.append((answer, begun, load))
        finally:
            self._in_flight.leave()

    def _trouble(self, why: str) -> None:
        self._troubles.append(why)
        if len(self._troubles) >= TROUBLES_MAX:
            self.stopped = f"{TROUBLES_MAX} requests came to nothing, the last of them: {why}"

    def _wait(self, retry_after: float | None) -> None:
        wait = RETRY_AFTER * 2 ** (self._refusals - 1) if retry_after is None else retry_after
        if wait > RETRY_AFTER_MAX:
            self.stopped = self.stopped or f"the endpoint asks to wait {wait:.0f} s"
        self._not_before = max(self._not_before, clock() + wait)


class _InFlight:
    """How many requests there are, and the integral of that over time."""

    def __init__(self) -> None:
        self._many = 0
        self._integral = 0.0
        self._since = clock()

    def integral(self) -> float:
        now = clock()
        self._integral += self._many * (now - self._since)
        self._since = now
        return self._integral

    def enter(self) -> int:
        self.integral()
        self._many += 1
        return self._many

    def leave(self) -> None:
        self.integral()
        self._many -= 1
