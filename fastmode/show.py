"""Tables and examples for a terminal. The figures are computed elsewhere (service/figures.py); this lays them out."""

import os

from rich import box
from rich.console import Console
from rich.table import Table

from service.figures import Figure, Row, in_words, rows
from service.provenance import Kind
from service.tiers import Catalog, Offer, ServedModel

MARKS: dict[Kind, str] = {"measured": "ᵐ", "derived": "ᵈ", "assumed": "ᵃ"}
LEGEND = "ᵐ measured (published)  ᵈ derived (computed)  ᵃ assumed (chosen); what each rests on: fastmode tiers --json"
WIDTH_OF_FILES = 160  # columns, where no terminal says how many there are
WORDY = ("Deployment", "What it is")
SPEEDS = (
    "tok/s of a stream: alone on its replica, beside the ambient load, in a full batch, and the floor of an empty one"
)
MONEY = "$/MTok: list prices, and the derived cost to serve"
CURL = """\
curl -N {url}/v1/chat/completions -H 'content-type: application/json' -d '{{
  "model": "{model}", "service_tier": "{word}", "stream": true,
  "messages": [{{"role": "user", "content": "Hello"}}]}}'"""

SDK = """\
from openai import OpenAI

client = OpenAI(base_url="{url}/v1", api_key="anything")
stream = client.chat.completions.create(
    model="{model}",
    service_tier="{word}",
    messages=[{{"role": "user", "content": "Hello"}}],
    stream=True,
)
for chunk in stream:
    print(chunk.choices[0].delta.content or "", end="", flush=True)"""


def console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH_OF_FILES
    return console


def welcome(out: Console, catalog: Catalog, base_url: str) -> None:
    """Where the service is, what it sells, and two ways to ask it."""
    out.print(f"\n[bold]{base_url}[/bold] serves OpenAI's chat completions; any API key will do\n")
    table = _table("Model", "service_tier", ">tok/s", ">$/MTok in", ">$/MTok out", "What it is")
    for row in rows(catalog):
        prices = (_number(row.price_input), _number(row.price_output))
        table.add_row(row.model, row.tier, _number(row.speed_ambient), *prices, row.summary)
    out.print(table)
    out.print("tok/s is derived from hardware, model and batch: one request beside the pool's ambient load.")
    out.print("All figures and what they rest on: fastmode tiers\n")
    model, offer = _example(catalog)
    values = {"url": base_url, "model": model.id, "word": offer.tier}
    for text in (CURL, SDK):
        out.print(text.format(**values) + "\n", markup=False, soft_wrap=True)
    out.print("Ctrl-C stops it.")


def tiers(out: Console, catalog: Catalog) -> None:
    """Every figure of every offer, each marked as measured, derived or assumed."""
    offered = rows(catalog)
    out.print(_speeds(offered))
    out.print(_prices(offered))
    out.print(_pools(catalog, offered))
    out.print(LEGEND)


def _speeds(offered: list[Row]) -> Table:
    table = _table("Model", "Tier", "Pool", ">alone", ">ambient", ">full", ">floor", title=SPEEDS)
    for row in offered:
        speeds = (row.speed_alone, row.speed_ambient, row.speed_full, row.floor_speed)
        table.add_row(row.model, row.tier, row.pool, *map(_marked, speeds))
    return table


def _prices(offered: list[Row]) -> Table:
    headings = (">in", ">cached", ">out", ">cost\nin", ">cost\nout")
    table = _table("Model", "Tier", "Reported\nas", *headings, title=MONEY)
    for row in offered:
        money = (row.price_input, row.price_cached_input, row.price_output, row.cost_input, row.cost_output)
        table.add_row(row.model, row.tier, row.reported_as, *map(_marked, money))
    return table


def _pools(catalog: Catalog, offered: list[Row]) -> Table:
    table = _table("Pool", ">replicas", ">ambient\nbatch", ">max\nbatch", "Deployment", title="pools")
    of_pool = {row.pool: row for row in offered}
    for name, pool in catalog.pools.items():
        row = of_pool.get(name)
        counts = map(_marked, (row.replicas, row.ambient_batch, row.max_batch)) if row else ("nothing sold", "", "")
        table.add_row(name, *counts, in_words(catalog, pool))
    return table


def _table(*headings: str, title: str | None = None) -> Table:
    """`>` in front of a heading: a column of numbers."""
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title=f"\n{title}\n" if title else None,
        title_justify="left",
        title_style="bold",
        show_edge=False,
    )
    for heading in headings:
        name = heading.removeprefix(">")
        table.add_column(name, justify="right" if name != heading else "left", no_wrap=name not in WORDY)
    return table


def _marked(figure: Figure) -> str:
    return _number(figure) + MARKS[figure.kind]


def _number(figure: Figure) -> str:
    """Three significant digits of what is derived, and what is given as it was given."""
    return f"{figure.value:.3g}" if figure.kind == "derived" and figure.value < 1000 else f"{figure.value:,.10g}"


def _example(catalog: Catalog) -> tuple[ServedModel, Offer]:
    """The model with the widest choice, at a tier one has to ask for if there is one."""
    model = max(catalog.models.values(), key=lambda model: len(model.offers))
    return model, next(
        (offer for offer in model.offers.values() if offer.tier != model.default_tier), model.offers[model.default_tier]
    )
