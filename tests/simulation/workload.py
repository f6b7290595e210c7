"""Seeded random replicas and what happens to them: arrivals, observations, cancels, late and resumed sequences."""

from dataclasses import dataclass, replace
from math import inf
from random import Random

from service.roofline import Speculation, StepTime
from workers.engine import Limits, Sequence


@dataclass(frozen=True)
class Act:
    """At `time` the replica is observed; then, if named, a sequence is added or one is cancelled.

    `on_boundary` moves the arrival of the added sequence to the replica's next change of the batch.
    """

    time: float
    add: Sequence | None = None
    cancel: str | None = None
    on_boundary: bool = False


@dataclass(frozen=True)
class Workload:
    step: StepTime
    limits: Limits
    start: float
    acts: tuple[Act, ...]


def workload(seed: int) -> Workload:
    random = Random(seed)
    ambient = random.choice((0, 0, 1, 3, 2.5))
    ambient_context = random.choice((0.0, 40.0, 900.5)) if ambient else 0.0
    step = step_time(random, ambient * ambient_context)
    limits = Limits(
        max_batch=random.choice((4, 8, 16, 64)),
        prefill_chunk=random.choice((16, 64, 256, 8192)),
        ambient_sequences=ambient,
        ambient_context=ambient_context,
    )
    start = random.choice((0.0, 0.0, 12_345.678))
    horizon = random.choice((0.3, 1.0, 5.0))
    return Workload(step, limits, start, acts(random, start, horizon))


def step_time(random: Random, ambient_held: float) -> StepTime:
    """Coefficients of the size of real ones; a cache that is ample, or so tight that sequences are pre-empted."""
    drafts = random.choice((0, 0, 1, 2, 3))
    speculation = Speculation(drafts, random.uniform(0.5, 0.95), random.uniform(0.9, 1.0))
    return replace(
        wafer(random) if random.random() < 0.2 else gpu(random),
        drafts=drafts,
        emitted=speculation.emitted,
        emission=speculation.emission,
        sparse_topk=random.choice((0, 0, 100)),
        kv_capacity=ambient_held + random.choice((450.0, 600.0, 700.5, 1000.0, 2500.0, inf)),
    )


def wafer(random: Random) -> StepTime:
    return StepTime(c0=random.uniform(5e-4, 2e-3), cp=1e-6, ca=1e-9, stages=random.choice((3, 10)))


def gpu(random: Random) -> StepTime:
    return StepTime(
        c0=random.uniform(2e-3, 2e-2),
        ce=random.choice((0.0, 1e-2)),
        q=random.choice((0.0, 0.96)),
        cm=random.choice((0.0, 1e-5)),
        cp=random.uniform(1e-6, 1e-4),
        ck=random.choice((0.0, 1e-8, 1e-6)),
        cs=2e-5,
        ca=random.choice((0.0, 1e-9)),
    )


def acts(random: Random, start: float, horizon: float) -> tuple[Act, ...]:
    """Some 25 sequences over `horizon` seconds, in the order of time."""
    result = []
    for number in range(random.randint(5, 40)):
        known = random.uniform(0, horizon)
        arrival = known + random.choice((-0.5, 0.0, random.uniform(0, horizon / 4)))
        output = random.choice((1, random.randint(2, 60), random.randint(60, 250), random.randint(60, 250)))
        sequence = Sequence(
            id=str(number),
            arrival=start + arrival,
            prompt=random.choice((1, random.randint(2, 60), random.randint(2, 60), random.randint(60, 350))),
            output=output,
            generated=random.choice((0, 0, 0, random.randrange(output))),
            seed=random.getrandbits(63),
        )
        result.append(Act(start + known, add=sequence, on_boundary=random.random() < 0.2))
        if random.random() < 0.25:
            left = max(known, arrival) + random.uniform(-0.2, horizon / 3)
            result.append(Act(start + max(known, left), cancel=sequence.id))
    result += [Act(start + random.uniform(0, 1.5 * horizon)) for _ in range(20)]
    return tuple(sorted(result, key=lambda act: act.time))
