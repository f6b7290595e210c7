"""Every Prometheus metric, declared once: name, help, labels, buckets. The only importer of prometheus_client.

Names and standard buckets follow the OpenTelemetry semantic conventions for generative AI, translated as Prometheus
does; what they do not cover is called fastmode_*. Label values come from closed sets: tiers, models and pools of the
catalog, and the outcomes and reasons named here; a reason that is not among them becomes "other".

Two ways to keep values, chosen by `configure`:

- Without a directory a process keeps its own, in memory.
- With a directory all processes of a host share it, and whichever is scraped speaks for all. Each writes files of its
  own (see service.slots). Counters and histograms of a dead process are carried on by the next one in its place, so
  they never go back; its gauges vanish at the next scrape, whatever it died of. The directory belongs to one version
  of the declarations: an upgrade starts with an empty one.

Call sites resolve their labels once, with `offer_metrics` and `pool_metrics`; what happens per token is folded in plain
Python and passed on now and then.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any, Literal, Protocol, TypeVar

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
    start_http_server,
    values,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from service.errors import ServiceError
from service.messages import Failure
from service.slots import Slot, vacant

Outcome = Literal["ok", "cancelled", "stalled", "failed", "rejected"]

REASONS = frozenset({"bodies", "draining", "lost", "no_workers", "queue_deadline", "queue_full", "redis", *Failure})


# ---- What there is --------------------------------------------------------------------------------------------------

_SUM, _FULLEST, _LATEST = "livesum", "livemax", "livemostrecent"  # how the gauges of several processes make one


@dataclass(frozen=True, slots=True)
class Declared:
    """A metric. Counters are named as they are exposed, with _total."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    merge: str = ""


DECLARED: dict[str, Declared] = {}


def _declare(
    kind: Literal["counter", "gauge", "histogram"],
    name: str,
    text: str,
    labels: tuple[str, ...] = (),
    buckets: Iterable[float] = (),
    merge: str = "",
) -> Declared:
    declared = DECLARED[name] = Declared(name, kind, text, labels, tuple(sorted(set(buckets))), merge)
    return declared


def _union(*series: Iterable[float]) -> list[float]:
    return [bound for bounds in series for bound in bounds]


# The OpenTelemetry boundaries are kept, so that dashboards made for them stay valid. The finer ones tell tiers of 65,
# 170, 300 and 1000 tok/s apart (15.4, 5.9, 3.3 and 1 ms per token); the longer ones hold a queue's worth of waiting.
_OTEL_TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_OTEL_TPOT = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5)
_OTEL_DURATION = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_OTEL_TOKENS = tuple(4.0**power for power in range(14))
_FAST_TPOT = (0.00025, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008)
_PER_TOKEN = _union(_FAST_TPOT, _OTEL_TPOT)
_WAIT = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160)
_LATENESS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)

_OFFER = ("tier_requested", "tier_served", "model")
_SERVED = ("tier_served", "model")
_POOL = ("pool",)

