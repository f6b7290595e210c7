"""What a fleet would do, and the least one that would do, as tables: a column for each tier."""

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fastmode.show import LEGEND, console, marked, table
from fastmode.show.progress import Bar
from planning import charts
from planning.plan import Run, simulate
from planning.report import TierReport, assumptions, report
from planning.report import plain as plain_run
from planning.scenario import Scenario
from planning.solve import Point, Solution
from planning.solve import plain as plain_solution
from planning.solve import solve as find
from service.figures import Figure

# Name of a figure, and what it is called; None: a line between groups.
_LINES: tuple[tuple[str, str] | None, ...] = (
    ("asked", "requests"),
    ("completed", "completed"),
    ("full", "rejected: queue full"),
    ("late", "rejected: waited too long"),
    ("refused", "refused: too long"),
    None,
    ("ttft_p50", "TTFT p50"),
    ("ttft_p90", "TTFT p90"),
    ("ttft_p99", "TTFT p99"),
    ("front_end", "  of which front end, median"),
    ("wait_p50", "  of which queue wait p50"),
    ("wait_p99", "  of which queue wait p99"),
    ("tpot_p50", "TPOT p50"),
    ("tpot_p90", "TPOT p90"),
    ("tpot_p99", "TPOT p99"),
    ("speed_p50", "one stream's speed, median"),
    None,
    ("replicas", "replicas"),
    ("max_batch", "max_batch"),
    ("busy", "time busy"),
    ("batch", "mean batch"),
    ("ambient", "  beside ambient ones"),
    ("occupancy", "slots in use"),
    ("kv", "KV cache in use"),
    ("cached", "prompt tokens found cached"),
    ("output_rate", "output"),
    ("chip_rate", "output by chip paid for"),
    None,
    ("cost", "cost to serve"),
    ("revenue", "list revenue"),
    ("margin", "margin"),
    ("margin_share", "margin, of revenue"),
    ("cost_output", "cost by output"),
    None,
    ("goodput", "goodput"),
    ("met", "within the SLO"),
)


def run(scenario: Scenario, *, solve: bool, plot: Path | None, as_json: bool) -> None:
    """Simulates, or solves, with a bar while it takes; prints and draws what came of it."""
    if plot is not None:
        charts.check(plot)
    found: list[Solution] = []
    with Bar() as bar:
        if solve:
            found = find(scenario, bar)
            runs = [solution.proof for solution in found if solution.proof is not None]
        else:
            runs = [_simulated(scenario, bar)]
    if as_json:
        print(json.dumps([plain_solution(solution) for solution in found] if solve else plain_run(runs[0]), indent=2))
    elif solve:
        _print_solutions(console(), scenario, found)
    else:
        _print_run(console(), runs[0])
    if plot is not None and runs:
        from planning.charts.plan import draw

        charts.save(draw(runs, found), plot)


def _simulated(scenario: Scenario, bar: Bar) -> Run:
    expected = scenario.workload.requests

    def go_on(number: int, _: object) -> bool:
        bar("simulating", number / expected)
        return True

    return simulate(scenario, go_on)


def _print_run(out: Console, run: Run) -> None:
    """All figures of a run, and what they rest on."""
    tiers = report(run)
    out.print(f"\n[bold]{run.scenario.workload}[/bold]", soft_wrap=True)
    out.print(f"until the last token: {run.span:,.0f} s; seed {run.scenario.seed}")
    out.print(_figures(tiers))
    _print_notes(out, run.scenario)


def _print_solutions(out: Console, scenario: Scenario, found: Sequence[Solution]) -> None:
    """What was tried for each pool, what it led to, and the run that proves it."""
    out.print(f"\n[bold]{scenario.workload}[/bold]", soft_wrap=True)
    for solution in found:
        _solution(out, solution)
    _print_notes(out, scenario)


def _solution(out: Console, solution: Solution) -> None:
    tiers = zip(solution.tiers, solution.objectives, strict=True)
    promise = "; ".join(f"{tier}: {objective}" for tier, objective in tiers)
    if solution.frontier:
        out.print(_frontier(solution, f"fewest replicas of pool {solution.pool} by limit of the batch"))
    else:
        out.print()
    out.print(promise, soft_wrap=True)
    best = solution.best
    if best is None or solution.proof is None:
        out.print(f"No fleet meets it. {solution.why}.", soft_wrap=True)
        return
    out.print(
        f"[bold]Least fleet: {_replicas(best.replicas)}, max_batch {best.max_batch}[/bold]{_dollars(best)}; on other"
        f" draws {_share(best.share)} are within the SLO ({solution.trials} fleets tried)",
        soft_wrap=True,
    )
    if solution.less is not None:
        out.print(f"With one replica less than the search found: {_share(solution.less)}", soft_wrap=True)
    if solution.why:
        out.print(solution.why, soft_wrap=True)
    out.print(_figures(report(solution.proof)))


def _frontier(solution: Solution, title: str) -> Table:
    made = table(">max_batch", ">replicas", ">within the SLO", ">$/h", "", title=title)
    fewest = min(point.replicas for point in solution.frontier)
    for point in solution.frontier:
        dollars = "" if point.dollars_per_hour is None else f"{point.dollars_per_hour:,.4g}"
        bar = "█" * max(1, round(24 * fewest / point.replicas)) if point.replicas else ""
        made.add_row(str(point.max_batch), str(point.replicas), _share(point.share), dollars, bar)
    return made


def _replicas(count: int) -> str:
    return f"{count} replica{'s' * (count > 1)}"


def _dollars(point: Point) -> str:
    return "" if point.dollars_per_hour is None else f" for ${point.dollars_per_hour:,.4g}/h"


def _share(share: float) -> str:
    return f"{100 * share:.4g} %"


def _figures(tiers: Sequence[TierReport]) -> Table:
    made = table("", *(f">{tier.tier}" for tier in tiers), "")
    lines = [line for line in _LINES if line is None or any(line[0] in tier.figures for tier in tiers)]
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        if line is None:
            continue
        name, label = line
        cells = [_cell(tier.figures.get(name)) for tier in tiers]
        unit = next(tier.figures[name].unit for tier in tiers if name in tier.figures)
        made.add_row(label, *cells, "" if unit == "requests" else unit, end_section=following is None)
    return made


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return "–"
    return f"{figure.value:,.0f}" if figure.unit == "requests" else marked(figure)


def _print_notes(out: Console, scenario: Scenario) -> None:
    out.print(f"{LEGEND}  ᵈᵃ derived from something assumed; which it is: --json")
    for note in assumptions(scenario):
        for number, line in enumerate(textwrap.wrap(note, max(40, out.width - 4))):
            out.print(f"{'  ' if number else '- '}{line}", markup=False)
