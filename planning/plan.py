"""What a fleet would do: the service's queues and engines in virtual time, and what that means in seconds and dollars.

`simulate` runs a scenario, `report` turns the run into figures, each marked as derived or assumed.

Who pays: the whole fleet is paid for from the first request to the last token. Each tier, and the ambient load if there
is one, bears the cost of its pool by its share of the sequences in flight, for it generates tokens at the same speed as
the others. Revenue is that of the planned requests alone, at list prices.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from math import inf
from typing import Any

import numpy as np

from planning.fleet import Fleet, Samples
from planning.scenario import Scenario
from planning.tally import NO_OBJECTIVE, Tally
from service.figures import DIGITS, Figure
from service.pools import Pool, Roofline
from service.pricing import bill
from service.provenance import Kind

LOOKS = 240  # samples of each pool while requests come

_CHUNK = 1024
_NAMED_MAX = 3  # keys of one table that are named one by one

Request = tuple[float, int, int, tuple[int, ...], int, tuple[int, ...]]  # what is asked, and the routes it takes
GoOn = Callable[[int, tuple[Tally, ...]], bool]  # given how many requests have come, and what became of them


@dataclass(frozen=True, slots=True)
class Run:
    """What a scenario came to. Tallies stand in the order of its routes; `span` is the time until the last token."""

    scenario: Scenario
    tallies: tuple[Tally, ...]
    samples: Mapping[str, Samples]  # by pool
    span: float


@dataclass(frozen=True, slots=True)
class TierReport:
    tier: str
    model: str
    pool: str
    figures: Mapping[str, Figure]  # by name; what does not apply is missing


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


def report(run: Run) -> list[TierReport]:
    """The figures of each route."""
    return [_tier(run, tally) for tally in run.tallies]


def plain(run: Run) -> dict[str, Any]:
    """A run as JSON-able values."""
    return {
        "workload": str(run.scenario.workload),
        "seed": run.scenario.seed,
        "span_s": run.span,
        "assumptions": assumptions(run.scenario),
        "tiers": [asdict(tier) for tier in report(run)],
    }


def _tier(run: Run, tally: Tally) -> TierReport:
    offer, pool = tally.offer, run.scenario.pools[tally.offer.pool]
    figures = {
        **_outcomes(tally),
        **_latencies(run, tally, pool),
        **_use(run, pool),
        **_throughput(run, tally, pool),
        **_money(run, tally, pool),
        **_goodput(run, tally),
    }
    return TierReport(offer.tier, offer.model, offer.pool, figures)


def _outcomes(tally: Tally) -> dict[str, Figure]:
    notes = {
        "asked": "",
        "completed": "",
        "full": "the queue was full: 429 queue_full",
        "late": "waited longer than the queue allows: 429 queue_deadline",
        "refused": "beyond the context window, the output limit or the KV cache",
    }
    return {name: _counted(getattr(tally, name), "requests", note) for name, note in notes.items()}


def _latencies(run: Run, tally: Tally, pool: Pool) -> dict[str, Figure]:
    if not tally.completed:
        return {}
    front_end = "from arrival: queue, front end, batch, prefill; the front-end term is a setting"
    between = "(last - first token) / (tokens - 1)"
    samples = tally.samples()
    figures = {
        **_percentiles("ttft", samples["ttft"], "s", 1.0, front_end),
        **_percentiles("tpot", samples["tpot"], "ms", 1e3, between),
        **_percentiles("wait", samples["wait"], "s", 1.0, "in the queue, until a slot is free"),
    }
    if pool.frontend_median:
        kind = _kind(run, "pools", pool.name, "front_end", "median_ms")
        figures["front_end"] = Figure(pool.frontend_median * 1e3, "ms", kind, "median; in every TTFT")
    if "tpot_p50" in figures:
        figures["speed_p50"] = _derived(1e3 / figures["tpot_p50"].value, "tok/s", "1 / TPOT")
    return figures


def _percentiles(name: str, values: Any, unit: str, scale: float, note: str) -> dict[str, Figure]:
    if not len(values):
        return {}
    return {
        f"{name}_p{rank}": _derived(float(value) * scale, unit, note)
        for rank, value in zip((50, 90, 99), np.percentile(values, (50, 90, 99)), strict=True)
    }


def _use(run: Run, pool: Pool) -> dict[str, Figure]:
    samples = run.samples[pool.name]
    found = pool.replicas != run.scenario.catalog.pools[pool.name].replicas
    busy, running = _mean(samples.busy) / pool.replicas, _mean(samples.running) / pool.replicas

    def set_to(value: int, name: str) -> Figure:
        return Figure(value, "", "derived" if found else _kind(run, "pools", pool.name, name), "of the pool planned")

    figures = {
        "replicas": set_to(pool.replicas, "replicas"),
        "max_batch": set_to(pool.limits.max_batch, "max_batch"),
        "busy": _derived(busy * 100, "%", "share of the time in which a replica runs requests of the plan"),
        "batch": _derived(running, "sequences", "of the plan, in the batch of a replica, in the mean over time"),
    }
    others = _others(pool)
    if others:
        kind = _kind(run, "pools", pool.name, "ambient")
        figures["ambient"] = Figure(_rounded(others), "sequences", kind, "other people's, of each replica")
    full = (running + others) / pool.limits.max_batch
    figures["occupancy"] = _derived(full * 100, "%", f"of the {pool.limits.max_batch} slots of a replica")
    if pool.kv_room < inf:
        held = 100 * _mean(samples.kv) / pool.replicas / pool.kv_room
        figures["kv"] = _derived(held, "%", "of the tokens there is room for beside the ambient load's peak")
    return figures


def _throughput(run: Run, tally: Tally, pool: Pool) -> dict[str, Figure]:
    usage = tally.usage()
    figures = {"output_rate": _derived(usage.completion / run.span, "tok/s", "output, until the last token")}
    if isinstance(pool.timing, Roofline):
        chips = pool.replicas * pool.timing.deployment.chips * _paid_share(run, tally, pool)
        if chips:
            note = "output, by the chips it pays for"
            figures["chip_rate"] = _derived(usage.completion / run.span / chips, "tok/s", note)
    if pool.prefix_cache is not None and usage.prompt:
        figures["cached"] = _derived(100 * usage.cached / usage.prompt, "%", "of the prompt tokens, found in the cache")
    return figures


def _money(run: Run, tally: Tally, pool: Pool) -> dict[str, Figure]:
    usage = tally.usage()
    revenue = bill(tally.offer.price, usage).total / 1e9
    priced = _kind(run, "models", tally.offer.model, "offers", tally.offer.tier, "price", "output")
    earned: Kind = "assumed" if priced == "assumed" else "derived"
    figures = {"revenue": Figure(_rounded(revenue), "$", earned, "list prices, cached tokens at the cached price")}
    if pool.dollars_per_hour is None:
        return figures
    share = _paid_share(run, tally, pool)
    cost = pool.replicas * pool.dollars_per_hour * run.span / 3600 * share
    dollars = _dollars_kind(run, pool)
    paid = f"{pool.replicas} replicas at {pool.dollars_per_hour:g} $/h for {run.span:.0f} s"
    paid += f", {share:.0%} of it: its share of the sequences in flight" if share < 1 else ""
    figures["cost"] = Figure(_rounded(cost), "$", dollars, paid)
    if usage.completion:
        note = "all of the cost, input included, by the output"
        figures["cost_output"] = Figure(_rounded(cost * 1e6 / usage.completion), "$/MTok", dollars, note)
    kind: Kind = "assumed" if "assumed" in (dollars, earned) else "derived"
    figures["margin"] = Figure(_rounded(revenue - cost), "$", kind, "list revenue - cost to serve")
    if revenue:
        figures["margin_share"] = Figure(_rounded(100 * (1 - cost / revenue)), "%", kind, "of the list revenue")
    return figures


def assumptions(scenario: Scenario) -> list[str]:
    """What a reader has to know to believe the figures, or not to."""
    ambient = any(pool.ambient.sequences for pool in scenario.pools.values())
    front_ends = {
        f"{pool.frontend_median * 1e3:g} ms, sigma {pool.frontend_sigma:g}"
        for pool in scenario.pools.values()
        if pool.frontend_median
    }
    return [
        "Speeds are those of the step-time formula, which errs by 15 % in the mean on published measurements.",
        "Nobody cancels, nobody asks again after a rejection, and each answer has as many tokens as the workload says.",
        *(
            [f"The front end's term in every TTFT is assumed: lognormal, median {', '.join(sorted(front_ends))}."]
            if front_ends
            else []
        ),
        (
            "The ambient load of the catalog is included: other people's requests share each replica, and bear its cost"
            " by their share of the sequences in flight. --no-ambient plans a fleet that is yours alone."
            if ambient
            else "No ambient load: these requests are all there is, and bear the whole cost of the fleet."
        ),
        "The fleet is paid for from the first request to the last token, idle or not; the catalog's utilisation is not"
        " applied on top.",
        (
            f"Prompts share beginnings as the traces say, in blocks of {scenario.workload.blocks} tokens."
            if scenario.workload.blocks
            else "Prompts have nothing in common: no prefix is ever found in a cache."
        ),
        *_assumed(scenario),
    ]


def _assumed(scenario: Scenario) -> Iterator[str]:
    """What of the pools and their machines the catalog calls assumed, by the reason it gives."""
    grouped: dict[str, dict[str, list[str]]] = {}
    for path, source in scenario.catalog.provenance.items():
        if source.kind == "assumed" and any(_concerns(path, pool) for pool in scenario.pools.values()):
            *table, key = path[1:]
            grouped.setdefault(source.reference, {}).setdefault(" ".join(table), []).append(key)
    for reference, tables in grouped.items():
        what = [f"{table} ({', '.join(keys)})" if len(keys) <= _NAMED_MAX else table for table, keys in tables.items()]
        yield f"Assumed: {', '.join(what)}. {reference}."


def _concerns(path: tuple[str, ...], pool: Pool) -> bool:
    timing = pool.timing
    machines = ("accelerators", timing.accelerator.name) if isinstance(timing, Roofline) else ()
    models = ("architectures", timing.architecture.name) if isinstance(timing, Roofline) else ()
    idle = ("utilisation", "front_end", *(() if pool.ambient.sequences else ("ambient",)))
    return path[:2] in (("pools", pool.name), machines, models) and path[2] not in idle


def _goodput(run: Run, tally: Tally) -> dict[str, Figure]:
    objective = tally.objective
    if objective == NO_OBJECTIVE:
        return {}
    note = f"{objective}; of all requests that were not refused"
    return {
        "goodput": _derived(tally.met / run.span, "requests/s", f"completed within the SLO: {objective}"),
        "met": _derived(100 * tally.share_met, "%", note),
    }


def _paid_share(run: Run, tally: Tally, pool: Pool) -> float:
    """Which share of its pool a tier pays for."""
    own = [other for other in run.tallies if other.offer.pool == pool.name]
    others = _others(pool) * pool.replicas * run.span
    total = sum(other.seconds for other in own) + others
    return tally.seconds / total if total else 1 / len(own)


def _others(pool: Pool) -> float:
    """Ambient sequences of a replica, in the mean over time."""
    profile = pool.ambient.profile
    return pool.ambient.sequences * (sum(profile) / len(profile) if profile else 1.0)


def _dollars_kind(run: Run, pool: Pool) -> Kind:
    if isinstance(pool.timing, Roofline):
        kind = _kind(run, "accelerators", pool.timing.accelerator.name, "dollars_per_hour")
    else:
        kind = _kind(run, "pools", pool.name, "dollars_per_hour")
    return "assumed" if kind == "assumed" else "derived"


def _kind(run: Run, *path: str) -> Kind:
    """Of the catalog's number there, or the weakest of those below."""
    provenance = run.scenario.catalog.provenance
    kinds = {source.kind for key, source in provenance.items() if key[: len(path)] == path}
    return next(kind for kind in ("assumed", "derived", "measured") if kind in kinds)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _counted(value: int, unit: str, note: str) -> Figure:
    return Figure(value, unit, "derived", note)


def _derived(value: float, unit: str, note: str) -> Figure:
    return Figure(_rounded(value), unit, "derived", note)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
