"""A model as it is sold: its limits, its offers, their prices, and the days from which and until which each holds.

Reads one `models` table of a catalog. Knows nothing of the words that requests use, and of no dialect.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from types import MappingProxyType
from typing import Literal, NamedTuple, cast, get_args

import msgspec

from service.messages import BANDS, Pace
from service.overflow import QUEUE, Overflow, read_overflow
from service.pools import Pool
from service.prices import Price, nearest
from service.toml_table import Table

MODALITIES = ("text", "image")  # what a request can hold
CACHEABLE = 1024  # of a model that does not say
NANODOLLARS_PER_DOLLAR = 1_000_000_000
NANODOLLARS_PER_DOLLAR_PER_MTOK = 1000  # $1 per million tokens is 1,000 nano-dollars per token

Times = tuple[Decimal, Decimal]
FREE: Times = (Decimal(1), Decimal(1))  # what is put into a cache costs no more than what is only read
Ended = Literal["refused", "default"]
Mistake = Literal[
    "wrong_tool",
    "missing_argument",
    "mistyped_argument",
    "invalid_json",
    "hallucinated_tool",
    "ignored_instruction",
    "wrong_value",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A model at a tier. The limits are those of what serves it, which may be smaller than the model's own.

    - `since`, `until`: the first day on which it is sold, and the first on which it is not; None: as the model.
    - `ended`: what a request for it gets after that: a refusal, or the model's default tier and its price.
    - `beta`: what the `anthropic-beta` header has to name; None: nothing.
    - `earlier`: prices that held until a day, not including it, in the order of time.
    - `limits`: the group of offers with which it shares what an account may use.
    - `rate`: the speed by contract, to which what is generated faster is held back; None: as fast as it comes.
    - `intake`: the speed by contract at which prompts go into a worker; None: as fast as it computes them.
    - `overflow`: what becomes of a request for which there is no room.
    - `mistakes`: probability of each kind in an answer where it can be made; none for the full model.
    """

    tier: str
    model: str
    pool: str
    reported_as: str  # service_tier of an answer
    price: Price
    context_window: int
    max_output: int
    modalities: tuple[str, ...]
    band: int  # 0 is served first
    since: date | None = None
    until: date | None = None
    ended: Ended = "refused"
    beta: str | None = None
    earlier: tuple[tuple[date, Price], ...] = ()
    mistakes: tuple[tuple[str, float], ...] = ()
    limits: str = ""
    overflow: Overflow = QUEUE
    rate: Pace | None = None
    intake: Pace | None = None

    def sold_on(self, day: date, horizon: date) -> bool:
        """It has begun by `horizon`, and not ended by `day`."""
        return (self.since is None or self.since <= horizon) and (self.until is None or day < self.until)

    def price_until(self, day: date) -> date | None:
        """The key in `earlier` of the price of that day; None: it is `price`."""
        return next((until for until, _ in self.earlier if day < until), None)


