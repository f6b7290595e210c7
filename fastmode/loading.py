"""The commands of `fastmode load`: run a scenario, compare tiers, sweep a load, report runs."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.errors import ScenarioError

if TYPE_CHECKING:
    from loadtests.conduct import Setting
    from loadtests.records import Record
    from loadtests.result import Result
    from loadtests.scenario import Scenario
    from loadtests.show import Watching

app = typer.Typer(
    help="Load an endpoint, and say what each tier was worth. Scenarios that ship: chat, coding-agent, "
    "bulk-and-premium, burst, batch-sweep, tiers, soak.",
    no_args_is_help=True,
)

ScenarioArgument = Annotated[str, typer.Argument(metavar="SCENARIO", help="One that ships, or a TOML file.")]
UrlOption = Annotated[str, typer.Option("--base-url", help="An OpenAI- or Anthropic-compatible API.")]
KeyOption = Annotated[str, typer.Option("--api-key-env", help="The variable that holds the key, if it wants one.")]
ModelOption = Annotated[str | None, typer.Option("--model", help="Instead of the scenario's.")]
SecondsOption = Annotated[float | None, typer.Option("--seconds", min=0.1, help="Instead of the scenario's.")]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="Equal seeds, equal work.")]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="Write OUT.json, OUT.csv (a row for each request) and OUT.html.")
]
PredictOption = Annotated[
    bool, typer.Option("--predict/--no-predict", help="Play the same work in virtual time, and compare.")
]
MarkedOption = Annotated[
    bool, typer.Option("--marked", help="ITL: tokens that come together came at once, and not spread over the time.")
]
FailOption = Annotated[
    list[str] | None, typer.Option("--fail-if", help="Exit with 1 if so: 'fast.ttft.p99 > 0.5'; may be repeated.")
]

URL = "http://127.0.0.1:8000/v1"
KEY = "FASTMODE_API_KEY"


@app.command()
def run(
    scenario: ScenarioArgument,
    base_url: UrlOption = URL,
    api_key_env: KeyOption = KEY,
    model: ModelOption = None,
    tiers: Annotated[str | None, typer.Option(help="A mix instead of the scenario's: standard=0.8,fast=0.2.")] = None,
    seconds: SecondsOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    predict: PredictOption = True,
    marked: MarkedOption = False,
    fail_if: FailOption = None,
) -> None:
    """Run a scenario."""
    from loadtests import conduct, gate
    from loadtests.scenario import shares

    work = conduct.mixed(_scenario(scenario, model), shares(tiers) if tiers else None, seconds, seed)
    bounds = [gate.parse(text) for text in fail_if or ()]
    _check(out)
    with _watching() as watch:
        setting = _setting(base_url, api_key_env, watch, predicting=predict, spread=not marked)
        result, records = conduct.once(work, setting)
    _tell(result, records, out)
    _gate(gate.broken(result, bounds))


@app.command()
def compare(
    scenario: Annotated[str, typer.Option("--scenario", help="One that ships, or a TOML file.")] = "coding-agent",
    tiers: Annotated[str, typer.Option(help="At which the same work is done, one after the other.")] = (
        "standard,fast,spark"
    ),
    base_url: UrlOption = URL,
    api_key_env: KeyOption = KEY,
    model: ModelOption = None,
    check: Annotated[float, typer.Option(min=0, help="Seconds to check a task at its end.")] = 0,
    seconds: SecondsOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    predict: PredictOption = True,
    marked: MarkedOption = False,
    fail_if: FailOption = None,
) -> None:
    """Do the same work at several tiers, and say which one was worth its price."""
    from loadtests import conduct, gate

    work = conduct.mixed(_scenario(scenario, model), None, seconds, seed)
    bounds = [gate.parse(text) for text in fail_if or ()]
    _check(out)
    with _watching() as watch:
        setting = _setting(base_url, api_key_env, watch, predicting=predict, spread=not marked)
        result, records = conduct.compared(work, _names(tiers), setting, check)
    _tell(result, records, out)
    _gate(gate.broken(result, bounds))


@app.command()
def sweep(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="One that ships, or a TOML file.")] = "tiers",
    levels: Annotated[str, typer.Option(help="Clients at once, or sessions a second if the load is open.")] = (
        "1,2,4,8,16,32,64"
    ),
    tiers: Annotated[str, typer.Option(help="Each for itself.")] = "fast",
    base_url: UrlOption = URL,
    api_key_env: KeyOption = KEY,
    model: ModelOption = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Of each level.")] = 15,
    seed: SeedOption = None,
    out: OutOption = None,
) -> None:
    """Run a scenario at more and more load, and find where it bends."""
    from loadtests import conduct

    names = _names(tiers)
    work = conduct.mixed(_scenario(scenario, model), {name: 1 / len(names) for name in names}, seconds, seed)
    _check(out)
    with _watching() as watch:
        result, records = conduct.swept(work, _levels(levels), _setting(base_url, api_key_env, watch, predicting=False))
    _tell(result, records, out)


@app.command()
def report(
    files: Annotated[list[Path], typer.Argument(help="JSON of runs; the first is what others are compared with.")],
    fail_if: FailOption = None,
) -> None:
    """Show a run again, or runs side by side."""
    from fastmode.show import console
    from loadtests import gate, show
    from loadtests.result import read

    bounds = [gate.parse(text) for text in fail_if or ()]
    results = [read(path) for path in files]
    if len(results) == 1:
        show.result(console(), results[0])
    else:
        show.against(console(), results)
    _gate([line for each in results for line in gate.broken(each, bounds)])


@app.command()
def schema() -> None:
    """Print the JSON Schema of what a run is written as."""
    import json

    from loadtests.result import schema as described

    print(json.dumps(described(), indent=2))


def _scenario(name: str, model: str | None) -> "Scenario":
    from loadtests.scenario import load

    read = load(name)
    return read if model is None else replace(read, model=model)


def _setting(base_url: str, key: str, watch: "Watching", *, predicting: bool, spread: bool = True) -> "Setting":
    from fastmode.configured import sold
    from loadtests.conduct import Setting

    return Setting(
        base_url=base_url,
        key=os.environ.get(key),
        catalog=sold(None, None),
        predicting=predicting,
        spread=spread,
        watch=watch,
    )


def _watching() -> "Watching":
    from loadtests.show import Watching

    return Watching()


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise ScenarioError(f"{text!r} does not name tiers, each once; say for example standard,fast")
    return names


def _levels(text: str) -> list[float]:
    try:
        levels = [float(level) for level in text.split(",")]
    except ValueError:
        levels = []
    if not levels or min(levels) <= 0 or max(levels) > 10_000:
        raise ScenarioError(f"{text!r} are no levels of load; say for example 1,4,16")
    return levels


def _check(out: Path | None) -> None:
    """Before long work."""
    if out is not None and not out.absolute().parent.is_dir():
        raise ScenarioError(f"{out}: there is no directory {out.parent}; make it first")


def _tell(result: "Result", records: "list[Record]", out: Path | None) -> None:
    from fastmode.show import console
    from loadtests import page, show
    from loadtests.records import write as write_rows
    from loadtests.result import write as write_json

    show.result(console(), result)
    if out is None:
        return
    named = {ending: out.with_name(f"{out.name}.{ending}") for ending in ("json", "csv", "html")}
    write_json(named["json"], result)
    write_rows(named["csv"], records)
    page.write(named["html"], result, records)
    print(f"written: {', '.join(map(str, named.values()))}")


def _gate(failures: list[str]) -> None:
    if failures:
        print("\n".join(failures), file=sys.stderr)
        raise typer.Exit(1)
