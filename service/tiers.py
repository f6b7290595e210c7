"""What is sold, at which speeds and prices, and on what it runs: the catalog, read once into frozen values.

`load` reads a TOML catalog and refuses what cannot be: an unknown key, weights that do not fit, an ambient load that
fills the pool, a context window that its KV cache cannot hold. `resolve` turns a request's words into an offer.
Tiers are data: nothing here knows how many there are or what they are called.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeVar, cast, get_args

from service.errors import InvalidRequest, ModelNotFound, TierNotOffered
from service.families import Family, read_family
from service.hardware import Accelerator
from service.machines import read_accelerator, read_architecture
from service.models import Model
from service.offers import Offer, ServedModel, Usual, read_model
from service.overflow import QUEUE, Overflow, read_overflow
from service.plans import Plan, read_plan
from service.pools import Pool, read_pool, with_room
from service.provenance import KEYS, Provenance, Source, read_sources, trace
from service.toml_table import Document, Table

__all__ = ["SHIPPED", "Catalog", "Offer", "ServedModel", "Tier", "find", "load", "not_found", "not_sold", "resolve"]

Thing = TypeVar("Thing")

SHIPPED = Path(__file__).with_name("catalog.toml")
ANSWER_LENGTH = (200.0, 0.7)  # of a catalog that does not say

Unsold = Literal["refused", "default"]


@dataclass(frozen=True, slots=True)
class Tier:
    """`words` are what a request may say for it, as its `service_tier` or, in Anthropic's dialect, its `speed`.

    `limits`: the group of limits of its offers that name none; empty: that of their model. `unsold`: what a request
    for it gets of a model that is not sold at it: a refusal, or the model's default tier.
    """

    name: str
    words: tuple[str, ...]
    summary: str
    unsold: Unsold = "refused"
    limits: str = ""
    overflow: Overflow = QUEUE


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    accelerators: Mapping[str, Accelerator]
    architectures: Mapping[str, Model]
    tiers: Mapping[str, Tier]
    default_words: frozenset[str]  # ask for a model's default tier
    plans: Mapping[str, Plan]
    families: Mapping[str, Family]
    answer_length: tuple[float, float]  # median (tokens) and sigma of an answer that ends by itself, lognormal
    pools: Mapping[str, Pool]
    models: Mapping[str, ServedModel]
    aliases: Mapping[str, str]  # other ids of the models -> id
    sources: Mapping[str, Source]
    provenance: Provenance  # where each number of the file comes from, by its path


def find(catalog: Catalog, model: str) -> ServedModel:
    """The model of that id, or with that alias. Raises ModelNotFound."""
    served = catalog.models.get(catalog.aliases.get(model, model))
    if served is None:
        raise not_found(model)
    return served


def not_found(model: str) -> ModelNotFound:
    """Nor does anybody hear of models that are not for him."""
    return ModelNotFound(f"The model `{model[:100]}` does not exist or you do not have access to it.", param="model")


def resolve(catalog: Catalog, model: str, service_tier: str | None) -> Offer:
    """The offer a request asks for; no word at all asks for the model's default tier.

    Raises ModelNotFound, TierNotOffered, or InvalidRequest for a word no tier answers to.
    """
    served = find(catalog, model)
    default = served.offers[served.default_tier]
    if service_tier is None or service_tier in catalog.default_words:
        return default
    tier = next((tier for tier in catalog.tiers.values() if service_tier in tier.words), None)
    if tier is None:
        known = sorted(catalog.default_words) + [word for tier in catalog.tiers.values() for word in tier.words]
        raise InvalidRequest(
            f"Invalid value: {service_tier[:100]!r}. Supported values are: {', '.join(map(repr, known))}.",
            param="service_tier",
        )
    if tier.name not in served.offers and tier.unsold == "refused":
        raise not_sold(served, tier.name)
    return served.offers.get(tier.name, default)


def not_sold(served: ServedModel, tier: str) -> TierNotOffered:
    return TierNotOffered(
        f"{served.id!r} is not sold at the {tier} tier; it is at: {', '.join(served.offers)}.", param="service_tier"
    )


def load(path: Path | None = None) -> Catalog:
    """The catalog at `path`, or the one that ships. Raises CatalogError naming the key, its line and the reasoning."""
    document = Document.read(path or SHIPPED, KEYS)
    root = document.root()
    root.only("extends", *_SHARED, "pools", "models")
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
        plans=_joined(root, "plans", base.plans, own.plans),
        families=_joined(root, "families", base.families, own.families),
        answer_length=own.answer_length if "answers" in root else base.answer_length,
    )
    if not shared.default_words:
        raise root.error("default_words", "is missing: what asks for a model's default tier?")
    _check_words(root, shared)
    machines = (shared.accelerators, shared.architectures)
    directory = (path or SHIPPED).parent
    pools = {name: read_pool(name, table, *machines, directory) for name, table in root.tables("pools").items()}
    names = ({name: Usual(each.limits, each.overflow) for name, each in shared.tiers.items()}, list(shared.families))
    models = {name: read_model(name, table, *names, pools) for name, table in root.tables("models").items()}
    pools = {name: _with_room(root, pool, models) for name, pool in pools.items()}
    for kind, things in (("pools", pools), ("models", models)):
        if not things:
            raise root.error(kind, "is missing: a catalog sells at least one model from at least one pool")
    return replace(
        shared,
        pools=MappingProxyType(pools),
        models=MappingProxyType(models),
        aliases=_aliases(root, models),
        provenance=MappingProxyType({**_shared(base.provenance), **trace(document, own.sources, base.sources)}),
    )


_SHARED = ("sources", "default_words", "accelerators", "architectures", "tiers", "plans", "families", "answers")
_EMPTY = Catalog(
    accelerators={},
    architectures={},
    tiers={},
    default_words=frozenset(),
    plans={},
    families={},
    answer_length=ANSWER_LENGTH,
    pools={},
    models={},
    aliases={},
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
        plans={name: read_plan(name, table) for name, table in root.tables("plans").items()},
        families={name: read_family(table) for name, table in root.tables("families").items()},
        answer_length=_read_length(root.table("answers")) if "answers" in root else ANSWER_LENGTH,
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
    tier = Tier(
        name,
        table.texts("words"),
        table.text("summary"),
        cast(Unsold, table.one_of("unsold", get_args(Unsold), "refused")),
        table.text("limits") if "limits" in table else "",
        read_overflow(table.table("overflow")) if "overflow" in table else QUEUE,
    )
    table.done()
    return tier


def _read_length(table: Table) -> tuple[float, float]:
    length = table.table("length")
    table.done()
    read = length.number("median", above=0), length.number("sigma", at_least=0)
    length.done()
    return read


def _aliases(root: Table, models: Mapping[str, ServedModel]) -> Mapping[str, str]:
    aliases: dict[str, str] = {}
    for served in models.values():
        for alias in served.aliases:
            if alias in models or alias in aliases:
                raise root.document.error(("models", served.id, "aliases"), f"{alias!r} is a model already")
            aliases[alias] = served.id
    return MappingProxyType(aliases)


def _with_room(root: Table, pool: Pool, models: Mapping[str, ServedModel]) -> Pool:
    """The pool, with an ambient load that at any time leaves room for the widest context promised from it."""
    offers = (offer for model in models.values() for offer in model.offers.values())
    try:
        return with_room(pool, max((offer.context_window for offer in offers if offer.pool == pool.name), default=1))
    except ValueError as error:
        raise root.document.error(("pools", pool.name, "ambient", "stay_s"), str(error)) from error