class Usual(NamedTuple):
    """What the offers of a tier have that say nothing else; without limits of its own, those of their model."""

    limits: str
    overflow: Overflow


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model id. `created` in Unix seconds, sizes in tokens, `aliases` other ids of it.

    `limits` is the group of its offers that have none of their own. `family` names what its maker's API accepts of
    requests for it; a prompt of fewer than `cacheable` tokens is not cached; to be put into a cache, and for longer,
    costs `write_times` as much as to be read; to be served in one of the `regions` alone, so many times as much of all;
    `retired` is the first day on which the model is gone.
    """

    id: str
    owned_by: str
    created: int
    context_window: int
    max_output: int
    modalities: tuple[str, ...]
    default_tier: str
    offers: Mapping[str, Offer]  # by tier name
    aliases: tuple[str, ...] = ()
    family: str | None = None
    cacheable: int = CACHEABLE
    write_times: Times = FREE
    regions: Mapping[str, Decimal] = field(default_factory=dict)
    limits: str = ""
    retired: date | None = None

    @property
    def released(self) -> date:
        return datetime.fromtimestamp(self.created, UTC).date()


def read_model(
    name: str, table: Table, tiers: Mapping[str, Usual], families: Sequence[str], pools: Mapping[str, Pool]
) -> ServedModel:
    """Raises CatalogError."""
    window = table.integer("context_window", at_least=1)
    served = ServedModel(
        id=name,
        owned_by=table.text("owned_by"),
        created=int(datetime.combine(table.day("created"), time(), UTC).timestamp()),
        context_window=window,
        max_output=table.integer("max_output", at_least=1, at_most=window),
        modalities=_read_modalities(table),
        default_tier=table.one_of("default_tier", list(tiers)),
        offers={},
        aliases=table.texts("aliases") if "aliases" in table else (),
        family=table.one_of("family", families) if "family" in table else None,
        cacheable=table.integer("cacheable", CACHEABLE, at_least=1),
        write_times=_read_times(table.table("write_times")) if "write_times" in table else FREE,
        regions=_read_regions(table.table("regions")) if "regions" in table else MappingProxyType({}),
        limits=table.text("limits", name),
        retired=table.day("retired") if "retired" in table else None,
    )
    parent = table.table("offers")
    offers: dict[str, Offer] = {}
    for tier in parent.values:
        if tier not in tiers:
            raise parent.error(tier, f"is no tier; known are {', '.join(tiers)}")
        offers[tier] = _read_offer(tier, parent.table(tier), served, pools, tiers[tier])
    if served.default_tier not in offers:
        raise table.error("default_tier", f"is {served.default_tier!r}, at which the model is not offered")
    table.done()
    return replace(served, offers=MappingProxyType(offers))


def _read_offer(tier: str, table: Table, served: ServedModel, pools: Mapping[str, Pool], usual: Usual) -> Offer:
    pool = pools[table.one_of("pool", list(pools))]
    window = table.integer("context_window", served.context_window, at_least=1)
    offer = Offer(
        tier=tier,
        model=served.id,
        pool=pool.name,
        reported_as=table.text("reported_as"),
        price=_read_price(table.table("price"), served.write_times),
        context_window=window,
        max_output=table.integer("max_output", min(served.max_output, window), at_least=1, at_most=window),
        modalities=_read_modalities(table) if "modalities" in table else served.modalities,
        band=table.integer("band", 1, at_least=0, at_most=BANDS - 1),
        since=table.day("since") if "since" in table else None,
        until=table.day("until") if "until" in table else None,
        ended=cast(Ended, table.one_of("ended", get_args(Ended), "refused")),
        beta=table.text("beta") if "beta" in table else None,
        earlier=_read_earlier(table, served.write_times),
        mistakes=_read_mistakes(table),
        limits=table.text("limits", usual.limits or served.limits),
        rate=_read_rate(table.table("rate")) if "rate" in table else None,
        intake=_read_rate(table.table("intake")) if "intake" in table else None,
        overflow=read_overflow(table.table("overflow"), list(pools)) if "overflow" in table else usual.overflow,
    )
    table.done()
    for each in (pool, *([pools[offer.overflow.pool]] if offer.overflow.pool else [])):
        if offer.context_window > each.kv_room:
            raise table.error(
                "pool",
                f"the KV cache of {each.name} has room for {each.kv_room:.0f} tokens beside the ambient load, and the"
                f" model promises a context of {offer.context_window}: such a request would never be admitted",
            )
    return offer


def _read_rate(table: Table) -> Pace:
    rate = Pace(table.number("tokens_per_second", above=0), table.number("burst", 8, at_least=1))
    table.done()
    return rate


def _read_modalities(table: Table) -> tuple[str, ...]:
    modalities = table.texts("modalities")
    strange = [modality for modality in modalities if modality not in MODALITIES]
    if strange:
        raise table.error(
            "modalities", f"{strange[0]!r} cannot be read by a gateway; known are {', '.join(MODALITIES)}"
        )
    return modalities


def _read_mistakes(table: Table) -> tuple[tuple[str, float], ...]:
    if "mistakes" not in table:
        return ()
    rates = table.table("mistakes")
    found = tuple((kind, rates.number(kind, at_least=0, at_most=1)) for kind in get_args(Mistake) if kind in rates)
    rates.only(*get_args(Mistake))
    if sum(rate for _, rate in found) > 1:
        raise table.error("mistakes", "sum to more than 1: an answer has at most one mistake")
    return found


def _read_times(table: Table) -> Times:
    times = table.decimal("short", at_least=0), table.decimal("long", at_least=0)
    table.done()
    return times


def _read_regions(table: Table) -> Mapping[str, Decimal]:
    regions = {name: table.decimal(name, above=0) for name in table.values}
    table.done()
    return MappingProxyType(regions)


def _read_earlier(table: Table, times: Times) -> tuple[tuple[date, Price], ...]:
    """`price_until`: day -> the price before it."""
    found = {}
    for text, price in table.tables("price_until").items():
        try:
            day = date.fromisoformat(text)
        except ValueError:
            raise table.error("price_until", f"{text!r} must be a date such as 2026-02-12") from None
        found[day] = _read_price(price, times)
    return tuple(sorted(found.items(), key=lambda entry: entry[0]))


def _read_price(table: Table, times: Times) -> Price:
    read, cached, output = (_nanodollars(table, key) for key in ("input", "cached_input", "output"))
    price = Price(read, cached, output, nearest(read * times[0]), nearest(read * times[1]))
    if "long" in table:
        price = _with_long(price, table.table("long"))
    table.done()
    if price.cached_input > price.input:
        raise table.error("cached_input", "a cached token cannot cost more than one that is computed")
    return price


def _with_long(price: Price, table: Table) -> Price:
    above = table.integer("above", at_least=1)
    read, written = (table.decimal(key, above=0) for key in ("input_times", "output_times"))
    table.done()
    return msgspec.structs.replace(price, above=above, long=price.times(read, written))


def _nanodollars(table: Table, key: str) -> int:
    """$/MTok as nano-dollars per token."""
    nanodollars: Decimal = table.decimal(key, at_least=0) * NANODOLLARS_PER_DOLLAR_PER_MTOK
    if nanodollars != int(nanodollars):
        raise table.error(key, f"is {nanodollars / NANODOLLARS_PER_DOLLAR_PER_MTOK}; it must be whole tenths of a cent")
    return int(nanodollars)
