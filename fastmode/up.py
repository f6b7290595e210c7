"""`fastmode up`: the whole service on this machine, from a free port to a table of what is sold, until told to stop."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rich.text import Text

from fastmode import port
from fastmode.child import nothing
from fastmode.show import console
from fastmode.show.tiers import welcome
from fastmode.stack import Stack, processes
from service import profiles, rules, tiers
from service import settings as settings_
from service.settings import Settings
from service.tiers import Catalog

STOP_MARGIN = 5.0  # seconds beyond the grace period for a process to say goodbye
PARENT_CHECK_EVERY = 0.5


@dataclass(frozen=True, slots=True)
class Service:
    """The service as one environment describes it; its stack is not started yet."""

    settings: Settings
    catalog: Catalog
    stack: Stack
    base_url: str

    def start(self) -> bool:
        """True when it serves; False when it was asked to stop before. Raises StackError, EmbeddedError."""
        self.stack.start()
        return self.stack.await_ready(self.base_url, list(self.catalog.pools))


def prepare(
    environ: Mapping[str, str],
    gateways: int = 1,
    on_line: Callable[[str, str], None] = nothing,
    *,
    together: bool = False,
) -> Service:
    """Everything is checked, nothing is started. `together`: one worker process serves all pools.

    Raises SettingsError, CatalogError, RulesError, PortError.
    """
    shared = {**environ, "FASTMODE_REUSE_PORT": "1"} if gateways > 1 else dict(environ)
    settings = settings_.read(shared)
    catalog = profiles.load(settings.profile, tiers.load(settings.catalog)).catalog
    if settings.rules is not None:
        rules.load(settings.rules, catalog.tiers)
    port.check(settings.host, settings.port)
    grace = settings.drain_delay + settings.grace + STOP_MARGIN
    roles = processes(list(catalog.pools), gateways, together=together)
    stack = Stack(roles, shared, grace=grace, on_line=on_line)
    return Service(settings, catalog, stack, port.reachable(settings.host, settings.port))


def up(environ: Mapping[str, str], gateways: int, follow_parent: bool) -> None:
    """Returns after a stop that was asked for, by SIGINT, SIGTERM or, with `follow_parent`, the end of the parent."""
    out, err = console(), console(stderr=True)
    serves = threading.Event()

    def say(name: str, line: str) -> None:
        """Until all is ready, what a process says is kept for the message about its failure."""
        if serves.is_set():
            err.print(Text(f"[{name}] {line}"))

    service = prepare(environ, gateways, on_line=say)
    with _signals(service.stack.ask_stop), service.stack as stack:
        if follow_parent:
            threading.Thread(target=_follow, args=(os.getppid(), stack.ask_stop), daemon=True).start()
        began = time.monotonic()
        with err.status(f"starting the store, {_counted(gateways, 'gateway')} and a worker for each pool"):
            ready = service.start()
        if ready:
            serves.set()
            out.print(f"ready in {time.monotonic() - began:.1f} s")
            welcome(out, service.catalog, service.base_url, service.settings.keys_wanted)
            stack.keep_running(lambda report: err.print(Text(report)))
        err.print("stopping; once more ends the streams that are still open")
    err.print("stopped")


@contextmanager
def _signals(ask_stop: Callable[[], None]) -> Iterator[None]:
    before = {number: signal.signal(number, lambda *_: ask_stop()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _follow(parent: int, ask_stop: Callable[[], None]) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_EVERY)
    ask_stop()


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' if number > 1 else ''}"
