"""What is planned: which tiers get which requests, what they promise, and on which pools they run.

Reads the words of the command line. Knows nothing about how it turns out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose

from planning.tally import NO_OBJECTIVE, Objective
from planning.workload import Workload
from service.conditions import Ambient
from service.errors import PlanError
from service.pools import Pool
from service.tiers import Catalog, Offer, ServedModel, find


@dataclass(frozen=True, slots=True)
class Route:
    """An offer, the share of the workload that asks for it, and what its requests must meet."""

    offer: Offer
    share: float
    objective: Objective = NO_OBJECTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Shares either sum to 1, and each request takes one route; or each is 1, and every request takes all of them.

    `ambient`: whether the pools carry the catalog's other people's requests, too. `pools` may differ from the
    catalog's, as what is planned does.
    """

    catalog: Catalog
    routes: tuple[Route, ...]
    workload: Workload
    ambient: bool
    seed: int
    pools: Mapping[str, Pool]

    @property
    def split(self) -> bool:
        return any(route.share < 1 for route in self.routes)

    def with_pool(self, pool: Pool) -> "Scenario":
        return replace(self, pools={**self.pools, pool.name: pool})


def scenario(
    catalog: Catalog,
    routes: tuple[Route, ...],
    workload: Workload,
    *,
    ambient: bool = True,
    seed: int = 0,
) -> Scenario:
    """The pools that the routes need, as the catalog has them, with the workload's prefix blocks."""
    pools = {route.offer.pool: catalog.pools[route.offer.pool] for route in routes}
    pools = {name: _prepared(pool, workload, ambient) for name, pool in pools.items()}
    return Scenario(catalog=catalog, routes=routes, workload=workload, ambient=ambient, seed=seed, pools=pools)


def _prepared(pool: Pool, workload: Workload, ambient: bool) -> Pool:
    cache = pool.prefix_cache
    if cache is not None:
        cache = replace(cache, block=workload.blocks) if workload.blocks else None
    load = pool.ambient if ambient else Ambient()
    return replace(pool, prefix_cache=cache, ambient=load)


def routes(
    catalog: Catalog, model: str | None, tiers: Sequence[str], mix: str | None, objectives: Sequence[str]
) -> tuple[Route, ...]:
    """`mix` shares the requests out, `tiers` get all of them each; without either the model's default tier does.

    Raises PlanError, or ModelNotFound.
    """
    served = _widest(catalog) if model is None else find(catalog, model)
    if tiers and mix:
        raise PlanError("say either --tier or --tier-mix: each tier gets all requests, or they are shared out")
    shares = _shares(mix) if mix else dict.fromkeys(tiers or (served.default_tier,), 1.0)
    for tier in shares:
        if tier not in served.offers:
            raise PlanError(f"{served.id} is not sold at the tier {tier!r}; it is at: {', '.join(served.offers)}")
    promised = dict(_objective(text) for text in objectives)
    for named in promised:
        if named is not None and named not in shares:
            raise PlanError(f"an SLO is for the tier {named!r}, which is not planned; planned: {', '.join(shares)}")
    common = promised.get(None, NO_OBJECTIVE)
    return tuple(Route(served.offers[tier], share, promised.get(tier, common)) for tier, share in shares.items())


def _widest(catalog: Catalog) -> ServedModel:
    """The first of those that most pools serve."""
    return max(catalog.models.values(), key=lambda model: len({offer.pool for offer in model.offers.values()}))


def _shares(mix: str) -> dict[str, float]:
    shares: dict[str, float] = {}
    for part in mix.split(","):
        match = re.fullmatch(r"\s*([\w-]+)=(\d*\.?\d+)\s*", part)
        if match is None or match[1] in shares or not float(match[2]):
            raise PlanError(f"{mix!r} is no mix of tiers; say for example standard=0.8,fast=0.2")
        shares[match[1]] = float(match[2])
    if not isclose(sum(shares.values()), 1, abs_tol=1e-6):
        raise PlanError(f"the shares of {mix!r} sum to {sum(shares.values()):g}; they must sum to 1")
    return shares


def _objective(text: str) -> tuple[str | None, Objective]:
    match = re.fullmatch(r"(?:([\w-]+):)?((?:(?:ttft|tpot|share)=\d*\.?\d+(?:,|$))+)", text)
    values = dict(part.split("=") for part in match[2].split(",") if part) if match else {}
    if match is None or not {"ttft", "tpot"} & values.keys():
        raise PlanError(f"{text!r} is no SLO; say for example ttft=1.0,tpot=0.02 or fast:ttft=0.5,tpot=0.01,share=0.95")
    objective = Objective(**{name: float(value) for name, value in values.items()})
    if not (objective.ttft > 0 and objective.tpot > 0 and 0 < objective.share <= 1):
        raise PlanError(f"{text!r}: seconds are above 0, and the share is above 0 and at most 1")
    return match[1], objective
