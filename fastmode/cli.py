"""The command `fastmode`. A mistake of the user's is one line that says what to do, and exit code 2."""

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import fastmode
from fastmode import configured, loading
from service.errors import FastmodeError

app = typer.Typer(
    help="The tiered fast-mode APIs of the big LLM providers, as a service you can run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

keys = typer.Typer(help="Make, list, block and delete keys of a running service.", no_args_is_help=True)
app.add_typer(keys, name="keys")
app.add_typer(loading.app, name="load")

CatalogOption = Annotated[
    Path | None, typer.Option("--catalog", help="A catalog of your own.", show_default="the one that ships")
]

ProfileOption = Annotated[
    str | None, typer.Option("--profile", help="The real APIs at a date: 2026-02, 2026-08 or 2026-11.")
]

RulesOption = Annotated[Path | None, typer.Option("--rules", help="A file of scripted replies and faults.")]

PlotOption = Annotated[Path | None, typer.Option("--plot", help="Save a plot: a file ending in svg, png or pdf.")]


def main() -> None:
    try:
        app()
    except FastmodeError as error:
        sys.exit(_complain(error))


def _complain(error: FastmodeError) -> int:
    print(f"fastmode: {error}", file=sys.stderr)
    return 2


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    if version:
        print(fastmode.__version__)
        raise typer.Exit


@app.command()
def up(
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.", show_default="8000")] = None,
    catalog: CatalogOption = None,
    profile: ProfileOption = None,
    rules: RulesOption = None,
    ledger: Annotated[
        Path | None, typer.Option(help="SQLite file of what requests cost.", show_default="kept until it stops")
    ] = None,
    gateways: Annotated[int, typer.Option(min=1, help="Gateway processes; several share the port.")] = 1,
    follow_parent: Annotated[bool, typer.Option("--follow-parent", help="Stop when the calling process ends.")] = False,
) -> None:
    """Run everything on this machine: an embedded Valkey unless REDIS_URL names a server, gateways, workers."""
    from fastmode.up import up as run

    options = {
        "FASTMODE_HOST": host,
        "FASTMODE_PORT": port,
        "FASTMODE_CATALOG": catalog,
        "FASTMODE_PROFILE": profile,
        "FASTMODE_RULES": rules,
        "FASTMODE_LEDGER": ledger,
    }
    given = {name: str(value) for name, value in options.items() if value is not None}
    run({**os.environ, **given}, gateways, follow_parent)


@app.command()
def gateway() -> None:
    """Run one gateway; FASTMODE_ variables and REDIS_URL configure it."""
    from gateway.__main__ import main as run

    run()


@app.command()
def worker(
    pool: Annotated[
        list[str], typer.Option(help="The pool of the catalog whose jobs it does; may be given several times.")
    ],
) -> None:
    """Run one worker; FASTMODE_ variables and REDIS_URL configure it."""
    from workers.__main__ import serve

    serve(pool)


@app.command()
def check(
    catalog: Annotated[Path | None, typer.Argument(help="The catalog to check.", show_default="the one in use")] = None,
    rules: RulesOption = None,
) -> None:
    """Say whether a catalog can be used, and a file of rules with it, or which key of it cannot and why."""
    from service.rules import load as load_rules
    from service.tiers import load

    read = load(catalog or configured.settings().catalog)
    if catalog is not None or rules is None:
        offers = sum(len(model.offers) for model in read.models.values())
        print(
            f"{catalog or 'the catalog'} is sound: {len(read.pools)} pools, {len(read.models)} models, {offers} offers"
        )
    if rules is not None:
        found = load_rules(rules, read.tiers)
        print(f"{rules} is sound: {len(found.rules)} rules, faults at {len(found.rates)} tiers")


@app.command()
def tiers(
    catalog: CatalogOption = None,
    profile: ProfileOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with what every figure rests on.")] = False,
    litellm: Annotated[bool, typer.Option("--litellm", help="As a price list for litellm.register_model.")] = False,
) -> None:
    """Show what is sold: speeds, prices and costs, each figure measured, derived or assumed."""
    from fastmode.show import console
    from fastmode.show.tiers import tiers as shown
    from service import price_list
    from service.figures import rows

    offered = configured.sold(catalog, profile)
    if litellm:
        print(json.dumps(price_list.litellm(offered), indent=2))
    elif as_json:
        print(json.dumps([dataclasses.asdict(row) for row in rows(offered)], indent=2))
    else:
        shown(console(), offered)


@app.command()
def explain(
    tier: Annotated[str, typer.Argument(help="A tier, or a word that a request may say for it.")],
    model: Annotated[str | None, typer.Option(help="The model.", show_default="the first sold at the tier")] = None,
    context: Annotated[int | None, typer.Option(help="Tokens of prompt.", show_default="2000")] = None,
    output: Annotated[int | None, typer.Option(help="Tokens of output.", show_default="500")] = None,
    catalog: CatalogOption = None,
    profile: ProfileOption = None,
    plot: PlotOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with what every figure rests on.")] = False,
) -> None:
    """Say why a tier is as fast and as dear as it is: where the time goes, what the price pays, what else would do."""
    from fastmode.show import console
    from fastmode.show.explain import explain as shown
    from service.explain import explain as explained

    answer = explained(configured.sold(catalog, profile), tier, model, context, output)
    if plot is not None:
        from planning.charts import save
        from planning.charts.tiers import draw

        save(draw(answer), plot)
    if as_json:
        print(json.dumps(dataclasses.asdict(answer), indent=2))
    else:
        shown(console(), answer)


@app.command()
def accuracy(
    file: Annotated[Path, typer.Argument(help="CSV with a row for each measured point; see the README.")],
    catalog: CatalogOption = None,
    plot: PlotOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="The scores as JSON.")] = False,
) -> None:
    """Predict measured serving speeds from the catalog's constants, and show how far off they are."""
    from fastmode.show import console
    from fastmode.show.accuracy import accuracy as shown
    from planning.accuracy import read, score
    from planning.charts import check as check_plot
    from planning.charts import save
    from service.tiers import load

    if plot is not None:
        check_plot(plot)
    measurements = read(file, load(catalog or configured.settings().catalog))
    scores = score(measurements.points)
    if as_json:
        skipped = [dataclasses.asdict(row) for row in measurements.skipped]
        print(json.dumps({**dataclasses.asdict(scores), "skipped": skipped}, indent=2))
    else:
        shown(console(), measurements, scores)
    if plot is not None:
        from planning.charts.accuracy import draw

        save(draw(measurements.points, scores), plot)


