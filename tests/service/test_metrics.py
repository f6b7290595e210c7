"""Metrics are right in one process and in many, whatever those processes die of."""

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from service import metrics
from service.errors import InvalidRequest, ServiceError, Unavailable
from service.messages import Failure
from service.metric_store import Declared

ROOT = Path(__file__).parents[2]

# Runs the statements it reads, one per line, and answers each with a line.
LOOP = """
import pathlib, sys
from service import metrics
metrics.configure(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None)
for line in sys.stdin:
    try:
        exec(line)
        print("done", flush=True)
    except Exception as error:
        print(repr(error), flush=True)
"""

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Process:
    """A real process that counts what it is told to."""

    def __init__(self, directory: Path | None) -> None:
        command = [sys.executable, "-c", LOOP, *([str(directory)] if directory else [])]
        self._child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, *statements: str) -> None:
        assert self._child.stdout
        for statement in statements:
            self.begin(statement)
            assert self._child.stdout.readline() == "done\n"

    def begin(self, statement: str) -> None:
        """Do not wait for its end."""
        assert self._child.stdin
        self._child.stdin.write(f"{statement}\n")
        self._child.stdin.flush()

    def scrape(self, into: Path) -> Series:
        self.run(f"pathlib.Path({str(into)!r}).write_bytes(metrics.render()[0])")
        return parse(into.read_bytes())

    def kill(self) -> None:
        """SIGKILL: it gets to say nothing more. Again: nothing happens."""
        if self._child.returncode is None:
            self._child.send_signal(signal.SIGKILL)
            self._child.communicate()

    def leave(self) -> None:
        self.run("metrics.farewell()")
        self._child.communicate()


@dataclass(frozen=True)
class Host:
    """A directory that processes share, and the processes."""

    directory: Path
    page: Path
    processes: list[Process]

    def start(self) -> Process:
        process = Process(self.directory)
        self.processes.append(process)
        process.run("pass")
        return process


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path / "metrics", tmp_path / "page", [])
    yield host
    for process in host.processes:
        process.kill()


@contextmanager
def alone() -> Iterator[Process]:
    process = Process(None)
    try:
        yield process
    finally:
        process.kill()


def parse(page: bytes) -> Series:
    samples = (sample for family in text_string_to_metric_families(page.decode()) for sample in family.samples)
    return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}


def value(series: Series, name: str, **labels: str) -> float | None:
    return series.get((name, frozenset(labels.items())))


OFFER = {"tier_served": "fast", "model": "m"}
BEGIN = "offer = metrics.offer_metrics('priority', 'fast', 'm')"


def counters(series: Series) -> Series:
    return {key: figure for key, figure in series.items() if re.search(r"_(total|bucket|sum|count)$", key[0])}


def assert_never_back(before: Series, after: Series) -> None:
    assert not {
        key: (figure, after.get(key)) for key, figure in counters(before).items() if after.get(key, -1) < figure
    }


USE_EVERYTHING = [
    BEGIN,
    "offer.in_flight.inc()",
    "offer.ttft.observe(0.05); offer.tpot.observe(0.001); offer.duration.observe(2); offer.itl.observe(0.002, 3)",
    "offer.usage(10, 4, 20); offer.cost(123); offer.outcome('ok'); offer.rejected('queue_full')",
    "pool = metrics.pool_metrics('spark')",
    "import types",
    "state = dict(running=1, waiting=2, kv_held=30.0, kv_idle=5, kv_capacity=40.0, drafted=5, accepted=4)",
    "state.update(preemptions=1, prefix_asked=7, prefix_hit=6)",
    "pool.engine([types.SimpleNamespace(**state)])",
    "pool.lateness.observe(0.01); pool.queue_wait.observe(0.1); pool.recovered.inc(); pool.batch_max.set(8)",
    "pool.generated(100, now=1000.0); pool.generated(200, now=1000.5); pool.generated(0, now=1002.0)",
    "metrics.queue_depth('spark', 7); metrics.queue_position('spark', 3)",
    "metrics.frame_fenced(); metrics.redis_error()",
]


