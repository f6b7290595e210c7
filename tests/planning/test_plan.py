"""What a plan says of a fleet, held against sums and laws that hold whatever the engine does."""

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from math import inf
from pathlib import Path

import numpy as np
import pools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning import plan, report, scenario, workload
from planning.fleet import Fleet
from planning.plan import Run
from planning.scenario import Scenario
from planning.tally import Tally
from service import tiers
from service.conditions import Outage
from service.messages import Usage
from service.pricing import bill

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def needed(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not here: the reference data do not ship with the repository")
    return path


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pools that stream 1,000 tok/s, whatever the batch, and lose no time to prompts."""
    kinds = (pools.Pool(name="one", slots=1), pools.Pool(name="eight", slots=8), pools.NARROW, pools.HASTY)
    return pools.catalog(tmp_path_factory.mktemp("known"), *kinds)


loaded = cache(tiers.load)


def planned(
    path: Path | None,
    rate: float,
    input_: str,
    output: str,
    duration: float,
    *,
    model: str | None = None,
    tier: tuple[str, ...] = (),
    mix: str | None = None,
    slo: tuple[str, ...] = (),
    ambient: bool = False,
    burst: float = 1.0,
    seed: int = 0,
) -> Scenario:
    catalog = loaded(path)
    routes = scenario.routes(catalog, model, tier, mix, slo)
    load = workload.workload((), rate, input_, output, burst=burst, duration=duration)
    return scenario.scenario(catalog, routes, load, ambient=ambient, seed=seed)


def figure(run: Run, name: str, tier: int = 0) -> float:
    return report.report(run)[tier].figures[name].value


@settings(max_examples=30)
@given(
    rate=st.floats(0.2, 6),
    burst=st.just(0.0) | st.floats(0.01, 4),
    output=st.integers(1, 3000),
    model=st.sampled_from(["one", "eight", "narrow", "hasty"]),
    seed=st.integers(0, 2**16),
)
def test_every_request_ends_in_exactly_one_outcome(
    known: Path, rate: float, burst: float, output: int, model: str, seed: int
) -> None:
    load = planned(known, rate, "1-200000", f"1-{output}", 60, model=model, burst=burst, seed=seed)
    asked = len(list(load.workload.arrivals(seed)))
    (tally,) = plan.simulate(load).tallies
    assert tally.asked == asked
    assert tally.completed + tally.full + tally.late + tally.refused == asked
    table = tally.table()
    arrived, claimed, first, last = table[:, 0], table[:, 1], table[:, 5], table[:, 6]
    assert (arrived <= claimed).all()
    assert (claimed < first).all()
    assert (first <= last).all()


def test_a_mix_shares_requests_out_and_several_tiers_get_all_of_them() -> None:
    mixed = plan.simulate(planned(None, 20, "200", "50", 100, mix="standard=0.75,fast=0.25"))
    whole = plan.simulate(planned(None, 20, "200", "50", 100, tier=("standard", "fast")))
    total = whole.tallies[0].asked
    assert [tally.asked for tally in whole.tallies] == [total, total]
    assert sum(tally.asked for tally in mixed.tallies) == total
    assert mixed.tallies[1].asked / total == pytest.approx(0.25, abs=0.03)


def test_revenue_is_the_sum_of_all_bills() -> None:
    run = plan.simulate(planned(None, 10, "1500:1", "300:1", 60, model="claude-opus-4-6", tier=("fast",)))
    (tally,) = run.tallies
    bills = [
        bill(tally.offer.price, Usage(prompt=int(prompt), cached=int(cached), completion=int(output))).total
        for _, _, prompt, output, cached, _, _ in tally.table()
    ]
    assert bill(tally.offer.price, tally.usage()).total == sum(bills)
    assert figure(run, "revenue") == pytest.approx(sum(bills) / 1e9, rel=1e-3)


def test_equal_seeds_give_equal_plans_and_others_do_not() -> None:
    runs = [plan.simulate(planned(None, 20, "500:1", "200:1", 60, seed=seed)) for seed in (1, 1, 2)]
    first, again, other = (run.tallies[0].table() for run in runs)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_mean_number_in_the_pool_is_rate_times_time(known: Path) -> None:
    """Little's law. The number is looked at now and then; the time is that of each request."""
    run = plan.simulate(planned(known, 6, "1", "1-2000", 3000, model="eight"))
    (tally,), samples = run.tallies, run.samples["eight"]
    table = tally.table()
    seen = np.mean([waiting + claimed for waiting, claimed in zip(samples.waiting, samples.claimed, strict=True)])
    expected = (table[:, 6] - table[:, 0]).sum() / run.span
    assert tally.completed == tally.asked
    assert seen == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_the_wait_for_one_slot_is_that_of_pollaczek_and_khinchine(known: Path, load: float) -> None:
    """M/D/1: requests of one second at random wait load / (2 (1 - load)) seconds in the mean."""
    run = plan.simulate(planned(known, load, "1", "1000", 40_000, model="one"))
    (tally,) = run.tallies
    assert tally.completed == tally.asked
    assert tally.samples()["wait"].mean() == pytest.approx(load / (2 * (1 - load)), rel=0.1)
    assert figure(run, "busy") == pytest.approx(100 * load, abs=8)


def test_nobody_waits_while_a_slot_is_free_and_tokens_come_at_the_known_rate(known: Path) -> None:
    run = plan.simulate(planned(known, 1, "1", "1000", 200, model="eight", burst=0))
    assert figure(run, "wait_p99") == 0
    assert figure(run, "tpot_p50") == pytest.approx(1, rel=1e-3)
    assert figure(run, "output_rate") == pytest.approx(1000, rel=0.02)
    assert run.samples["eight"].waiting == [0] * len(run.samples["eight"].waiting)


def test_a_full_queue_rejects_and_a_long_wait_does(known: Path) -> None:
    """One second each, three of them per second: one is served, and the queue has four places, or half a second."""
    run = plan.simulate(planned(known, 3, "1", "1000", 100, model="narrow", burst=0))
    assert run.tallies[0].full == pytest.approx(200, abs=10)
    assert run.tallies[0].late == 0
    assert max(run.samples["narrow"].waiting) == 4
    run = plan.simulate(planned(known, 3, "1", "1000", 100, model="hasty", burst=0))
    assert run.tallies[0].late == pytest.approx(200, abs=10)
    assert run.tallies[0].full == 0
    assert run.tallies[0].samples()["wait"].max() <= 0.5


def test_what_does_not_fit_the_context_window_is_refused_and_held_against_nobody(known: Path) -> None:
    run = plan.simulate(planned(known, 1, "127500-128500", "300", 100, model="eight", slo=("tpot=1",)))
    (tally,) = run.tallies
    assert 0 < tally.refused < tally.asked
    assert tally.completed == tally.asked - tally.refused
    assert tally.share_met == 1


def test_with_ambient_load_its_owners_bear_their_share_of_the_cost() -> None:
    """Both see equal traffic; beside 289 other people's sequences on each replica it pays for little of the fleet."""
    alone, among = (plan.simulate(planned(None, 20, "500", "300", 120, ambient=ambient)) for ambient in (False, True))
    fleet = 4 * 8 * 2.75
    assert figure(alone, "cost") == pytest.approx(fleet * alone.span / 3600, rel=1e-3)
    share = figure(among, "cost") / (fleet * among.span / 3600)
    own = among.tallies[0].seconds / among.span / 4
    assert share == pytest.approx(own / (own + 289), rel=1e-3)
    assert figure(among, "tpot_p50") > figure(alone, "tpot_p50")
    assert figure(among, "revenue") == pytest.approx(figure(alone, "revenue"))


def test_two_tiers_of_one_pool_share_its_cost_and_the_better_band_waits_less(tmp_path: Path) -> None:
    path = pools.catalog(tmp_path, pools.Pool(name="one", slots=1))
    text = path.read_text()
    offer = text[text.index("[models.one.offers.standard]") :]
    path.write_text(text + offer.replace("offers.standard", "offers.fast") + "band = 0\n")
    run = plan.simulate(planned(path, 0.9, "1", "1000", 3000, mix="standard=0.5,fast=0.5"))
    standard, fast = run.tallies
    assert figure(run, "cost", 0) + figure(run, "cost", 1) == pytest.approx(run.span / 3600, rel=1e-3)
    assert fast.samples()["wait"].mean() < 0.7 * standard.samples()["wait"].mean()


def test_a_better_band_is_claimed_where_a_worse_one_has_had_no_token_yet(tmp_path: Path) -> None:
    """One slot, and prompts of a second in ten steps. In the middle of the first, two of a better band come."""
    catalog = tiers.load(pools.catalog(tmp_path, pools.Pool(name="one", slots=1, prefill=100)))
    offer = catalog.models["one"].offers["standard"]
    worse, better = Tally(replace(offer, band=1)), Tally(replace(offer, band=0))
    pool = catalog.pools["one"]
    pool = replace(pool, limits=replace(pool.limits, prefill_chunk=10))
    fleet = Fleet(pool, (0, 1), seed=0, sample_every=inf)
    fleet.arrive(0.0, 100, 10, (), 0, worse)
    fleet.arrive(0.5, 100, 10, (), 0, better)
    fleet.arrive(0.6, 100, 10, (), 0, better)
    fleet.drain()
    assert better.samples()["wait"].tolist() == [0.0, pytest.approx(better.table()[0, 6] - 0.6)]
    assert better.table()[-1, 5] < worse.table()[0, 5]


def test_in_an_outage_requests_wait_and_none_is_lost(known: Path) -> None:
    """All replicas are away from 20 s to 45 s: who comes meanwhile is claimed when they are back."""
    load = planned(known, 1, "1", "500", 100, model="eight", burst=0)
    outage = Outage(start=20, end=40, replicas=1, cold_start=5)
    run = plan.simulate(replace(load, pools={"eight": replace(load.pools["eight"], incidents=(outage,))}))
    (tally,) = run.tallies
    table = tally.table()
    assert tally.completed == tally.asked
    meanwhile = table[(table[:, 0] > 20) & (table[:, 0] < 45)]
    assert len(meanwhile) == 24
    assert meanwhile[:, 1].min() == 45


def test_goodput_counts_requests_that_meet_every_bound(known: Path) -> None:
    run = plan.simulate(planned(known, 0.7, "1", "1000", 2000, model="one", slo=("ttft=0.8,tpot=0.002",)))
    table = run.tallies[0].table()
    within = (table[:, 5] - table[:, 0] <= 0.8).sum()
    assert 0 < within < len(table)
    assert run.tallies[0].met == within
    assert figure(run, "goodput") == pytest.approx(within / run.span, rel=1e-3)
    assert figure(run, "met") == pytest.approx(100 * within / len(table), rel=1e-3)


def test_a_run_that_is_given_up_has_seen_no_more_than_it_was_let() -> None:
    load = planned(None, 100, "100", "10", 100)
    run = plan.simulate(load, lambda number, _: number < 2000)
    assert run.tallies[0].asked < 4000


# ---- the command


def fastmode(*arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fastmode", "plan", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environ or None)


LOAD = ("--rate", 5, "--input", "300:0.5", "--output", "100-200", "--duration", 60)


def test_an_azure_trace_is_planned_at_several_tiers(bare_environ: dict[str, str]) -> None:
    trace = needed("azure2023_code.csv")
    answer = json.loads(
        fastmode("--trace", trace, "--tier", "standard", "--tier", "spark", "--json", **bare_environ).stdout
    )
    standard, spark = (tier["figures"] for tier in answer["tiers"])
    for figures in (standard, spark):
        ended = sum(figures[name]["value"] for name in ("completed", "full", "late", "refused"))
        assert ended == figures["asked"]["value"] == 8819
    assert spark["tpot_p50"]["value"] < standard["tpot_p50"]["value"] / 5
    assert "$/h of a wse3" in spark["cost"]["assumes"]
    assert "$/h" not in standard["cost"]["assumes"]
    assert all("front-end TTFT" in figures["ttft_p50"]["assumes"] for figures in (standard, spark))
    assert all("hop_us" in spark[name]["assumes"] for name in ("ttft_p50", "tpot_p50", "output_rate", "margin"))
    assert all(figure["note"] for figure in standard.values())


def test_a_mooncake_trace_finds_its_prompts_in_the_cache(bare_environ: dict[str, str]) -> None:
    trace = needed("mooncake_conversation.jsonl.gz")
    answer = json.loads(fastmode("--trace", trace, "--duration", 600, "--no-ambient", "--json", **bare_environ).stdout)
    (tier,) = answer["tiers"]
    assert 5 < tier["figures"]["cached"]["value"] < 60
    assert any("512 tokens" in note for note in answer["assumptions"])


def test_copies_are_so_many_requests_and_a_time_scale_brings_them_closer(bare_environ: dict[str, str]) -> None:
    trace = needed("azure2023_code.csv")
    options = ("--trace", trace, "--copies", 2, "--time-scale", 0.5, "--json")
    answer = json.loads(fastmode(*options, **bare_environ).stdout)
    assert answer["tiers"][0]["figures"]["asked"]["value"] == 2 * 8819
    assert 1600 < answer["span_s"] < 2100


@pytest.mark.parametrize("columns", [80, 160])
def test_the_tables_fit_a_terminal_and_cut_nothing(bare_environ: dict[str, str], columns: int) -> None:
    text = fastmode(*LOAD, "--tier", "standard", "--tier", "fast", **{**bare_environ, "COLUMNS": str(columns)}).stdout
    assert "…" not in text
    lines = text.splitlines()
    assert max(len(line) for line in lines[3:]) <= columns
    assert "TTFT p99" in text
    assert "front end's term in every TTFT is assumed" in " ".join(text.split())


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_plot_is_saved_as_its_ending_says(bare_environ: dict[str, str], tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"plan.{ending}"
    answer = fastmode(*LOAD, "--plot", path, **bare_environ)
    assert answer.returncode == 0, answer.stderr
    assert path.read_bytes()[:8].startswith({"png": b"\x89PNG", "svg": b"<?xml"}[ending])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "--trace FILE"),
        (("--rate", 5), "--input"),
        (("--rate", 5, "--input", "many", "--output", "5"), "'many'"),
        (("--rate", 5, "--input", "9-5", "--output", "5"), "9 is more than 5"),
        (("--rate", 0, "--input", "5", "--output", "5"), "above 0"),
        ((*LOAD, "--burst", "0.001"), "equal gaps"),
        (("--rate", "1e6", "--input", "5", "--output", "5", "--duration", "1e6"), "--duration"),
        ((*LOAD, "--trace", "x.csv"), "--trace FILE"),
        (("--trace", "nowhere.csv"), "nowhere.csv"),
        ((*LOAD, "--tier", "turbo"), "turbo"),
        ((*LOAD, "--tier", "fast", "--tier-mix", "fast=1"), "either"),
        ((*LOAD, "--tier-mix", "fast=0.5"), "sum to 0.5"),
        ((*LOAD, "--tier-mix", "fast"), "standard=0.8,fast=0.2"),
        ((*LOAD, "--slo", "soon"), "ttft=1.0,tpot=0.02"),
        ((*LOAD, "--slo", "fast:ttft=1"), "not planned"),
        ((*LOAD, "--solve"), "needs an SLO"),
        ((*LOAD, "--model", "gpt-1"), "gpt-1"),
        ((*LOAD, "--plot", "plan.txt"), "plan.txt"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(
    bare_environ: dict[str, str], options: tuple[object, ...], says: str
) -> None:
    answer = fastmode(*options, **bare_environ)
    assert answer.returncode == 2
    (line,) = answer.stderr.splitlines()
    assert says in line
