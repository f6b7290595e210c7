"""Whether an address can be listened on, asked before anything is started, and said in words a person can act on."""

import errno
import socket

from service.errors import FastmodeError


class PortError(FastmodeError):
    """The address cannot be listened on; the message says why and what to do."""


def check(host: str, port: int) -> None:
    """Raises PortError. The address is free again when this returns."""
    if port == 0:
        raise PortError("port 0 leaves the choice to the system, and nobody would know it: name one with --port")
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise PortError(f"host {host!r} cannot be resolved ({error.strerror}); choose another with --host") from error
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # what a finished server leaves behind is no obstacle
        try:
            probe.bind(address)
            probe.listen(1)
        except OSError as error:
            raise PortError(_explain(host, port, error)) from error


def reachable(host: str, port: int) -> str:
    """The URL at which this machine reaches a server that listens on host and port."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104  not bound here
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def _explain(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} is in use on {host}: free it (`lsof -i :{port}` names who holds it), or choose another"
            f" with --port {port + 1} (make up PORT={port + 1})"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} is not for ordinary users ({error.strerror}): choose one above 1023 with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine: choose another with --host, for example 127.0.0.1"
    return f"cannot listen on {host} port {port}: {error.strerror}"