TTFT = _declare(
    "histogram",
    "gen_ai_server_time_to_first_token_seconds",
    "From the arrival of a request to its first token, queueing included.",
    _OFFER,
    _union(_OTEL_TTFT, (20, 40, 80, 160)),
)
TPOT = _declare(
    "histogram",
    "gen_ai_server_time_per_output_token_seconds",
    "Mean time per token of a request after its first: (last - first) / (tokens - 1).",
    _OFFER,
    _PER_TOKEN,
)
ITL = _declare(
    "histogram",
    "fastmode_inter_token_latency_seconds",
    "Time between consecutive tokens; tokens that come together share the time since those before them.",
    _OFFER,
    _PER_TOKEN,
)
DURATION = _declare(
    "histogram",
    "gen_ai_server_request_duration_seconds",
    "From the arrival of a request to its last token.",
    _OFFER,
    _union(_OTEL_DURATION, (163.84, 327.68, 655.36, 1310.72)),
)
TOKEN_USAGE = _declare(
    "histogram",
    "gen_ai_client_token_usage",
    "Tokens of a request, input and output.",
    ("gen_ai_token_type", *_SERVED),
    _OTEL_TOKENS,
)
INPUT_TOKENS = _declare("counter", "fastmode_input_tokens_total", "Prompt tokens of settled requests.", _SERVED)
CACHED_TOKENS = _declare(
    "counter", "fastmode_cached_input_tokens_total", "Prompt tokens that came out of the prefix cache.", _SERVED
)
OUTPUT_TOKENS = _declare("counter", "fastmode_output_tokens_total", "Tokens generated for settled requests.", _SERVED)
COST = _declare(
    "counter",
    "fastmode_cost_nanodollars_total",
    "List price of settled requests, in billionths of a dollar: whole numbers, exact up to 9 million dollars.",
    _SERVED,
)
REQUESTS = _declare(
    "counter",
    "fastmode_requests_total",
    "Requests by how they ended. Those refused before they had a tier have no tier and no model.",
    (*_SERVED, "outcome", "reason"),
)
IN_FLIGHT = _declare("gauge", "fastmode_requests_in_flight", "Requests not yet settled.", _SERVED, merge=_SUM)
QUEUE_DEPTH = _declare("gauge", "fastmode_queue_depth", "Jobs that wait for a worker.", _POOL, merge=_LATEST)
QUEUE_WAIT = _declare(
    "histogram", "fastmode_queue_wait_seconds", "From queueing a job to its claim by a worker.", _POOL, _WAIT
)
OUTPUT_RATE = _declare(
    "gauge", "fastmode_output_tokens_per_second", "Tokens generated per second, now.", _POOL, merge=_SUM
)
BATCH_RUNNING = _declare("gauge", "fastmode_batch_running", "Sequences in the batch.", _POOL, merge=_SUM)
BATCH_WAITING = _declare(
    "gauge", "fastmode_batch_waiting", "Sequences that wait for room in the batch.", _POOL, merge=_SUM
)
BATCH_MAX = _declare(
    "gauge", "fastmode_batch_max", "Sequences that the batch can hold beside the ambient load.", _POOL, merge=_SUM
)
KV_HELD = _declare("gauge", "fastmode_kv_held_tokens", "Tokens held in the KV cache.", _POOL, merge=_SUM)
KV_CAPACITY = _declare(
    "gauge",
    "fastmode_kv_capacity_tokens",
    "Tokens that the KV cache can hold beside the ambient load.",
    _POOL,
    merge=_SUM,
)
KV_USE = _declare(
    "gauge", "fastmode_kv_use_ratio", "Share of the KV cache in use, of the fullest worker.", _POOL, merge=_FULLEST
)
DRAFTED = _declare("counter", "fastmode_draft_tokens_total", "Tokens drafted by speculative decoding.", _POOL)
ACCEPTED = _declare("counter", "fastmode_draft_tokens_accepted_total", "Drafted tokens that became output.", _POOL)
PREEMPTIONS = _declare(
    "counter", "fastmode_preemptions_total", "Sequences that lost their place in a full KV cache.", _POOL
)
LATENESS = _declare(
    "histogram",
    "fastmode_event_lateness_seconds",
    "How long after its due time an event of the emulator went out.",
    _POOL,
    _LATENESS,
)
RECOVERED = _declare(
    "counter", "fastmode_jobs_recovered_total", "Jobs taken over from a worker that was not heard of any more.", _POOL
)
FENCED = _declare("counter", "fastmode_frames_fenced_total", "Events dropped, being those of an overtaken claim.")
REDIS_ERRORS = _declare("counter", "fastmode_redis_errors_total", "Redis commands that failed or took too long.")


# ---- Where a process keeps it ---------------------------------------------------------------------------------------

_FILES = ("counter", "histogram", *(f"gauge_{merge}" for merge in (_SUM, _FULLEST, _LATEST)))
_FILE_SIZE = 1 << 16

_M = TypeVar("_M", Counter, Gauge, Histogram)


