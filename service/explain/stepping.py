"""How fast a pool is and why: its point of operation, where its steps' time goes, its curve, its first token."""

from dataclasses import dataclass

from service.explain.point import PAID, SPEED, STORED, Input, Point, Series, derived, rounded
from service.figures import Figure
from service.roofline import Cause, causes

CURVE_MOST = 4096  # requests, where the KV cache does not end the curve before

_CAUSES: dict[Cause, str] = {
    "latency": "what each layer takes, however small the batch",
    "weights": "dense weights, read once in every step",
    "experts": "weights of the experts that the batch touches",
    "kv": "keys, values and states of all contexts",
    "compute": "multiplications, those of attention included",
    "all-reduce": "activations between chips",
    "sequences": "sampler, scheduler and detokeniser, for each sequence",
    "hops": "from wafer to wafer",
    "draft": "guessing the drafts; verifying them is part of the others",
    "queueing": "more sequences than layers: they wait for the stages",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What the pool does with its ambient load and one request more, all with the context that is asked about."""

    batch: Figure
    context: Figure
    step: Figure
    emitted: Figure
    speed: Figure  # of one request
    throughput: Figure  # of a replica
    cost_output: Figure
    speed_lone: Figure  # of a request with this context beside the ambient load with its own
    speed_alone: Figure
    speed_floor: Figure


@dataclass(frozen=True, slots=True)
class Part:
    cause: Cause
    time: Figure
    share: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Against the batch: speed of one request, of a replica, cost of a token, and the time of each cause."""

    batch: Series
    speed: Series
    throughput: Series
    cost_output: Series
    causes: dict[Cause, Series]
    batch_limit: Figure
    kv_end: Figure  # requests whose contexts fill the KV cache: the curve ends


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstToken:
    queue: Figure  # the most there can be
    front_end: Figure
    boundary: Figure  # the step under way has to end
    prefill: Figure
    total: Figure  # without a queue


def operation(point: Point) -> Operation:
    step, n, context, ambient = point.step, point.batch, point.context, point.pool.ambient
    seconds = step.seconds(n, n * step.attended(context))
    beside = ambient.sequences * step.attended(ambient.context) + step.attended(context)
    lone = step.emitted / step.seconds(ambient.sequences + 1, beside)
    full = n < ambient.sequences + 1
    held = f"all that the KV cache holds of {ambient.sequences + 1:g}" if full else "the ambient load and one more"
    return Operation(
        batch=point.derived(n, "requests", f"in flight on a replica: {held}", "load", *(STORED if full else ())),
        context=Figure(context, "tokens", "assumed", "of each request in the mean: its prompt and half its output"),
        step=point.derived(1e3 * seconds, "ms", "one step of the batch", *SPEED, "load"),
        emitted=point.derived(step.emitted, "tokens per step", "of each request", "layout", "drafts"),
        speed=point.derived(point.speed, "tok/s", f"{n:.4g} such requests in flight", *SPEED, "load"),
        throughput=point.derived(n * point.speed, "tok/s", "of a replica, decode alone", *SPEED, "load"),
        cost_output=point.derived(
            point.cost(n * point.speed), "$/MTok", f"decode alone, {point.paid}", *SPEED, "load", *PAID
        ),
        speed_lone=point.derived(
            lone, "tok/s", f"beside {ambient.sequences:g} with {ambient.context:g} tokens each", *SPEED, "load"
        ),
        speed_alone=point.derived(step.speed(1, context), "tok/s", "alone on a replica", *SPEED),
        speed_floor=point.derived(step.emitted / step.c0, "tok/s", "the limit of an empty batch", *SPEED),
    )


def parts(point: Point) -> tuple[Part, ...]:
    """The causes of a step at the point of operation, without those that take no time."""
    found = _causes(point, point.batch)
    total = sum(found.values())
    return tuple(
        Part(
            cause,
            point.derived(1e3 * seconds, "ms", _CAUSES[cause], *_inputs(cause), "load"),
            point.derived(100 * seconds / total, "%", "of the step", *SPEED, "load"),
        )
        for cause, seconds in found.items()
        if seconds
    )


def curve(point: Point) -> Curve:
    step, limit = point.step, point.pool.limits.max_batch
    batches = _batches(point)
    speeds = [step.speed(n, point.context) for n in batches]
    split = [_causes(point, n) for n in batches]
    assumed = point.assumed(*SPEED)
    paid = (*assumed, *point.assumed(*PAID))

    def series(values: list[float], unit: str, note: str, assumes: tuple[str, ...] = assumed) -> Series:
        return Series(tuple(map(rounded, values)), unit, "derived", note, ", ".join(assumes))

    each = f"all with {point.context:g} tokens of context"
    return Curve(
        batch=Series(tuple(map(rounded, batches)), "requests", "assumed", f"in flight on a replica, {each}"),
        speed=series(speeds, "tok/s", "of one request"),
        throughput=series([n * speed for n, speed in zip(batches, speeds, strict=True)], "tok/s", "of a replica"),
        cost_output=series(
            [point.cost(n * speed) for n, speed in zip(batches, speeds, strict=True)],
            "$/MTok",
            f"decode alone, {point.paid}",
            paid,
        ),
        causes={
            cause: series([1e3 * found[cause] for found in split], "ms", _CAUSES[cause])
            for cause in split[0]
            if any(found[cause] for found in split)
        },
        batch_limit=point.given(limit, "requests", "pools", point.pool.name, "max_batch"),
        kv_end=point.derived(
            point.batch_max, "requests", f"fill the KV cache with {point.context:g} tokens each", *STORED
        ),
    )


def first_token(point: Point) -> FirstToken:
    pool, step, prompt = point.pool, point.step, point.shape.prompt
    ahead = point.batch - 1
    attended = ahead * step.attended(point.context)
    chunk = pool.limits.prefill_chunk
    prefill = 0.0
    for start in range(0, prompt, chunk):
        tokens = min(chunk, prompt - start)
        prefill += step.seconds(ahead, attended, tokens, tokens * step.attended(start + tokens / 2))
    boundary = step.seconds(ahead, attended) / 2 if ahead else 0.0
    inputs = (*SPEED, "prefill", "load")
    front_end = point.given(1e3 * pool.frontend_median, "ms", "pools", pool.name, "front_end", "median_ms")
    return FirstToken(
        queue=point.given(pool.queue_wait_max, "s", "pools", pool.name, "queue", "wait_max_s"),
        front_end=front_end,
        boundary=point.derived(1e3 * boundary, "ms", "half a step: the one under way has to end", *inputs),
        prefill=point.derived(
            1e3 * prefill,
            "ms",
            f"{prompt:,} tokens, nothing cached, in chunks of {chunk:,} beside {ahead:.4g} that decode",
            *inputs,
        ),
        total=derived(
            1e3 * (pool.frontend_median + boundary + prefill),
            "ms",
            "where nobody waits in front of it",
            ("front-end TTFT",) if front_end.kind == "assumed" else (),
            point.assumed(*inputs),
        ),
    )


def _batches(point: Point) -> list[float]:
    """Whole batches at equal distances of their logarithm, the point of operation, and where the curve ends."""
    last = min(point.batch_max, max(CURVE_MOST, point.batch))
    doubled = [2**i for i in range(64) if 2**i < last]
    between = [3 * n // 2 for n in doubled if n > 1 and 3 * n // 2 < last]
    return sorted({float(n) for n in (*doubled, *between, point.batch, last)})


def _causes(point: Point, n: float) -> dict[Cause, float]:
    timing = point.timing
    S = n * point.step.attended(point.context)
    return causes(timing.accelerator, timing.architecture, timing.deployment, n, S)


def _inputs(cause: Cause) -> tuple[Input, ...]:
    return ("hop", "layout") if cause == "hops" else ("chip", "model", "layout")
