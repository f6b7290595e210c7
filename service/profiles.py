"""The real APIs at a date: what of a catalog is sold then, and how a request's words for speed are understood.

`load` cuts a catalog down to a day. Both dialects resolve here, for any model: OpenAI's `service_tier` names a tier,
Anthropic's `speed` asks for one that a model may have had, and lost again. Knows no HTTP: refusals are ServiceErrors.
"""

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Literal, cast, get_args

from service import tiers
from service.errors import CatalogError, InvalidRequest, ModelNotFound
from service.families import Family, Sampling
from service.offers import Offer, ServedModel
from service.provenance import Provenance
from service.tiers import Catalog
from service.toml_table import Document

SHIPPED = Path(__file__).with_name("profiles.toml")
SERVICE_TIERS = ("auto", "standard_only")  # of Anthropic's dialect, as are:
SPEEDS = ("standard", "fast")
CacheKey = Literal["value", "header", "both"]

_UNKNOWN = "speed: Extra inputs are not permitted"
_UNSUPPORTED = "'{model}' does not support the `speed` parameter. This feature is only available on supported models."


@dataclass(frozen=True, slots=True)
class AnthropicRules:
    """What the Messages API accepts of requests for a model.

    - `sampling`: values of temperature, top_p, top_k: any, or none but the default.
    - `prefill`: the conversation may end with the beginning of the answer.
    - `thinking`: accepted values of `thinking.type`, of enabled, adaptive, disabled.
    - `cacheable`: tokens from which on a prompt is cached at all; `max_tokens`: the most that may be asked for.
    """

    sampling: Sampling
    prefill: bool
    thinking: frozenset[str]
    cacheable: int
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """`catalog` has what is sold on `date`, at the prices of that day; `everything` what is sold at any time."""

    name: str
    date: date
    catalog: Catalog
    everything: Catalog
    anthropic_versions: tuple[str, ...]
    speed_beta: str | None
    cache_key_speed: CacheKey
    speed_unknown: str
    speed_unsupported: str

    def resolve_openai(self, model: str, service_tier: str | None) -> Offer:
        """The offer that a `service_tier` asks for. Raises as `tiers.resolve` does."""
        try:
            return tiers.resolve(self.catalog, model, service_tier)
        except ModelNotFound:
            if not self._retired(model):
                raise
            page = "https://platform.openai.com/docs/deprecations"
            raise ModelNotFound(
                f"The model `{model}` has been deprecated, learn more here: {page}", param="model"
            ) from None

    def resolve_anthropic(
        self, model: str, speed: str | None, service_tier: str | None, betas: frozenset[str]
    ) -> Offer:
        """The offer that `speed` asks for; `betas` are the values of the `anthropic-beta` header.

        A fast request never silently gets another tier, but for a model whose maker decided so when it took its fast
        mode away. Raises ModelNotFound, InvalidRequest.
        """
        served = self._find(model)
        if service_tier is not None and service_tier not in SERVICE_TIERS:
            raise InvalidRequest(f"service_tier: Input should be {_either(SERVICE_TIERS)}", param="service_tier")
        default = served.offers[served.default_tier]
        if speed is None:
            return default
        if speed not in SPEEDS:
            raise InvalidRequest(f"speed: Input should be {_either(SPEEDS)}", param="speed")
        needed = self.speed_beta or next((offer.beta for offer in served.offers.values() if offer.beta), None)
        if needed is not None and needed not in betas:
            raise InvalidRequest(self.speed_unknown, param="speed")
        tier = self._tier(speed)
        if tier in served.offers:
            return served.offers[tier]
        once = self.everything.models[served.id].offers.get(tier)
        if speed == "standard" or (once is not None and self._over(once) and once.ended == "default"):
            return default
        raise InvalidRequest(self.speed_unsupported.format(model=model), param="speed")

    def speed_reported(self, offer: Offer, speed: str | None) -> str | None:
        """`usage.speed` of an answer: None, as captures have it, of a model that never had another, unless asked."""
        fast = self._tier("fast")
        if offer.tier == fast:
            return "fast"
        return "standard" if speed is not None or fast in self.everything.models[offer.model].offers else None

    def cache_namespace(self, offer: Offer, betas: frozenset[str]) -> str:
        """Prompts of one namespace may find each other in a cache; those of different pools never do."""
        header = "beta" if any(beta.startswith("fast-mode-") for beta in betas) else ""
        return {"value": offer.tier, "header": header, "both": f"{offer.tier}/{header}"}[self.cache_key_speed]

    def anthropic_rules(self, model: str) -> AnthropicRules:
        """Raises ModelNotFound."""
        served = self._find(model)
        family = self.catalog.families[served.family] if served.family is not None else Family()
        return AnthropicRules(family.sampling, family.prefill, family.thinking, served.cacheable, served.max_output)

    def _find(self, model: str) -> ServedModel:
        try:
            return tiers.find(self.catalog, model)
        except ModelNotFound:
            raise ModelNotFound(f"model: {model[:100]}", param="model") from None

    def _retired(self, model: str) -> bool:
        served = self.everything.models.get(self.everything.aliases.get(model, model))
        return served is not None and served.retired is not None and served.retired <= self.date

    def _over(self, offer: Offer) -> bool:
        return offer.until is not None and offer.until <= self.date

    def _tier(self, word: str) -> str:
        """The tier's name; empty if no tier answers to the word."""
        return next((tier.name for tier in self.catalog.tiers.values() if word in tier.words), "")


