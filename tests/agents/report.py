"""What agents did, as a table: on the terminal with all figures, in a file with those that do not change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent import Usage
from rich.console import Console
from rich.table import Table

_HEAD = """\
# Agents

Written by `make agents`, which has real agents do a task with this service, without a network: {versions}.
Each reads a file, edits it, runs its test and stops, as `tests/agents/script.toml` has it. A cell is a task that was
done; it says by which tiers its requests were answered. Where no stream was cut off, agent and service have counted the
same tokens.

"""


@dataclass(frozen=True, slots=True)
class Row:
    """One run. `served` are the tiers of its answers, in order."""

    agent: str
    tier: str
    happens: str
    does: str
    served: tuple[str, ...]
    usage: Usage
    dollars: float | None
    seconds: float


@dataclass(slots=True)
class Report:
    """Filled by runs that were as they should be; one that was not has no row."""

    versions: Mapping[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def show(self, path: str | None) -> None:
        Console(width=160).print(self._table())
        if path:
            Path(path).write_text(self._page())

    def _table(self) -> Table:
        table = Table(title=f"agents that did their task: {_listed(self.versions)}", title_justify="left")
        for name in ("agent", "tier", "what happens", "what the agent does", "served as"):
            table.add_column(name)
        for name in ("prompt", "cached", "output", "$", "s"):
            table.add_column(name, justify="right")
        for row in self.rows:
            tokens = (f"{count:,}" for count in (row.usage.prompt, row.usage.cached, row.usage.output))
            dollars = "" if row.dollars is None else f"{row.dollars:.4f}"
            table.add_row(
                row.agent, row.tier, row.happens, row.does, _runs(row.served), *tokens, dollars, f"{row.seconds:.1f}"
            )
        return table

    def _page(self) -> str:
        """A row for each situation, a column for each agent."""
        agents = list(dict.fromkeys(row.agent for row in self.rows))
        situations = dict.fromkeys((row.tier, row.happens, row.does) for row in self.rows)
        done = {(row.agent, row.tier, row.happens): _runs(row.served) for row in self.rows}
        table = [["tier", "what happens", "what the agent does", *agents], ["---"] * (3 + len(agents))]
        for tier, happens, does in situations:
            table.append([tier, happens, does, *(done.get((agent, tier, happens), "") for agent in agents)])
        return _HEAD.format(versions=_listed(self.versions)) + "".join(f"| {' | '.join(line)} |\n" for line in table)


def _listed(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _runs(served: Iterable[str]) -> str:
    """`4 fast`, or `1 fast, 3 standard`: answers by tier, in order of their first."""
    counts: dict[str, int] = {}
    for tier in served:
        counts[tier] = counts.get(tier, 0) + 1
    return ", ".join(f"{count} {tier}" for tier, count in counts.items())
