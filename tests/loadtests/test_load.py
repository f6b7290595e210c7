"""Scenarios played for real, against a service whose streams run at known rates: what is counted and told is right."""

import csv
import os
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pools import SWIFT, catalog
from typer.testing import CliRunner

from fastmode.cli import app
from fastmode.up import Service
from loadtests import conduct, page, records, result
from loadtests.conduct import Setting
from loadtests.drive import Run
from loadtests.scenario import Agent, Closed, Dialect, Objective, Open, Scenario, Talk
from planning.workload import lengths
from service.errors import ScenarioError

TALK = Talk(input=lengths("40"), output=lengths("30"), turns=lengths("1"))
OFFERS = """
[models.swift.offers.fast]
pool = "swift"
reported_as = "priority"
price = { input = 10, cached_input = 1, output = 20 }

[models.swift.offers.spark]
pool = "swift"
reported_as = "spark"
price = { input = 0.1, cached_input = 0.01, output = 0.2 }
mistakes = { missing_argument = 0.3, wrong_value = 0.1 }
"""
PLAIN = Scenario(
    name="plain",
    about="what tests need",
    model="swift",
    dialect="openai",
    seconds=0.8,
    seed=3,
    load=Closed(levels=(4,)),
    work=TALK,
    mix={"standard": 0.5, "fast": 0.5},
    objective=Objective(ttft=30.0),
)


@pytest.fixture(scope="module")
def service(module_stack: Callable[..., Service], tmp_path_factory: pytest.TempPathFactory) -> Service:
    pools = catalog(tmp_path_factory.mktemp("load"), SWIFT)
    pools.write_text(pools.read_text() + OFFERS)
    return module_stack(catalog=pools)


@pytest.fixture
def setting(service: Service) -> Setting:
    return Setting(base_url=f"{service.base_url}/v1", key="k", catalog=service.catalog, predicting=True)


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_every_request_is_recorded_with_its_tokens_and_its_price(setting: Setting, dialect: Dialect) -> None:
    found, rows = conduct.once(replace(PLAIN, dialect=dialect), setting)
    assert {row.outcome for row in rows} <= {"ok", "unfinished"}
    done = [row for row in rows if row.ok]
    assert len(done) > 8
    assert all(row.due <= row.sent < row.first <= row.last <= row.ended for row in done)
    assert {row.served for row in done} == {"standard", "fast"}
    for row in done:
        times = 10 if row.tier == "fast" else 1
        assert row.served == row.tier
        assert row.cost == times * (1000 * row.prompt + 2000 * row.output)
        assert row.output == 30 if dialect == "openai" else 1 <= row.output <= 30
    assert [tier.ok for tier in found.tiers] == [sum(row.tier == tier.tier for row in done) for tier in found.tiers]
    assert {tier.tier for tier in found.predicted} == {"standard", "fast"}


def test_conversations_grow_and_open_loads_come_when_they_are_due(setting: Setting) -> None:
    talk = Talk(input=lengths("40"), output=lengths("5"), turns=lengths("3"), think=0.01)
    scenario = replace(PLAIN, work=talk, load=Open(rate=20.0, to=20.0, gaps="constant"), mix={"fast": 1.0}, seconds=1.0)
    _, rows = conduct.once(scenario, setting)
    for session in range(10):
        turns = sorted((row for row in rows if row.session == session), key=lambda row: row.turn)
        assert [row.turn for row in turns] == [0, 1, 2][: len(turns)]
        assert turns[0].due == pytest.approx((session + 1) / 20)
        assert [b.prompt - a.prompt for a, b in pairwise(turns)] == [40 + 5 + 8] * (len(turns) - 1)


def test_the_same_work_is_compared_at_each_tier_and_calls_that_cannot_run_are_asked_for_again(setting: Setting) -> None:
    agent = Agent(input=lengths("60"), result=lengths("20"), steps=4, tool=0.0, retries=3)
    scenario = replace(PLAIN, work=agent, seconds=60.0, most=8)
    found, rows = conduct.compared(scenario, ["standard", "spark"], setting)
    assert found.comparison is not None
    standard, spark = found.comparison.worths
    assert (standard.tasks, standard.successes, standard.steps) == (8, 8, 4.0)
    assert spark.tasks == 8
    again = [row for row in rows if row.seen]
    assert again
    assert {row.tier for row in again} == {"spark"}
    assert {row.mistake for row in again} == {"missing_argument"}
    asked = {(row.tier, row.session, row.turn, row.attempt) for row in rows}
    assert all(
        (row.tier, row.session, row.turn, row.attempt + 1) in asked for row in again if row.attempt < agent.retries
    )
    unseen = {row.mistake for row in rows if row.mistake and not row.seen}
    assert unseen <= {"wrong_value"}
    assert len(found.comparison.pairs) == 1
    assert found.comparison.verdict.count(". ") == 1


