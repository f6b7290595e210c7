"""What every test may use: a real server instead of a stand-in for Redis."""

from collections.abc import Iterator

import pytest

from fastmode import embedded


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """One embedded Valkey for the whole run; a test keeps to keys of its own."""
    with embedded.valkey() as url:
        yield url
