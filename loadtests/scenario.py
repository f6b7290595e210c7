"""What a load test does: who comes when, what they ask for, at which tiers, and what they should get. Read from TOML.

A session is somebody who comes: one request, a conversation of several turns, or an agent's loop of calls. Sessions
come closed, so many at a time, or open, at times of their own. Knows nothing about endpoints or how it turns out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from math import inf, isclose
from pathlib import Path
from typing import Literal, cast

from planning.workload import Lengths, lengths
from service.errors import CatalogError, PlanError, ScenarioError
from service.toml_table import Document, Table

SHIPPED = ("chat", "coding-agent", "bulk-and-premium", "burst", "batch-sweep", "tiers", "soak")

Dialect = Literal["openai", "anthropic"]
Gaps = Literal["poisson", "constant", "gamma"]
_DIALECTS, _GAPS = ("openai", "anthropic"), ("poisson", "constant", "gamma")
_EFFORTS = ("minimal", "low", "medium", "high")
_SECONDS_MAX = 86_400.0
_CLIENTS_MAX = 10_000
_TURNS_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """So many clients, of which each begins its next session `think` seconds after the last; levels take turns."""

    levels: tuple[int, ...]
    think: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """`rate` sessions a second, rising or falling evenly `to` another; `cv`: of gamma-distributed gaps."""

    rate: float
    to: float
    gaps: Gaps = "poisson"
    cv: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The requests of a trace, its gaps stretched by `time_scale`; each is a session."""

    path: Path
    time_scale: float = 1.0


Load = Closed | Open | Replayed


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """A session: `turns` requests, each of `input` fresh tokens after all before it, `think` seconds apart."""

    input: Lengths
    output: Lengths
    turns: Lengths
    think: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A session: `steps` calls of a tool, of which each takes `tool` seconds and brings `result` tokens.

    The first has `input` tokens before it. A call that cannot be used is asked for again, up to `retries` times. Before
    each the model thinks, at `effort`, if that is not empty.
    """

    input: Lengths
    result: Lengths
    steps: int
    tool: float
    retries: int = 2
    effort: str = ""


@dataclass(frozen=True, slots=True)
class Objective:
    """Goodput counts requests that meet both, in seconds."""

    ttft: float = inf
    tpot: float = inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`mix`: share of the sessions by tier. `most` sessions at the most."""

    name: str
    about: str
    model: str
    dialect: Dialect
    seconds: float
    seed: int
    load: Load
    work: Talk | Agent
    mix: Mapping[str, float]
    objective: Objective = Objective()
    most: int | None = None

    def at(self, tier: str) -> "Scenario":
        """The same work, all of it at one tier."""
        return replace(self, mix={tier: 1.0})


def load(name: str) -> Scenario:
    """One that ships, by its name, or a file. Raises ScenarioError."""
    path = Path(str(files("loadtests") / "scenarios" / f"{name}.toml")) if name in SHIPPED else Path(name)
    if not path.is_file():
        raise ScenarioError(f"{name!r} is neither a file nor one of the scenarios that ship: {', '.join(SHIPPED)}")
    try:
        return _read(Document.read(path).root(), path)
    except (CatalogError, PlanError) as error:
        raise ScenarioError(str(error)) from None


def shares(text: str) -> dict[str, float]:
    """`standard=0.8,fast=0.2`, or one tier. Raises ScenarioError."""
    if "=" not in text:
        return {text: 1.0}
    try:
        pairs = [part.split("=") for part in text.split(",")]
        return _whole({tier.strip(): float(share) for tier, share in pairs})
    except ValueError:
        raise ScenarioError(f"{text!r} is no mix of tiers; say for example standard=0.8,fast=0.2") from None


def _whole(mix: dict[str, float]) -> dict[str, float]:
    if not mix or min(mix.values()) <= 0 or not isclose(sum(mix.values()), 1, abs_tol=1e-6):
        raise ScenarioError(f"the shares of a mix are above 0 and sum to 1; these sum to {sum(mix.values()):g}")
    return mix


def _read(root: Table, path: Path) -> Scenario:
    root.only("about", "model", "dialect", "seconds", "seed", "sessions_max", "load", "session", "agent", "mix", "slo")
    if ("session" in root) == ("agent" in root):
        raise root.error("session", "a scenario has either a session or an agent")
    work = _read_talk(root.table("session")) if "session" in root else _read_agent(root.table("agent"))
    mix = root.table("mix")
    return Scenario(
        name=path.stem,
        about=root.text("about"),
        model=root.text("model"),
        dialect=cast(Dialect, root.one_of("dialect", _DIALECTS, "openai")),
        seconds=root.number("seconds", above=0, at_most=_SECONDS_MAX),
        seed=root.integer("seed", 1, at_least=0),
        load=_read_load(root.table("load"), path.parent),
        work=work,
        mix=_whole({tier: mix.number(tier, above=0) for tier in mix.values}),
        objective=_read_objective(root.table("slo")) if "slo" in root else Objective(),
        most=root.integer("sessions_max", at_least=1) if "sessions_max" in root else None,
    )


def _read_load(table: Table, directory: Path) -> Load:
    kind = table.one_of("kind", ("closed", "open", "trace"))
    read: Load
    if kind == "closed":
        levels: Sequence[float] = (
            table.numbers("levels", at_least=1, at_most=_CLIENTS_MAX)
            if "levels" in table
            else [table.integer("clients", at_least=1, at_most=_CLIENTS_MAX)]
        )
        read = Closed(levels=tuple(map(int, levels)), think=table.number("think_s", 0, at_least=0))
    elif kind == "open":
        rate = table.number("rate", above=0)
        gaps = cast(Gaps, table.one_of("gaps", _GAPS, "poisson"))
        read = Open(
            rate=rate,
            to=table.number("to_rate", rate, above=0),
            gaps=gaps,
            cv=table.number("cv", at_least=0.01, at_most=100) if gaps == "gamma" else 1.0,
        )
    else:
        read = Replayed(path=directory / table.text("file"), time_scale=table.number("time_scale", 1, above=0))
    table.done()
    return read


def _read_talk(table: Table) -> Talk:
    talk = Talk(
        input=_lengths(table, "input"),
        output=_lengths(table, "output"),
        turns=_lengths(table, "turns", "1"),
        think=table.number("think_s", 0, at_least=0),
    )
    table.done()
    return talk


def _read_agent(table: Table) -> Agent:
    agent = Agent(
        input=_lengths(table, "input"),
        result=_lengths(table, "result"),
        steps=table.integer("steps", at_least=1, at_most=_TURNS_MAX),
        tool=table.number("tool_s", at_least=0),
        retries=table.integer("retries", 2, at_least=0, at_most=100),
        effort=table.one_of("effort", _EFFORTS) if "effort" in table else "",
    )
    table.done()
    return agent


def _read_objective(table: Table) -> Objective:
    objective = Objective(
        ttft=table.number("ttft_s", above=0) if "ttft_s" in table else inf,
        tpot=table.number("tpot_ms", above=0) / 1e3 if "tpot_ms" in table else inf,
    )
    table.done()
    return objective


def _lengths(table: Table, key: str, default: str | None = None) -> Lengths:
    text = str(table.any(key)) if default is None else str(table.any(key, default))
    try:
        return lengths(text)
    except PlanError as error:
        raise table.error(key, str(error)) from None
