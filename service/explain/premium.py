"""What speed costs on the same chips: the engine's own curve, and the lemma of an affine step time beside it.

With t(B) = a(1 + beta*B), a speed-up g over the cheaper tier, and x2 = beta*B_fast, chip time makes the premium
R = 1 + (1 - 1/g)/x2; the floor speed is s_fast(1 + x2), and B_std/B_fast = g*R. Near the floor x2 is a small difference
of large numbers, so a floor that is 10 % off moves the premium by a multiple.
"""

from dataclasses import dataclass
from math import inf

from service.explain.point import SPEED, Point, Series, derived, rounded, together
from service.figures import MISJUDGED, Figure
from service.pricing import floor_speed, implied_load, premium, request_seconds

POINTS = 40  # of the curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Implied:
    """What an affine step time has to be for chip time to explain a ratio of prices or costs."""

    of: str
    ratio: Figure
    load: Figure  # x2
    floor_speed: Figure
    batch_ratio: Figure
    batch: Figure  # of the faster tier
    premium_if_floor_lower: Figure | None  # None: the floor would lie below the speed itself, and there is no bound
    premium_if_floor_higher: Figure
    curve: Series  # premium at the speed-ups of the engine's curve, with this floor
    curve_if_floor_lower: Series
    curve_if_floor_higher: Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Chip time of an output token against the speed-up, both over the base tier's and by the step time itself."""

    speedup: Series
    batch: Series
    premium: Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Premium:
    base: str  # the model's default tier
    speedup: Figure
    implied: tuple[Implied, ...]
    curve: Curve


def premium_over(point: Point, base: Point) -> Premium | None:
    """None: the tiers differ in chips or model, or this one is not the faster."""
    ours, theirs = point.timing, base.timing
    if (ours.accelerator, ours.architecture) != (theirs.accelerator, theirs.architecture) or point.speed <= base.speed:
        return None
    known = (*point.assumed(*SPEED, "load"), *base.assumed(*SPEED, "load"))
    curve = _curve(point, base, known)
    ratios = {
        "list price of an output token": point.offer.price.output / (base.offer.price.output or inf),
        "derived cost of an output token": _chip_time(point, point.batch) / _chip_time(base, base.batch),
        "derived cost of a request of this shape": _request(point) / _request(base),
    }
    return Premium(
        base=base.offer.tier,
        speedup=derived(point.speed / base.speed, "x", f"{point.speed:.4g} against {base.speed:.4g} tok/s", known),
        implied=tuple(_implied(point, base, of, ratio, known, curve) for of, ratio in ratios.items() if ratio > 1),
        curve=curve,
    )


def _implied(point: Point, base: Point, of: str, ratio: float, known: tuple[str, ...], curve: Curve) -> Implied:
    speedup = point.speed / base.speed
    load = implied_load(speedup, ratio)
    floor = floor_speed(point.speed, load)
    batch = base.batch * point.layout.chips / base.layout.chips / (speedup * ratio)

    def at(speedup: float, factor: float) -> float | None:
        x = factor * floor / (speedup * base.speed) - 1
        return premium(speedup, x) if x > 0 else None

    def if_floor(factor: float) -> Figure | None:
        moved = at(speedup, factor)
        return None if moved is None else derived(moved, "x", f"if the floor were {floor * factor:.4g} tok/s", known)

    def along(factor: float) -> Series:
        moved = (at(speedup, factor) for speedup in curve.speedup.values if speedup is not None)
        values = tuple(None if value is None else rounded(value) for value in moved)
        return Series(values, "x", "derived", f"affine step time, floor {floor * factor:.4g} tok/s", together(known))

    higher = if_floor(1 + MISJUDGED)
    assert higher is not None, "a floor above that of a speed is above the speed"
    return Implied(
        of=of,
        ratio=derived(ratio, "x", f"{of}, against {base.offer.tier}", () if of.startswith("list") else known),
        load=derived(load, "1", "x2 = (1 - 1/g)/(R - 1)", known),
        floor_speed=derived(floor, "tok/s", "s_fast(1 + x2): an empty batch of an affine step time", known),
        batch_ratio=derived(speedup * ratio, "x", "g*R", known),
        batch=derived(batch, "requests", f"{base.batch:.4g} of {base.offer.tier}, divided by g*R", known),
        premium_if_floor_lower=if_floor(1 - MISJUDGED),
        premium_if_floor_higher=higher,
        curve=along(1),
        curve_if_floor_lower=along(1 - MISJUDGED),
        curve_if_floor_higher=along(1 + MISJUDGED),
    )


def _curve(point: Point, base: Point, known: tuple[str, ...]) -> Curve:
    step, most = point.step, max(point.batch, base.batch * point.layout.chips / base.layout.chips)
    batches = {most ** (i / (POINTS - 1)) for i in range(POINTS)} | {point.batch}
    by_speed = sorted((step.speed(n, point.context) / base.speed, n) for n in batches)
    kept = [(speedup, n) for speedup, n in by_speed if speedup >= 1 - 1e-9]
    shared = _chip_time(base, base.batch)

    def series(values: list[float], unit: str, note: str) -> Series:
        return Series(tuple(map(rounded, values)), unit, "derived", note, together(known))

    return Curve(
        speedup=series([speedup for speedup, _ in kept], "x", f"over {base.speed:.4g} tok/s of {base.offer.tier}"),
        batch=series([n for _, n in kept], "requests", "in flight on a replica of this tier"),
        premium=series([_chip_time(point, n) / shared for _, n in kept], "x", "chip time of an output token"),
    )


def _chip_time(point: Point, batch: float) -> float:
    """Chip-seconds of an output token, decode alone."""
    return point.layout.chips / (batch * point.step.speed(batch, point.context))


def _request(point: Point) -> float:
    """Chip-seconds of a request."""
    shape = point.shape
    return point.layout.chips * request_seconds(point.step, point.batch, shape.prompt, shape.cached, shape.output)
