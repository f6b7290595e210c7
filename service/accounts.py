"""Who pays: an account, what it may use, and how much weight it has among others.

A value; knows nothing of keys, or of where accounts are kept.
"""

from typing import Literal

import msgspec

from service.errors import Forbidden
from service.tiers import Offer, not_found

Period = Literal["day", "month", "total"]


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """`id` tells accounts apart and is not a secret; empty: nobody in particular.

    - `plan`: what it may use per minute; empty: as whoever has no key. `requests`, `tokens`: its own limits per minute
      over everything it asks for; `parallel`: requests at once. None: no such limit.
    - `budget`: nano-dollars in a `period`; None: as much as it likes.
    - `models`, `tiers`: all that it may use; empty: any. `highest`: the dearest tier; a request for a dearer one gets
      the model's default where the dialect knows such a thing.
    - `default_tier`: what a request gets that does not say.
    - `weight`: its share of a crowded pool, beside those of others.
    """

    id: str = ""
    name: str = ""
    plan: str = ""
    requests: int | None = None
    tokens: int | None = None
    parallel: int | None = None
    budget: int | None = None
    period: Period = "month"
    models: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    highest: str = ""
    default_tier: str = ""
    weight: float = 1.0
    blocked: bool = False

    @property
    def limited(self) -> bool:
        """It has limits of its own, beside those of its plan."""
        return any(limit is not None for limit in (self.requests, self.tokens, self.parallel, self.budget))

    def check(self, offer: Offer) -> None:
        """Raises ModelNotFound, Forbidden: not for this account."""
        if self.models and offer.model not in self.models:
            raise not_found(offer.model)
        if self.tiers and offer.tier not in self.tiers:
            raise Forbidden(f"This key may not use the {offer.tier} tier.", code="tier_not_allowed")


NOBODY = Account()
