"""Statistics on requests whose answers are known: percentiles, intervals, gaps between tokens, goodput, lateness."""

from math import inf, isnan, nan

import numpy as np
import pytest

from loadtests.knee import knee
from loadtests.records import Gaps, Record
from loadtests.scenario import Objective
from loadtests.summary import estimate, lateness, summary


def record(ttft: float = 0.1, tpot: float = 0.01, output: int = 101, due: float = 0.0, **changes: object) -> Record:
    first = due + ttft
    last = first + tpot * (output - 1)
    made = Record(session=0, turn=0, attempt=0, tier="fast", due=due, sent=due + 0.001, outcome="ok")
    made.first, made.last, made.ended, made.output, made.shown, made.prompt = first, last, last, output, output, 50
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_percentiles_are_those_of_what_was_completed() -> None:
    ttfts = np.random.default_rng(1).lognormal(-2, 0.5, 400)
    failed = [record(ttft=99.0, outcome="failed", error="cut off") for _ in range(20)]
    (tier,) = summary([*(record(ttft=float(each)) for each in ttfts), *failed], {}, Objective(), 10.0)
    assert [tier.ttft[name].value for name in ("p50", "p90", "p99")] == pytest.approx(
        np.percentile(ttfts, (50, 90, 99)).tolist()
    )
    assert (tier.requests, tier.ok, tier.errors) == (420, 400, {"cut off": 20})
    assert tier.tpot["p50"].value == pytest.approx(0.01)
    assert tier.speed.value == pytest.approx(100)


def test_time_counts_from_when_a_request_was_due_and_not_from_when_a_late_client_sent_it() -> None:
    stalled = [
        record(due=float(each), sent=each + 5.0, first=each + 5.1, last=each + 6.1, ended=each + 6.1)
        for each in range(9)
    ]
    (tier,) = summary(stalled, {}, Objective(), 9.0)
    assert tier.ttft["p50"].value == pytest.approx(5.1)
    assert tier.e2e["p50"].value == pytest.approx(6.1)


def test_an_interval_of_95_percent_holds_the_truth_about_as_often() -> None:
    held = 0
    for seed in range(200):
        values = np.random.default_rng(seed).normal(10.0, 2.0, 60)
        found = estimate(values, np.mean)
        held += found.low <= 10.0 <= found.high
    assert 0.90 <= held / 200 <= 0.98


def test_of_nothing_nothing_is_known() -> None:
    (tier,) = summary([record(outcome="failed", error="x")], {}, Objective(), 1.0)
    assert not tier.ttft["p50"].known
    assert not tier.cost.known
    assert tier.throughput == 0
    assert tier.met.value == 0


def test_goodput_counts_what_met_the_objective_and_a_single_token_has_no_tpot_to_miss() -> None:
    objective = Objective(ttft=0.2, tpot=0.02)
    requests = [
        record(),
        record(ttft=0.3),
        record(tpot=0.03),
        record(output=1),
        record(outcome="refused", error="queue_full"),
    ]
    (tier,) = summary(requests, {}, objective, 4.0)
    assert tier.met.value == pytest.approx(2 / 5)
    assert tier.goodput == pytest.approx(2 / 4)


def test_tokens_that_come_together_are_spread_or_marked() -> None:
    """Ten tokens, at 0, then five at 0.5, then four at 0.9."""
    steps = [(0.0, 1), (0.5, 5), (0.9, 4)]
    spread, marked = Gaps(spread=True), Gaps(spread=False)
    for gaps in (spread, marked):
        gaps.add(steps, 10)
    assert spread.percentiles((50, 99)) == pytest.approx([0.1, 0.1])
    assert marked.percentiles((50, 99)) == pytest.approx([0.0, 0.5])


def test_where_an_endpoint_has_several_tokens_in_a_piece_each_piece_counts_for_as_many() -> None:
    gaps = Gaps(spread=True)
    gaps.add([(0.0, 1), (0.4, 1), (0.8, 1)], 12)
    assert gaps.percentiles((50,)) == pytest.approx([0.1])
    assert isnan(Gaps(spread=True).percentiles((50,))[0])


def test_numbers_of_what_was_done_several_times_are_those_of_one() -> None:
    requests = [record(cost=1_000_000_000) for _ in range(30)]
    (once,) = summary(requests, {}, Objective(), 10.0)
    (one,) = summary(requests, {}, Objective(), 10.0, times=3)
    assert (one.requests, one.output_tokens) == (10, once.output_tokens // 3)
    assert one.dollars == pytest.approx(10.0)
    assert one.throughput == pytest.approx(once.throughput / 3)
    assert one.ttft == once.ttft


def test_a_client_that_could_not_keep_up_says_so() -> None:
    assert lateness([0.001] * 990 + [0.04] * 10).warning is None
    assert "could not keep up" in (lateness([0.001] * 980 + [0.4] * 20).warning or "")
    assert lateness([]).warning is None


def test_the_knee_of_a_curve_is_where_it_bends() -> None:
    sharp = [(100.0, 100.0), (99.0, 400.0), (98.0, 800.0), (50.0, 820.0), (25.0, 830.0)]
    assert knee(sharp) == 2
    assert knee(sharp[:2]) is None
    assert knee([(1.0, 1.0)] * 3) is None


def test_an_objective_that_says_nothing_is_met_by_all_that_end_well() -> None:
    (tier,) = summary([record(ttft=50), record(outcome="failed")], {}, Objective(inf, inf), 1.0)
    assert tier.met.value == pytest.approx(0.5)
    assert isnan(record(output=1).tpot)
    assert isnan(record(shown=20, call=True).tpot)
    assert nan != record().tpot
