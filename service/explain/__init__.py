"""Why a tier is as fast and as dear as it is: all that follows from its pool's numbers, for requests of one shape.

`explain` answers what `fastmode explain` and `GET /v1/tiers/{tier}` show. Of a pool that was measured nothing can be
derived: then what is known of it is all there is.
"""

from dataclasses import dataclass
from statistics import median
from typing import Literal

from service.errors import InvalidRequest, NotFound
from service.explain.capacity import Capacity, Wafers, capacity, wafers
from service.explain.point import Point, Shape
from service.explain.premium import Premium, premium_over
from service.explain.serving import EqualSpeed, Request, equal_speeds, requests
from service.explain.stepping import Curve, FirstToken, Operation, Part, curve, first_token, operation, parts
from service.explain.theories import Factor, Theory, factors, theories
from service.figures import Figure, in_words
from service.pools import Pool, Roofline
from service.tiers import Catalog, Offer, find, not_sold
from service.timings import Fixed

PROMPT, OUTPUT = 2_000, 500  # tokens: a short chat


@dataclass(frozen=True, slots=True, kw_only=True)
class Physics:
    """What follows from hardware, model and load. `base` is the model's default tier, at the same shape of request."""

    base: str | None  # None: this is the default tier, or that one was measured
    operation: Operation
    base_operation: Operation | None
    step: tuple[Part, ...]
    curve: Curve
    first_token: FirstToken
    capacity: Capacity
    wafers: tuple[Wafers, ...]
    premium: Premium | None
    factors: tuple[Factor, ...]
    theories: tuple[Theory, ...]
    requests: tuple[Request, ...]
    equal_speeds: tuple[EqualSpeed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """`dataclasses.asdict` gives JSON-able values."""

    object: Literal["tier.explanation"] = "tier.explanation"
    model: str
    tier: str
    summary: str
    pool: str
    deployment: str
    timing: Literal["roofline", "fixed", "empirical"]
    prompt: int
    output: int
    known: dict[str, Figure]  # what the catalog says
    physics: Physics | None  # None: the pool was measured


def explain(
    catalog: Catalog, tier: str, model: str | None = None, prompt: int | None = None, output: int | None = None
) -> Explanation:
    """`tier` is a tier's name or a word for it; without a `model`, the first that is sold there. Sizes in tokens.

    Raises NotFound for a tier that nobody knows, ModelNotFound, TierNotOffered, and InvalidRequest for sizes that do
    not fit the model's context window.
    """
    offer = _offer(catalog, tier, model)
    shape = _shape(offer, prompt, output)
    pool = catalog.pools[offer.pool]
    return Explanation(
        model=offer.model,
        tier=offer.tier,
        summary=catalog.tiers[offer.tier].summary,
        pool=pool.name,
        deployment=in_words(catalog, pool),
        timing=_kind(pool),
        prompt=shape.prompt,
        output=shape.output,
        known=_known(catalog, offer, pool),
        physics=_physics(catalog, offer, shape) if isinstance(pool.timing, Roofline) else None,
    )


def _offer(catalog: Catalog, tier: str, model: str | None) -> Offer:
    words = {word: name for name, one in catalog.tiers.items() for word in (*one.words, name)}
    if tier not in words and tier not in catalog.default_words:
        known = ", ".join(map(repr, words))
        raise NotFound(
            f"The tier {tier[:100]!r} does not exist; known are {known}.", code="tier_not_found", param="tier"
        )
    name = words.get(tier)
    if model is not None:
        served = find(catalog, model)
        wanted = served.default_tier if name is None else name
        if wanted not in served.offers:
            raise not_sold(served, wanted)
        return served.offers[wanted]
    sold = (served for served in catalog.models.values() if name is None or name in served.offers)
    first = next(sold, None)
    if first is None:
        raise NotFound(f"No model is sold at the {name} tier.", code="tier_not_found", param="tier")
    return first.offers[first.default_tier if name is None else name]


def _shape(offer: Offer, prompt: int | None, output: int | None) -> Shape:
    window = offer.context_window
    for name, given in (("context", prompt), ("output", output)):
        if given is not None and given < 1:
            raise InvalidRequest(f"Invalid '{name}': expected at least 1 token, but got {given}.", param=name)
    written = min(OUTPUT, max(1, window // 5)) if output is None else output
    read = max(1, min(PROMPT, window - written)) if prompt is None else prompt
    if read + written > window:
        raise InvalidRequest(
            f"{read:,} tokens of context and {written:,} of output do not fit the {window:,} that"
            f" {offer.model!r} takes at the {offer.tier} tier.",
            param="context" if prompt is not None else "output",
        )
    return Shape(read, 0, written)


def _kind(pool: Pool) -> Literal["roofline", "fixed", "empirical"]:
    if isinstance(pool.timing, Roofline):
        return "roofline"
    return "fixed" if isinstance(pool.timing, Fixed) else "empirical"


def _known(catalog: Catalog, offer: Offer, pool: Pool) -> dict[str, Figure]:
    """What the catalog says of the offer and its pool; of a pool that was measured, how fast it was as well."""
    point = Point(catalog, offer, Shape(PROMPT, 0, OUTPUT))
    sold = ("models", offer.model, "offers", offer.tier, "price")
    at = ("pools", pool.name)
    known = {
        "price_input": point.given(offer.price.input / 1000, "$/MTok", *sold, "input"),
        "price_cached_input": point.given(offer.price.cached_input / 1000, "$/MTok", *sold, "cached_input"),
        "price_output": point.given(offer.price.output / 1000, "$/MTok", *sold, "output"),
        "replicas": point.given(pool.replicas, "replicas", *at, "replicas"),
        "max_batch": point.given(pool.limits.max_batch, "requests", *at, "max_batch"),
        "ambient_sequences": point.given(pool.ambient.sequences, "requests", *at, "ambient", "sequences"),
        "ambient_context": point.given(pool.ambient.context, "tokens", *at, "ambient", "context"),
        "utilisation": point.given(100 * pool.utilisation, "%", *at, "utilisation"),
        "front_end": point.given(1e3 * pool.frontend_median, "ms", *at, "front_end", "median_ms"),
    }
    return {**known, **_rate(point, pool)}


def _rate(point: Point, pool: Pool) -> dict[str, Figure]:
    """What it costs and how it is timed, in the catalog's own numbers."""
    timing, at = pool.timing, ("pools", pool.name)
    if isinstance(timing, Roofline):
        chip = ("accelerators", timing.accelerator.name)
        return {"dollars_per_hour": point.given(point.dollars_per_hour, "$/h of a replica", *chip, "dollars_per_hour")}
    found = {}
    if pool.dollars_per_hour is not None:
        found["dollars_per_hour"] = point.given(pool.dollars_per_hour, "$/h of a replica", *at, "dollars_per_hour")
    if isinstance(timing, Fixed):
        said = (*at, "fixed")
        return {
            **found,
            "ttft": point.given(1e3 * timing.ttft, "ms, median", *said, "ttft_ms"),
            "ttft_sigma": point.given(timing.ttft_sigma, "of ln TTFT", *said, "ttft_sigma"),
            "ttft_per_1k_prompt": point.given(1e6 * timing.ttft_per_token, "ms", *said, "ttft_ms_per_1k_prompt"),
            "speed": point.given(timing.rate, "tok/s, median", *said, "tok_s"),
            "speed_sigma": point.given(timing.rate_sigma, "of ln tok/s", *said, "tok_s_sigma"),
            "load_slope": point.given(timing.load_slope, "per further request", *said, "load_slope"),
        }
    measured = (*at, "empirical", "requests")
    return {
        **found,
        "samples": point.given(len(timing.samples), "requests", *measured),
        "ttft": point.given(1e3 * median(ttft for ttft, _ in timing.samples), "ms, median", *measured),
        "speed": point.given(median(rate for _, rate in timing.samples), "tok/s, median", *measured),
    }


def _physics(catalog: Catalog, offer: Offer, shape: Shape) -> Physics:
    point = Point(catalog, offer, shape)
    served = catalog.models[offer.model]
    default = Point(catalog, served.offers[served.default_tier], shape)
    comparable = default.offer != offer and isinstance(default.pool.timing, Roofline)
    base = default if comparable else None
    return Physics(
        base=base.offer.tier if base else None,
        operation=operation(point),
        base_operation=operation(base) if base else None,
        step=parts(point),
        curve=curve(point),
        first_token=first_token(point),
        capacity=capacity(point),
        wafers=wafers(point),
        premium=premium_over(point, base) if base else None,
        factors=factors(point, base) if base else (),
        theories=theories(point, base or point),
        requests=requests(point, base),
        equal_speeds=equal_speeds(point, base) if base else (),
    )
