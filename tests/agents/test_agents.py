"""Real agents get their work done with this service, on every tier, whatever goes wrong; and count what it counts.

They take longer than all other tests together and come from npm, so they run when AGENTS_DIR says where they are
installed, as `make agents` does.
"""

import os
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from agent import Agent, Run, Tier, Usage
from claude_code import ClaudeCode
from codex import Codex
from report import Report, Row
from task import Project

from fastmode.testing import Entry, Fastmode

WHERE = os.environ.get("AGENTS_DIR", "")
PROGRAMS = Path(WHERE).expanduser() / "node_modules" / ".bin"
INSTALLED = bool(WHERE) and all((PROGRAMS / name).exists() for name in ("claude", "codex"))

pytestmark = pytest.mark.skipif(not INSTALLED, reason="AGENTS_DIR does not say where both are; `make agents` does")

CLAUDE_CODE = ClaudeCode(PROGRAMS / "claude")
AGENTS: dict[str, Agent] = {
    agent.name: agent
    for agent in (
        CLAUDE_CODE,
        Codex(PROGRAMS / "codex", websocket=False),
        Codex(PROGRAMS / "codex", websocket=True),
        Codex(PROGRAMS / "codex", websocket=True, code_mode=True),
    )
}
WITH_SPARK = [name for name, agent in AGENTS.items() if "spark" in agent.models]
SCRIPT = Path(__file__).parent / "script.toml"
MISTAKES = ("hallucinated_tool", "missing_argument", "mistyped_argument", "invalid_json")
TOLD = ["tier_served", "rule", "fault", "mistake", "status", "error", "outcome", "finish", "text", "calls", "usage"]


@dataclass(frozen=True, slots=True)
class Trial:
    """A run that has ended, and what the service noted of its requests."""

    run: Run
    project: Project
    entries: list[Entry]
    seconds: float

    @property
    def served(self) -> tuple[str, ...]:
        """Tiers of the answers that came to their end, in order."""
        return tuple(entry.tier_served for entry in self.entries if entry.outcome == "ok")

    @property
    def counted(self) -> Usage:
        """By the service, of those answers."""
        used = [entry.usage for entry in self.entries if entry.outcome == "ok" and entry.usage is not None]
        return Usage(
            prompt=sum(usage.prompt for usage in used),
            cached=sum(usage.cached for usage in used),
            output=sum(usage.completion for usage in used),
        )

    def __str__(self) -> str:
        """What both sides have to say of it, for whoever has to find out why it failed."""
        lines = [", ".join(f"{name}={getattr(entry, name)}" for name in TOLD) for entry in self.entries]
        return "\n".join(["", *lines, str(asdict(self.counted)), self.run.printed])


Try = Callable[..., Trial]


@pytest.fixture(scope="module")
def report() -> Iterator[Report]:
    """Shown in the end, and written to the file that AGENTS_TABLE names."""
    report = Report(versions={name.partition(",")[0]: agent.version() for name, agent in AGENTS.items()})
    yield report
    report.show(os.environ.get("AGENTS_TABLE"))


@pytest.fixture
def attempt(fastmode: Fastmode, report: Report, tmp_path: Path) -> Try:
    """Has an agent do its task, sees that it does, and adds a row to the report."""

    def attempt(name: str, tier: Tier, happens: str = "nothing", does: str = "its task") -> Trial:
        fastmode.rules(SCRIPT)
        home, project = tmp_path / "home", Project.make(tmp_path / "project")
        home.mkdir()
        began = time.monotonic()
        run = AGENTS[name].run(fastmode.base_url, tier, home, project.path)
        trial = Trial(run, project, fastmode.journal(), time.monotonic() - began)
        assert run.exit_code == 0, str(trial)
        assert run.said is not None, str(trial)
        assert run.said.words.startswith("Done"), str(trial)
        assert project.is_mended, str(trial)
        assert project.was_tested, str(trial)
        assert all(entry.outcome == "ok" or entry.fault for entry in trial.entries), str(trial)
        report.rows.append(
            Row(name, tier, happens, does, trial.served, run.said.usage, run.said.dollars, trial.seconds)
        )
        return trial

    return attempt


@pytest.mark.parametrize(("name", "tier"), [(name, tier) for name, agent in AGENTS.items() for tier in agent.models])
def test_an_agent_reads_edits_tests_and_stops(attempt: Try, name: str, tier: Tier) -> None:
    trial = attempt(name, tier)
    assert trial.served == (tier,) * 4, str(trial)
    assert trial.run.said is not None
    assert trial.run.said.usage == trial.counted, str(trial)


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("name", WITH_SPARK)
def test_an_agent_goes_on_after_a_mistake_of_the_model(
    fastmode: Fastmode, attempt: Try, name: str, mistake: str
) -> None:
    fastmode.rules({"rules": _first_calls(mistake)})
    trial = attempt(name, "spark", mistake.replace("_", " "), "says so; the model calls again")
    assert trial.served == ("spark",) * 5, str(trial)
    assert [entry.mistake for entry in trial.entries] == [mistake, "", "", "", ""], str(trial)
    assert trial.run.said is not None
    assert trial.run.said.usage == trial.counted, str(trial)


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_asks_again_when_fast_mode_is_refused(fastmode: Fastmode, attempt: Try, name: str) -> None:
    fastmode.fault("status=429; retry_after=1", times=1, tier="fast")
    trial = attempt(name, "fast", "429, retry-after 1 s", "waits, and stays fast")
    assert trial.entries[0].status == 429
    assert trial.served == ("fast",) * 4, str(trial)
    assert trial.run.said is not None
    assert trial.run.said.usage == trial.counted, str(trial)


@pytest.mark.parametrize(
    ("fault", "happens"), [("status=429; retry_after=120", "429, retry-after 120 s"), ("status=529", "529")]
)
def test_claude_code_goes_on_at_standard_speed_when_fast_mode_is_refused_for_long(
    fastmode: Fastmode, attempt: Try, fault: str, happens: str
) -> None:
    fastmode.fault(fault, times=1, tier="fast")
    trial = attempt(CLAUDE_CODE.name, "fast", happens, "goes on at standard speed")
    assert (trial.entries[0].tier_served, trial.entries[0].outcome) == ("fast", "rejected")
    assert trial.served == ("standard",) * 4, str(trial)
    assert trial.run.said is not None
    assert trial.run.said.usage == trial.counted, str(trial)


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_asks_again_when_a_stream_is_cut_off(fastmode: Fastmode, attempt: Try, name: str) -> None:
    """How it counts what it has of that stream is its own affair."""
    fastmode.fault("cut@3", times=1)
    trial = attempt(name, "fast", "the stream is cut off", "asks again")
    assert trial.entries[0].outcome == "cancelled"
    assert trial.served == ("fast",) * 4, str(trial)


def _first_calls(mistake: str) -> list[dict[str, Any]]:
    """The script's rules that have a file read, once each, with this mistake in the call."""
    rules = tomllib.loads(SCRIPT.read_text())["rules"]
    reading = [rule for rule in rules if rule["name"].endswith("read")]
    return [{**rule, "times": 1, "reply": {**rule["reply"], "mistake": mistake}} for rule in reading]