def names() -> tuple[str, ...]:
    """The shipped profiles, in the order of time."""
    return tuple(Document.read(SHIPPED).root().values)


def load(name: str, catalog: Catalog) -> Profile:
    """The profile of that name, of what `catalog` sells. Raises CatalogError: no such profile, or nothing sold then."""
    root = Document.read(SHIPPED).root()
    known = tuple(root.values)
    if name not in known:
        raise CatalogError(f"there is no profile {name[:100]!r}; known are: {', '.join(known)}")
    table = root.table(name)
    profile = Profile(
        name=name,
        date=table.day("date"),
        catalog=catalog,
        everything=catalog,
        anthropic_versions=table.texts("anthropic_versions"),
        speed_beta=table.text("speed_beta") if "speed_beta" in table else None,
        cache_key_speed=cast(CacheKey, table.one_of("cache_key_speed", get_args(CacheKey), "value")),
        speed_unknown=table.text("speed_unknown", _UNKNOWN),
        speed_unsupported=table.text("speed_unsupported", _UNSUPPORTED),
    )
    table.done()
    return replace(profile, catalog=_cut(catalog, profile.date, date.max if name == known[-1] else profile.date))


def _cut(catalog: Catalog, day: date, horizon: date) -> Catalog:
    """What of the catalog has begun by `horizon` and not ended by `day`, at that day's prices."""
    models = {}
    for served in catalog.models.values():
        if served.released > horizon or (served.retired is not None and served.retired <= day):
            continue
        sold = {tier: offer for tier, offer in served.offers.items() if offer.sold_on(day, horizon)}
        if served.default_tier not in sold:
            raise CatalogError(f"{served.id!r} is not sold at its default tier on {day}")
        models[served.id] = replace(served, offers=MappingProxyType({t: _priced(o, day) for t, o in sold.items()}))
    if not models:
        raise CatalogError(f"no model of the catalog is sold on {day}")
    return replace(
        catalog,
        models=MappingProxyType(models),
        aliases=MappingProxyType({alias: name for alias, name in catalog.aliases.items() if name in models}),
        provenance=MappingProxyType(_provenance(catalog, day)),
    )


def _priced(offer: Offer, day: date) -> Offer:
    until = offer.price_until(day)
    return offer if until is None else replace(offer, price=dict(offer.earlier)[until])


def _provenance(catalog: Catalog, day: date) -> Provenance:
    """Prices of that day stand where the others stood."""
    found = dict(catalog.provenance)
    for served in catalog.models.values():
        for tier, offer in served.offers.items():
            until = offer.price_until(day)
            path = ("models", served.id, "offers", tier)
            for key in ("input", "cached_input", "output") if until is not None else ():
                found[*path, "price", key] = found[*path, "price_until", str(until), key]
    return found


def _either(values: tuple[str, ...]) -> str:
    return " or ".join(map(repr, values))
