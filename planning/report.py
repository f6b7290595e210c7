"""What a run means in percentiles, shares and dollars: figures that say what they rest on.

Who pays: the whole fleet is paid for from the first request to the last token. Each tier, and the ambient load if there
is one, bears the cost of its pool by its share of the sequences in flight, for it generates tokens at the same speed as
the others. Revenue is that of the planned requests alone, at list prices.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

import numpy as np

from planning.plan import Run
from planning.scenario import Scenario
from planning.tally import NO_OBJECTIVE, Tally
from service.figures import DIGITS, Figure
from service.pools import Pool, Roofline
from service.pricing import bill
from service.provenance import Kind
from service.tiers import Catalog

_NAMED_MAX = 3  # keys of one table that are named one by one
_SETTINGS = ("replicas", "max_batch", "prefill_chunk", "queue", "prefix_cache", "incidents")  # of what is planned


@dataclass(frozen=True, slots=True)
class TierReport:
    tier: str
    model: str
    pool: str
    figures: Mapping[str, Figure]  # by name; what does not apply is missing


def report(run: Run) -> list[TierReport]:
    """The figures of each route."""
    return [_Tier(run, tally).report() for tally in run.tallies]


def plain(run: Run) -> dict[str, Any]:
    """A run as JSON-able values."""
    return {
        "workload": str(run.scenario.workload),
        "seed": run.scenario.seed,
        "span_s": run.span,
        "assumptions": assumptions(run.scenario),
        "tiers": [asdict(tier) for tier in report(run)],
    }


class _Tier:
    """One route of a run, and what its figures are made of."""

    def __init__(self, run: Run, tally: Tally) -> None:
        self._run = run
        self._tally = tally
        self._catalog = run.scenario.catalog
        self._pool = run.scenario.pools[tally.offer.pool]
        self._usage = tally.usage()
        self._others = _others(self._pool)
        self._speed = _assumed_of(self._catalog, self._pool)
        own = [other for other in run.tallies if other.offer.pool == self._pool.name]
        total = sum(other.seconds for other in own) + self._others * self._pool.replicas * run.span
        self._pays = tally.seconds / total if total else 1 / len(own)

    def report(self) -> TierReport:
        figures = {
            **self._outcomes(),
            **self._latencies(),
            **self._use(),
            **self._throughput(),
            **self._money(),
            **self._goodput(),
        }
        return TierReport(self._tally.offer.tier, self._tally.offer.model, self._pool.name, figures)

    def _outcomes(self) -> dict[str, Figure]:
        speed = ", ".join(self._speed)
        notes = {
            "asked": "in the workload",
            "completed": "got all their tokens",
            "full": "the queue was full: 429 queue_full",
            "late": "waited longer than the queue allows: 429 queue_deadline",
            "refused": "beyond the context window, the output limit or the KV cache",
        }
        return {
            name: Figure(getattr(self._tally, name), "requests", "derived", note, "" if name == "asked" else speed)
            for name, note in notes.items()
        }

    def _latencies(self) -> dict[str, Figure]:
        samples = self._tally.samples()
        figures: dict[str, Figure] = {}
        front_end: tuple[str, ...] = ()
        if self._pool.frontend_median:
            median = self._given("front_end", 1e3 * self._pool.frontend_median, "ms", "front_end", "median_ms")
            front_end = ("front-end TTFT",) if median["front_end"].kind == "assumed" else ()
            figures |= median
        note = "from arrival: queue, front end, batch, prefill; the front-end term is a setting"
        figures |= self._percentiles("ttft", samples["ttft"], "s", note, *front_end)
        figures |= self._percentiles("tpot", 1e3 * samples["tpot"], "ms", "(last - first token) / (tokens - 1)")
        figures |= self._percentiles("wait", samples["wait"], "s", "in the queue, until a slot is free")
        if "tpot_p50" in figures:
            figures["speed_p50"] = self._derived(1e3 / figures["tpot_p50"].value, "tok/s", "1 / TPOT")
        return figures

    def _percentiles(self, name: str, values: Any, unit: str, note: str, *assumed: str) -> dict[str, Figure]:
        if not len(values):
            return {}
        ranks = (50, 90, 99)
        found = zip(ranks, np.percentile(values, ranks), strict=True)
        return {f"{name}_p{rank}": self._derived(float(value), unit, note, *assumed) for rank, value in found}

    def _use(self) -> dict[str, Figure]:
        pool, samples = self._pool, self._run.samples[self._pool.name]
        busy, running = _mean(samples.busy) / pool.replicas, _mean(samples.running) / pool.replicas
        figures = {
            **self._set_to("replicas", pool.replicas),
            **self._set_to("max_batch", pool.limits.max_batch),
            "busy": self._derived(100 * busy, "%", "share of the time in which a replica runs requests of the plan"),
            "batch": self._derived(running, "sequences", "of the plan, running on a replica, in the mean over time"),
        }
        if self._others:
            figures |= self._given("ambient", self._others, "sequences", "ambient", "sequences")
        full = (running + self._others) / pool.limits.max_batch
        note = f"of the {pool.limits.max_batch} slots of a replica, the ambient load included"
        figures["occupancy"] = self._derived(100 * full, "%", note)
        if pool.kv_room < inf:
            held = _mean(samples.kv) / pool.replicas / pool.kv_room
            note = "of the tokens there is room for beside the ambient load's peak; what is only cached does not count"
            figures["kv"] = self._derived(100 * held, "%", note)
        return figures

    def _set_to(self, name: str, value: int) -> dict[str, Figure]:
        """A setting of the pool: as the catalog has it, or found."""
        if self._pool.replicas == self._catalog.pools[self._pool.name].replicas:
            return self._given(name, value, "", name)
        return {name: Figure(value, "", "derived", "found")}

    def _throughput(self) -> dict[str, Figure]:
        rate = self._usage.completion / self._run.span
        figures = {"output_rate": self._derived(rate, "tok/s", "output, until the last token")}
        timing = self._pool.timing
        if isinstance(timing, Roofline) and self._pays:
            chips = self._pool.replicas * timing.deployment.chips * self._pays
            figures["chip_rate"] = self._derived(rate / chips, "tok/s", "output, by the chips it pays for")
        if self._pool.prefix_cache is not None and self._usage.prompt:
            share = self._usage.cached / self._usage.prompt
            figures["cached"] = self._derived(100 * share, "%", "of the prompt tokens, found in the cache")
        return figures

    def _money(self) -> dict[str, Figure]:
        pool, offer, span = self._pool, self._tally.offer, self._run.span
        revenue = bill(offer.price, self._usage).total / 1e9
        priced = _kind(self._catalog, "models", offer.model, "offers", offer.tier, "price", "output")
        listed = ("list price",) if priced == "assumed" else ()
        note = "list prices, cached tokens at the cached price"
        figures = {"revenue": self._derived(revenue, "$", note, *listed)}
        if pool.dollars_per_hour is None:
            return figures
        cost = pool.replicas * pool.dollars_per_hour * span / 3600 * self._pays
        assumed = self._assumed_dollars()
        paid = f"{pool.replicas} replicas at {pool.dollars_per_hour:g} $/h for {span:.0f} s"
        paid += f", {self._pays:.2%} of it: its share of the sequences in flight" if self._pays < 1 else ""
        figures["cost"] = self._derived(cost, "$", paid, *assumed)
        if self._usage.completion:
            note = "all of the cost, input included, by the output"
            figures["cost_output"] = self._derived(cost * 1e6 / self._usage.completion, "$/MTok", note, *assumed)
        note = "list revenue - cost to serve"
        figures["margin"] = self._derived(revenue - cost, "$", note, *assumed, *listed)
        if revenue:
            share = 100 * (1 - cost / revenue)
            figures["margin_share"] = self._derived(share, "%", "of the list revenue", *assumed, *listed)
        return figures

    def _assumed_dollars(self) -> tuple[str, ...]:
        timing = self._pool.timing
        if isinstance(timing, Roofline):
            kind = _kind(self._catalog, "accelerators", timing.accelerator.name, "dollars_per_hour")
            return (f"$/h of a {timing.accelerator.name}",) if kind == "assumed" else ()
        return ("$/h",) if _kind(self._catalog, "pools", self._pool.name, "dollars_per_hour") == "assumed" else ()

    def _goodput(self) -> dict[str, Figure]:
        tally, objective = self._tally, self._tally.objective
        if objective == NO_OBJECTIVE:
            return {}
        note = f"completed within the SLO: {objective}"
        return {
            "goodput": self._derived(tally.met / self._run.span, "requests/s", note),
            "met": self._derived(100 * tally.share_met, "%", f"{objective}; of all requests that were not refused"),
        }

    def _derived(self, value: float, unit: str, note: str, *assumed: str) -> Figure:
        """Of the run: it rests on what the speed rests on, and on what is `assumed` beside."""
        return Figure(_rounded(value), unit, "derived", note, ", ".join((*self._speed, *assumed)))

    def _given(self, name: str, value: float, unit: str, *path: str) -> dict[str, Figure]:
        kind = _kind(self._catalog, "pools", self._pool.name, *path)
        return {name: Figure(_rounded(value), unit, kind, f"{'.'.join(path)} of the pool {self._pool.name}")}


def assumptions(scenario: Scenario) -> list[str]:
    """What a reader has to know to believe the figures, or not to."""
    pools = scenario.pools.values()
    ambient = any(pool.ambient.sequences for pool in pools)
    recorded = [pool.name for pool in pools if not isinstance(pool.timing, Roofline)]
    unpriced = [pool.name for pool in pools if pool.dollars_per_hour is None]
    troubled = [pool.name for pool in pools if pool.incidents]
    front_ends = {
        f"{pool.frontend_median * 1e3:g} ms, sigma {pool.frontend_sigma:g}" for pool in pools if pool.frontend_median
    }
    return [
        *(
            ["Speeds are those of the step-time formula, which errs by 15 % in the mean on published measurements."]
            if len(recorded) < len(pools)
            else []
        ),
        *([f"Speeds of {', '.join(recorded)} are drawn from what the catalog says was measured."] if recorded else []),
        *([f"What {', '.join(unpriced)} costs is not known: no dollars_per_hour is given."] if unpriced else []),
        *([f"The incidents of {', '.join(troubled)} happen as the catalog says."] if troubled else []),
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
        *_reasons(scenario),
    ]


def _reasons(scenario: Scenario) -> Iterator[str]:
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


def _assumed_of(catalog: Catalog, pool: Pool) -> tuple[str, ...]:
    """What the speed of a pool rests on and the catalog assumes, each thing once."""
    found: dict[str, None] = {}
    for path, source in catalog.provenance.items():
        key = path[2] if len(path) > 2 else ""
        if source.kind == "assumed" and _concerns(path, pool) and key not in (*_SETTINGS, "dollars_per_hour"):
            what = key if path[0] == "pools" else path[1] if path[0] == "architectures" else f"{path[1]} {key}"
            found[what] = None
    return tuple(found)


def _others(pool: Pool) -> float:
    """Ambient sequences of a replica, in the mean over time."""
    profile = pool.ambient.profile
    return pool.ambient.sequences * (sum(profile) / len(profile) if profile else 1.0)


def _kind(catalog: Catalog, *path: str) -> Kind:
    """Of the catalog's number there; what it does not say is assumed."""
    source = catalog.provenance.get(path)
    return "assumed" if source is None else source.kind


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
