"""Loads under which accounts and bands compete, on a small scale: everybody is served, and figures are of that."""

from collections.abc import Iterator

import pytest

from loadtests.bench import stand, tiers
from loadtests.bench.report import Sheet

SHORT = tiers.Scale(seconds=1.2)


@pytest.fixture(scope="module")
def service() -> Iterator[stand.Service]:
    with stand.service(tiers.CATALOG) as service:
        yield service


def figures(sheet: Sheet) -> dict[str, float]:
    return {figure.name: figure.value for figure in sheet.figures}


async def test_an_account_with_ten_times_the_clients_gets_no_more_than_its_weight(service: stand.Service) -> None:
    found = figures(await tiers._accounts(service, SHORT))
    for weights in ("1:1", "1:0.5"):
        got = [found[f"weights {weights}: tokens of {clients} clients"] for clients in (80, 8)]
        assert min(got) > 0
        assert found[f"weights {weights}: Jain's index"] >= 0.9


async def test_every_band_is_served(service: stand.Service) -> None:
    scale = tiers.Scale(seconds=8.0 * service.catalog.pools["narrow"].aging)
    found = figures(await tiers._bands(service, scale))
    assert all(found[f"{tier}, {clients} clients: answers"] > 0 for tier, clients in tiers.CROWD.items())
