"""How fast a plan is: simulated output tokens per second of one core, for fleets that are busy.

All of `fastmode plan` but reading the catalog and printing: drawing the requests, the queue, the engines, the figures.
The engine goes from change to change of a batch, so a request costs much the same however long its answer is; tokens
per second follow from how long answers are, and are therefore shown for three kinds of traffic.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

from loadtests.bench.report import Aim, Figure, Sheet
from planning import plan, report, scenario, workload
from service import tiers

_REQUESTS = 20_000
_RUNS = 3  # of which the fastest counts: others on the machine only ever slow it down
_AIM = Aim(">=", 20)  # million tok/s


@dataclass(frozen=True, slots=True)
class _Traffic:
    name: str
    rate: float  # requests/s that keep the pool standard busy without a queue
    input: str
    output: str


_TRAFFIC = (
    _Traffic("short answers", 50, "1000:1", "200:1"),
    _Traffic("chat", 45, "1000:1", "500:1"),
    _Traffic("reasoning", 22, "1000:1", "2000:1"),
)


def run() -> Iterator[Sheet]:
    catalog = tiers.load()
    routes = scenario.routes(catalog, None, (), None, ("ttft=2,tpot=0.05",))
    figures: list[Figure] = []
    for traffic in _TRAFFIC:
        load = workload.workload(
            (), traffic.rate, traffic.input, traffic.output, duration=round(_REQUESTS / traffic.rate)
        )
        planned = scenario.scenario(catalog, routes, load, ambient=False)
        seconds, run, tier = min((_measure(planned) for _ in range(_RUNS)), key=itemgetter(0))
        (tally,) = run.tallies
        tokens = tally.usage().completion
        figures += [
            Figure(f"{traffic.name}: tokens simulated", tokens / seconds / 1e6, "million tok/s", _AIM),
            Figure(f"{traffic.name}: CPU", seconds / tally.asked * 1e6, "us per request"),
            Figure(f"{traffic.name}: answers, mean", tokens / tally.completed, "tokens"),
            Figure(f"{traffic.name}: slots in use", tier.figures["occupancy"].value, "%"),
            Figure(f"{traffic.name}: faster than time", run.span / seconds, "times"),
        ]
    setting = (
        f"{_REQUESTS:,} requests in Poisson order to the pool standard of the shipped catalog without ambient load;"
        " prompts of 1,000 tokens and answers of 200, 500 and 2,000 in the median, lognormal, sigma 1; CPU time of the"
        f" fastest of {_RUNS} runs"
    )
    yield Sheet("plan", "Plans in virtual time", setting, figures)


def _measure(planned: scenario.Scenario) -> tuple[float, plan.Run, report.TierReport]:
    """CPU seconds, and what came of it."""
    begun = time.process_time()
    run = plan.simulate(planned)
    (tier,) = report.report(run)
    return time.process_time() - begun, run, tier
