"""What it costs to serve a whole request, at this tier and at the model's default one: short chats, long agent turns.

As the catalog runs its pools, and at equal speeds: the default tier's chips loaded until each request has the speed the
tier is known for, the prefill of the others included, once as they are laid out and once with the experts spread wide,
which is how a large batch is cheapest.
"""

from dataclasses import dataclass, replace
from typing import Literal

from service.explain.point import PAID, SPEED, Input, Point, Shape, derived
from service.figures import Figure, lone_speed
from service.hardware import Gpu
from service.messages import Usage
from service.pricing import batch_at, request_seconds, request_speed
from service.pricing import cost as list_cost
from service.roofline import BOARD_CHIPS, Deployment, StepTime, fold

WIDE = 4 * BOARD_CHIPS  # chips that share the experts

_COST: tuple[Input, ...] = (*SPEED, "prefill", "load", *PAID)

Layout = Literal["as laid out", "wide expert parallelism"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Costs in $ of a thousand such requests. None: it does not fit, or there is no other tier to compare with."""

    name: str
    prompt: int
    cached: int
    output: int
    batch: Figure
    cost: Figure
    base_batch: Figure | None
    base_cost: Figure | None
    cost_ratio: Figure | None
    list_price: Figure
    list_ratio: Figure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualSpeed:
    """The cost of this tier's speed on the default tier's chips, where `layout` is how the default tier uses them."""

    name: str
    prompt: int
    cached: int
    output: int
    layout: Layout
    base_speed: Figure
    speed: Figure
    base_batch: Figure
    batch: Figure
    cost_ratio: Figure


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    shape: Shape


_KNOWN = (
    _Named("short chat", Shape(2_000, 0, 500)),
    _Named("agent turn, 95 % cached", Shape(40_000, 38_000, 600)),
    _Named("long agent turn, 95 % cached", Shape(100_000, 95_000, 600)),
)


@dataclass(frozen=True, slots=True)
class _Load:
    batch: float
    speed: float  # tok/s of each request
    seconds: float  # of the whole machine, for one request

    @classmethod
    def at(cls, step: StepTime, speed: float, shape: Shape) -> "_Load":
        """Where each request runs at `speed`, or the nearest to it."""
        tokens = (shape.prompt, shape.cached, shape.output)
        batch = batch_at(step, speed, *tokens)
        return cls(batch, request_speed(step, batch, *tokens), request_seconds(step, batch, *tokens))


def requests(point: Point, base: Point | None) -> tuple[Request, ...]:
    """The shape that is asked about, a short chat, and agent turns. `base` is the default tier at work, or None."""
    return tuple(_request(point, base, named) for named in _shapes(point) if _fits(named.shape, point, base))


def equal_speeds(point: Point, base: Point) -> tuple[EqualSpeed, ...]:
    """Empty unless both tiers have the same model on the same chips, and this one is faster."""
    ours, theirs = point.timing, base.timing
    same = (ours.accelerator, ours.architecture) == (theirs.accelerator, theirs.architecture)
    if not same or lone_speed(point.pool) <= lone_speed(base.pool):
        return ()
    layouts: dict[Layout, Deployment] = {"as laid out": base.layout}
    if isinstance(theirs.accelerator, Gpu) and theirs.architecture.expert_layers and base.layout.chips < WIDE:
        layouts["wide expert parallelism"] = replace(base.layout, tensor_parallel=1, data_parallel=WIDE)
    return tuple(
        _equal_speed(point, base, named, layout, deployment)
        for named in _shapes(point)
        if _fits(named.shape, point, base)
        for layout, deployment in layouts.items()
    )


def _shapes(point: Point) -> tuple[_Named, ...]:
    asked = () if point.shape in (shape.shape for shape in _KNOWN) else (_Named("as asked", point.shape),)
    return (*asked, *_KNOWN)


def _fits(shape: Shape, *points: Point | None) -> bool:
    return all(shape.prompt + shape.output <= point.offer.context_window for point in points if point)


def _request(point: Point, base: Point | None, named: _Named) -> Request:
    ours = replace(point, shape=named.shape)
    theirs = replace(base, shape=named.shape) if base else None
    shape = named.shape
    usage = Usage(prompt=shape.prompt, cached=shape.cached, completion=shape.output)
    listed = list_cost(point.offer.price, usage)
    base_listed = list_cost(base.offer.price, usage) if base else 0
    price = point.given(0, "$", "models", point.offer.model, "offers", point.offer.tier, "price", "output")
    guessed = ("list price",) if price.kind == "assumed" else ()
    return Request(
        name=named.name,
        prompt=shape.prompt,
        cached=shape.cached,
        output=shape.output,
        batch=_in_flight(ours),
        cost=_cost(ours),
        base_batch=_in_flight(theirs) if theirs else None,
        base_cost=_cost(theirs) if theirs else None,
        cost_ratio=_ratio(ours, theirs) if theirs else None,
        list_price=replace(price, value=listed / 1e6, unit="$ per 1,000"),
        list_ratio=derived(listed / base_listed, "x", "list prices", guessed) if base_listed else None,
    )


def _in_flight(point: Point) -> Figure:
    return point.derived(point.batch, "requests", "in flight on a replica, at most what the KV cache holds", "load")


def _cost(point: Point) -> Figure:
    """$ per 1,000 requests."""
    dollars = 1e3 * point.dollars_per_hour / 3600 * _replica_seconds(point) / point.pool.utilisation
    return point.derived(dollars, "$ per 1,000", f"prefill and decode, {point.paid}", *_COST)


def _ratio(ours: Point, theirs: Point) -> Figure | None:
    costs = [_replica_seconds(point) * point.dollars_per_hour / point.pool.utilisation for point in (ours, theirs)]
    if not costs[1]:
        return None
    note = f"cost to serve against {theirs.offer.tier}, both as the catalog runs them"
    return derived(costs[0] / costs[1], "x", note, ours.assumed(*_COST), theirs.assumed(*_COST))


def _replica_seconds(point: Point) -> float:
    shape = point.shape
    return request_seconds(point.step, point.batch, shape.prompt, shape.cached, shape.output)


def _equal_speed(point: Point, base: Point, named: _Named, layout: Layout, deployment: Deployment) -> EqualSpeed:
    shape, timing = named.shape, base.timing
    step = fold(timing.accelerator, timing.architecture, deployment)
    inputs: tuple[Input, ...] = (*SPEED, "prefill", "load")
    assumed = (*point.assumed(*inputs), *base.assumed(*inputs))
    speeds = lone_speed(base.pool), lone_speed(point.pool)
    base_load, load = _Load.at(step, speeds[0], shape), _Load.at(point.step, speeds[1], shape)
    ratio = load.seconds * point.layout.chips / (base_load.seconds * deployment.chips)

    def speed(load: _Load) -> Figure:
        return derived(load.speed, "tok/s", "of each request, the prefill of the others included", assumed)

    def batch(load: _Load, chips: int) -> Figure:
        return derived(load.batch, "requests", f"in flight on {chips} chips", assumed)

    return EqualSpeed(
        name=named.name,
        prompt=shape.prompt,
        cached=shape.cached,
        output=shape.output,
        layout=layout,
        base_speed=speed(base_load),
        speed=speed(load),
        base_batch=batch(base_load, deployment.chips),
        batch=batch(load, point.layout.chips),
        cost_ratio=derived(ratio, "x", "chip time of a request, prefill included", assumed),
    )
