"""The work of a scenario, drawn: sessions with all that they will ask. Pure; equal seeds, equal work, at any tier.

Draws of different kinds come from streams of their own, so that another tier, rate or number of sessions changes
nothing about what a session asks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice, takewhile
from math import sqrt

import numpy as np

from loadtests.scenario import Agent, Closed, Open, Replayed, Scenario
from service.errors import PlanError, ScenarioError, TraceError
from service.traces import read

_TURNS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Turn:
    """`fresh` tokens after all before it, for an answer of `output`; `pause` seconds after the answer before it.

    `blocks` name what the fresh tokens begin with, each of `block` tokens: equal names are equal texts.
    """

    fresh: int
    output: int
    pause: float = 0.0
    blocks: tuple[int, ...] = ()
    block: int = 0

    def parts(self) -> Iterator[tuple[int, int | None]]:
        """Its fresh tokens as (tokens, name of the block); None: a text of its own."""
        left = self.fresh
        for name in self.blocks:
            size = min(self.block, left)
            if size:
                yield size, name
            left -= size
        if left:
            yield left, None


@dataclass(frozen=True, slots=True)
class Session:
    """`start`: seconds after the beginning at which it comes, if that does not depend on others."""

    number: int
    tier: str
    turns: tuple[Turn, ...]
    start: float | None = None


def sessions(scenario: Scenario) -> Iterator[Session]:
    """In the order in which they come; endless where the load is closed. Raises ScenarioError."""
    drawn = _traced(scenario) if isinstance(scenario.load, Replayed) else _drawn(scenario)
    within = takewhile(lambda session: session.start is None or session.start < scenario.seconds, drawn)
    return islice(within, scenario.most)


def clients(load: Closed, seconds: float) -> Iterator[tuple[float, float]]:
    """For each client of a closed load, from when to when it is there."""
    part = seconds / len(load.levels)
    for client in range(max(load.levels)):
        there = [number for number, level in enumerate(load.levels) if level > client]
        for number in there:
            if number - 1 not in there:
                end = next((after for after in count(number) if after not in there), len(load.levels))
                yield number * part, end * part


def _drawn(scenario: Scenario) -> Iterator[Session]:
    tiers, tier_draws = list(scenario.mix), np.random.default_rng((scenario.seed, 1))
    weights = np.array(list(scenario.mix.values()))
    starts = _starts(scenario)
    for number in count():
        tier = tiers[int(tier_draws.choice(len(tiers), p=weights / weights.sum()))]
        yield Session(number, tier, _turns(scenario, number), next(starts))


def _turns(scenario: Scenario, number: int) -> tuple[Turn, ...]:
    random, work = np.random.default_rng((scenario.seed, 2, number)), scenario.work
    if isinstance(work, Agent):
        first = int(work.input.draw(random, 1)[0])
        fresh = [first, *work.result.draw(random, work.steps - 1).tolist()]
        return tuple(Turn(tokens, 0, work.tool if step else 0.0) for step, tokens in enumerate(fresh))
    turns = min(int(work.turns.draw(random, 1)[0]), _TURNS_MAX)
    inputs, outputs = (each.draw(random, turns).tolist() for each in (work.input, work.output))
    return tuple(Turn(inputs[turn], outputs[turn], work.think if turn else 0.0) for turn in range(turns))


def _starts(scenario: Scenario) -> Iterator[float | None]:
    """When sessions come: of a rate that changes evenly, at the times at which its integral reaches those of rate 1."""
    load = scenario.load
    if not isinstance(load, Open):
        while True:
            yield None
    random, passed = np.random.default_rng((scenario.seed, 0)), 0.0
    slope = (load.to - load.rate) / scenario.seconds
    while True:
        passed += 1.0 if load.gaps == "constant" else float(random.gamma(load.cv**-2, load.cv**2))
        reached = load.rate**2 + 2 * slope * passed
        if reached < 0:  # the rate falls, and the rest of it holds no more
            return
        yield passed / load.rate if not slope else (sqrt(reached) - load.rate) / slope


def _traced(scenario: Scenario) -> Iterator[Session]:
    load = scenario.load
    assert isinstance(load, Replayed)
    try:
        trace = read(load.path)
    except (TraceError, PlanError) as error:
        raise ScenarioError(str(error)) from None
    tiers, draws = list(scenario.mix), np.random.default_rng((scenario.seed, 1))
    weights = np.array(list(scenario.mix.values()))
    for number, arrival in enumerate(trace.arrivals):
        tier = tiers[int(draws.choice(len(tiers), p=weights / weights.sum()))]
        turn = Turn(arrival.prompt, arrival.output, 0.0, arrival.blocks, trace.block)
        yield Session(number, tier, (turn,), arrival.time * load.time_scale)


def asked_most(scenario: Scenario) -> int | None:
    """How many sessions there are, if that is known beforehand."""
    if isinstance(scenario.load, Closed):
        return scenario.most
    return sum(1 for _ in sessions(scenario))