class _MappedValue:
    """A number in a file that others read. Stands in for the library's own, which go by process id."""

    _multiprocess = True
    _lock = Lock()

    def __init__(
        self,
        files: Mapping[str, MmapedDict],
        kind: str,
        metric: str,
        name: str,
        labels: Sequence[str],
        labelvalues: Sequence[str],
        text: str,
        multiprocess_mode: str = "",
    ) -> None:
        self._file = files[f"{kind}_{multiprocess_mode}" if multiprocess_mode else kind]
        self._key = mmap_key(metric, name, list(labels), list(labelvalues), text)
        with self._lock:
            self._value = self._file.read_value(self._key)[0]  # type: ignore[no-untyped-call]

    def inc(self, amount: float) -> None:
        with self._lock:
            self._value += amount
            self._file.write_value(self._key, self._value, 0.0)  # type: ignore[no-untyped-call]

    def set(self, value: float, timestamp: float | None = None) -> None:
        with self._lock:
            self._value = value
            self._file.write_value(self._key, value, timestamp or 0.0)  # type: ignore[no-untyped-call]


class _Store:
    """The metrics of this process, in memory or in a shared directory."""

    def __init__(self, directory: Path | None) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._directory = directory
        self._slot: Slot | None = None
        self._files: dict[str, MmapedDict] = {}
        self._value_class: Any = values.MutexValue
        self._children: dict[tuple[str, ...], Any] = {}
        own = CollectorRegistry()
        self.registry = own
        if directory:
            self._slot = Slot(directory, self._take_over)
            self._value_class = partial(_MappedValue, self._files)
            self.registry = CollectorRegistry()
            self.registry.register(_Shared(directory))
        with self._keeping():
            self._metrics = {declared.name: _build(declared, own) for declared in DECLARED.values()}

    def child(self, declared: Declared, kind: type[_M], *labels: str) -> _M:
        """The one series of a metric with these label values."""
        key = (declared.name, *labels)
        if key not in self._children:
            metric = self._metrics[declared.name]
            with self._keeping():
                self._children[key] = metric.labels(*labels) if declared.labels else metric
        child = self._children[key]
        assert isinstance(child, kind)
        return child

    def close(self) -> None:
        """Leave the shared directory. Nothing may be counted after that."""
        if self._directory and self._slot:
            for file in self._files.values():
                file.close()  # type: ignore[no-untyped-call]
            _remove_gauges(self._directory, self._slot.number)
            self._slot.release()

    def _take_over(self, number: int) -> None:
        """The files of a place. One that is missing comes into being whole: a scrape must not meet an empty one."""
        assert self._directory is not None
        _remove_gauges(self._directory, number)
        for kind in _FILES:
            path = self._directory / f"{kind}_{number}.db"
            if not path.exists():
                draft = path.with_suffix(".new")
                draft.write_bytes(bytes(_FILE_SIZE))
                draft.rename(path)
            self._files[kind] = MmapedDict(str(path))  # type: ignore[no-untyped-call]

    @contextmanager
    def _keeping(self) -> Iterator[None]:
        """A metric takes from a global of the library where its value is kept, when it comes into being."""
        before, values.ValueClass = values.ValueClass, self._value_class
        try:
            yield
        finally:
            values.ValueClass = before


