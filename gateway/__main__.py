"""Wiring of a gateway process: settings, Redis, relay, server, and the order in which they stop."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import uuid
from collections.abc import Iterator

import uvicorn
import uvloop

from gateway.admission import Admission
from gateway.app import create_app
from gateway.backgrounds import Backgrounds
from gateway.meter import Meter
from gateway.protocol import Protocol, SocketProtocol
from gateway.relay import Relay
from service import memory, metrics, profiles, settings, tiers, tokenizer
from service.book import Book
from service.connection import Client, UnfitRedis, connect, verify
from service.errors import FastmodeError, Unavailable
from service.growth import Growth
from service.keys import Keys
from service.ledger import Ledger
from service.limits import Limits
from service.queue import Queue
from service.replies import Inbox
from service.settings import Settings
from service.stored import Stored

log = logging.getLogger("gateway")

_BLOCK = 5.0  # s a read of the reply stream may wait on purpose
_LAST_WORDS = 1.0  # s for error events to reach their clients when the grace period is over, and for requests to end
_KEEP_ALIVE = 75  # s an idle connection is kept
_PING_EVERY = 20.0  # s; a WebSocket whose client does not answer for as long is gone
_SEND_BUFFER = 128 * 1024  # bytes the kernel may keep for a client that does not read; it would take megabytes


def main() -> None:
    """Run a gateway until SIGTERM or SIGINT. Exits with 1 and one line when it cannot start."""
    try:
        configuration = settings.read(os.environ)
        logging.basicConfig(
            level=configuration.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
        )
        metrics.configure(configuration.metrics_dir)
        uvloop.run(_serve(configuration))
        metrics.farewell()
    except (FastmodeError, OSError) as error:
        sys.exit(f"gateway: {error}")


async def _serve(configuration: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    profile = profiles.load(configuration.profile, tiers.load(configuration.catalog))
    catalog = profile.catalog
    tokenizer.load()
    name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    redis = connect(configuration.redis_url, configuration.redis_timeout)
    blocking = connect(configuration.redis_url, configuration.redis_timeout, blocking=_BLOCK)
    upkeep = connect(configuration.redis_url, configuration.redis_timeout)  # a flood of requests must not starve it
    queues = {pool: Queue(redis, pool) for pool in catalog.pools}
    inbox = Inbox(upkeep, blocking, name, configuration.reply_ttl)
    relay = Relay(configuration, inbox, queues)
    limits = Limits(redis)
    meter = Meter(limits, Growth(upkeep), catalog.plans, configuration.plan)
    admission = Admission(configuration, profile, name, meter)
    stored = Stored(redis, configuration.stored_ttl, configuration.stored_bytes_max)
    backgrounds = Backgrounds(stored)
    keys = Keys(upkeep)
    book = Book(configuration.ledger) if configuration.ledger is not None else None
    ledger = Ledger(upkeep, list(catalog.pools), book, limits, name) if book is not None else None
    server = _Server(
        uvicorn.Config(
            create_app(configuration, catalog, admission, relay, queues, stored, backgrounds, keys, book),
            http=Protocol,
            ws=SocketProtocol,
            ws_max_size=configuration.body_max,
            ws_ping_interval=_PING_EVERY,
            ws_ping_timeout=_PING_EVERY,
            lifespan="off",
            access_log=False,
            log_config=None,
            timeout_keep_alive=_KEEP_ALIVE,
            proxy_headers=False,
            server_header=False,
        )
    )
    listener = _listen(configuration)
    memory.settle()
    async with asyncio.TaskGroup() as tasks:
        verifying = tasks.create_task(_verify(redis, server))
        beside = [
            verifying,
            tasks.create_task(relay.run()),
            tasks.create_task(stored.run()),
            tasks.create_task(backgrounds.run()),
            tasks.create_task(keys.follow()),
            tasks.create_task(meter.run()),
            *([tasks.create_task(ledger.run())] if ledger is not None else []),
            tasks.create_task(_drain(stop, configuration, admission, relay, server)),
        ]
        await relay.first_connected(at_most=configuration.redis_timeout)  # others may serve the port already
        await server.serve(sockets=[listener])
        await backgrounds.ended(at_most=configuration.grace + 2 * _LAST_WORDS)
        await stored.write(at_most=_LAST_WORDS)
        for task in beside:
            task.cancel()
    with contextlib.suppress(Unavailable):
        await inbox.remove()
    if not verifying.cancelled() and (unfit := verifying.result()):
        raise unfit


class _Server(uvicorn.Server):
    """Leaves signals to us: a gateway stops admitting before it stops listening."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(configuration: Settings) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in configuration.host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)  # inherited by connections
    if configuration.reuse_port:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((configuration.host, configuration.port))
    except OSError as error:
        where = f"{configuration.host}:{configuration.port}"
        raise FastmodeError(f"cannot listen on {where} ({error.strerror}); choose another FASTMODE_PORT") from error
    listener.listen(2048)
    listener.setblocking(False)
    return listener


async def _verify(redis: Client, server: uvicorn.Server) -> UnfitRedis | None:
    """As soon as Redis can be asked. One that must not be used ends the process."""
    while True:
        try:
            await verify(redis)
        except Unavailable:
            await asyncio.sleep(1)
        except UnfitRedis as unfit:
            server.should_exit = True
            return unfit
        else:
            return None


async def _drain(
    stop: asyncio.Event, configuration: Settings, admission: Admission, relay: Relay, server: uvicorn.Server
) -> None:
    """Not ready, then not accepting; the streams in flight get their time, and those left an error event.

    Connections of clients that do not read even that are cut: the server would wait for them.
    """
    await stop.wait()
    admission.draining = True
    await asyncio.sleep(configuration.drain_delay)
    server.should_exit = True
    await asyncio.sleep(configuration.grace)
    relay.fail_all(Unavailable("This server is shutting down. Please try again.", reason="draining", retry_after=1))
    await asyncio.sleep(_LAST_WORDS)
    for connection in list(server.server_state.connections):
        connection.transport.abort()
    await asyncio.sleep(_LAST_WORDS)
    server.force_exit = True


if __name__ == "__main__":
    main()
