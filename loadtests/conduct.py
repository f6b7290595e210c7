"""From a scenario to a result: one run, the same work at several tiers, or one tier at several levels of load."""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count

import uvloop

from loadtests.drive import Driver, Run, Target, Watch
from loadtests.knee import knee
from loadtests.predict import TIMES, predict
from loadtests.records import Record
from loadtests.result import Point, Result, Sweep
from loadtests.scenario import Agent, Closed, Open, Scenario
from loadtests.summary import Tier, lateness, summary
from loadtests.targets import Prices, probe, target
from loadtests.worth import compare, tasks
from service.errors import FastmodeError, ScenarioError
from service.messages import Usage
from service.tiers import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where requests go, and what is known of it. `spread`: see loadtests.records.Gaps."""

    base_url: str
    key: str | None
    catalog: Catalog
    predicting: bool
    spread: bool = True
    watch: Watch | None = None


def once(scenario: Scenario, setting: Setting) -> tuple[Result, list[Record]]:
    """Raises ScenarioError."""
    run = _run(scenario, setting, _probed(scenario, setting))
    return _result(scenario, [run], setting), run.records


def compared(
    scenario: Scenario, tiers: Sequence[str], setting: Setting, check: float = 0.0
) -> tuple[Result, list[Record]]:
    """The same sessions at each tier, one tier after the other; `check`: as in worth. Raises ScenarioError."""
    shared = replace(scenario, mix=dict.fromkeys(tiers, 1 / len(tiers)))
    where = _probed(shared, setting)
    runs: list[Run] = []
    for tier in tiers:
        runs.append(_run(scenario.at(tier), setting, where))
        if runs[-1].interrupted:
            break
    by_tier = {next(iter(run.scenario.mix)): tasks(run.records, run.whole) for run in runs}
    tool = scenario.work.tool if isinstance(scenario.work, Agent) else 0.0
    result = replace(_result(shared, runs, setting), comparison=compare(by_tier, tool, check))
    return result, [record for run in runs for record in run.records]


def swept(scenario: Scenario, levels: Sequence[float], setting: Setting) -> tuple[Result, list[Record]]:
    """Each tier of the mix by itself, at each level: clients at once, or sessions a second. Raises ScenarioError."""
    if not isinstance(scenario.load, Closed | Open):
        raise ScenarioError("a trace has a rate of its own: sweep a scenario whose load is closed or open")
    where, runs, sweeps = _probed(scenario, setting), list[Run](), list[Sweep]()
    for tier in scenario.mix:
        points: list[Point] = []
        for level in levels:
            run = _run(_at(scenario.at(tier), level), setting, where)
            runs.append(run)
            points.append(Point(level=level, tier=_tiers(run)[0]))
            if run.interrupted:
                break
        sweeps.append(_sweep(tier, "clients" if isinstance(scenario.load, Closed) else "sessions/s", points))
        if runs[-1].interrupted:
            break
    made = _result(scenario, runs[:0], replace(setting, predicting=False))
    late = lateness([late for run in runs for late in run.late])
    result = replace(made, sweep=sweeps, client=late, interrupted=runs[-1].interrupted)
    return result, [record for run in runs for record in run.records]


def _at(scenario: Scenario, level: float) -> Scenario:
    if isinstance(scenario.load, Closed):
        return replace(scenario, load=replace(scenario.load, levels=(max(1, round(level)),)))
    assert isinstance(scenario.load, Open)
    return replace(scenario, load=replace(scenario.load, rate=level, to=level))


def _sweep(tier: str, by: str, points: Sequence[Point]) -> Sweep:
    able = [point for point in points if point.tier.ok]
    best = max(able, key=lambda point: point.tier.goodput, default=None)
    bend = knee([(point.tier.speed.value, point.tier.throughput) for point in able])
    return Sweep(
        tier=tier,
        by=by,
        points=points,
        knee=able[bend].level if bend is not None else float("nan"),
        best=best.level if best is not None else float("nan"),
    )


def _probed(scenario: Scenario, setting: Setting) -> Target:
    return uvloop.run(probe(scenario, target(setting.base_url, scenario, setting.key)))


def _run(scenario: Scenario, setting: Setting, where: Target) -> Run:
    driver = Driver(scenario, where, spread=setting.spread, watch=setting.watch)
    with _interrupting(driver.stop):
        try:
            run = uvloop.run(driver.drive())
        except OSError as error:
            raise ScenarioError(f"the endpoint is gone: {error.strerror or error}") from None
    _price(run, Prices(setting.catalog, scenario.model))
    return run


@contextmanager
def _interrupting(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C ends the run, and what has come so far is kept; a second one ends the program."""
    times = count()

    def handle(*_: object) -> None:
        if next(times):
            raise KeyboardInterrupt
        stop()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _price(run: Run, prices: Prices) -> None:
    """What each answer cost, and which tier served it, as far as that is known."""
    for place, heard in run.heard.items():
        record = run.records[place]
        offer = prices.offer(record.tier, record.served)
        if offer is None:
            continue
        usage = Usage(
            prompt=record.prompt,
            cached=record.cached,
            completion=record.output,
            written=heard.written,
            written_long=heard.written_long,
        )
        record.served, record.cost = offer.tier, prices.cost(offer, usage)


def _tiers(run: Run) -> list[Tier]:
    return summary(run.records, run.gaps, run.scenario.objective, run.seconds)


def _result(scenario: Scenario, runs: Sequence[Run], setting: Setting) -> Result:
    return Result(
        scenario=scenario.name,
        about=scenario.about,
        model=scenario.model,
        dialect=scenario.dialect,
        mix=scenario.mix,
        seed=scenario.seed,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=scenario.seconds,
        interrupted=any(run.interrupted for run in runs),
        client=lateness([late for run in runs for late in run.late]),
        tiers=[tier for run in runs for tier in _tiers(run)],
        predicted=[tier for run in runs for tier in _foreseen(run, setting)] if setting.predicting else (),
    )


def _foreseen(run: Run, setting: Setting) -> list[Tier]:
    """Nothing of what the catalog does not sell, or of a run that was cut short."""
    if run.interrupted:
        return []
    try:
        planned = predict(run.scenario, setting.catalog, run.records)
    except FastmodeError:
        return []
    _cost_of_plan(planned, Prices(setting.catalog, run.scenario.model))
    return summary(planned, {}, run.scenario.objective, run.seconds, TIMES)


def _cost_of_plan(planned: Sequence[Record], prices: Prices) -> None:
    for record in planned:
        offer = prices.offer(record.tier, "")
        if record.ok and offer is not None:
            usage = Usage(prompt=record.prompt, cached=record.cached, completion=record.output)
            record.cost = prices.cost(offer, usage)


def mixed(scenario: Scenario, mix: Mapping[str, float] | None, seconds: float | None, seed: int | None) -> Scenario:
    """The scenario with what a command line says instead."""
    return replace(
        scenario,
        mix=mix or scenario.mix,
        seconds=scenario.seconds if seconds is None else seconds,
        seed=scenario.seed if seed is None else seed,
    )