@app.command()
def plan(
    catalog: Annotated[Path | None, typer.Argument(help="A catalog of your own.", show_default="shipped")] = None,
    profile: ProfileOption = None,
    trace: Annotated[
        list[Path] | None, typer.Option(help="Azure 2023 CSV, Mooncake JSONL(.gz) or BurstGPT CSV; several: tenants.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Requests per second, instead of a trace.")] = None,
    burst: Annotated[
        float | None, typer.Option(help="Coefficient of variation of the gamma-distributed gaps; 1 is Poisson.")
    ] = None,
    input_: Annotated[
        str | None, typer.Option("--input", help="Prompt tokens: 500, 100-900 (uniform), 500:0.8 (median:sigma).")
    ] = None,
    output: Annotated[str | None, typer.Option(help="Output tokens, in the same words.")] = None,
    duration: Annotated[
        float | None, typer.Option(help="Seconds in which requests come.", show_default="3600, or the whole trace")
    ] = None,
    time_scale: Annotated[float, typer.Option(help="Stretch a trace's gaps: 0.5 doubles its rate.")] = 1.0,
    copies: Annotated[int, typer.Option(min=1, help="So many of each trace, up to a minute apart.")] = 1,
    model: Annotated[str | None, typer.Option(help="The model asked for.", show_default="widest choice")] = None,
    tier: Annotated[
        list[str] | None, typer.Option(help="Serves all requests; several are compared.", show_default="the default")
    ] = None,
    tier_mix: Annotated[str | None, typer.Option(help="Shares requests out: standard=0.8,fast=0.2.")] = None,
    slo: Annotated[
        list[str] | None, typer.Option(help="ttft=1.0,tpot=0.02,share=0.99 in seconds; fast:tpot=0.01 for one tier.")
    ] = None,
    ambient: Annotated[
        bool | None,
        typer.Option(
            "--ambient/--no-ambient", help="Other people's requests, too.", show_default="yes; with --solve, no"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds, equal plans.")] = 0,
    solve: Annotated[bool, typer.Option("--solve", help="Find the least fleet that meets the SLO.")] = False,
    plot: PlotOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with what every figure rests on.")] = False,
) -> None:
    """Say what a fleet would do under a load: waits, speeds, cost, revenue; or find the least fleet that would do."""
    from fastmode.show.plan import run as shown
    from planning import scenario, workload

    read = configured.sold(catalog, profile)
    routes = scenario.routes(read, model, tier or (), tier_mix, slo or ())
    load_ = workload.workload(
        trace or (), rate, input_, output, burst=burst, duration=duration, time_scale=time_scale, copies=copies
    )
    planned = scenario.scenario(read, routes, load_, ambient=not solve if ambient is None else ambient, seed=seed)
    shown(planned, solve=solve, plot=plot, as_json=as_json)


@app.command()
def calibrate(
    base_url: Annotated[str, typer.Option(help="An OpenAI-compatible API, such as https://api.example.com/v1.")],
    model: Annotated[str, typer.Option(help="The model to ask.")],
    service_tier: Annotated[str | None, typer.Option(help="The tier to ask for.", show_default="none")] = None,
    api_key_env: Annotated[
        str, typer.Option(help="The variable that holds the key; the key itself is written nowhere.")
    ] = "OPENAI_API_KEY",
    requests: Annotated[int, typer.Option(min=4, max=200, help="So many in all.")] = 24,
    concurrency: Annotated[str, typer.Option(help="How many at once: levels that share the requests.")] = "1,2,4",
    prompt_tokens: Annotated[
        str, typer.Option(help="Sizes that take turns; with one, TTFT has no slope.")
    ] = "100,2000",
    output_tokens: Annotated[int, typer.Option(min=2, help="Of each answer, at most.")] = 128,
    pause: Annotated[float, typer.Option(min=0, help="Seconds between an answer and the next request.")] = 0.5,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds for one answer, from its first byte to its last.")
    ] = 60,
    fit: Annotated[str, typer.Option(help="fixed: medians and spreads; scale: one factor on a pool's step times.")] = (
        "fixed"
    ),
    pool: Annotated[str | None, typer.Option(help="The pool of the catalog that --fit scale is about.")] = None,
    catalog: CatalogOption = None,
    samples: Annotated[Path | None, typer.Option(help="Save the requests as CSV.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the pool as TOML.", show_default="shown")] = None,
    name: Annotated[
        str | None, typer.Option(help="The name of the pool.", show_default="calibrated, or POOL-calibrated")
    ] = None,
) -> None:
    """Measure an endpoint with a few polite requests, and write a pool that is as fast; say how good the fit is."""
    from fastmode.show.calibrate import Target, Wanted, plan, run

    key = os.environ.get(api_key_env)
    target = Target(base_url=base_url, model=model, tier=service_tier, key=key.strip() if key else None)
    asked = plan(requests, concurrency, prompt_tokens, output=output_tokens, pause=pause, timeout=timeout)
    wanted = Wanted(
        fit=fit, name=name, pool=pool, catalog=catalog or configured.settings().catalog, samples=samples, out=out
    )
    run(target, asked, wanted)


@app.command()
def usage(
    by: Annotated[str, typer.Option(help="What sums are told apart by: some of account, model, tier, day.")] = (
        "account,model,tier"
    ),
    account: Annotated[str | None, typer.Option(help="The public id of one key.", show_default="all")] = None,
    since: Annotated[str, typer.Option(help="The first day, such as 2026-12-01.", show_default="ever")] = "",
    ledger: Annotated[
        Path | None, typer.Option(help="Read this file.", show_default="asks the running service")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="As CSV, money in nano-dollars.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, money in nano-dollars.")] = False,
) -> None:
    """Show what has been used, and what that cost."""
    from fastmode.show import console
    from fastmode.show.usage import usage as shown
    from fastmode.usage import read
    from service import book

    words = book.by_words(by)
    rows = read(configured.settings(), words, account, since, ledger)
    if as_json:
        print(json.dumps(rows, indent=2))
    elif as_csv:
        print(book.as_csv(rows, words), end="")
    else:
        shown(console(), rows, words)


