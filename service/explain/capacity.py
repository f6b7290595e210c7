"""What a pool's memory holds: weights, and how many sessions beside them; on wafers, what more of them would change."""

from dataclasses import dataclass, replace

from service.explain.point import SPEED, STORED, Point
from service.figures import Figure
from service.hardware import Wafer
from service.roofline import fold, memory

WAFERS = range(1, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Of one replica."""

    memory: Figure
    weights: Figure
    weights_share: Figure
    kv: Figure
    sessions: Figure
    kv_beside_ambient: Figure
    sessions_beside_ambient: Figure


@dataclass(frozen=True, slots=True)
class Wafers:
    """The same model in a row of so many wafers. None: its weights do not fit."""

    wafers: int
    kv: Figure
    sessions: Figure
    speed_alone: Figure | None
    dollars_per_hour: Figure


def capacity(point: Point) -> Capacity:
    timing, context, ambient = point.timing, point.context, point.pool.ambient
    held = memory(timing.accelerator, timing.architecture, timing.deployment)
    room = max(0.0, point.pool.kv_room)
    each = f"of {context:g} tokens in the mean"
    beside = f"beside {ambient.peak:g} ambient sequences of {ambient.context:g} tokens"
    return Capacity(
        memory=point.derived(
            held.total / 1e9, "GB", f"{timing.deployment.chips} x {timing.accelerator.name}", "layout"
        ),
        weights=point.derived(held.weights / 1e9, "GB", "with every copy of the dense ones", "model", "layout"),
        weights_share=point.derived(100 * held.weights / held.total, "%", "of the memory", *STORED),
        kv=point.derived(held.kv_capacity, "tokens", "KV capacity", *STORED),
        sessions=point.derived(held.kv_capacity // context, "sessions", each, *STORED),
        kv_beside_ambient=point.derived(room, "tokens", beside, *STORED, "load"),
        sessions_beside_ambient=point.derived(room // context, "sessions", f"{each}, {beside}", *STORED, "load"),
    )


def wafers(point: Point) -> tuple[Wafers, ...]:
    """Empty for a pool that does not run on wafers."""
    timing = point.timing
    if not isinstance(timing.accelerator, Wafer):
        return ()
    rows = []
    for count in WAFERS:
        step = fold(timing.accelerator, timing.architecture, replace(timing.deployment, pipeline_parallel=count))
        sessions = step.kv_capacity // point.context
        inputs = tuple(one for one in SPEED if one != "hop" or count > 1)
        speed = point.derived(step.speed(1, point.context), "tok/s", "alone in all the wafers", *inputs)
        dollars = count * timing.accelerator.dollars_per_hour
        rows.append(
            Wafers(
                count,
                point.derived(step.kv_capacity, "tokens", "KV capacity", *STORED),
                point.derived(sessions, "sessions", f"of {point.context:g} tokens in the mean", *STORED),
                speed if step.kv_capacity else None,
                point.derived(dollars, "$/h", f"of {count} wafer{'s' * (count > 1)}", "dollars"),
            )
        )
    return tuple(rows)
