"""What is sold: the welcome of `fastmode up` and the tables of `fastmode tiers`."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from fastmode.show import LEGEND, marked, number, table
from service.figures import Row, in_words, rows
from service.tiers import Catalog, Offer, ServedModel

WORDY = ("Deployment", "What it is", "Model")
SPEEDS = (
    "tok/s of a stream: alone on its replica, beside the ambient load, in a full batch, and the floor of an empty one;"
    " derived cost to serve, $/MTok"
)
MONEY = "list prices, $/MTok"
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


def welcome(out: Console, catalog: Catalog, base_url: str, keys_wanted: bool) -> None:
    """Where the service is, what it sells, and two ways to ask it."""
    key = "make a key: fastmode keys create NAME" if keys_wanted else "any API key will do"
    offered = rows(catalog)
    out.print(f"\n[bold]{base_url}[/bold] serves the APIs of OpenAI and Anthropic; {key}\n")
    out.print(_tiers(catalog, offered))
    out.print(_models(catalog, offered))
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
    out.print(_speeds(catalog, offered))
    out.print(_prices(catalog, offered))
    out.print(_pools(catalog, offered))
    out.print(f"{LEGEND}; what each rests on: fastmode tiers --json")


def _tiers(catalog: Catalog, offered: list[Row]) -> Table:
    made = table("service_tier", ">tok/s", "What it is", wordy=WORDY)
    for tier in _sold(catalog, offered):
        here = [row for row in offered if row.tier == tier]
        made.add_row(tier, ", ".join(_once(number(row.speed_ambient) for row in here)), here[0].summary)
    return made


def _models(catalog: Catalog, offered: list[Row]) -> Table:
    """Models of one maker that cost the same share a row."""
    tiers = _sold(catalog, offered)
    made = table("Model", *tiers, title="$/MTok in / out", wordy=WORDY)
    sold = {(row.model, row.tier): f"{number(row.price_input)} / {number(row.price_output)}" for row in offered}
    alike: dict[tuple[str, ...], list[str]] = {}
    for model in catalog.models.values():
        prices = (sold.get((model.id, tier), "") for tier in tiers)
        alike.setdefault((model.owned_by, *prices), []).append(model.id)
    for (_, *cells), models in alike.items():
        made.add_row(", ".join(models), *cells)
    return made


def _speeds(catalog: Catalog, offered: list[Row]) -> Table:
    headings = (">alone", ">ambient", ">full", ">floor", ">cost\nin", ">cost\nout")
    made = table("Pool", "Tier", *headings, title=SPEEDS)
    for pool in catalog.pools:
        here = [row for row in offered if row.pool == pool]
        for row in here[:1]:
            figures = (row.speed_alone, row.speed_ambient, row.speed_full, row.floor_speed, row.cost_input)
            made.add_row(pool, ", ".join(_once(row.tier for row in here)), *map(marked, (*figures, row.cost_output)))
    return made


def _prices(catalog: Catalog, offered: list[Row]) -> Table:
    """Models of one maker that are sold alike share a row."""
    made = table("Model", "Tier", "Reported\nas", ">in", ">cached", ">out", title=MONEY, wordy=WORDY)
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in offered:
        prices = map(marked, (row.price_input, row.price_cached_input, row.price_output))
        owner = catalog.models[row.model].owned_by
        alike.setdefault((owner, row.tier, row.reported_as, *prices), []).append(row.model)
    for (_, *cells), models in alike.items():
        made.add_row(", ".join(models), *cells)
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
    """The model that most pools serve, at a tier one has to ask for if there is one."""
    model = max(catalog.models.values(), key=lambda model: len({offer.pool for offer in model.offers.values()}))
    return model, next(
        (offer for offer in model.offers.values() if offer.tier != model.default_tier), model.offers[model.default_tier]
    )


def _sold(catalog: Catalog, offered: list[Row]) -> list[str]:
    """Tiers at which something is sold, in the order of the catalog."""
    return [tier for tier in catalog.tiers if any(row.tier == tier for row in offered)]


def _once(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
