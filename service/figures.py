"""The figures people are shown about each offer, with their units, and whether measured, derived or assumed.

Derived speeds are those of the step-time formula. On published measurements it errs by 15 % in the mean, so what
differs by less is not a difference.
"""

from dataclasses import dataclass
from statistics import median

from service.pools import Pool, Roofline
from service.pricing import cost_to_serve, floor_speed, implied_load, premium
from service.provenance import Kind, Source
from service.tiers import Catalog, Offer
from service.timings import Fixed

DIGITS = 4  # significant; more than the formula deserves, enough to check a measurement against it
MISJUDGED = 0.10  # relative error of a floor speed for which the note on a premium gives the consequences


@dataclass(frozen=True, slots=True)
class Figure:
    """`note` says what the figure rests on, `assumes` which of the inputs of a derived one are assumed."""

    value: float
    unit: str
    kind: Kind
    note: str
    assumes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One offer. `dataclasses.asdict` gives JSON-able values. None: the pool was measured, and only physics could tell.

    Speeds are those of one request's stream. Costs are those of a token of output, and of a token of input that is
    computed, not cached.
    """

    model: str
    tier: str
    summary: str
    reported_as: str
    pool: str
    deployment: str
    deployment_kind: Kind
    deployment_note: str
    replicas: Figure
    ambient_batch: Figure
    max_batch: Figure
    speed_alone: Figure
    speed_ambient: Figure
    speed_full: Figure
    floor_speed: Figure | None
    price_floor_speed: Figure | None  # None, too: there is no cheaper tier on the same chips to compare with
    price_input: Figure
    price_cached_input: Figure
    price_output: Figure
    cost_input: Figure | None
    cost_output: Figure | None  # None: what a replica costs is not known


def rows(catalog: Catalog) -> list[Row]:
    """Every offer, in the order of the catalog."""
    return [_row(catalog, offer) for model in catalog.models.values() for offer in model.offers.values()]


def speed(pool: Pool, batch: float) -> float:
    """Tokens per second of each of `batch` requests on a replica, all with the ambient load's context."""
    timing = pool.timing
    if isinstance(timing, Roofline):
        return timing.step_time.speed(batch, pool.ambient.context)
    if isinstance(timing, Fixed):
        return timing.rate / (1 + timing.load_slope * (batch - 1))
    return median(rate for _, rate in timing.samples)


def lone_speed(pool: Pool) -> float:
    """Tokens per second of a request that shares its replica with the ambient load alone, and has the same context."""
    return speed(pool, pool.ambient.sequences + 1)


def in_words(catalog: Catalog, pool: Pool) -> str:
    """What a pool runs on, in one line."""
    timing = pool.timing
    if isinstance(timing, Fixed):
        loaded = f", slower by {timing.load_slope:.3g} for each further request" if timing.load_slope else ""
        return (
            f"unknown machines: TTFT {timing.ttft * 1e3:.4g} ms (sigma {timing.ttft_sigma:g}),"
            f" {timing.rate:.4g} tok/s (sigma {timing.rate_sigma:g}){loaded}"
        )
    if isinstance(timing, Roofline):
        return _deployed(catalog, timing)
    return f"unknown machines: {len(timing.samples)} recorded requests"


def _deployed(catalog: Catalog, timing: Roofline) -> str:
    layout = timing.deployment
    guessed = catalog.provenance["architectures", timing.architecture.name, "layers"].kind == "assumed"
    hypothetical = " (hypothetical)" if guessed else ""
    ways = {"tensor": layout.tensor_parallel, "data": layout.data_parallel, "pipeline": layout.pipeline_parallel}
    parts = [
        f"{timing.architecture.name}{hypothetical} on {layout.chips} x {timing.accelerator.name}",
        *(f"{name} parallel {count}" for name, count in ways.items() if count > 1),
        f"bytes per weight {layout.dense_bytes:g}",
        *([f"per expert weight {layout.expert_bytes:g}"] if timing.architecture.expert_layers else []),
        f"per KV element {layout.kv_bytes:g}",
    ]
    if layout.speculation.drafts:
        drafts = layout.speculation.drafts
        parts.append(f"{drafts} draft{'s' * (drafts > 1)} for {layout.speculation.emitted:.2f} tokens per step")
    return ", ".join(parts)