@pytest.mark.parametrize("shared", [False, True])
def test_every_declared_metric_is_exposed_under_its_name_and_nothing_else(shared: bool, tmp_path: Path) -> None:
    process = Process(tmp_path / "shared" if shared else None)
    try:
        process.run(*USE_EVERYTHING)
        series = process.scrape(tmp_path / "page")
    finally:
        process.kill()
    exposed = {re.sub(r"_(bucket|sum|count)$", "", name) for name, _ in series}
    assert exposed == set(metrics.DECLARED)
    assert value(series, "fastmode_requests_in_flight", **OFFER) == 1
    assert value(series, "fastmode_requests_total", **OFFER, outcome="ok", reason="") == 1
    assert value(series, "fastmode_requests_total", **OFFER, outcome="rejected", reason="queue_full") == 1
    assert value(series, "fastmode_cost_nanodollars_total", **OFFER) == 123
    assert value(series, "fastmode_output_tokens_total", **OFFER) == 20
    assert value(series, "gen_ai_client_token_usage_sum", **OFFER, gen_ai_token_type="input") == 10
    assert value(series, "fastmode_inter_token_latency_seconds_count", **OFFER, tier_requested="priority") == 3
    assert value(series, "fastmode_kv_use_ratio", pool="spark") == 0.75
    assert value(series, "fastmode_draft_tokens_accepted_total", pool="spark") == 4
    assert value(series, "fastmode_kv_idle_tokens", pool="spark") == 5
    assert value(series, "fastmode_prefix_cache_queries_total", pool="spark") == 7
    assert value(series, "fastmode_prefix_cache_hits_total", pool="spark") == 6
    assert value(series, "fastmode_output_tokens_per_second", pool="spark") == 150
    assert value(series, "fastmode_queue_depth", pool="spark") == 7


def test_names_help_and_labels_follow_the_conventions() -> None:
    for name, declared in metrics.DECLARED.items():
        assert name.startswith(("gen_ai_", "fastmode_"))
        assert (declared.kind == "counter") == name.endswith("_total")
        assert declared.help.endswith(".")
        assert bool(declared.buckets) == (declared.kind == "histogram")
        assert bool(declared.merge) == (declared.kind == "gauge")
        assert list(declared.buckets) == sorted(set(declared.buckets))


def test_tiers_of_different_speed_fall_into_different_buckets() -> None:
    """65, 170, 300 and 1000 tok/s are told apart."""
    buckets = metrics.TPOT.buckets
    assert len({sum(bound < 1 / rate for bound in buckets) for rate in (65, 170, 300, 1000)}) == 4


