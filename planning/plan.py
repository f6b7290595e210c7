"""What a fleet would do: a scenario played in virtual time, each request sent its way until it has ended.

Knows nothing about what that means in percentiles or dollars: see planning.report.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from planning.fleet import Fleet, Samples
from planning.scenario import Scenario
from planning.tally import Tally
from service.memory import without_cycles

LOOKS = 240  # samples of each pool while requests come

_CHUNK = 1024

Request = tuple[float, int, int, tuple[int, ...], int, tuple[int, ...]]  # what is asked, and the routes it takes
GoOn = Callable[[int, tuple[Tally, ...]], bool]  # given how many requests have come, and what became of them


@dataclass(frozen=True, slots=True)
class Run:
    """What a scenario came to. Tallies stand in the order of its routes; `span` is the time until the last token."""

    scenario: Scenario
    tallies: tuple[Tally, ...]
    samples: Mapping[str, Samples]  # by pool
    span: float


def simulate(scenario: Scenario, go_on: GoOn = lambda _number, _tallies: True) -> Run:
    """All requests of the scenario, each until it has ended; or as far as `go_on` lets it."""
    return play(scenario, requests(scenario), go_on, LOOKS)


def requests(scenario: Scenario) -> Iterator[Request]:
    """The workload, each request with the numbers of the routes it takes."""
    arrivals = scenario.workload.arrivals(scenario.seed)
    if not scenario.split:
        every = tuple(range(len(scenario.routes)))
        return ((*asked, every) for asked in arrivals)
    picks = _picks([route.share for route in scenario.routes], scenario.seed)
    return ((*asked, pick) for asked, pick in zip(arrivals, picks, strict=False))


@without_cycles()
def play(scenario: Scenario, asked: Iterable[Request], go_on: GoOn, looks: int) -> Run:
    """As `simulate`, of requests already drawn; each pool is looked at `looks` times while they come."""
    every = scenario.workload.span / looks
    fleets = {
        name: Fleet(
            pool, [route.offer.band for route in scenario.routes if route.offer.pool == name], scenario.seed, every
        )
        for name, pool in scenario.pools.items()
    }
    tallies = tuple(Tally(route.offer, route.objective) for route in scenario.routes)
    ways = [(fleets[tally.offer.pool].arrive, tally) for tally in tallies]
    asked, number, wanted = iter(asked), 0, True
    while wanted and (batch := list(islice(asked, _CHUNK))):
        for time, prompt, output, blocks, tenant, routes in batch:
            for route in routes:
                arrive, tally = ways[route]
                arrive(time, prompt, output, blocks, tenant, tally)
        number += len(batch)
        for tally in tallies:
            tally.fold()
        wanted = go_on(number, tallies)
    if wanted:
        for fleet in fleets.values():
            fleet.drain()
        for tally in tallies:
            tally.fold()
    samples = {name: fleet.samples for name, fleet in fleets.items()}
    return Run(scenario, tallies, samples, max(fleet.now for fleet in fleets.values()))


def _picks(shares: Sequence[float], seed: int) -> Iterator[tuple[int, ...]]:
    """The route of one request after the other."""
    random = np.random.default_rng((seed, 3))
    normal = np.array(shares) / sum(shares)
    single = [(number,) for number in range(len(shares))]
    while True:
        yield from (single[pick] for pick in random.choice(len(shares), _CHUNK, p=normal).tolist())
