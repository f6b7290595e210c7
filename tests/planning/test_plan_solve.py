"""The least fleet: it keeps its promise, one replica less does not, and what cannot be is said to be so."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning import plan, scenario, workload
from planning.scenario import Scenario
from planning.solve import least, solve
from service import tiers
from service.errors import PlanError

SHIPPED = tiers.load()


def promised(*slo: str, mix: str | None = None, rate: float = 30, duration: float = 120) -> Scenario:
    routes = scenario.routes(SHIPPED, None, (), mix, slo)
    load = workload.workload((), rate, "800:0.6", "250:0.6", duration=duration)
    return scenario.scenario(SHIPPED, routes, load, ambient=False)


def share(load: Scenario, max_batch: int, replicas: int) -> float:
    pool = load.pools["standard"]
    pool = replace(pool, replicas=replicas, limits=replace(pool.limits, max_batch=max_batch))
    return plan.simulate(replace(load, pools={"standard": pool})).tallies[0].share_met


def test_what_is_found_meets_the_slo_and_one_replica_less_does_not() -> None:
    load = promised("ttft=1.0,tpot=0.012")
    (solution,) = solve(load)
    assert solution.best is not None
    assert solution.proof is not None
    assert solution.proof.scenario.seed != load.seed
    assert solution.proof.tallies[0].share_met >= 0.99
    found = min(solution.frontier, key=lambda point: (point.replicas, -point.share))
    assert found.replicas > 1
    assert share(load, found.max_batch, found.replicas) == pytest.approx(found.share)
    assert found.share >= 0.99
    for point in solution.frontier:
        assert share(load, point.max_batch, found.replicas - 1) < 0.99
        assert point.replicas == found.replicas or share(load, point.max_batch, found.replicas) < 0.99
    assert solution.less == pytest.approx(share(load, found.max_batch, found.replicas - 1))
    assert solution.best.dollars_per_hour == pytest.approx(8 * 2.75 * solution.best.replicas)


def test_a_speed_beyond_the_floor_is_impossible_and_the_floor_is_named() -> None:
    (solution,) = solve(promised("tpot=0.001"))
    assert solution.best is None
    assert solution.frontier == ()
    assert "0 % meet TPOT <= 1 ms" in solution.why
    assert "floor of this deployment" in solution.why


def test_a_first_token_before_the_front_end_has_passed_it_on_is_impossible() -> None:
    (solution,) = solve(promised("ttft=0.01"))
    assert solution.best is None
    assert "0 % meet TTFT <= 0.01 s" in solution.why


def test_each_pool_of_a_mix_is_solved_for_its_own_requests() -> None:
    found = solve(promised("ttft=1.0,tpot=0.02", "fast:tpot=0.008", mix="standard=0.7,fast=0.3", rate=15))
    assert [solution.pool for solution in found] == ["standard", "fast"]
    for solution in found:
        assert solution.proof is not None
        (tally,) = solution.proof.tallies
        assert tally.offer.tier == solution.pool
        assert tally.share_met >= 0.99


def test_without_a_promise_there_is_nothing_to_solve() -> None:
    with pytest.raises(PlanError, match="needs an SLO"):
        solve(promised())


@given(threshold=st.integers(1, 200), guess=st.integers(1, 300), most=st.integers(1, 200))
def test_the_least_number_is_found_from_any_guess(threshold: int, guess: int, most: int) -> None:
    asked: list[int] = []

    def meets(number: int) -> bool:
        assert 1 <= number <= most
        asked.append(number)
        return number >= threshold

    assert least(meets, guess, most) == (threshold if threshold <= most else None)
    assert len(asked) == len(set(asked)) <= 20


def test_the_command_shows_the_frontier_and_the_run_that_proves_it(bare_environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "fastmode", "plan", "--rate", "10", "--input", "500", "--output", "200"]
    command += ["--duration", "60", "--solve", "--slo", "ttft=1.0,tpot=0.02"]
    text = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=bare_environ).stdout
    assert "Least fleet:" in text
    assert "No ambient load" in text
    command.append("--json")
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=bare_environ).stdout
    (solution,) = json.loads(answer)
    assert solution["best"]["replicas"] == solution["proof"]["tiers"][0]["figures"]["replicas"]["value"]
    assert solution["proof"]["tiers"][0]["figures"]["met"]["value"] >= 99