def test_buckets_of_the_open_telemetry_conventions_are_kept() -> None:
    conventions: dict[Declared, list[float]] = {
        metrics.TTFT: [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
        metrics.TPOT: [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5],
        metrics.DURATION: [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
        metrics.TOKEN_USAGE: [
            1,
            4,
            16,
            64,
            256,
            1024,
            4096,
            16384,
            65536,
            262144,
            1048576,
            4194304,
            16777216,
            67108864,
        ],
    }
    for declared, standard in conventions.items():
        assert set(standard) <= set(declared.buckets)


def test_several_observations_at_once_equal_as_many_single_ones(tmp_path: Path) -> None:
    """In both ways of keeping values, and on bucket borders."""
    for directory in (None, tmp_path / "shared"):
        process = Process(directory)
        try:
            process.run(
                BEGIN,
                "observed = [(0.001, 5), (0.0011, 2), (9.0, 1), (0.002, 2000)]",
                "[offer.itl.observe(value, times) for value, times in observed]",
                "offer.outcome('ok')",
                "[offer.tpot.observe(value) for value, times in observed for _ in range(times)]",
            )
            series = process.scrape(tmp_path / "page")
        finally:
            process.kill()
        folded = _histogram(series, metrics.ITL.name)
        single = _histogram(series, metrics.TPOT.name)
        assert folded == pytest.approx(single)
        assert folded["count"] == 2008


def _histogram(series: Series, name: str) -> dict[str, float]:
    found = {}
    for (full, labels), figure in series.items():
        if full.startswith(f"{name}_"):
            found[full.removeprefix(f"{name}_") + dict(labels).get("le", "")] = figure
    return found


def test_reasons_are_a_closed_set() -> None:
    """Ten thousand strings that nobody has checked make one series."""
    assert {failure.value for failure in Failure} <= metrics.REASONS
    with alone() as process:
        process.run(
            BEGIN,
            "[offer.rejected(f'made up {n}') for n in range(10_000)]",
            "assert metrics.render()[0].count(b'fastmode_requests_total{') == 1",
            "assert b'reason=\"other\"' in metrics.render()[0]",
        )


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (InvalidRequest("?", code="missing_required_parameter"), "invalid_value"),
        (Unavailable("?", reason="draining"), "draining"),
        (Unavailable("?", reason="made up"), "server_is_overloaded"),
        (ServiceError("?"), ""),
    ],
)
def test_a_refusal_without_a_tier_is_counted_by_its_kind(error: ServiceError, reason: str) -> None:
    labels: dict[str, Any] = {"tier_served": "", "model": "", "outcome": "rejected", "reason": reason}
    before = value(parse(metrics.render()[0]), "fastmode_requests_total", **labels) or 0
    metrics.refused(error)
    assert value(parse(metrics.render()[0]), "fastmode_requests_total", **labels) == before + 1


def test_the_output_rate_falls_to_zero_and_then_needs_no_more_attention() -> None:
    pool = metrics.pool_metrics("rate")
    rates = []
    for tokens, now in ((10, 5.0), (0, 6.0), (0, 7.0)):
        pool.generated(tokens, now)
        rates.append(value(parse(metrics.render()[0]), "fastmode_output_tokens_per_second", pool="rate"))
        assert pool.rate_due == (now + 1 if now < 7 else inf)
    assert rates == [0, 10, 0]


def test_metrics_cannot_be_moved_once_something_is_counted(tmp_path: Path) -> None:
    metrics.redis_error()
    with pytest.raises(RuntimeError):
        metrics.configure(tmp_path)


def test_any_process_of_a_host_speaks_for_all(host: Host) -> None:
    one, other = host.start(), host.start()
    one.run(BEGIN, "offer.in_flight.inc(); offer.usage(1, 0, 10)")
    other.run(BEGIN, "offer.in_flight.inc(); offer.usage(2, 0, 20)", "metrics.queue_depth('p', 5)")
    one.run("metrics.queue_depth('p', 3)")
    for process in (one, other):
        series = process.scrape(host.page)
        assert value(series, "fastmode_requests_in_flight", **OFFER) == 2
        assert value(series, "fastmode_output_tokens_total", **OFFER) == 30
        assert value(series, "fastmode_queue_depth", pool="p") == 3, "the latest of two views of one queue"


def test_the_gauges_of_a_killed_process_vanish_at_the_next_scrape_and_its_counters_stay(host: Host) -> None:
    one, other = host.start(), host.start()
    one.run(BEGIN, "offer.in_flight.inc(); offer.usage(1, 0, 10)")
    other.run(BEGIN, "offer.in_flight.inc(4); offer.usage(2, 0, 20)", "metrics.pool_metrics('spark').batch_max.set(8)")
    before = one.scrape(host.page)
    assert value(before, "fastmode_batch_max", pool="spark") == 8
    other.kill()
    after = one.scrape(host.page)
    assert value(after, "fastmode_requests_in_flight", **OFFER) == 1
    assert value(after, "fastmode_batch_max", pool="spark") is None
    assert_never_back(before, after)


