"""What every test may use: real servers instead of stand-ins, on ports and sockets of their own, gone in the end."""

import os
import shutil
import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import quick
from fleet import Fleet
from hypothesis import HealthCheck, settings
from pools import HASTY, IMPATIENT, NARROW, READER, STALL_MAX, SWIFT, catalog

from fastmode import embedded
from fastmode.up import Service, prepare

# How fast a machine is, and whether Hypothesis has its tables of Unicode cached, says nothing about what is tested.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

StartService = Callable[..., Service]


@pytest.fixture(scope="session", params=["valkey-server", "redis-server"])
def redis_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The embedded Valkey, then the machine's own Redis, each for the whole run; a test keeps to keys of its own."""
    own = shutil.which("redis-server") if request.param == "redis-server" else None
    if request.param == "redis-server" and own is None:
        pytest.skip("this machine has no redis-server; the embedded Valkey has been tested")
    with embedded.valkey(Path(own) if own else None) as url:
        yield url


@pytest.fixture
def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on."""
    return _free_port()


@pytest.fixture
def bare_environ() -> dict[str, str]:
    """The environment without anything that configures the service, or says how wide a terminal is."""
    return _bare_environ()


@pytest.fixture
def stack() -> Iterator[StartService]:
    """Starts the service as `fastmode up` does: `stack(catalog=path, gateways=2, FASTMODE_GRACE="1")`.

    What it returns is ready: every pool of the catalog has a worker, and `base_url` answers. It has a Valkey of its own
    unless REDIS_URL is among the variables. In the end every process has to leave with exit code 0, but for those
    that the test names in `victims`: `stack(victims=["worker fast"])`. No process may log a traceback.
    """
    with _stacks() as start:
        yield start


@pytest.fixture(scope="module")
def module_stack() -> Iterator[StartService]:
    """As `stack`, for a service that all tests of a module share."""
    with _stacks() as start:
        yield start


@pytest.fixture(scope="session")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a pool for every way to wait, to which nothing happens but clients. For tests about those."""
    pools = catalog(tmp_path_factory.mktemp("steady"), SWIFT, NARROW, HASTY, READER)
    with _stacks() as start:
        yield start(catalog=pools, FASTMODE_STALL_MAX=str(STALL_MAX), FASTMODE_KEEPALIVE_EVERY="0.2")


@pytest.fixture(scope="session")
def quick_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where everything is sold that is sold, and nothing takes long. For tests about what is said."""
    with _stacks() as start:
        yield start(catalog=quick.catalog(tmp_path_factory.mktemp("quick")), **quick.SETTINGS).base_url


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A service that loses patience soon, whose processes tests start, freeze and kill. Each calls `up` first."""
    with Fleet(tmp_path_factory.mktemp("fleet"), _bare_environ(), _free_port(), SWIFT, **IMPATIENT) as started:
        yield started


@contextmanager
def _stacks() -> Iterator[StartService]:
    services: list[Service] = []
    spared: set[str] = set()
    said: list[str] = []
    with ExitStack() as started:

        def start(
            catalog: Path | None = None, gateways: int = 1, victims: Collection[str] = (), **variables: str
        ) -> Service:
            spared.update(victims)
            environ = {**_bare_environ(), "FASTMODE_PORT": str(_free_port()), **variables}
            if catalog is not None:
                environ["FASTMODE_CATALOG"] = str(catalog)
            service = prepare(environ, gateways, on_line=lambda name, line: said.append(f"[{name}] {line}"))
            started.enter_context(service.stack)
            assert service.start()
            services.append(service)
            return service

        yield start
    for service in services:
        left_badly = {name: code for name, code in service.stack.exit_codes.items() if code != 0 and name not in spared}
        assert not left_badly
    assert not any("Traceback" in line for line in said), "\n".join(said)


def _bare_environ() -> dict[str, str]:
    ours = ("REDIS_URL", "COLUMNS")  # the second is what pytest-xdist says
    return {name: text for name, text in os.environ.items() if name not in ours and not name.startswith("FASTMODE_")}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