def test_a_sweep_has_a_point_for_each_level(setting: Setting) -> None:
    scenario = replace(PLAIN, mix={"fast": 1.0}, seconds=0.5)
    found, _ = conduct.swept(scenario, [1, 3], setting)
    (sweep,) = found.sweep
    assert [point.level for point in sweep.points] == [1, 3]
    assert all(point.tier.ok for point in sweep.points)
    assert sweep.best in (1, 3)
    assert not found.tiers


def test_what_came_before_an_interruption_is_kept(setting: Setting) -> None:
    def stop(run: Run, _: float) -> None:
        if len(run.records) > 6:
            os.kill(os.getpid(), signal.SIGINT)

    assert threading.current_thread() is threading.main_thread()
    found, rows = conduct.once(replace(PLAIN, seconds=60.0), replace(setting, watch=stop))
    assert found.interrupted
    assert sum(row.ok for row in rows) > 2
    assert not found.predicted


def test_what_is_written_needs_nothing_else(setting: Setting, tmp_path: Path) -> None:
    found, rows = conduct.once(replace(PLAIN, seconds=0.5), setting)
    records.write(tmp_path / "run.csv", rows)
    with (tmp_path / "run.csv").open() as file:
        read = list(csv.DictReader(file))
    assert len(read) == len(rows)
    assert float(read[0]["ttft"]) == pytest.approx(rows[0].ttft, abs=1e-5)
    page.write(tmp_path / "run.html", found, rows)
    html = (tmp_path / "run.html").read_text()
    assert html.count("<svg") == 2
    namespaces = ("http://www.w3.org/", "http://purl.org/", "http://creativecommons.org/")
    assert not [url for url in re.findall(r"https?://[^\s\"'<]+", html) if not url.startswith(namespaces)]
    assert "<script" not in html
    result.write(tmp_path / "run.json", found)
    assert result.read(tmp_path / "run.json").tiers[0].ok == found.tiers[0].ok


BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "a tier that is not": ({"mix": {"warp": 1.0}}, "", "warp"),
    "a model that is not": ({"model": "nobody"}, "", "model_not_found"),
    "nobody there": ({}, "http://127.0.0.1:9/v1", "is the service running"),
    "no URL": ({}, "localhost:8000", "is no URL"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_run_is_one_clear_line(setting: Setting, what: str) -> None:
    changes, url, said = BAD[what]
    with pytest.raises(ScenarioError, match=said) as refused:
        conduct.once(replace(PLAIN, **changes), replace(setting, base_url=url or setting.base_url))
    assert "\n" not in str(refused.value)


def test_the_command_runs_writes_and_gates(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = tmp_path / "mine.toml"
    scenario.write_text(
        'about = "x"\nmodel = "swift"\nseconds = 0.5\n[load]\nkind = "closed"\nclients = 2\n'
        '[session]\ninput = "20"\noutput = "5"\n[mix]\nfast = 1\n'
    )
    monkeypatch.setenv("FASTMODE_CATALOG", str(service.settings.catalog))
    out = str(tmp_path / "run")
    run = ["load", "run", str(scenario), "--base-url", f"{service.base_url}/v1", "--out", out]
    ran = CliRunner().invoke(app, [*run, "--fail-if", "fast.ttft.p99 > 60"])
    assert ran.exit_code == 0, ran.output
    assert "How long it took" in ran.output
    assert "Against the engine's plan" in ran.output
    assert {path.suffix for path in tmp_path.glob("run.*")} == {".json", ".csv", ".html"}
    gated = CliRunner().invoke(app, ["load", "report", f"{out}.json", "--fail-if", "fast.ok > 0"])
    assert gated.exit_code == 1
    assert "fast.ok > 0: at fast it is" in gated.output
    both = CliRunner().invoke(app, ["load", "report", f"{out}.json", f"{out}.json"])
    assert both.exit_code == 0
    assert "ttft p50" in both.output
