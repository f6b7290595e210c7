"""What is sold, at which speeds and prices, and on what it runs: the catalog, read once into frozen values.

`load` reads a TOML catalog and refuses what cannot be: an unknown key, weights that do not fit, an ambient load that
fills the pool, a context window that its KV cache cannot hold. `resolve` turns a request's words into an offer.
Tiers are data: nothing here knows how many there are or what they are called.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from service.errors import InvalidRequest, ModelNotFound, TierNotOffered
from service.hardware import Accelerator
from service.machines import read_accelerator, read_architecture
from service.messages import BANDS
from service.models import Model
from service.pools import Pool, read_pool, with_room
from service.provenance import KEYS, Provenance, Source, read_sources, trace
from service.toml_table import Document, Table

Thing = TypeVar("Thing")

SHIPPED = Path(__file__).with_name("catalog.toml")
MODALITIES = ("text", "image")  # what a request can hold
NANODOLLARS_PER_DOLLAR_PER_MTOK = 1000  # $1 per million tokens is 1,000 nano-dollars per token


@dataclass(frozen=True, slots=True)
class Price:
    """List price in nano-dollars per token."""

    input: int
    cached_input: int
    output: int


@dataclass(frozen=True, slots=True)
class Tier:
    """`words` are what a request may say for it."""

    name: str
    words: tuple[str, ...]
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A model at a tier. The limits are those of what serves it, which may be smaller than the model's own."""

    tier: str
    model: str
    pool: str
    reported_as: str  # service_tier of an answer
    price: Price
    context_window: int
    max_output: int
    modalities: tuple[str, ...]
    band: int  # 0 is served first


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model id. `created` in Unix seconds, sizes in tokens."""

    id: str
    owned_by: str
    created: int
    context_window: int
    max_output: int
    modalities: tuple[str, ...]
    default_tier: str
    offers: Mapping[str, Offer]  # by tier name


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    accelerators: Mapping[str, Accelerator]
    architectures: Mapping[str, Model]
    tiers: Mapping[str, Tier]
    default_words: frozenset[str]  # ask for a model's default tier
    pools: Mapping[str, Pool]
    models: Mapping[str, ServedModel]
    sources: Mapping[str, Source]
    provenance: Provenance  # where each number of the file comes from, by its path


def find(catalog: Catalog, model: str) -> ServedModel:
    """The model of that id. Raises ModelNotFound."""
    if model not in catalog.models:
        raise ModelNotFound(f"The model `{model[:100]}` does not exist or you do not have access to it.", param="model")
    return catalog.models[model]


def resolve(catalog: Catalog, model: str, service_tier: str | None) -> Offer:
    """The offer a request asks for; no word at all asks for the model's default tier.

    Raises ModelNotFound, TierNotOffered, or InvalidRequest for a word no tier answers to.
    """
    served = find(catalog, model)
    if service_tier is None or service_tier in catalog.default_words:
        return served.offers[served.default_tier]
    tier = next((tier.name for tier in catalog.tiers.values() if service_tier in tier.words), None)
    if tier is None:
        known = sorted(catalog.default_words) + [word for tier in catalog.tiers.values() for word in tier.words]
        raise InvalidRequest(
            f"Invalid value: {service_tier[:100]!r}. Supported values are: {', '.join(map(repr, known))}.",
            param="service_tier",
        )
    if tier not in served.offers:
        raise TierNotOffered(
            f"{served.id!r} is not sold at the {tier} tier; it is at: {', '.join(served.offers)}.", param="service_tier"
        )
    return served.offers[tier]


def load(path: Path | None = None) -> Catalog:
    """The catalog at `path`, or the one that ships. Raises CatalogError naming the key, its line and the reasoning."""
    document = Document.read(path or SHIPPED, KEYS)
    root = document.root()
    root.only("extends", "sources", "default_words", "accelerators", "architectures", "tiers", "pools", "models")
    base = _EMPTY
    if "extends" in root:
        root.one_of("extends", ["default"])
        base = load()
    own = _read_shared(root)
    shared = replace(
        own,
        accelerators=_joined(root, "accelerators", base.accelerators, own.accelerators),
        architectures=_joined(root, "architectures", base.architectures, own.architectures),
        tiers=_joined(root, "tiers", base.tiers, own.tiers),
        sources=_joined(root, "sources", base.sources, own.sources),
        default_words=own.default_words or base.default_words,
    )
    if not shared.default_words:
        raise root.error("default_words", "is missing: what asks for a model's default tier?")
    _check_words(root, shared)
    machines = (shared.accelerators, shared.architectures)
    directory = (path or SHIPPED).parent
    pools = {name: read_pool(name, table, *machines, directory) for name, table in root.tables("pools").items()}
    models = {name: _read_model(name, table, shared, pools) for name, table in root.tables("models").items()}
    pools = {name: _with_room(root, pool, models) for name, pool in pools.items()}
    for kind, things in (("pools", pools), ("models", models)):
        if not things:
            raise root.error(kind, "is missing: a catalog sells at least one model from at least one pool")
    return replace(
        shared,
        pools=MappingProxyType(pools),
        models=MappingProxyType(models),
        provenance=MappingProxyType({**_shared(base.provenance), **trace(document, own.sources, base.sources)}),
    )


_EMPTY = Catalog(
    accelerators={},
    architectures={},
    tiers={},
    default_words=frozenset(),
    pools={},
    models={},
    sources={},
    provenance={},
)


def _read_shared(root: Table) -> Catalog:
    """What another catalog can inherit."""
    return replace(
        _EMPTY,
        accelerators={name: read_accelerator(name, table) for name, table in root.tables("accelerators").items()},
        architectures={name: read_architecture(name, table) for name, table in root.tables("architectures").items()},
        tiers={name: _read_tier(name, table) for name, table in root.tables("tiers").items()},
        default_words=frozenset(root.texts("default_words") if "default_words" in root else ()),
        sources=read_sources(root),
    )


def _shared(provenance: Provenance) -> Provenance:
    return {path: source for path, source in provenance.items() if path[0] in ("accelerators", "architectures")}


def _joined(root: Table, kind: str, base: Mapping[str, Thing], own: Mapping[str, Thing]) -> Mapping[str, Thing]:
    twice = next((name for name in own if name in base), None)
    if twice is not None:
        raise root.document.error((kind, twice), "is already defined by the catalog this one extends")
    return MappingProxyType({**base, **own})


def _check_words(root: Table, catalog: Catalog) -> None:
    meaning = dict.fromkeys(catalog.default_words, "the default tier")
    for tier in catalog.tiers.values():
        for word in tier.words:
            if word in meaning:
                raise root.document.error(("tiers", tier.name, "words"), f"{word!r} already means {meaning[word]}")
            meaning[word] = tier.name


def _read_tier(name: str, table: Table) -> Tier:
    tier = Tier(name, table.texts("words"), table.text("summary"))
    table.done()
    return tier


def _read_model(name: str, table: Table, catalog: Catalog, pools: Mapping[str, Pool]) -> ServedModel:
    window = table.integer("context_window", at_least=1)
    served = ServedModel(
        id=name,
        owned_by=table.text("owned_by"),
        created=int(datetime.combine(table.day("created"), time(), UTC).timestamp()),
        context_window=window,
        max_output=table.integer("max_output", at_least=1, at_most=window),
        modalities=_read_modalities(table),
        default_tier=table.one_of("default_tier", list(catalog.tiers)),
        offers={},
    )
    parent = table.table("offers")
    offers: dict[str, Offer] = {}
    for tier in parent.values:
        if tier not in catalog.tiers:
            raise parent.error(tier, f"is no tier; known are {', '.join(catalog.tiers)}")
        offers[tier] = _read_offer(tier, parent.table(tier), served, pools)
    if served.default_tier not in offers:
        raise table.error("default_tier", f"is {served.default_tier!r}, at which the model is not offered")
    table.done()
    return replace(served, offers=MappingProxyType(offers))


def _read_offer(tier: str, table: Table, served: ServedModel, pools: Mapping[str, Pool]) -> Offer:
    pool = pools[table.one_of("pool", list(pools))]
    window = table.integer("context_window", served.context_window, at_least=1)
    offer = Offer(
        tier=tier,
        model=served.id,
        pool=pool.name,
        reported_as=table.text("reported_as"),
        price=_read_price(table.table("price")),
        context_window=window,
        max_output=table.integer("max_output", min(served.max_output, window), at_least=1, at_most=window),
        modalities=_read_modalities(table) if "modalities" in table else served.modalities,
        band=table.integer("band", 1, at_least=0, at_most=BANDS - 1),
    )
    table.done()
    if offer.context_window > pool.kv_room:
        raise table.error(
            "pool",
            f"its KV cache has room for {pool.kv_room:.0f} tokens beside the ambient load, and the model promises"
            f" a context of {offer.context_window}: such a request would never be admitted",
        )
    return offer


def _with_room(root: Table, pool: Pool, models: Mapping[str, ServedModel]) -> Pool:
    """The pool, with an ambient load that at any time leaves room for the widest context promised from it."""
    offers = (offer for model in models.values() for offer in model.offers.values())
    try:
        return with_room(pool, max((offer.context_window for offer in offers if offer.pool == pool.name), default=1))
    except ValueError as error:
        raise root.document.error(("pools", pool.name, "ambient", "stay_s"), str(error)) from error


def _read_modalities(table: Table) -> tuple[str, ...]:
    modalities = table.texts("modalities")
    strange = [modality for modality in modalities if modality not in MODALITIES]
    if strange:
        raise table.error(
            "modalities", f"{strange[0]!r} cannot be read by a gateway; known are {', '.join(MODALITIES)}"
        )
    return modalities


def _read_price(table: Table) -> Price:
    price = Price(*(_nanodollars(table, key) for key in ("input", "cached_input", "output")))
    table.done()
    if price.cached_input > price.input:
        raise table.error("cached_input", "a cached token cannot cost more than one that is computed")
    return price


def _nanodollars(table: Table, key: str) -> int:
    """$/MTok as nano-dollars per token."""
    nanodollars: Decimal = table.decimal(key, at_least=0) * NANODOLLARS_PER_DOLLAR_PER_MTOK
    if nanodollars != int(nanodollars):
        raise table.error(key, f"is {nanodollars / NANODOLLARS_PER_DOLLAR_PER_MTOK}; it must be whole tenths of a cent")
    return int(nanodollars)