class _Shared(Collector):
    """What all processes that share a directory have counted."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> Iterable[Metric]:
        with vacant(self._directory) as numbers:
            for number in numbers:
                _remove_gauges(self._directory, number)
        files = sorted(map(str, self._directory.glob("*.db")))
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        return merged


def _build(declared: Declared, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    name, text, labels = declared.name, declared.help, declared.labels
    match declared.kind:
        case "counter":
            return Counter(name, text, labels, registry=registry)
        case "gauge":
            return Gauge(name, text, labels, registry=registry, multiprocess_mode=declared.merge)  # type: ignore[arg-type]
        case "histogram":
            return Histogram(name, text, labels, registry=registry, buckets=declared.buckets)


def _remove_gauges(directory: Path, number: int) -> None:
    for path in directory.glob(f"gauge_*_{number}.db"):
        path.unlink(missing_ok=True)


# ---- What call sites hold -------------------------------------------------------------------------------------------


class Folded:
    """A histogram for what happens per token: counted here, and passed on once in a while."""

    PASS_ON = 1000  # observations

    __slots__ = ("_bounds", "_count", "_counts", "_histogram", "_sum")

    def __init__(self, histogram: Histogram, bounds: Sequence[float]) -> None:
        self._histogram = histogram
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._count = 0
        self._sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times
        self._count += times
        if self._count >= self.PASS_ON:
            self.pass_on()

    def pass_on(self) -> None:
        """The library has no public way to observe a value several times; its own `observe` does just this."""
        for bucket, times in zip(self._histogram._buckets, self._counts, strict=True):
            if times:
                bucket.inc(times)
        self._histogram._sum.inc(self._sum)
        self._counts = [0] * len(self._counts)
        self._count, self._sum = 0, 0.0


class OfferMetrics:
    """The series of one offer under one name it was asked for by. For gateways."""

    def __init__(self, store: _Store, tier_requested: str, tier_served: str, model: str) -> None:
        served = (tier_served, model)
        offer = (tier_requested, *served)
        self._store = store
        self._served = served
        self.in_flight = store.child(IN_FLIGHT, Gauge, *served)
        self.ttft = store.child(TTFT, Histogram, *offer)
        self.tpot = store.child(TPOT, Histogram, *offer)
        self.itl = Folded(store.child(ITL, Histogram, *offer), ITL.buckets)
        self.duration = store.child(DURATION, Histogram, *offer)
        self._input = store.child(INPUT_TOKENS, Counter, *served)
        self._cached = store.child(CACHED_TOKENS, Counter, *served)
        self._output = store.child(OUTPUT_TOKENS, Counter, *served)
        self._input_usage = store.child(TOKEN_USAGE, Histogram, "input", *served)
        self._output_usage = store.child(TOKEN_USAGE, Histogram, "output", *served)
        self._cost = store.child(COST, Counter, *served)

    def usage(self, prompt: int, cached: int, completion: int) -> None:
        """Tokens of a request that has ended."""
        self._input.inc(prompt)
        self._cached.inc(cached)
        self._output.inc(completion)
        self._input_usage.observe(prompt)
        self._output_usage.observe(completion)

    def cost(self, nanodollars: int) -> None:
        self._cost.inc(nanodollars)

    def outcome(self, outcome: Outcome, reason: str | None = None) -> None:
        """How a request ended; also passes on what was folded during it."""
        self._store.child(REQUESTS, Counter, *self._served, outcome, _closed(reason)).inc()
        self.itl.pass_on()

    def rejected(self, reason: str | None) -> None:
        """A request was refused although there is such an offer."""
        self.outcome("rejected", reason)


class _Snapshot(Protocol):
    """What an engine says of itself; counts are since its start."""

    @property
    def running(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def kv_held(self) -> float: ...
    @property
    def kv_capacity(self) -> float: ...
    @property
    def drafted(self) -> int: ...
    @property
    def accepted(self) -> int: ...
    @property
    def preemptions(self) -> int: ...


class PoolMetrics:
    """The series of one pool, as far as one worker adds to them."""

    RATE_OVER = 1.0  # s

    def __init__(self, store: _Store, pool: str) -> None:
        self.lateness = store.child(LATENESS, Histogram, pool)
        self.queue_wait = store.child(QUEUE_WAIT, Histogram, pool)
        self.recovered = store.child(RECOVERED, Counter, pool)
        self.batch_max = store.child(BATCH_MAX, Gauge, pool)
        self._rate = store.child(OUTPUT_RATE, Gauge, pool)
        self._gauges = [
            store.child(gauge, Gauge, pool) for gauge in (BATCH_RUNNING, BATCH_WAITING, KV_HELD, KV_CAPACITY, KV_USE)
        ]
        self._counters = [store.child(counter, Counter, pool) for counter in (DRAFTED, ACCEPTED, PREEMPTIONS)]
        self._shown: list[float] = [-1.0] * len(self._gauges)
        self._counted = [0] * len(self._counters)
        self._generated = 0
        self._since = -inf
        self._shown_rate = 0.0

    def engine(self, snapshots: Iterable[_Snapshot]) -> None:
        """The state of all replicas that the worker hosts; what has not changed costs next to nothing."""
        running = waiting = drafted = accepted = preemptions = 0
        held = capacity = 0.0
        for snapshot in snapshots:
            running += snapshot.running
            waiting += snapshot.waiting
            held += snapshot.kv_held
            capacity += snapshot.kv_capacity
            drafted += snapshot.drafted
            accepted += snapshot.accepted
            preemptions += snapshot.preemptions
        self._show([running, waiting, held, capacity, held / capacity if capacity else 0.0])
        self._count([drafted, accepted, preemptions])

    def generated(self, tokens: int, now: float) -> None:
        """`tokens` more were generated by `now` (s, any clock). To be called with 0 when `rate_due` has come."""
        passed = now - self._since
        if passed >= self.RATE_OVER:
            self._shown_rate = self._generated / passed
            self._rate.set(self._shown_rate)
            self._generated, self._since = 0, now
        self._generated += tokens

    @property
    def rate_due(self) -> float:
        """When the rate shown will be out of date (s); infinity for a pool at rest."""
        return self._since + self.RATE_OVER if self._generated or self._shown_rate else inf

    def _show(self, figures: list[float]) -> None:
        if figures == self._shown:
            return
        for gauge, figure, shown in zip(self._gauges, figures, self._shown, strict=True):
            if figure != shown:
                gauge.set(figure)
        self._shown = figures

    def _count(self, totals: list[int]) -> None:
        if totals == self._counted:
            return
        for counter, total, counted in zip(self._counters, totals, self._counted, strict=True):
            counter.inc(total - counted)
        self._counted = totals


def _closed(reason: str | None) -> str:
    return "" if reason is None else reason if reason in REASONS else "other"


# ---- What processes call --------------------------------------------------------------------------------------------

_configured: _Store | None = None


def configure(directory: Path | None) -> None:
    """Choose where this process keeps its values, before it counts anything; None: in memory, as without this call.

    Raises OSError: the directory cannot be used.
    """
    global _configured
    if _configured is not None:
        raise RuntimeError("metrics are configured once, before anything is counted")
    _configured = _Store(directory)


def farewell() -> None:
    """The process ends: its gauges vanish, its counters stay. Nothing may be counted after that."""
    _store().close()


@cache
def offer_metrics(tier_requested: str, tier_served: str, model: str) -> OfferMetrics:
    """`tier_requested` is the word of the request, once it has been resolved; never text that nobody has checked."""
    return OfferMetrics(_store(), tier_requested, tier_served, model)


@cache
def pool_metrics(pool: str) -> PoolMetrics:
    return PoolMetrics(_store(), pool)


def refused(error: ServiceError) -> None:
    """A request was refused before it was known what it asks for."""
    reason = error.reason if error.reason and error.reason in REASONS else type(error).code or ""
    _store().child(REQUESTS, Counter, "", "", "rejected", reason).inc()


def queue_depth(pool: str, jobs: int) -> None:
    _store().child(QUEUE_DEPTH, Gauge, pool).set(jobs)


def frame_fenced() -> None:
    _store().child(FENCED, Counter).inc()


def redis_error() -> None:
    _store().child(REDIS_ERRORS, Counter).inc()


def render() -> tuple[bytes, str]:
    """The exposition in Prometheus' text format, and its content type. May be called in a thread."""
    return generate_latest(_store().registry), CONTENT_TYPE_PLAIN_0_0_4


def serve(port: int, host: str = "127.0.0.1") -> Callable[[], None]:
    """Answer scrapes in a thread of their own, for processes that have no HTTP server. Call the result to stop."""
    server, thread = start_http_server(port, host, _store().registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


def _store() -> _Store:
    global _configured
    if _configured is None:
        _configured = _Store(None)
    return _configured
