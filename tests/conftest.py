"""What every test may use: a real server instead of a stand-in for Redis."""

import socket
from collections.abc import Iterator

import pytest

from fastmode import embedded


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """One embedded Valkey for the whole run; a test keeps to keys of its own."""
    with embedded.valkey() as url:
        yield url


@pytest.fixture
def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
