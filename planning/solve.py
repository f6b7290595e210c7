"""The least fleet that keeps its promises: how many replicas of a pool, and how many sequences in a batch.

A larger batch serves more with fewer replicas, and each request more slowly; one that is too small makes requests
wait. For each limit of the batch, the least number of replicas is found by bisection, which supposes that a further
replica never does harm. Limits are tried in powers of two for as long as that helps or until none binds, and then
between them with one replica less. What is found has to prove itself on other draws.

The deployment of a replica, the front end and the queue stay as they are. Knows nothing about how a request is served.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from math import ceil, inf
from typing import Any

from planning.fleet import Fleet
from planning.plan import LOOKS, Request, Run, play, requests
from planning.report import plain as run_plain
from planning.scenario import Scenario
from planning.tally import NO_OBJECTIVE, Tally
from service.errors import PlanError
from service.pools import Pool, Roofline

REQUESTS_MAX = 2_000_000  # they are held while fleets are tried with them
REPLICAS_MAX = 4096
BATCH_MAX = 4096

_WORSE_MAX = 2  # limits in a row that need more replicas than the best: further ones are not tried
_CROWD = 64  # replicas that the first limit tried would need at least, could requests be packed without loss
_STRIDE = 8  # the first stride of a search is this fraction of where it begins
_BETWEEN = (1 / 4, 1 / 2, 3 / 4)  # of the way from one power of two to the next, on a logarithmic scale
_SPARE_MAX = 8  # replicas that proving itself may add

Told = Callable[[str, float], None]  # what is being tried, and which share of it is done


@dataclass(frozen=True, slots=True)
class Point:
    """The fewest `replicas` that meet the SLO with batches of at most `max_batch`, and the share of requests within it.

    With several tiers in a pool, it is the share of the one that is worst off.
    """

    max_batch: int
    replicas: int
    share: float
    dollars_per_hour: float | None


@dataclass(frozen=True, slots=True)
class Solution:
    """What was found for one pool. `why` says why nothing was, or what is worth knowing.

    `best` meets the SLO on other draws, too: `proof` is that run. `less` is the share within the SLO with one replica
    less, on the draws of the search.
    """

    pool: str
    tiers: tuple[str, ...]
    objectives: tuple[str, ...]
    frontier: tuple[Point, ...]
    trials: int
    why: str
    best: Point | None = None
    less: float | None = None
    proof: Run | None = None


def solve(scenario: Scenario, told: Told = lambda _text, _share: None) -> list[Solution]:
    """One solution for each pool. Raises PlanError: an SLO is missing, or there are too many requests."""
    if any(route.objective == NO_OBJECTIVE for route in scenario.routes):
        raise PlanError("--solve needs an SLO for each tier; say for example --slo ttft=1.0,tpot=0.02")
    if scenario.workload.requests > REQUESTS_MAX:
        raise PlanError(f"--solve holds at most {REQUESTS_MAX:,} requests: plan a shorter --duration")
    return [_Search(scenario, name, told).solution() for name in scenario.pools]


def plain(solution: Solution) -> dict[str, Any]:
    """A solution as JSON-able values."""
    proof = None if solution.proof is None else run_plain(solution.proof)
    return {**asdict(replace(solution, proof=None)), "proof": proof}


def least(meets: Callable[[int], bool], guess: int, most: int) -> int | None:
    """The smallest number from 1 to `most` that meets something, if every larger one does; None if `most` does not.

    Looks around `guess` in growing strides, and bisects what they enclose.
    """
    stride = max(1, guess // _STRIDE)
    here = min(max(1, guess), most)
    if meets(here):
        low, high = here, here
        while low == high:
            low = max(0, high - stride)
            if low and meets(low):
                high = low
            stride *= 2
    else:
        low, high = here, here
        while low == high:
            if low == most:
                return None
            high = min(low + stride, most)
            if not meets(high):
                low = high
            stride *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if meets(middle):
            high = middle
        else:
            low = middle
    return high


class _Search:
    """For the fleet of one pool."""

    def __init__(self, scenario: Scenario, name: str, told: Told) -> None:
        self._pool = scenario.pools[name]
        self._routes = tuple(route for route in scenario.routes if route.offer.pool == name)
        self._scenario = replace(scenario, pools={name: self._pool}, routes=self._routes)
        self._whole = scenario
        self._requests = list(self._concerned(scenario.seed))
        self._told = told
        self._tried: dict[tuple[int, int], tuple[bool, float]] = {}  # (max_batch, replicas) -> meets, share within
        self._alone = 0.0  # sequences in flight in the mean, if none slowed down another
        self._excess = 1.0  # slots that were last needed for each of them: the first guess of the next search

    def solution(self) -> Solution:
        why = self._hopeless()
        frontier = {} if why else self._frontier()
        best = self._refined(frontier) if frontier else None
        if not frontier and not why:
            why = f"not even {REPLICAS_MAX} replicas meet it, whatever the limit of the batch"
        found = Solution(
            pool=self._pool.name,
            tiers=tuple(route.offer.tier for route in self._routes),
            objectives=tuple(str(route.objective) for route in self._routes),
            frontier=tuple(frontier[batch] for batch in sorted(frontier)),
            trials=len(self._tried),
            why=why,
        )
        return found if best is None else self._proven(found, best)

    def _concerned(self, seed: int) -> Iterator[Request]:
        """The requests that the pool gets, with the numbers of its own routes."""
        own = [number for number, route in enumerate(self._whole.routes) if route in self._routes]
        for time, prompt, output, blocks, tenant, taken in requests(replace(self._whole, seed=seed)):
            if here := tuple(own.index(number) for number in taken if number in own):
                yield time, prompt, output, blocks, tenant, here

    # ---- what cannot be

    def _hopeless(self) -> str:
        """Why no fleet can do it, if none can: each request is served alone, by an idle replica."""
        bands = [route.offer.band for route in self._routes]
        fleet = Fleet(replace(self._pool, replicas=1), bands, self._scenario.seed, inf)
        tallies = [Tally(route.offer, route.objective) for route in self._routes]
        now = 0.0
        for number, (_, prompt, output, blocks, tenant, routes) in enumerate(self._requests):
            for route in routes:
                fleet.arrive(now, prompt, output, blocks, tenant, tallies[route])
                fleet.drain()
                now = max(now, fleet.now) + 1.0
            if not number % 1024:
                self._told("each request alone", number / len(self._requests))
        self._alone = sum(tally.seconds for tally in tallies) / self._scenario.workload.span
        return "; ".join(filter(None, (_shortfall(tally, self._pool) for tally in tallies)))

    # ---- what can be

    def _frontier(self) -> dict[int, Point]:
        """By limit of the batch."""
        lowest = int(self._pool.ambient.peak) + 1
        limits = [limit for power in range(BATCH_MAX.bit_length()) if (limit := 1 << power) >= lowest]
        first = next((n for n, limit in enumerate(limits) if self._alone / limit <= _CROWD), len(limits) - 1)
        frontier: dict[int, Point] = {}
        for way in (limits[first:], limits[:first][::-1]):
            worse = 0
            for limit in way:
                fewest = min((point.replicas for point in frontier.values()), default=REPLICAS_MAX)
                point = self._least(limit)
                if point is not None:
                    frontier[limit] = point
                half = frontier.get(limit // 2)
                if half is not None and point == replace(half, max_batch=limit):  # no batch is ever full
                    del frontier[limit]
                    break
                worse = worse + 1 if frontier and (point is None or point.replicas > fewest) else 0
                if worse >= _WORSE_MAX:
                    break
        return frontier

    def _refined(self, frontier: dict[int, Point]) -> Point:
        """The best point. Limits near it are tried and added as long as they save a replica."""
        while True:
            best = min(frontier.values(), key=lambda point: (point.replicas, -point.share))
            near = {round(best.max_batch * 2 ** (sign * part)) for part in _BETWEEN for sign in (1, -1)}
            fewer = best.replicas - 1
            better = [batch for batch in sorted(near - frontier.keys()) if batch > self._pool.ambient.peak and fewer]
            found = next((batch for batch in better if self._meets(batch, fewer)), None)
            if found is None:
                return best
            point = self._least(found, fewer)
            assert point is not None
            frontier[found] = point

    def _least(self, batch: int, guess: int | None = None) -> Point | None:
        if guess is None:
            guess = ceil(self._excess * self._alone / max(1, int(batch - self._pool.ambient.sequences)))
        replicas = least(lambda count: self._meets(batch, count), guess, REPLICAS_MAX)
        if replicas is None:
            return None
        self._excess = max(1.0, replicas * (batch - self._pool.ambient.sequences) / self._alone) if self._alone else 1.0
        return self._priced(batch, replicas, self._tried[batch, replicas][1])

    def _priced(self, batch: int, replicas: int, share: float) -> Point:
        dollars = self._pool.dollars_per_hour
        return Point(batch, replicas, share, None if dollars is None else dollars * replicas)

    def _meets(self, batch: int, replicas: int) -> bool:
        if (batch, replicas) not in self._tried:
            run = self._run(self._scenario, self._requests, batch, replicas, patient=False)
            self._tried[batch, replicas] = _meets(run), _worst(run)
        return self._tried[batch, replicas][0]

    def _run(self, scenario: Scenario, asked: list[Request], batch: int, replicas: int, *, patient: bool) -> Run:
        """One fleet. Without patience it is given up as soon as it cannot meet the SLO any more."""
        pool = replace(self._pool, replicas=replicas, limits=replace(self._pool.limits, max_batch=batch))
        counts = [0] * len(self._routes)
        for *_, routes in asked:
            for route in routes:
                counts[route] += 1
        may_miss = [(1 - route.objective.share) * count for route, count in zip(self._routes, counts, strict=True)]
        what = f"batches of {batch}, {replicas} replica{'s' * (replicas > 1)}"

        def go_on(number: int, tallies: tuple[Tally, ...]) -> bool:
            self._told(what, number / len(asked))
            return patient or all(tally.missed <= most + 1e-6 for tally, most in zip(tallies, may_miss, strict=True))

        return play(replace(scenario, pools={pool.name: pool}), asked, go_on, LOOKS if patient else 1)

    # ---- what holds

    def _proven(self, found: Solution, best: Point) -> Solution:
        """The best point, with as many replicas more as it needs to meet the SLO on other draws."""
        other = replace(self._scenario, seed=self._scenario.seed + 1)
        asked = list(self._concerned(other.seed))
        for more in range(_SPARE_MAX + 1):
            proof = self._run(other, asked, best.max_batch, best.replicas + more, patient=True)
            if _meets(proof):
                break
        else:
            return replace(found, why=f"{best.replicas} replicas do on these draws, on others {_SPARE_MAX} more do not")
        why = f"{best.replicas} would do for the draws of the search, not for others" if more else ""
        less = None
        if best.replicas > 1:
            fewer = self._run(self._scenario, self._requests, best.max_batch, best.replicas - 1, patient=True)
            less = _worst(fewer)
        point = self._priced(best.max_batch, best.replicas + more, _worst(proof))
        return replace(found, best=point, proof=proof, less=less, why=why)


def _meets(run: Run) -> bool:
    return all(tally.share_met >= tally.objective.share for tally in run.tallies)


def _worst(run: Run) -> float:
    return min(tally.share_met for tally in run.tallies)


def _shortfall(tally: Tally, pool: Pool) -> str:
    """What of its SLO requests miss that nobody delays; empty if they meet it."""
    tally.fold()
    if tally.share_met >= tally.objective.share:
        return ""
    samples, objective = tally.samples(), tally.objective
    bounds = {
        "TTFT": (samples["ttft"], objective.ttft, f"{objective.ttft:g} s"),
        "TPOT": (samples["tpot"], objective.tpot, f"{1e3 * objective.tpot:g} ms"),
    }
    parts = [
        f"{100 * float((values <= bound).mean()):.3g} % meet {name} <= {text}"
        for name, (values, bound, text) in bounds.items()
        if len(values) and bound < inf
    ]
    text = f"{tally.offer.tier}: of requests that have a replica to themselves, {' and '.join(parts)}"
    if isinstance(pool.timing, Roofline):
        step = pool.timing.step_time
        floor = 1e3 * step.seconds(1, 0) / step.emitted
        text += f"; the floor of this deployment is {floor:.3g} ms for each output token, however small the batch"
    return text