@keys.command()
def create(
    name: Annotated[str, typer.Argument(help="What people call it.")],
    plan: Annotated[str | None, typer.Option(help="Its limits per minute: a plan of the catalog.")] = None,
    budget: Annotated[str | None, typer.Option(help="Dollars it may spend: 5/day, 100/month, or 20 in all.")] = None,
    requests: Annotated[int | None, typer.Option(min=0, help="A minute, of all kinds together.")] = None,
    tokens: Annotated[int | None, typer.Option(min=0, help="A minute, of all kinds together.")] = None,
    parallel: Annotated[int | None, typer.Option(min=0, help="Requests at once.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="May be used; several.", show_default="all")] = None,
    tier: Annotated[list[str] | None, typer.Option(help="May be used; several.", show_default="all")] = None,
    highest: Annotated[str | None, typer.Option(help="The dearest tier that it gets.")] = None,
    default_tier: Annotated[str | None, typer.Option(help="Of requests that name none.")] = None,
    weight: Annotated[float, typer.Option(help="Its share of a crowded pool, beside those of others.")] = 1.0,
) -> None:
    """Make a key and show it, this once."""
    from fastmode.administration import ask
    from fastmode.keys import budget_of

    given = {
        "plan": plan,
        "requests": requests,
        "tokens": tokens,
        "parallel": parallel,
        "models": model,
        "tiers": tier,
        "highest": highest,
        "default_tier": default_tier,
    }
    said = {field: value for field, value in given.items() if value is not None}
    print(
        ask(configured.settings(), "POST", "/keys", {"name": name, "weight": weight, **said, **budget_of(budget)})[
            "key"
        ]
    )


@keys.command(name="list")
def list_keys(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """Show all keys, without their secrets."""
    from fastmode.administration import ask
    from fastmode.show import console
    from fastmode.show.keys import keys as shown

    told = ask(configured.settings(), "GET", "/keys")
    if as_json:
        print(json.dumps(told, indent=2))
    else:
        shown(console(), told["keys"])


@keys.command()
def block(key: Annotated[str, typer.Argument(help="The public id: what stands behind sk-fastmode-.")]) -> None:
    """Refuse a key from now on; it can be unblocked."""
    from fastmode.administration import ask

    ask(configured.settings(), "PATCH", f"/keys/{key}", {"blocked": True})
    print(f"{key} is blocked")


@keys.command()
def unblock(key: Annotated[str, typer.Argument(help="The public id.")]) -> None:
    """Take a blocked key again."""
    from fastmode.administration import ask

    ask(configured.settings(), "PATCH", f"/keys/{key}", {"blocked": False})
    print(f"{key} is active")


@keys.command()
def delete(key: Annotated[str, typer.Argument(help="The public id.")]) -> None:
    """Forget a key."""
    from fastmode.administration import ask

    ask(configured.settings(), "DELETE", f"/keys/{key}")
    print(f"{key} is deleted")
