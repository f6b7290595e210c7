"""Real agents get their work done with this service, on every tier, whatever goes wrong; and count what it counts.

They take longer than all other tests together and come from npm, so they run when AGENTS_DIR says where they are
installed, as `make agents` does.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from agent import Agent, Run, Tier, Usage
from claude_code import ClaudeCode
from codex import Codex
from report import Report, Row
from task import Project

from fastmode.up import Service

WHERE = os.environ.get("AGENTS_DIR", "")
PROGRAMS = Path(WHERE).expanduser() / "node_modules" / ".bin"
SCRIPT = Path(__file__).parent / "script.toml"
INSTALLED = bool(WHERE) and all((PROGRAMS / name).exists() for name in ("claude", "codex"))

pytestmark = pytest.mark.skipif(not INSTALLED, reason="AGENTS_DIR does not say where both are; `make agents` does")

AGENTS: dict[str, Agent] = {
    agent.name: agent
    for agent in (
        ClaudeCode(PROGRAMS / "claude"),
        Codex(PROGRAMS / "codex", websocket=False),
        Codex(PROGRAMS / "codex", websocket=True),
        Codex(PROGRAMS / "codex", websocket=True, code_mode=True),
    )
}
MAKING_MISTAKES = [name for name, agent in AGENTS.items() if "spark" in agent.models]
MISTAKES = ("hallucinated_tool", "missing_argument", "invalid_json")


@dataclass(frozen=True, slots=True)
class Trial:
    """A run that has ended, and the journal's notes of its requests."""

    run: Run
    project: Project
    notes: list[dict[str, Any]]
    seconds: float

    @property
    def served(self) -> tuple[str, ...]:
        return tuple(
            note["tier_served"] for note in self.notes if note["outcome"] == "ok" and note["usage"]["completion"]
        )

    @property
    def counted(self) -> Usage:
        """By the service, of all answers."""
        used = [note["usage"] for note in self.notes if note["outcome"] == "ok"]
        prompt, cached, output = (sum(usage[name] for usage in used) for name in ("prompt", "cached", "completion"))
        return Usage(prompt, cached, output)

    def __str__(self) -> str:
        """What both sides have to say of it, for whoever has to find out why it failed."""
        told = (
            "tier_served",
            "rule",
            "fault",
            "mistake",
            "status",
            "error",
            "outcome",
            "text",
            "calls",
            "finish",
            "usage",
        )
        notes = [", ".join(f"{name}={note[name]!r}" for name in told if note[name]) for note in self.notes]
        return "\n".join(["", *notes, self.run.printed])


Try = Callable[..., Trial]


@pytest.fixture(scope="module")
def service(module_stack: Callable[..., Service]) -> Service:
    """What is sold by default, with answers as script.toml has them."""
    return module_stack(FASTMODE_RULES=str(SCRIPT), FASTMODE_JOURNAL="1000")


@pytest.fixture(scope="module")
def report() -> Iterator[Report]:
    """Shown in the end, and written to the file that AGENTS_TABLE names."""
    report = Report(versions={name.partition(",")[0]: agent.version() for name, agent in AGENTS.items()})
    yield report
    report.show(os.environ.get("AGENTS_TABLE"))


@pytest.fixture
def attempt(service: Service, report: Report, tmp_path: Path) -> Try:
    """Has an agent do its task, sees that it does and that both count alike, and adds a row to the report."""

    def attempt(name: str, tier: Tier, situation: str, happens: str = "", does: str = "") -> Trial:
        home, project = tmp_path / "home", Project.make(tmp_path / "project")
        home.mkdir()
        httpx.delete(f"{service.base_url}/fastmode/journal").raise_for_status()
        began = time.monotonic()
        run = AGENTS[name].run(service.base_url, tier, situation, home, project.path)
        trial = Trial(run, project, _notes(service), time.monotonic() - began)
        assert run.exit_code == 0, str(trial)
        assert run.said is not None, str(trial)
        assert run.said.words.startswith("Done"), str(trial)
        assert project.is_mended, str(trial)
        assert project.was_tested, str(trial)
        assert run.said.usage == trial.counted, str(trial)
        report.rows.append(
            Row(name, tier, happens, does, trial.served, run.said.usage, run.said.dollars, trial.seconds)
        )
        return trial

    return attempt


@pytest.mark.parametrize(("name", "tier"), [(name, tier) for name, agent in AGENTS.items() for tier in agent.models])
def test_an_agent_reads_edits_tests_and_stops(attempt: Try, name: str, tier: Tier) -> None:
    trial = attempt(name, tier, "all is well")
    assert trial.served == (tier,) * 4
    assert not any(note["mistake"] or note["fault"] for note in trial.notes)


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("name", MAKING_MISTAKES)
def test_an_agent_goes_on_after_a_mistake_of_the_model(attempt: Try, name: str, mistake: str) -> None:
    trial = attempt(name, "spark", mistake, mistake.replace("_", " "), "tells the model, which calls again")
    assert trial.served == ("spark",) * 5
    assert [note["mistake"] for note in trial.notes if note["mistake"]] == [mistake]


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_asks_again_after_a_refusal_for_a_moment(attempt: Try, name: str) -> None:
    trial = attempt(name, "fast", "refused for a moment", "429, retry-after 1 s", "waits, stays fast")
    assert trial.served == ("fast",) * 4
    assert [note["status"] for note in trial.notes if note["fault"]] == [429]


def test_claude_code_goes_on_at_standard_speed_after_a_refusal_for_long(attempt: Try) -> None:
    trial = attempt("Claude Code", "fast", "refused for long", "429, retry-after 120 s", "goes on at standard speed")
    assert trial.served == ("standard",) * 4
    assert [(note["status"], note["tier_served"]) for note in trial.notes if note["fault"]] == [(429, "fast")]


@pytest.mark.parametrize("tier", ["standard", "fast"])
def test_claude_code_reckons_the_price_that_the_service_does(attempt: Try, service: Service, tier: Tier) -> None:
    before = _nanodollars(service)
    trial = attempt("Claude Code", tier, "all is well", "", "reckons the same price")
    assert trial.run.said is not None
    assert trial.run.said.dollars == pytest.approx((_nanodollars(service) - before) / 1e9, abs=1e-9)


def _notes(service: Service) -> list[dict[str, Any]]:
    answer = httpx.get(f"{service.base_url}/fastmode/journal").raise_for_status()
    notes: list[dict[str, Any]] = answer.json()["notes"]
    return notes


def _nanodollars(service: Service) -> int:
    lines = httpx.get(f"{service.base_url}/metrics").text.splitlines()
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith("fastmode_cost_nanodollars_total{"))
