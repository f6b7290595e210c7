"""What a pool is: equal replicas behind one queue, how fast they are, and what they live under. Read from a catalog.

Knows nothing about models, tiers and prices, which are sold from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from service.conditions import Ambient, Incident, Recurring
from service.hardware import Accelerator
from service.machines import read_deployment
from service.models import Model
from service.roofline import Deployment, StepTime, fold
from service.timings import Empirical, Fixed
from service.toml_table import Table

AGING = 10.0  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Steps take what hardware and model say."""

    accelerator: Accelerator
    architecture: Model
    deployment: Deployment
    step_time: StepTime


Timing = Roofline | Fixed | Empirical


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """What one replica takes at once. Ambient sequences count against `max_batch`, and their context against KV."""

    max_batch: int
    prefill_chunk: int  # tokens of prefill in one step


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixCache:
    """Beginnings of prompts that a replica keeps, in blocks. Fewer than `minimum` tokens are computed all the same."""

    block: int  # tokens
    minimum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Durations in seconds."""

    name: str
    timing: Timing
    replicas: int
    limits: BatchLimits
    ambient: Ambient  # of each replica
    incidents: tuple[Incident | Recurring, ...]
    prefix_cache: PrefixCache | None
    aging: float  # a waiting job is as good as one of the next better band after so long
    frontend_median: float  # added to the time to first token, lognormal
    frontend_sigma: float
    queue_max: int  # jobs waiting
    queue_wait_max: float
    utilisation: float  # share of its hours that a replica is paid for and in use at the ambient load
    dollars_per_hour: float | None  # of one replica; None: not known

    @property
    def slots(self) -> int:
        """Of one replica, beside its mean ambient load."""
        return max(1, int(self.limits.max_batch - self.ambient.sequences))

    @property
    def kv_room(self) -> float:
        """Tokens that the KV cache of one replica can hold beside the ambient load's peak; infinite if not known."""
        if not isinstance(self.timing, Roofline):
            return inf
        return self.timing.step_time.kv_capacity - self.ambient.peak * self.ambient.context


def read_pool(
    name: str, table: Table, accelerators: Mapping[str, Accelerator], architectures: Mapping[str, Model]
) -> Pool:
    """Raises CatalogError."""
    accelerator, architecture, deployment = read_deployment(table.table("deployment"), accelerators, architectures)
    step_time = fold(accelerator, architecture, deployment)
    front_end, queue = table.table("front_end"), table.table("queue")
    limits = BatchLimits(
        max_batch=table.integer("max_batch", at_least=1), prefill_chunk=table.integer("prefill_chunk", at_least=1)
    )
    pool = Pool(
        name=name,
        timing=Roofline(accelerator=accelerator, architecture=architecture, deployment=deployment, step_time=step_time),
        replicas=table.integer("replicas", at_least=1),
        limits=limits,
        ambient=_read_ambient(table, limits, step_time),
        incidents=(),
        prefix_cache=_read_prefix_cache(table.table("prefix_cache")) if "prefix_cache" in table else None,
        aging=queue.number("aging_s", AGING, above=0),
        frontend_median=front_end.number("median_ms", at_least=0) / 1e3,
        frontend_sigma=front_end.number("sigma", at_least=0),
        queue_max=queue.integer("max", at_least=1),
        queue_wait_max=queue.number("wait_max_s", above=0),
        utilisation=table.number("utilisation", above=0, at_most=1),
        dollars_per_hour=deployment.chips * accelerator.dollars_per_hour,
    )
    for inner in (front_end, queue, table):
        inner.done()
    return pool


def _read_prefix_cache(table: Table) -> PrefixCache:
    cache = PrefixCache(block=table.integer("block", at_least=1), minimum=table.integer("minimum", at_least=0))
    table.done()
    return cache


def _read_ambient(pool: Table, limits: BatchLimits, step_time: StepTime) -> Ambient:
    table = pool.table("ambient")
    ambient = Ambient(sequences=table.number("sequences", at_least=0), context=table.number("context", at_least=1))
    table.done()
    if ambient.sequences + 1 > limits.max_batch:
        raise pool.error(
            "max_batch",
            f"is {limits.max_batch}, and {ambient.sequences:g} ambient sequences leave no slot for a request",
        )
    held = ambient.sequences * ambient.context
    if held >= step_time.kv_capacity:
        raise pool.error(
            "ambient", f"holds {held:.0f} tokens of a KV cache of {step_time.kv_capacity:.0f}: none is left"
        )
    return ambient
