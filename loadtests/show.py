"""A load test in a terminal: what is going on while it runs, and tables of what came of it."""

from collections.abc import Mapping, Sequence
from math import isfinite
from statistics import median
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fastmode.show import console, table
from loadtests.drive import Run
from loadtests.result import Difference, Result, differences
from loadtests.summary import Estimate, Tier
from loadtests.worth import Comparison, Pair, Worth

_LATEST = 200  # requests, of which what is seen while it runs speaks


class Watching:
    """Call it with a run and the seconds that have passed; shows nothing where there is no terminal."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._live: Live | None = None

    def __enter__(self) -> "Watching":
        if self._console.is_terminal:
            self._live = Live(console=self._console, transient=True, auto_refresh=False)
            self._live.start()
        return self

    def __call__(self, run: Run, passed: float) -> None:
        if self._live is not None:
            self._live.update(_now(run, passed), refresh=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()


def _now(run: Run, passed: float) -> Group:
    scenario = run.scenario
    shown = table("tier", ">done", ">errors", ">under way", ">tok/s", ">TTFT p50", ">stream tok/s")
    for tier in dict.fromkeys(record.tier for record in run.records):
        of = [record for record in run.records if record.tier == tier]
        ok = [record for record in of if record.ok]
        latest = ok[-_LATEST:]
        tokens = sum(record.output for record in latest) / max(
            1e-9, passed - min((record.sent for record in latest), default=0)
        )
        under_way = sum(record.outcome == "unfinished" for record in of)
        speeds = [1 / record.tpot for record in latest if record.tpot > 0]
        shown.add_row(
            tier,
            str(len(ok)),
            str(len(of) - len(ok) - under_way),
            str(under_way),
            f"{tokens:,.0f}",
            f"{median(record.ttft for record in latest):.3f} s" if latest else "",
            f"{median(speeds):.0f}" if speeds else "",
        )
    title = f"{scenario.name}, {', '.join(scenario.mix)}: {min(passed, scenario.seconds):.0f} of {scenario.seconds:g} s"
    bar = ProgressBar(total=scenario.seconds, completed=min(passed, scenario.seconds), width=60)
    return Group(Text(f"{title}   (Ctrl-C ends it, and keeps what has come)"), bar, shown)


def result(out: Console, of: Result) -> None:
    out.print(f"\n[bold]{of.scenario}[/bold]   {of.about}", soft_wrap=True)
    mix = ", ".join(f"{tier} {share:.0%}" for tier, share in of.mix.items())
    out.print(f"{of.model}, {of.dialect}, {of.seconds:g} s, seed {of.seed}; {mix}", style="dim", soft_wrap=True)
    if of.interrupted:
        out.print("interrupted: these are partial results", style="yellow")
    if of.client.warning:
        out.print(of.client.warning, style="yellow", soft_wrap=True)
    if of.tiers:
        out.print(_latencies(of.tiers))
        out.print(_outcomes(of.tiers))
    for sweep in of.sweep:
        out.print(
            _points(sweep.tier, sweep.by, [(point.level, point.tier) for point in sweep.points], sweep.knee, sweep.best)
        )
    if of.predicted:
        out.print(_predicted(list(differences(of))))
    if of.comparison is not None:
        _compared(out, of.comparison)


def against(out: Console, results: Sequence[Result]) -> None:
    """Runs side by side; changes are against the first."""
    first = {tier.tier: tier for tier in results[0].tiers}
    shown = table("tier", "figure", *(f">{result.scenario} {result.made[:16]}" for result in results))
    for tier in dict.fromkeys(tier.tier for result in results for tier in result.tiers):
        for name, unit in (("ttft", "s"), ("tpot", "s"), ("e2e", "s")):
            for rank in ("p50", "p99"):
                cells = []
                for result in results:
                    found = next((each for each in result.tiers if each.tier == tier), None)
                    value = getattr(found, name)[rank] if found else None
                    base = getattr(first[tier], name)[rank].value if tier in first else float("nan")
                    cells.append(_changed(value, base) if value else "–")
                shown.add_row(tier, f"{name} {rank}, {unit}", *cells)
    out.print(shown)


def _changed(value: Estimate, base: float) -> str:
    if not value.known:
        return "–"
    change = value.value / base - 1 if base and isfinite(base) else 0.0
    return f"{value.value:.4g}" + (f" ({change:+.1%})" if change else "")


def _latencies(tiers: Sequence[Tier]) -> Table:
    shown = table(
        *(
            "tier",
            ">TTFT p50",
            ">p90",
            ">p99, s",
            ">TPOT p50",
            ">p99, ms",
            ">ITL p50",
            ">p99, ms",
            ">e2e p50",
            ">p99, s",
        ),
        *(">stream, tok/s", ">all, tok/s"),
        title="How long it took (± half of the 95 % interval)",
    )
    for tier in tiers:
        shown.add_row(
            tier.tier,
            _spread(tier.ttft["p50"]),
            _number(tier.ttft["p90"].value),
            _number(tier.ttft["p99"].value),
            _spread(tier.tpot["p50"], 1e3),
            _number(tier.tpot["p99"].value * 1e3),
            _number(tier.itl.get("p50", float("nan")) * 1e3),
            _number(tier.itl.get("p99", float("nan")) * 1e3),
            _spread(tier.e2e["p50"]),
            _number(tier.e2e["p99"].value),
            _spread(tier.speed),
            _number(tier.throughput),
        )
    return shown


def _outcomes(tiers: Sequence[Tier]) -> Table:
    shown = table(
        *(
            "tier",
            ">asked",
            ">ok",
            "errors",
            "served as",
            ">met SLO",
            ">goodput, /s",
            ">in",
            ">cached",
            ">out",
            ">$ each",
        ),
        *(">$ in all", ">queue p99, s", "mistakes"),
        title="What came of it",
        wordy=("errors", "mistakes", "served as"),
    )
    for tier in tiers:
        shown.add_row(
            tier.tier,
            str(tier.requests),
            str(tier.ok),
            _counts(tier.errors) or "none",
            _counts(tier.served) or "–",
            f"{tier.met.value:.1%}" if tier.met.known else "–",
            _number(tier.goodput),
            f"{tier.prompt_tokens:,}",
            f"{tier.cached_tokens:,}",
            f"{tier.output_tokens:,}",
            _spread(tier.cost),
            f"{tier.dollars:.4f}" if tier.cost.known else "–",
            _number(tier.queued.get("p99", float("nan"))),
            _counts(tier.mistakes) or "none",
        )
    return shown


def _points(tier: str, by: str, points: Sequence[tuple[float, Tier]], knee: float, best: float) -> Table:
    shown = table(
        *(f">{by}", ">stream, tok/s", ">all, tok/s", ">TTFT p50", ">p99, s", ">met SLO", ">goodput, /s", ">errors", ""),
        title=f"{tier}: what more load does",
    )
    for level, of in points:
        marks = [*(["knee"] if level == knee else []), *(["most goodput"] if level == best else [])]
        shown.add_row(
            f"{level:g}",
            _spread(of.speed),
            _number(of.throughput),
            _number(of.ttft["p50"].value),
            _number(of.ttft["p99"].value),
            f"{of.met.value:.1%}" if of.met.known else "–",
            _number(of.goodput),
            str(sum(of.errors.values())),
            ", ".join(marks),
        )
    return shown


def _predicted(rows: Sequence[Difference]) -> Table:
    shown = table(
        *("tier", "figure", ">measured", ">planned", ">off by", ""),
        title="Against the engine's plan of the same work (no path, no client)",
    )
    for row in rows:
        shown.add_row(
            row.tier,
            f"{row.figure}, {row.unit}",
            _number(row.measured),
            _number(row.predicted),
            f"{row.off:+.1%}",
            ("more than 5 %" + (", which may be chance" if row.chance else "")) if row.flagged else "",
        )
    return shown


def _compared(out: Console, of: Comparison) -> None:
    out.print(_worths(of.worths))
    if of.pairs:
        out.print(_pairs(of.pairs))
    out.print(f"\n[bold]Verdict.[/bold] {of.verdict}", soft_wrap=True)
    out.print("\n".join(f"  · {line}" for line in of.assumptions), style="dim", soft_wrap=True)


def _worths(worths: Sequence[Worth]) -> Table:
    shown = table(
        *("tier", ">tasks", ">succeeded", ">steps", ">s per try", ">$ per try", ">s per success", ">$ per success"),
        *(">wrong, seen", ">wrong, unseen"),
        title="Tasks",
    )
    for worth in worths:
        shown.add_row(
            worth.tier,
            str(worth.tasks),
            str(worth.successes),
            _number(worth.steps),
            _spread(worth.task_seconds),
            _spread(worth.task_dollars),
            _spread(worth.success_seconds),
            _spread(worth.success_dollars),
            _share(worth.seen),
            _share(worth.unseen),
        )
    return shown


def _pairs(pairs: Sequence[Pair]) -> Table:
    shown = table(
        *("tier", "over", ">times faster", ">times dearer", ">pays from $/h of waiting", ">errors: even in time"),
        ">even in cost",
        title="Is it worth it?",
    )
    for pair in pairs:
        shown.add_row(
            pair.tier,
            pair.over,
            _range(pair.faster),
            _range(pair.dearer),
            _range(pair.hour),
            _share(pair.break_even_time),
            _share(pair.break_even_cost),
        )
    return shown


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counts.items(), key=lambda item: -item[1]))


def _spread(of: Estimate, times: float = 1.0) -> str:
    if not of.known or not isfinite(of.value):
        return "–"
    half = (of.high - of.low) / 2 * times
    return f"{_number(of.value * times)} ±{half:.2g}" if isfinite(half) else _number(of.value * times)


def _range(of: Estimate) -> str:
    """Where an interval is far from even."""
    if not of.known:
        return "–"
    low, high = (_number(each) if isfinite(each) else "∞" for each in (of.low, of.high))
    return f"{_number(of.value)} ({low} to {high})"


def _share(value: float) -> str:
    return f"{value:.1%}" if isfinite(value) else "–"


def _number(value: float) -> str:
    if not isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
