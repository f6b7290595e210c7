"""What a pool is: equal replicas behind one queue, how fast they are, and what they live under. Read from a catalog.

Knows nothing about models, tiers and prices, which are sold from it.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from service import traces
from service.conditions import Ambient, Incident, Outage, Recurring, Slowdown
from service.errors import TraceError
from service.hardware import Accelerator
from service.machines import read_deployment
from service.models import Model
from service.roofline import Deployment, StepTime, fold
from service.timings import Empirical, Fixed
from service.toml_table import Table

AGING = 10.0  # s
AGING_MAX = 1e6  # s
DAY = 86_400.0  # s
PARTS_MAX = 10_000  # of a profile
MOMENT = 1.0  # s: what changes more often would change the batch with every step, and take for ever to follow
SIGMA_MAX = 5.0  # of a lognormal spread: more than five decades are no spread but a mistake
TIMINGS = ("roofline", "fixed", "empirical")


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
    """Beginnings of prompts that a replica keeps, in blocks. Fewer than `minimum` tokens are computed all the same.

    What is to be kept for some time is forgotten `haste` times as soon.
    """

    block: int  # tokens
    minimum: int
    haste: float = 1.0


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
    name: str,
    table: Table,
    accelerators: Mapping[str, Accelerator],
    architectures: Mapping[str, Model],
    directory: Path,
) -> Pool:
    """`directory` is where the files lie that the pool names. Raises CatalogError."""
    kind = table.one_of("timing", TIMINGS, "roofline")
    timing = _read_timing(kind, table, accelerators, architectures, directory)
    dollars = _read_dollars(table, timing)
    limits = BatchLimits(
        max_batch=table.integer("max_batch", at_least=1),
        prefill_chunk=table.integer("prefill_chunk", at_least=1) if kind == "roofline" else 1,
    )
    median, sigma = _read_front_end(table, kind)
    queue = table.table("queue")
    replicas = table.integer("replicas", at_least=1)
    pool = Pool(
        name=name,
        timing=timing,
        replicas=replicas,
        limits=limits,
        ambient=_read_ambient(table, limits, timing, directory),
        incidents=tuple(_read_incident(incident, replicas) for incident in table.tables("incidents").values()),
        prefix_cache=_read_prefix_cache(table, kind) if "prefix_cache" in table else None,
        aging=queue.number("aging_s", AGING, above=0, at_most=AGING_MAX),
        frontend_median=median,
        frontend_sigma=sigma,
        queue_max=queue.integer("max", at_least=1),
        queue_wait_max=queue.number("wait_max_s", above=0),
        utilisation=table.number("utilisation", above=0, at_most=1),
        dollars_per_hour=dollars,
    )
    queue.done()
    table.done()
    return pool


def _read_timing(
    kind: str,
    pool: Table,
    accelerators: Mapping[str, Accelerator],
    architectures: Mapping[str, Model],
    directory: Path,
) -> Timing:
    if kind == "fixed":
        return _read_fixed(pool.table("fixed"))
    if kind == "empirical":
        return _read_empirical(pool.table("empirical"), directory)
    accelerator, architecture, deployment = read_deployment(pool.table("deployment"), accelerators, architectures)
    step_time = fold(accelerator, architecture, deployment)
    return Roofline(accelerator=accelerator, architecture=architecture, deployment=deployment, step_time=step_time)


def _read_fixed(table: Table) -> Fixed:
    timing = Fixed(
        ttft=table.number("ttft_ms", above=0) / 1e3,
        ttft_sigma=table.number("ttft_sigma", 0, at_least=0, at_most=SIGMA_MAX),
        rate=table.number("tok_s", above=0),
        rate_sigma=table.number("tok_s_sigma", 0, at_least=0, at_most=SIGMA_MAX),
        load_slope=table.number("load_slope", 0, at_least=0),
        ttft_per_token=table.number("ttft_ms_per_1k_prompt", 0, at_least=0) / 1e6,
    )
    table.done()
    return timing


def _read_empirical(table: Table, directory: Path) -> Empirical:
    """The number of requests is stated, too: so it has a source, and a file that was cut off is noticed."""
    path, stated = directory / table.text("samples"), table.integer("requests", at_least=1)
    table.done()
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            samples = tuple(_samples(file))
    except (OSError, ValueError, csv.Error) as error:
        raise table.error("samples", f"{path} cannot be read as CSV with ttft_ms and tok_s: {error}") from error
    if len(samples) != stated:
        raise table.error("requests", f"is {stated}, and {path} has {len(samples)}")
    return Empirical(samples=samples)


def _samples(file: Iterable[str]) -> Iterator[tuple[float, float]]:
    rows = csv.DictReader(file)
    missing = {"ttft_ms", "tok_s"} - set(rows.fieldnames or ())
    if missing:
        raise ValueError(f"its first line does not name {' and '.join(sorted(missing))}")
    for row in rows:
        try:
            ttft, rate = float(row["ttft_ms"]) / 1e3, float(row["tok_s"])
        except (ValueError, TypeError):
            raise ValueError(f"line {rows.line_num} does not have two numbers") from None
        if not (0 < ttft < inf and 0 < rate < inf):
            raise ValueError(f"line {rows.line_num}: both numbers must be above 0")
        yield ttft, rate


def _read_dollars(pool: Table, timing: Timing) -> float | None:
    """Of one replica in an hour: what its chips cost, or what is said."""
    if isinstance(timing, Roofline):
        return timing.deployment.chips * timing.accelerator.dollars_per_hour
    return pool.number("dollars_per_hour", at_least=0) if "dollars_per_hour" in pool else None


def _read_front_end(pool: Table, kind: str) -> tuple[float, float]:
    """A measured TTFT has it in already."""
    if kind != "roofline" and "front_end" not in pool:
        return 0.0, 0.0
    table = pool.table("front_end")
    read = table.number("median_ms", at_least=0) / 1e3, table.number("sigma", at_least=0, at_most=SIGMA_MAX)
    table.done()
    return read


def _read_prefix_cache(pool: Table, kind: str) -> PrefixCache:
    if kind != "roofline":
        raise pool.error("prefix_cache", "a measured TTFT has in it what the provider's own cache did: leave it out")
    table = pool.table("prefix_cache")
    cache = PrefixCache(
        block=table.integer("block", at_least=1),
        minimum=table.integer("minimum", 0, at_least=0),
        haste=table.number("haste", 1, above=0),
    )
    table.done()
    return cache


def _read_ambient(pool: Table, limits: BatchLimits, timing: Timing, directory: Path) -> Ambient:
    table = pool.table("ambient")
    capacity = timing.step_time.kv_capacity if isinstance(timing, Roofline) else inf
    sequences = table.number("sequences", at_least=0)
    context = table.number("context", at_least=1)
    stay = table.number("stay_s", at_least=MOMENT) if "stay_s" in table else None
    seed = 0 if stay is None else table.integer("seed", 0, at_least=0)
    factors, period = _read_profile(table, directory) if "profile" in table else ((), DAY)
    table.done()
    mean = Ambient(sequences=sequences, context=context, profile=factors, period=period)
    ambient = mean if stay is None else replace(mean, stay=stay, seed=seed, most=mean.peak)
    peak = f"{ambient.peak:g} ambient sequences" + (" at the peak of the profile" if factors else "")
    if ambient.peak + 1 > limits.max_batch:
        raise pool.error("max_batch", f"is {limits.max_batch}, and {peak} leave no slot for a request")
    held = ambient.peak * ambient.context
    if held >= capacity:
        raise pool.error("ambient", f"holds {held:.0f} tokens of a KV cache of {capacity:.0f}: none is left")
    return ambient


def with_room(pool: Pool, window: int) -> Pool:
    """A pool whose drawn ambient load leaves a slot, and KV for a request of `window` tokens, at any time.

    Raises ValueError: then it can be no more than less than its mean.
    """
    ambient, timing = pool.ambient, pool.timing
    if ambient.stay is None:
        return pool
    most = pool.limits.max_batch - 1
    if isinstance(timing, Roofline):
        most = min(most, int((timing.step_time.kv_capacity - window) // ambient.context))
    if most < ambient.peak:
        raise ValueError(
            f"at most {most} ambient sequences leave room for a context of {window} tokens: {ambient.peak:g} in the"
            " mean cannot come and go"
        )
    return replace(pool, ambient=replace(ambient, most=float(most)))


def _read_profile(ambient: Table, directory: Path) -> tuple[tuple[float, ...], float]:
    """Factors on the mean, and the seconds in which they pass."""
    table = ambient.table("profile")
    period = table.number("period_s", DAY, above=0)
    if "trace" in table:
        path, parts = directory / table.text("trace"), table.integer("parts", 24, at_least=1, at_most=PARTS_MAX)
        try:
            factors = traces.profile(traces.read(path), parts)
        except TraceError as error:
            raise table.error("trace", str(error)) from error
    else:
        factors = tuple(table.numbers("factors", at_least=0))
    table.done()
    if period < len(factors) * MOMENT:
        raise table.error("period_s", f"is {period:g}; each of the {len(factors)} parts must last {MOMENT:g} s")
    return factors, period


def _read_incident(table: Table, replicas: int) -> Incident | Recurring:
    kind = table.one_of("kind", ["slow", "outage"])
    recurs = "every_s" in table
    start, end = (0.0, 0.0) if recurs else _read_window(table)
    incident: Incident
    if kind == "slow":
        incident = Slowdown(start=start, end=end, factor=table.number("factor", above=0))
    else:
        incident = Outage(
            start=start,
            end=end,
            replicas=table.integer("replicas", at_least=1, at_most=replicas),
            cold_start=table.number("cold_start_s", 0, at_least=0),
        )
    read: Incident | Recurring = incident
    if recurs:
        read = Recurring(
            example=incident,
            every=table.number("every_s", at_least=MOMENT),
            lasting=table.number("lasting_s", above=0),
            seed=table.integer("seed", 0, at_least=0),
        )
    table.done()
    return read


def _read_window(table: Table) -> tuple[float, float]:
    start = table.number("start_s", at_least=0)
    return start, start + table.number("duration_s", above=0)
