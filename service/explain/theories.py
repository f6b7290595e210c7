"""What else could make a tier faster: each theory alone, on the deployment of the model's default tier.

And for a tier on other machines, the factors whose product its speed-up is.
"""

from dataclasses import dataclass, replace
from math import ceil

from service.explain.point import SPEED, Point, derived
from service.figures import Figure
from service.hardware import Wafer
from service.models import Model
from service.roofline import Deployment, StepTime, causes, fold, memory

EIGHT_BITS, FOUR_BITS = 1.0, 0.5 + 1 / 16  # bytes; four-bit weights share a one-byte scale among 16 (NVFP4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Theory:
    name: str
    before: Figure
    after: Figure
    speedup: Figure
    note: str


@dataclass(frozen=True, slots=True)
class Factor:
    name: str
    factor: Figure


def theories(point: Point, base: Point) -> tuple[Theory, ...]:
    """`base` is the point of operation of the model's default tier, which may be `point` itself."""
    found = [_skip_the_queue(base), _quantization(base), _speculation(point, base), _smaller_batch(point, base)]
    if point.timing.architecture != base.timing.architecture:
        found.append(_model(point, base))
    if point.timing.accelerator != base.timing.accelerator:
        found.append(_machine(point, base))
    elif point.layout != base.layout and point.timing.architecture == base.timing.architecture:
        found.append(_layout(point, base))
    return tuple(theory for theory in found if theory is not None)


def _skip_the_queue(base: Point) -> Theory:
    most = base.given(base.pool.queue_wait_max, "s", "pools", base.pool.name, "queue", "wait_max_s")
    note = f"changes TTFT alone: gone is a wait of up to {most.value:g} s ({most.kind})"
    return _theory(base, "skipping the queue", base.speed, base.speed, note)


def _quantization(base: Point) -> Theory:
    eight = replace(base.layout, dense_bytes=EIGHT_BITS, expert_bytes=EIGHT_BITS)
    four = replace(base.layout, dense_bytes=FOUR_BITS, expert_bytes=FOUR_BITS)
    before, after = (_folded(base, deployment=deployment) for deployment in (eight, four))
    n = max(1.0, min(base.batch, before.kv_capacity / base.context))
    return _theory(
        base,
        "fp8 to fp4 weights",
        before.speed(n, base.context),
        after.speed(n, base.context),
        f"all weights, at {n:.4g} in flight; {base.offer.tier} has {base.layout.dense_bytes:g} bytes per dense weight"
        + (f", {base.layout.expert_bytes:g} per expert weight" if base.timing.architecture.expert_layers else ""),
    )


def _speculation(point: Point, base: Point) -> Theory | None:
    drafting = base.layout.speculation if base.layout.speculation.drafts else point.layout.speculation
    if not drafting.drafts:
        return None
    before, after = (
        _folded(base, deployment=replace(base.layout, speculation=speculation))
        for speculation in (Deployment().speculation, drafting)
    )
    return _theory(
        base,
        f"speculation, 0 to {drafting.drafts} draft{'s' * (drafting.drafts > 1)}",
        before.speed(base.batch, base.context),
        after.speed(base.batch, base.context),
        f"{drafting.emitted:.3g} tokens per step, at {base.batch:.4g} in flight",
    )


def _smaller_batch(point: Point, base: Point) -> Theory:
    """As small, per chip, as this tier's on the same chips; else of one request."""
    same = point.offer != base.offer and point.timing.accelerator == base.timing.accelerator
    n = max(1.0, point.batch * base.layout.chips / point.layout.chips) if same else 1.0
    after = base.step.speed(n, base.context)
    return _theory(base, "a smaller batch", base.speed, after, f"{base.batch:.4g} to {n:.4g} in flight on a replica")


def _layout(point: Point, base: Point) -> Theory:
    n = max(1.0, base.batch * point.layout.chips / base.layout.chips)
    note = f"as this tier is laid out, with {n:.4g} in flight: as many for each chip"
    after = point.step.speed(n, base.context)
    return _theory(base, "another layout", base.speed, after, note, point.assumed("layout"))


