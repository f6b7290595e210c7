"""Which offer a request gets: by its dialect's words for a tier, by what its account may have, and by what has room.

- OpenAI's dialect knows projects with a default tier, and requests for more than a project may have get the model's
  default one: the answer says so, and that is what is charged.
- Anthropic's never silently serves another speed: there the same is a refusal.
"""

from dataclasses import replace

from service.accounts import Account
from service.errors import Contended, InvalidRequest, RateLimited, ServiceError, Unavailable
from service.overflow import QUEUE
from service.profiles import Profile
from service.tiers import Offer, ServedModel, find

_AS_THE_PROJECT = (None, "auto")
_NOT_ENABLED = "Fast mode is not enabled for your organization. An organization admin must enable this feature."


def openai(profile: Profile, account: Account, model: str, service_tier: str | None) -> Offer:
    """Raises ModelNotFound, TierNotOffered, Forbidden, or InvalidRequest for a word that no tier answers to."""
    if service_tier in _AS_THE_PROJECT and account.default_tier:
        served = find(profile.catalog, model)
        offer = served.offers.get(account.default_tier, served.offers[served.default_tier])
    else:
        offer = profile.resolve_openai(model, service_tier)
    if _too_dear(profile, account, offer):
        served = find(profile.catalog, model)
        offer = served.offers[served.default_tier]
    account.check(offer)
    return offer


def anthropic(
    profile: Profile, account: Account, model: str, speed: str | None, service_tier: str | None, betas: frozenset[str]
) -> Offer:
    """Raises ModelNotFound, InvalidRequest, Forbidden."""
    offer = profile.resolve_anthropic(model, speed, service_tier, betas)
    if _too_dear(profile, account, offer):
        raise InvalidRequest(_NOT_ENABLED)
    account.check(offer)
    return offer


def regional(served: ServedModel, offer: Offer, region: str) -> Offer:
    """The offer in one region alone. Raises InvalidRequest for a model that is not sold so."""
    if not region:
        return offer
    if region not in served.regions:
        words = f"'{served.id}' does not support the `inference_geo` parameter."
        raise InvalidRequest(f"{words} This feature is only available on supported models.", param="inference_geo")
    times = served.regions[region]
    return replace(offer, price=offer.price.times(times, times))


def others(profile: Profile, offer: Offer) -> tuple[Offer, ...]:
    """What else a request may get if there is no room for it at its own."""
    served = profile.catalog.models[offer.model]
    default = served.offers[served.default_tier]
    if offer.overflow.policy == "downgrade" and default.tier != offer.tier:
        return (default,)
    if offer.overflow.policy == "spill":
        return (replace(offer, pool=offer.overflow.pool, overflow=QUEUE),)
    return ()


def no_room(offer: Offer, dialect: str, refusal: ServiceError, growing: bool) -> ServiceError:
    """What a request is told for which there is no room anywhere: of a tier that refuses, in its dialect's words.

    `growing`: there might have been, had its account's use not grown so fast.
    """
    if offer.overflow.policy != "reject":
        return refusal
    if dialect == "anthropic" and growing:
        words = "Your use of this speed grows faster than its limit on acceleration allows. Please try again later."
        return RateLimited(words, code="ramp_limit_exceeded", reason="ramp", retry_after=refusal.retry_after)
    if dialect == "anthropic":
        return Unavailable("Overloaded", reason=refusal.reason, retry_after=refusal.retry_after)
    words = "Resource Unavailable: there is no capacity for this tier at the moment. You will not be charged."
    error = Contended(words, code="resource_unavailable", reason=refusal.reason)
    error.type, error.should_retry = "resource_unavailable", False
    return error


def _too_dear(profile: Profile, account: Account, offer: Offer) -> bool:
    """Dearer than the account's highest tier is, or where the model is not sold at that, than its default one."""
    if not account.highest:
        return False
    served = profile.catalog.models[offer.model]
    highest = served.offers.get(account.highest, served.offers[served.default_tier])
    return offer.price.output > highest.price.output
