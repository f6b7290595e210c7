"""The figures people are shown about each offer, with their units, and whether measured, derived or assumed.

Derived speeds are those of the step-time formula. On published measurements it errs by 15 % in the mean, so what
differs by less is not a difference.
"""

from dataclasses import dataclass

from service.pricing import cost_to_serve, floor_speed, implied_load, premium
from service.provenance import Kind
from service.tiers import Catalog, Offer, Pool

DIGITS = 4  # significant; more than the formula deserves, enough to check a measurement against it
MISJUDGED = 0.10  # relative error of a floor speed for which the note on a premium gives the consequences


@dataclass(frozen=True, slots=True)
class Figure:
    """`note` says what the figure rests on."""

    value: float
    unit: str
    kind: Kind
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One offer. `dataclasses.asdict` gives JSON-able values.

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
    floor_speed: Figure
    price_floor_speed: Figure | None  # None: there is no cheaper tier on the same chips to compare with
    price_input: Figure
    price_cached_input: Figure
    price_output: Figure
    cost_input: Figure
    cost_output: Figure


def rows(catalog: Catalog) -> list[Row]:
    """Every offer, in the order of the catalog."""
    return [_row(catalog, offer) for model in catalog.models.values() for offer in model.offers.values()]


def lone_speed(pool: Pool) -> float:
    """Tokens per second of a request that shares its replica with the ambient load alone, and has the same context."""
    return pool.step_time.speed(pool.limits.ambient_sequences + 1, pool.limits.ambient_context)


def in_words(catalog: Catalog, pool: Pool) -> str:
    """The deployment of a pool, in one line."""
    layout = pool.deployment
    guessed = catalog.provenance["architectures", pool.architecture.name, "layers"].kind == "assumed"
    parts = [
        f"{pool.architecture.name}{' (hypothetical)' if guessed else ''} on {layout.chips} x {pool.accelerator.name}",
        *(f"{name} parallel {ways}" for name, ways in _ways(pool) if ways > 1),
        f"bytes per weight {layout.dense_bytes:g}",
        *([f"per expert weight {layout.expert_bytes:g}"] if pool.architecture.expert_layers else []),
        f"per KV element {layout.kv_bytes:g}",
    ]
    if layout.speculation.drafts:
        drafts = layout.speculation.drafts
        parts.append(f"{drafts} draft{'s' * (drafts > 1)} for {layout.speculation.emitted:.2f} tokens per step")
    return ", ".join(parts)


def _ways(pool: Pool) -> list[tuple[str, int]]:
    layout = pool.deployment
    return [
        ("tensor", layout.tensor_parallel),
        ("data", layout.data_parallel),
        ("pipeline", layout.pipeline_parallel),
    ]


def _row(catalog: Catalog, offer: Offer) -> Row:
    pool = catalog.pools[offer.pool]
    limits, step = pool.limits, pool.step_time
    context = limits.ambient_context
    ambient = limits.ambient_sequences + 1
    full = min(limits.max_batch, max(1.0, step.kv_capacity / context))
    dollars = pool.deployment.chips * pool.accelerator.dollars_per_hour
    prefill = step.cp + step.ca * context / 2
    layout = catalog.provenance["pools", pool.name, "deployment", "dense_bytes"]

    def given(value: float, unit: str, *path: str) -> Figure:
        source = catalog.provenance[path]
        return Figure(value, unit, source.kind, f"{source.reference} ({source.date})")

    def speed(n: float) -> Figure:
        note = f"{n:g} sequences in flight on a replica, {context:g} tokens of context each"
        return _derived(step.speed(n, context), "tok/s", note)

    def price(kind: str, nanodollars: int) -> Figure:
        return given(nanodollars / 1000, "$/MTok", "models", offer.model, "offers", offer.tier, "price", kind)

    def to_serve(tokens_per_second: float, note: str) -> Figure:
        paid = f"{dollars:g} $/h for each replica, in use {pool.utilisation:.0%} of the time (assumed)"
        return _derived(cost_to_serve(dollars, tokens_per_second, pool.utilisation), "$/MTok", f"{note}; {paid}")

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
        ambient_batch=given(limits.ambient_sequences, "sequences", "pools", pool.name, "ambient", "sequences"),
        max_batch=given(limits.max_batch, "sequences", "pools", pool.name, "max_batch"),
        speed_alone=speed(1),
        speed_ambient=speed(ambient),
        speed_full=speed(full),
        floor_speed=_derived(step.emitted / step.c0, "tok/s", "the limit of an empty batch: no batch is faster"),
        price_floor_speed=_price_floor(catalog, offer),
        price_input=price("input", offer.price.input),
        price_cached_input=price("cached_input", offer.price.cached_input),
        price_output=price("output", offer.price.output),
        cost_input=to_serve(1 / prefill, f"prefill alone, {context / 2:g} tokens of context attended in the mean"),
        cost_output=to_serve(ambient * step.speed(ambient, context), f"decode alone, {ambient:g} sequences in flight"),
    )


def _price_floor(catalog: Catalog, offer: Offer) -> Figure | None:
    """The floor speed at which chip time alone would explain this tier's price against that of the model's default."""
    default = catalog.models[offer.model].offers[catalog.models[offer.model].default_tier]
    pool, base = catalog.pools[offer.pool], catalog.pools[default.pool]
    if (pool.accelerator, pool.architecture) != (base.accelerator, base.architecture):
        return None
    speed, speedup = lone_speed(pool), lone_speed(pool) / lone_speed(base)
    if speedup <= 1 or offer.price.output <= default.price.output:
        return None
    ratio = offer.price.output / default.price.output
    floor = floor_speed(speed, implied_load(speedup, ratio))
    loads = [floor * (1 + error) / speed - 1 for error in (-MISJUDGED, MISJUDGED)]
    high, low = (f"{premium(speedup, load):.2g}x" if load > 0 else "no bound" for load in loads)
    return _derived(
        floor,
        "tok/s",
        f"where an affine step time makes {speedup:.2g}x speed cost the listed {ratio:.2g}x; ill-conditioned:"
        f" a floor {MISJUDGED:.0%} lower or higher gives {high} or {low}",
    )


def _derived(value: float, unit: str, note: str) -> Figure:
    return Figure(float(f"{value:.{DIGITS}g}"), unit, "derived", note)