def _model(point: Point, base: Point) -> Theory:
    model = point.timing.architecture
    step = _folded(base, model=model)
    note = f"{model.name} on the machines of {base.offer.tier}, at {base.batch:.4g} in flight"
    after = step.speed(base.batch, base.context)
    return _theory(base, "this tier's model", base.speed, after, note, point.assumed("model"))


def _machine(point: Point, base: Point) -> Theory | None:
    """The default tier's model on the machines of this one."""
    machine, model = point.timing.accelerator, base.timing.architecture
    layout = replace(base.layout, pipeline_parallel=1)
    if isinstance(machine, Wafer):
        layout = _row_of_wafers(machine, model, replace(point.layout, speculation=base.layout.speculation), point)
    step = fold(machine, model, layout)
    n = min(point.batch, step.kv_capacity / base.context)
    if n < 1:
        return None  # the weights do not fit
    dollars = f"{layout.chips * machine.dollars_per_hour:,.4g} $/h"
    priced = f"{dollars} (assumed)" if point.assumed("dollars") else dollars
    note = f"{model.name} on {layout.chips} x {machine.name}, which hold it and {n:.4g} in flight, for {priced}"
    also = point.assumed("chip", "hop", "memory", "load")
    return _theory(base, "this tier's machines", base.speed, step.speed(n, base.context), note, also)


def _row_of_wafers(wafer: Wafer, model: Model, layout: Deployment, point: Point) -> Deployment:
    """As many as hold the model and this tier's requests."""
    one = memory(wafer, model, replace(layout, pipeline_parallel=1))
    return replace(
        layout, pipeline_parallel=ceil((one.weights + point.batch * point.context * one.kv_token) / one.usable)
    )


def factors(point: Point, base: Point) -> tuple[Factor, ...]:
    """What multiplies to the speed-up over a tier on other machines; empty where the machines are the same."""
    if point.timing.accelerator == base.timing.accelerator:
        return ()
    ours, theirs = _Time.of(point), _Time.of(base)
    assumed = (*point.assumed(*SPEED, "load"), *base.assumed(*SPEED, "load"))
    named = {
        "no weights, contexts or batch to wait for": theirs.step / theirs.latency,
        "fewer layers": theirs.layers / ours.layers,
        "less time in each layer": (theirs.latency / theirs.layers) / (ours.latency / ours.layers),
        "hops, drafts, contexts, and the queue in front of the layers": ours.latency / ours.step,
        "tokens per step": point.step.emitted / base.step.emitted,
    }
    product = point.speed / base.speed
    notes = f"of {base.offer.tier} at {base.batch:.4g} in flight and this tier at {point.batch:.4g}"
    return (
        *(Factor(name, derived(factor, "x", notes, assumed)) for name, factor in named.items()),
        Factor("all together", derived(product, "x", notes, assumed)),
    )


@dataclass(frozen=True, slots=True)
class _Time:
    step: float  # s
    latency: float  # s
    layers: int

    @classmethod
    def of(cls, point: Point) -> "_Time":
        timing = point.timing
        S = point.batch * point.step.attended(point.context)
        found = causes(timing.accelerator, timing.architecture, timing.deployment, point.batch, S)
        return cls(sum(found.values()), found["latency"], timing.architecture.layers)


def _theory(base: Point, name: str, before: float, after: float, note: str, also: tuple[str, ...] = ()) -> Theory:
    assumed = (*base.assumed(*SPEED, "load"), *also)
    return Theory(
        name=name,
        before=derived(before, "tok/s", "without", assumed),
        after=derived(after, "tok/s", "with", assumed),
        speedup=derived(after / before, "x", note, assumed),
        note=note,
    )


def _folded(base: Point, model: Model | None = None, deployment: Deployment | None = None) -> StepTime:
    timing = base.timing
    return fold(timing.accelerator, model or timing.architecture, deployment or timing.deployment)