def test_a_process_that_says_farewell_takes_its_gauges_along_before_it_has_ended(host: Host) -> None:
    one, other = host.start(), host.start()
    other.run(BEGIN, "offer.in_flight.inc(); offer.usage(2, 0, 20)")
    before = one.scrape(host.page)
    other.run("metrics.farewell()")
    after = one.scrape(host.page)
    assert value(after, "fastmode_requests_in_flight", **OFFER) is None
    assert_never_back(before, after)


def test_a_successor_does_not_inherit_gauges_and_carries_counters_on(host: Host) -> None:
    first = host.start()
    first.run(BEGIN, "offer.in_flight.inc(); offer.usage(1, 0, 10)")
    first.kill()
    second = host.start()
    second.run(BEGIN, "offer.in_flight.inc(); offer.usage(1, 0, 10)")
    series = second.scrape(host.page)
    assert value(series, "fastmode_requests_in_flight", **OFFER) == 1
    assert value(series, "fastmode_output_tokens_total", **OFFER) == 20


def test_counters_never_go_back_and_files_stay_bounded_over_many_restarts(host: Host) -> None:
    scraped = host.start()
    last: Series = {}
    for round_ in range(6):
        process = host.start()
        process.run(BEGIN, "offer.ttft.observe(0.1); offer.usage(1, 0, 10)", "offer.outcome('ok')")
        process.kill() if round_ % 2 else process.leave()
        series = scraped.scrape(host.page)
        assert_never_back(last, series)
        assert value(series, "fastmode_output_tokens_total", **OFFER) == 10 * (round_ + 1)
        last = series
    assert len(list(host.directory.iterdir())) <= 2 * 6 + 1, "two processes at once: two places of six files each"


def test_counters_never_go_back_while_a_busy_process_is_killed_again_and_again(host: Host) -> None:
    """Two processes are scraped in turn while a third counts without a pause, and is killed in the midst of it."""
    scraped = [host.start(), host.start()]
    count = "while True: [(offer(n).usage(1, 0, 1), offer(n).outcome('ok')) for n in range(3)]"
    last: Series = {}
    for _ in range(4):
        busy = host.start()
        busy.run("offer = lambda n: metrics.offer_metrics('auto', 'fast', f'm{n}')", "offer(0).in_flight.inc()")
        busy.begin(count)
        for _ in range(4):
            for process in scraped:
                series = process.scrape(host.page)
                assert_never_back(last, series)
                last = series
        busy.kill()
        assert (
            value(scraped[0].scrape(host.page), "fastmode_requests_in_flight", tier_served="fast", model="m0") is None
        )
    assert (value(last, "fastmode_output_tokens_total", tier_served="fast", model="m2") or 0) > 0


def test_processes_that_start_together_get_places_of_their_own(host: Host) -> None:
    processes = [Process(host.directory) for _ in range(4)]
    host.processes.extend(processes)
    for process in processes:
        process.run(BEGIN, "offer.in_flight.inc(); offer.usage(1, 0, 1)")
    series = processes[0].scrape(host.page)
    assert value(series, "fastmode_requests_in_flight", **OFFER) == 4
    assert value(series, "fastmode_output_tokens_total", **OFFER) == 4
    assert len(list(host.directory.glob("slot-*.lock"))) == 4


def test_a_process_without_a_web_server_can_be_scraped(host: Host, unused_tcp_port: int) -> None:
    process = host.start()
    process.run(BEGIN, "offer.usage(1, 0, 10)", f"stop = metrics.serve({unused_tcp_port})")
    with urllib.request.urlopen(f"http://127.0.0.1:{unused_tcp_port}/metrics", timeout=10) as response:
        series = parse(response.read())
    assert value(series, "fastmode_output_tokens_total", **OFFER) == 10
    process.run("stop()")
