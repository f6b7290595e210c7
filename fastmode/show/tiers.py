"""What is sold: the welcome of `fastmode up` and the tables of `fastmode tiers`."""

from rich.console import Console
from rich.table import Table

from fastmode.show import LEGEND, marked, number, table
from service.figures import Row, in_words, rows
from service.tiers import Catalog, Offer, ServedModel

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


def welcome(out: Console, catalog: Catalog, base_url: str) -> None:
    """Where the service is, what it sells, and two ways to ask it."""
    out.print(f"\n[bold]{base_url}[/bold] serves OpenAI's chat completions; any API key will do\n")
    made = table("Model", "service_tier", ">tok/s", ">$/MTok in", ">$/MTok out", "What it is", wordy=WORDY)
    for row in rows(catalog):
        prices = (number(row.price_input), number(row.price_output))
        made.add_row(row.model, row.tier, number(row.speed_ambient), *prices, row.summary)
    out.print(made)
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
    out.print(f"{LEGEND}; what each rests on: fastmode tiers --json")


def _speeds(offered: list[Row]) -> Table:
    made = table("Model", "Tier", "Pool", ">alone", ">ambient", ">full", ">floor", title=SPEEDS)
    for row in offered:
        speeds = (row.speed_alone, row.speed_ambient, row.speed_full, row.floor_speed)
        made.add_row(row.model, row.tier, row.pool, *map(marked, speeds))
    return made


def _prices(offered: list[Row]) -> Table:
    headings = (">in", ">cached", ">out", ">cost\nin", ">cost\nout")
    made = table("Model", "Tier", "Reported\nas", *headings, title=MONEY)
    for row in offered:
        money = (row.price_input, row.price_cached_input, row.price_output, row.cost_input, row.cost_output)
        made.add_row(row.model, row.tier, row.reported_as, *map(marked, money))
    return made


def _pools(catalog: Catalog, offered: list[Row]) -> Table:
    made = table("Pool", ">replicas", ">ambient\nbatch", ">max\nbatch", "Deployment", title="pools", wordy=WORDY)
    of_pool = {row.pool: row for row in offered}
    for name, pool in catalog.pools.items():
        row = of_pool.get(name)
        counts = map(marked, (row.replicas, row.ambient_batch, row.max_batch)) if row else ("nothing sold", "", "")
        made.add_row(name, *counts, in_words(catalog, pool))
    return made


def _example(catalog: Catalog) -> tuple[ServedModel, Offer]:
    """The model with the widest choice, at a tier one has to ask for if there is one."""
    model = max(catalog.models.values(), key=lambda model: len(model.offers))
    return model, next(
        (offer for offer in model.offers.values() if offer.tier != model.default_tier), model.offers[model.default_tier]
    )
