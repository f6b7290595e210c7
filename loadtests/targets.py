"""An endpoint by its URL, the prices it is known to have, and a first request that says whether it will do."""

from dataclasses import replace
from urllib.parse import urlsplit

from loadtests.client import Address
from loadtests.dialects import DIALECTS
from loadtests.drive import Driver, Target
from loadtests.records import Record
from loadtests.scenario import Open, Scenario, Talk
from planning.workload import lengths
from service import pricing
from service.errors import ModelNotFound, ScenarioError
from service.messages import Usage
from service.tiers import Catalog, Offer, ServedModel, find

_PROBE = 20.0  # s


def target(base_url: str, scenario: Scenario, key: str | None) -> Target:
    """Raises ScenarioError."""
    url = urlsplit(base_url)
    try:
        port = url.port
    except ValueError:
        raise ScenarioError(f"{base_url!r} is no URL: its port is no number") from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ScenarioError(f"{base_url!r} is no URL of an API; one looks like http://127.0.0.1:8000/v1")
    tls = url.scheme == "https"
    return Target(
        address=Address(url.hostname, port or (443 if tls else 80), tls),
        path=url.path.rstrip("/") or "/v1",
        dialect=DIALECTS[scenario.dialect],
        model=scenario.model,
        key=key,
    )


async def probe(scenario: Scenario, where: Target) -> Target:
    """Ask each tier for two tokens; returns what the endpoint understands. Raises ScenarioError: it will not do."""
    for tier in scenario.mix:
        record = await _once(scenario, where, tier)
        if not record.ok and where.exact and record.status == 400:  # it may not know what only engines know
            plain = replace(where, exact=False)
            record, where = await _once(scenario, plain, tier), plain
        if record.outcome in ("failed", "unfinished"):
            why = f"{record.error or 'no answer'}" + (f" (status {record.status})" if record.status else "")
            raise ScenarioError(f"{scenario.model!r} at the tier {tier!r} does not answer a first request: {why}")
    return where


async def _once(scenario: Scenario, where: Target, tier: str) -> Record:
    two = lengths("2")
    once = replace(
        scenario,
        seconds=_PROBE,
        load=Open(rate=1000.0, to=1000.0, gaps="constant"),
        work=Talk(input=lengths("8"), output=two, turns=lengths("1")),
        mix={tier: 1.0},
        most=1,
    )
    try:
        run = await Driver(once, replace(where, patience=0.0)).drive()
    except OSError as error:
        host = f"{where.address.host}:{where.address.port}"
        raise ScenarioError(f"{host} cannot be reached ({error.strerror or error}); is the service running?") from None
    return run.records[0]


class Prices:
    """What answers cost at the list prices of a catalog; nothing is known of a model that is not in it."""

    def __init__(self, catalog: Catalog, model: str) -> None:
        try:
            self._served: ServedModel | None = find(catalog, model)
        except ModelNotFound:
            self._served = None

    def offer(self, tier: str, served: str) -> Offer | None:
        """What an answer was sold as that was asked for at `tier`, and says that `served` is what it got."""
        if self._served is None:
            return None
        offers = self._served.offers
        asked = offers.get(tier, offers[self._served.default_tier])
        if not served or asked.reported_as == served or (served == "standard" and asked.reported_as == "default"):
            return asked
        return next((offer for offer in offers.values() if offer.reported_as == served), offers.get(served, asked))

    def cost(self, offer: Offer, usage: Usage) -> int:
        """Nano-dollars."""
        return pricing.cost(offer.price, usage)
