"""The processes of one machine as one thing: started in order, waited for, kept running, stopped in order.

It knows the roles and their order, not what a role does; `processes()` is the one place that says what the service
consists of.

- Start: the store, then everything else at once. A process that ends before the stack is ready ends the start: it is a
  mistake in the configuration, and trying again would only hide the message.
- Run: a process that ends is reported and started again after 0.5 s, doubled with every further failure up to 30 s.
  The other tiers serve on meanwhile; failures are forgotten after a minute of life.
- Stop: gateways first, because their streams need the workers; then the workers; the store last. Each stage gets
  SIGTERM and `grace` seconds, then the guard's two seconds, then SIGKILL.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from itertools import chain
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

import httpx

from fastmode import embedded
from fastmode.child import KILL_WAIT, Child, Lair, nothing
from service.errors import FastmodeError

READY_DEADLINE = 60.0  # seconds; about one is usual
POLL_EVERY = 0.05
POLL_TIMEOUT = 2.0
BACKOFF_FIRST, BACKOFF_MAX = 0.5, 30.0
FORGIVEN_AFTER = 60.0
SAME_WISH = 1.0  # seconds within which two requests to stop are one


class StackError(FastmodeError):
    """The stack cannot be had; the message says why and what to do."""


class Stage(IntEnum):
    """Who stops before whom."""

    GATEWAY = 0
    WORKER = 1
    STORE = 2


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    command: tuple[str, ...]
    stage: Stage


class Asked(Enum):
    STOP = "stop"


def processes(pools: Sequence[str], gateways: int, *, together: bool = False) -> list[Role]:
    """What the service consists of beside its store: a worker for each pool, or one for all of them `together`.

    `-P`: a directory that is called gateway and lies where a user happens to be is not ours.
    """
    python = (sys.executable, "-P", "-m")
    names = ["gateway"] if gateways == 1 else [f"gateway {number + 1}" for number in range(gateways)]
    workers = [("workers", pools)] if together else [(f"worker {pool}", [pool]) for pool in pools]
    return [
        *(Role(name, (*python, "gateway"), Stage.GATEWAY) for name in names),
        *(
            Role(name, (*python, "workers", *chain.from_iterable(("--pool", pool) for pool in served)), Stage.WORKER)
            for name, served in workers
        ),
    ]


def backoff(failures: int) -> float:
    """Seconds to wait before the start that follows the n-th failure in a row, n >= 1."""
    doublings = min(failures - 1, 16)  # far beyond the bound, far below what a float holds
    return min(BACKOFF_FIRST * 2.0**doublings, BACKOFF_MAX)


class Stack:
    """Use as a context: on leaving it, however it is left, no process and no directory remains.

    `environ` is what the processes see; FASTMODE_METRICS_DIR, FASTMODE_LEDGER and REDIS_URL are added where it does not
    name them. `on_line(name, line)` receives what they say, from other threads.
    """

    def __init__(
        self,
        roles: Sequence[Role],
        environ: Mapping[str, str],
        *,
        grace: float,
        on_line: Callable[[str, str], None] = nothing,
    ) -> None:
        self.exit_codes: dict[str, int | None] = {}
        self._roles = list(roles)
        self._lair: Lair
        self._environ = dict(environ)
        self._grace = grace
        self._on_line = on_line
        self._events: SimpleQueue[Child | Asked] = SimpleQueue()
        self._children: dict[str, Child] = {}
        self._born: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._due: dict[str, float] = {}  # when an ended role is started again

    def __enter__(self) -> Self:
        self._lair = Lair()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def redis_url(self) -> str:
        return self._environ["REDIS_URL"]

    @property
    def pids(self) -> dict[str, int]:
        """The guards' process ids by role name."""
        return {name: child.pid for name, child in self._children.items()}

    def start(self) -> None:
        """Every process is started. Raises EmbeddedError."""
        if not self._environ.get("REDIS_URL"):
            store = Role(embedded.NAME, tuple(embedded.command(self._lair)), Stage.STORE)
            self._roles.append(store)
            embedded.await_answer(self._launch(store), self._lair)
            self._environ["REDIS_URL"] = embedded.url(self._lair)
        if not self._environ.get("FASTMODE_METRICS_DIR"):
            metrics = self._lair.path / "metrics"
            metrics.mkdir()
            self._environ["FASTMODE_METRICS_DIR"] = str(metrics)
        if not self._environ.get("FASTMODE_LEDGER"):
            self._environ["FASTMODE_LEDGER"] = str(self._lair.path / "ledger.sqlite")
        for role in self._roles:
            if role.stage is not Stage.STORE:
                self._launch(role)

    def await_ready(self, base_url: str, pools: Sequence[str], seconds: float = READY_DEADLINE) -> bool:
        """True when /readyz says 200 and every pool has a worker; False when asked to stop before that.

        Raises StackError when a process ends or the time is over.
        """
        deadline = time.monotonic() + seconds
        with httpx.Client(base_url=base_url, timeout=POLL_TIMEOUT, trust_env=False) as client:
            while missing := _missing(client, pools):
                event = self._next(POLL_EVERY)
                if event is Asked.STOP:
                    return False
                if isinstance(event, Child):
                    raise StackError(f"{event.name} does not start. {event.last_words()}")
                if time.monotonic() > deadline:
                    raise StackError(f"not ready after {seconds:.0f} s: {missing}")
        return True

    def keep_running(self, report: Callable[[str], None]) -> None:
        """Returns when asked to stop. Until then what ends is reported and started again."""
        while True:
            event = self._next(self._until_due())
            if event is Asked.STOP:
                return
            if isinstance(event, Child):
                wait = self._schedule(event.name)
                report(f"{event.name} is gone; it is started again in {wait:g} s. {event.last_words()}")
            self._launch_due()

    def ask_stop(self) -> None:
        """Callable from any thread and from a signal handler. Asked again a second later: waits no longer.

        Not at once, because one wish may come twice: to a process group and through a parent that passes it on.
        """
        self._events.put(Asked.STOP)

    def stop(self) -> None:
        """Every process is gone, and so is the directory; `exit_codes` says how they went."""
        patient, since = True, time.monotonic()
        for stage in Stage:
            children = [
                self._children[role.name] for role in self._roles if role.stage is stage and role.name in self._children
            ]
            for child in children:
                child.terminate()
            patient = patient and self._await_exits(children, since)
            for child in children:
                child.let_go()
            for child in children:
                child.wait(KILL_WAIT)
                self.exit_codes[child.name] = child.code
        self._children.clear()
        self._lair.close()

    def _launch(self, role: Role) -> Child:
        child = Child(
            role.name,
            role.command,
            self._environ,
            self._lair,
            on_exit=self._events.put,
            # the store greets every start with advice for servers that keep data on disk
            on_line=nothing if role.stage is Stage.STORE else self._on_line,
        )
        self._children[role.name] = child
        self._born[role.name] = time.monotonic()
        return child

    def _next(self, seconds: float | None) -> Child | Asked | None:
        try:
            return self._events.get(timeout=seconds)
        except Empty:
            return None

    def _await_exits(self, children: Sequence[Child], since: float) -> bool:
        """False when somebody has lost patience; true when all are gone or the grace period is over."""
        deadline = time.monotonic() + self._grace
        while any(child.running for child in children) and (left := deadline - time.monotonic()) > 0:
            if self._next(left) is Asked.STOP and time.monotonic() - since > SAME_WISH:
                return False
        return True

    def _schedule(self, name: str) -> float:
        now = time.monotonic()
        lived = now - self._born[name]
        self._failures[name] = 1 if lived > FORGIVEN_AFTER else self._failures.get(name, 0) + 1
        wait = backoff(self._failures[name])
        self._due[name] = now + wait
        return wait

    def _until_due(self) -> float | None:
        return max(0.0, min(self._due.values()) - time.monotonic()) if self._due else None

    def _launch_due(self) -> None:
        now = time.monotonic()
        for role in self._roles:
            if self._due.get(role.name, now + 1) <= now:
                del self._due[role.name]
                self._launch(role)


def _missing(client: httpx.Client, pools: Sequence[str]) -> str:
    """What the stack still waits for; empty when it is ready."""
    try:
        response = client.get("/readyz", headers={"connection": "close"})
        body: Any = response.json()
    except (httpx.HTTPError, ValueError) as error:
        return f"the gateway does not answer ({type(error).__name__})"
    live: Mapping[str, int] = body.get("pools", {})
    empty = [pool for pool in pools if live.get(pool, 0) < 1]
    if empty:
        return f"no worker of pool {', '.join(empty)} has reported"
    return (
        ""
        if response.status_code == httpx.codes.OK
        else f"the gateway says {body.get('status')}, redis: {body.get('redis')}"
    )
