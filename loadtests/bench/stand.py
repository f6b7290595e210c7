"""What is measured, started on ports of its own: the service with some of its pools, and the floor to compare with."""

import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fastmode.child import KILL_WAIT, Child, Lair
from fastmode.stack import Stack, StackError, processes
from loadtests import processes as kernel
from loadtests.client import Address
from service import tiers
from service.tiers import Catalog, Offer

KNOWN_RATES = Path(__file__).with_name("catalog.toml")  # pools whose streams run at known rates

_GRACE = 5.0  # s
_START_DEADLINE = 10.0  # s


@dataclass(frozen=True, slots=True)
class Service:
    """A running service. `pids` by role, the client that measures included."""

    address: Address
    catalog: Catalog
    pids: Mapping[str, int]

    @property
    def base_url(self) -> str:
        return f"http://{self.address.host}:{self.address.port}"

    def cpu(self) -> dict[str, float]:
        return kernel.cpu(self.pids)


@contextmanager
def service(path: Path | None, pools: Sequence[str] | None = None) -> Iterator[Service]:
    """The service of a catalog with workers for some of its pools, or for all.

    Variables of the environment apply, but for those that say where it listens and what it sells. Raises
    FastmodeError.
    """
    catalog = tiers.load(path)
    served = list(catalog.pools) if pools is None else list(pools)
    address = _free()
    own = {"FASTMODE_HOST": address.host, "FASTMODE_PORT": str(address.port), "FASTMODE_CATALOG": str(path or "")}
    with Stack(processes(served, gateways=1), {**os.environ, **own}, grace=_GRACE, on_line=_pass_on) as stack:
        stack.start()
        if not stack.await_ready(f"http://{address.host}:{address.port}", served):
            raise StackError("asked to stop while starting")
        commands = {name: kernel.child(guard) for name, guard in stack.pids.items()}
        yield Service(address, catalog, {**commands, "client": os.getpid()})


def sold(path: Path | None, model: str, *at: str) -> list[Offer]:
    """A model's offers at these tiers. Raises CatalogError."""
    return [tiers.load(path).models[model].offers[tier] for tier in at]


@contextmanager
def floor() -> Iterator[Service]:
    """A bare server that answers the same bytes at once (loadtests/bench/floor.py). Raises StackError."""
    address = _free()
    command = (sys.executable, "-P", "-m", "loadtests.bench.floor", str(address.port))
    with Lair() as lair:
        server = Child("floor", command, os.environ, lair)
        try:
            _await_listening(server, address)
            yield Service(address, tiers.load(), {"floor": kernel.child(server.pid), "client": os.getpid()})
        finally:
            server.let_go()
            server.wait(KILL_WAIT)


def _pass_on(name: str, line: str) -> None:
    """What a process says while it is measured is part of what is seen."""
    print(f"[{name}] {line}", file=sys.stderr)


def _await_listening(server: Child, address: Address) -> None:
    deadline = time.monotonic() + _START_DEADLINE
    while True:
        try:
            socket.create_connection((address.host, address.port), timeout=1).close()
        except OSError:
            if not server.running or time.monotonic() > deadline:
                raise StackError(f"the floor does not start. {server.last_words()}") from None
            time.sleep(0.02)
        else:
            return


def _free() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Address(*listener.getsockname())