def _row(catalog: Catalog, offer: Offer) -> Row:
    pool = catalog.pools[offer.pool]
    ambient = pool.ambient.sequences + 1
    layout = _layout(catalog, pool)

    def given(value: float, unit: str, *path: str) -> Figure:
        source = catalog.provenance[path]
        return Figure(value, unit, source.kind, f"{source.reference} ({source.date})")

    def price(kind: str, nanodollars: int) -> Figure:
        return given(nanodollars / 1000, "$/MTok", "models", offer.model, "offers", offer.tier, "price", kind)

    return Row(
        model=offer.model,
        tier=offer.tier,
        summary=catalog.tiers[offer.tier].summary,
        reported_as=offer.reported_as,
        pool=pool.name,
        deployment=in_words(catalog, pool),
        deployment_kind=layout.kind,
        deployment_note=f"{layout.reference} ({layout.date})",
        replicas=given(pool.replicas, "replicas", "pools", pool.name, "replicas"),
        ambient_batch=given(pool.ambient.sequences, "sequences", "pools", pool.name, "ambient", "sequences"),
        max_batch=given(pool.limits.max_batch, "sequences", "pools", pool.name, "max_batch"),
        speed_alone=_speed(pool, 1, layout),
        speed_ambient=_speed(pool, ambient, layout),
        speed_full=_speed(pool, _full(pool), layout),
        floor_speed=_floor(pool),
        price_floor_speed=_price_floor(catalog, offer),
        price_input=price("input", offer.price.input),
        price_cached_input=price("cached_input", offer.price.cached_input),
        price_output=price("output", offer.price.output),
        cost_input=_cost_input(pool),
        cost_output=_to_serve(pool, ambient * speed(pool, ambient), f"decode alone, {ambient:g} sequences in flight"),
    )


def _layout(catalog: Catalog, pool: Pool) -> Source:
    """Who says what a pool runs on, or how fast it was."""
    if isinstance(pool.timing, Roofline):
        return catalog.provenance["pools", pool.name, "deployment", "dense_bytes"]
    if isinstance(pool.timing, Fixed):
        return catalog.provenance["pools", pool.name, "fixed", "tok_s"]
    return catalog.provenance["pools", pool.name, "empirical", "requests"]


def _full(pool: Pool) -> float:
    """Sequences with the ambient load's context that a replica takes at once."""
    if not isinstance(pool.timing, Roofline):
        return pool.limits.max_batch
    return min(pool.limits.max_batch, max(1.0, pool.timing.step_time.kv_capacity / pool.ambient.context))


def _speed(pool: Pool, batch: float, layout: Source) -> Figure:
    value, note = speed(pool, batch), f"{batch:g} sequences in flight on a replica"
    if isinstance(pool.timing, Roofline):
        return _derived(value, "tok/s", f"{note}, {pool.ambient.context:g} tokens of context each")
    if isinstance(pool.timing, Fixed):
        return Figure(_rounded(value), "tok/s", layout.kind, f"median, {note}; {layout.reference} ({layout.date})")
    note = f"median of {len(pool.timing.samples)} requests, whatever the load"
    return Figure(_rounded(value), "tok/s", layout.kind, f"{note}; {layout.reference} ({layout.date})")


def _floor(pool: Pool) -> Figure | None:
    if not isinstance(pool.timing, Roofline):
        return None
    step = pool.timing.step_time
    return _derived(step.emitted / step.c0, "tok/s", "the limit of an empty batch: no batch is faster")


def _cost_input(pool: Pool) -> Figure | None:
    if not isinstance(pool.timing, Roofline):
        return None
    step, attended = pool.timing.step_time, pool.ambient.context / 2
    note = f"prefill alone, {attended:g} tokens of context attended in the mean"
    return _to_serve(pool, 1 / (step.cp + step.ca * attended), note)


def _to_serve(pool: Pool, tokens_per_second: float, note: str) -> Figure | None:
    dollars = pool.dollars_per_hour
    if dollars is None:
        return None
    paid = f"{dollars:g} $/h for each replica, in use {pool.utilisation:.0%} of the time (assumed)"
    return _derived(cost_to_serve(dollars, tokens_per_second, pool.utilisation), "$/MTok", f"{note}; {paid}")


def _price_floor(catalog: Catalog, offer: Offer) -> Figure | None:
    """The floor speed at which chip time alone would explain this tier's price against that of the model's default."""
    default = catalog.models[offer.model].offers[catalog.models[offer.model].default_tier]
    pool, base = catalog.pools[offer.pool], catalog.pools[default.pool]
    if not _same_chips(pool, base):
        return None
    own, speedup = lone_speed(pool), lone_speed(pool) / lone_speed(base)
    if speedup <= 1 or offer.price.output <= default.price.output:
        return None
    ratio = offer.price.output / default.price.output
    floor = floor_speed(own, implied_load(speedup, ratio))
    loads = [floor * (1 + error) / own - 1 for error in (-MISJUDGED, MISJUDGED)]
    high, low = (f"{premium(speedup, load):.2g}x" if load > 0 else "no bound" for load in loads)
    return _derived(
        floor,
        "tok/s",
        f"where an affine step time makes {speedup:.2g}x speed cost the listed {ratio:.2g}x; ill-conditioned:"
        f" a floor {MISJUDGED:.0%} lower or higher gives {high} or {low}",
    )


def _same_chips(pool: Pool, base: Pool) -> bool:
    timing, other = pool.timing, base.timing
    return (
        isinstance(timing, Roofline)
        and isinstance(other, Roofline)
        and (timing.accelerator, timing.architecture) == (other.accelerator, other.architecture)
    )


def _derived(value: float, unit: str, note: str) -> Figure:
    return Figure(_rounded(value), unit, "derived", note)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
