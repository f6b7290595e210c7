"""Every Prometheus metric, declared once: name, help, labels, buckets; and what call sites hold to count with them.

Names and standard buckets follow the OpenTelemetry semantic conventions for generative AI, translated as Prometheus
does; what they do not cover is called fastmode_*. Label values come from closed sets: tiers, models and pools of the
catalog, and the outcomes and reasons named here; a reason that is not among them becomes "other".

Call sites resolve their labels once, with `offer_metrics` and `pool_metrics`; what happens per token is folded in plain
Python and passed on now and then. Where values are kept is chosen by `configure`; see service.metric_store.
"""

from collections.abc import Callable, Iterable
from functools import cache
from math import inf
from pathlib import Path
from typing import Literal, Protocol

from service.errors import ServiceError
from service.messages import Failure
from service.metric_store import FULLEST, LATEST, SUM, Declared, Store

Outcome = Literal["ok", "cancelled", "stalled", "failed", "rejected"]

REASONS = frozenset(
    {
        "bodies",
        "budget",
        "draining",
        "fault",
        "ledger",
        "lost",
        "no_workers",
        "parallel",
        "queue_deadline",
        "queue_full",
        "ramp",
        "rate_limit",
        "redis",
        *Failure,
    }
)


# ---- What there is --------------------------------------------------------------------------------------------------

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
IN_FLIGHT = _declare("gauge", "fastmode_requests_in_flight", "Requests not yet settled.", _SERVED, merge=SUM)
QUEUE_DEPTH = _declare("gauge", "fastmode_queue_depth", "Jobs that wait for a worker.", _POOL, merge=LATEST)
QUEUE_WAIT = _declare(
    "histogram", "fastmode_queue_wait_seconds", "From queueing a job to its claim by a worker.", _POOL, _WAIT
)
QUEUE_POSITION = _declare(
    "histogram",
    "fastmode_queue_position",
    "Jobs that waited in the pool when another one was queued.",
    _POOL,
    (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096),
)
OUTPUT_RATE = _declare(
    "gauge", "fastmode_output_tokens_per_second", "Tokens generated per second, now.", _POOL, merge=SUM
)
BATCH_RUNNING = _declare("gauge", "fastmode_batch_running", "Sequences in the batch.", _POOL, merge=SUM)
BATCH_WAITING = _declare(
    "gauge", "fastmode_batch_waiting", "Sequences that wait for room in the batch.", _POOL, merge=SUM
)
BATCH_MAX = _declare(
    "gauge", "fastmode_batch_max", "Sequences that the batch can hold beside the ambient load.", _POOL, merge=SUM
)
KV_HELD = _declare("gauge", "fastmode_kv_held_tokens", "Tokens held in the KV cache.", _POOL, merge=SUM)
KV_IDLE = _declare(
    "gauge",
    "fastmode_kv_idle_tokens",
    "Tokens of prompts that the KV cache keeps for whoever sends them again.",
    _POOL,
    merge=SUM,
)
KV_CAPACITY = _declare(
    "gauge",
    "fastmode_kv_capacity_tokens",
    "Tokens that the KV cache can hold beside the ambient load.",
    _POOL,
    merge=SUM,
)
KV_USE = _declare(
    "gauge", "fastmode_kv_use_ratio", "Share of the KV cache in use, of the fullest worker.", _POOL, merge=FULLEST
)
DRAFTED = _declare("counter", "fastmode_draft_tokens_total", "Tokens drafted by speculative decoding.", _POOL)
ACCEPTED = _declare("counter", "fastmode_draft_tokens_accepted_total", "Drafted tokens that became output.", _POOL)
PREEMPTIONS = _declare(
    "counter",
    "fastmode_preemptions_total",
    "Sequences that lost their place: to a full KV cache, or to a better band before their first token.",
    _POOL,
)
PREFIX_QUERIES = _declare(
    "counter", "fastmode_prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", _POOL
)
PREFIX_HITS = _declare(
    "counter", "fastmode_prefix_cache_hits_total", "Prompt tokens found in the prefix cache, and not computed.", _POOL
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


# ---- What call sites hold -------------------------------------------------------------------------------------------


class OfferMetrics:
    """The series of one offer under one name it was asked for by. For gateways."""

    def __init__(self, store: Store, tier_requested: str, tier_served: str, model: str) -> None:
        served = (tier_served, model)
        offer = (tier_requested, *served)
        self._store = store
        self._served = served
        self.in_flight = store.gauge(IN_FLIGHT, *served)
        self.ttft = store.histogram(TTFT, *offer)
        self.tpot = store.histogram(TPOT, *offer)
        self.itl = store.folded(ITL, *offer)
        self.duration = store.histogram(DURATION, *offer)
        self._input = store.counter(INPUT_TOKENS, *served)
        self._cached = store.counter(CACHED_TOKENS, *served)
        self._output = store.counter(OUTPUT_TOKENS, *served)
        self._input_usage = store.histogram(TOKEN_USAGE, "input", *served)
        self._output_usage = store.histogram(TOKEN_USAGE, "output", *served)
        self._cost = store.counter(COST, *served)

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
        self._store.counter(REQUESTS, *self._served, outcome, _closed(reason)).inc()
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
    def kv_idle(self) -> float: ...
    @property
    def kv_capacity(self) -> float: ...
    @property
    def drafted(self) -> int: ...
    @property
    def accepted(self) -> int: ...
    @property
    def preemptions(self) -> int: ...
    @property
    def prefix_asked(self) -> int: ...
    @property
    def prefix_hit(self) -> int: ...


class PoolMetrics:
    """The series of one pool, as far as one worker adds to them."""

    RATE_OVER = 1.0  # s

    def __init__(self, store: Store, pool: str) -> None:
        self.lateness = store.histogram(LATENESS, pool)
        self.queue_wait = store.histogram(QUEUE_WAIT, pool)
        self.recovered = store.counter(RECOVERED, pool)
        self.batch_max = store.gauge(BATCH_MAX, pool)
        self._rate = store.gauge(OUTPUT_RATE, pool)
        self._gauges = [
            store.gauge(gauge, pool) for gauge in (BATCH_RUNNING, BATCH_WAITING, KV_HELD, KV_IDLE, KV_CAPACITY, KV_USE)
        ]
        self._counters = [
            store.counter(counter, pool) for counter in (DRAFTED, ACCEPTED, PREEMPTIONS, PREFIX_QUERIES, PREFIX_HITS)
        ]
        self._shown: list[float] = [-1.0] * len(self._gauges)
        self._counted = [0] * len(self._counters)
        self._generated = 0
        self._since = -inf
        self._shown_rate = 0.0

    def engine(self, snapshots: Iterable[_Snapshot]) -> None:
        """The state of all replicas that the worker hosts; what has not changed costs next to nothing."""
        running = waiting = drafted = accepted = preemptions = asked = hit = 0
        held = idle = capacity = 0.0
        for snapshot in snapshots:
            running += snapshot.running
            waiting += snapshot.waiting
            held += snapshot.kv_held
            idle += snapshot.kv_idle
            capacity += snapshot.kv_capacity
            drafted += snapshot.drafted
            accepted += snapshot.accepted
            preemptions += snapshot.preemptions
            asked += snapshot.prefix_asked
            hit += snapshot.prefix_hit
        self._show([running, waiting, held, idle, capacity, held / capacity if capacity else 0.0])
        self._count([drafted, accepted, preemptions, asked, hit])

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

_configured: Store | None = None


def configure(directory: Path | None) -> None:
    """Choose where this process keeps its values, before it counts anything; None: in memory, as without this call.

    Raises OSError: the directory cannot be used.
    """
    global _configured
    if _configured is not None:
        raise RuntimeError("metrics are configured once, before anything is counted")
    _configured = Store(DECLARED.values(), directory)


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
    _store().counter(REQUESTS, "", "", "rejected", reason).inc()


def queue_depth(pool: str, jobs: int) -> None:
    _store().gauge(QUEUE_DEPTH, pool).set(jobs)


def queue_position(pool: str, ahead: int) -> None:
    _store().histogram(QUEUE_POSITION, pool).observe(ahead)


def frame_fenced() -> None:
    _store().counter(FENCED).inc()


def redis_error() -> None:
    _store().counter(REDIS_ERRORS).inc()


def render() -> tuple[bytes, str]:
    """The exposition in Prometheus' text format, and its content type. May be called in a thread."""
    return _store().render()


def serve(port: int, host: str = "127.0.0.1") -> Callable[[], None]:
    """Answer scrapes in a thread of their own, for processes that have no HTTP server. Call the result to stop."""
    return _store().serve(port, host)


def _store() -> Store:
    global _configured
    if _configured is None:
        _configured = Store(DECLARED.values(), None)
    return _configured
