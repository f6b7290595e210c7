"""The service as processes that a test starts, freezes and kills one by one. None outlives the test.

`Fleet` is for tests about what goes wrong; what they share with `fastmode up` is the guard around each process.
"""

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from calls import fetch
from evidence import until
from pools import Pool, catalog

from fastmode import embedded
from fastmode.child import Child, Lair
from fastmode.stack import processes
from service.connection import connect

START, STOP = 30.0, 30.0  # s; seconds are usual


class Fleet:
    """A store, and whatever gateways and workers are started. Leaving it asserts that no process logged a traceback."""

    def __init__(self, directory: Path, environ: Mapping[str, str], port: int, *pools: Pool, **variables: str) -> None:
        self.base_url = f"http://127.0.0.1:{port}"
        self.said: list[str] = []
        self._lair = Lair()
        self._children: list[Child] = []
        metrics = directory / "metrics"
        metrics.mkdir()
        self._environ = {
            **environ,
            "REDIS_URL": embedded.url(self._lair),
            "FASTMODE_CATALOG": str(catalog(directory, *pools)),
            "FASTMODE_METRICS_DIR": str(metrics),
            "FASTMODE_PORT": str(port),
            "FASTMODE_REUSE_PORT": "1",
            **variables,
        }
        self.redis_url = self._environ["REDIS_URL"]
        roles = {role.name: role.command for role in processes([pool.name for pool in pools], 1)}
        self._commands = {**roles, "store": tuple(embedded.command(self._lair))}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.down()
        self._lair.close()
        assert not any("Traceback" in line for line in self.said), "\n".join(self.said)

    def store(self) -> Child:
        """The one that runs, or another, which is empty."""
        living = self._living("store")
        if living:
            return living[0]
        store = self._start("store")
        embedded.await_answer(store, self._lair)
        return store

    def gateway(self, **variables: str) -> Child:
        return self._start("gateway", **variables)

    def worker(self, pool: str, **variables: str) -> Child:
        return self._start(f"worker {pool}", **variables)

    async def up(self, pool: str, *, gateways: int = 1, workers: int = 1) -> tuple[list[Child], list[Child]]:
        """A store, and exactly so many gateways and workers of a pool that are ready: those that live, and others."""
        self.store()
        both = self._exactly(gateways, "gateway"), self._exactly(workers, f"worker {pool}")
        await until(lambda: self._has_heard_of(both[1], pool), "all workers have reported", START)
        await self.ready(**{pool: workers})
        return both

    async def _has_heard_of(self, workers: list[Child], pool: str) -> bool:
        """One that was killed counts for a lease; so numbers alone do not tell."""
        store = connect(self.redis_url, timeout=5)
        names = [str(name).split("-")[-2] for name in await store.zrange(f"fm:{{{pool}}}:workers", 0, -1)]
        await store.aclose()
        return all(_pids(worker) and _pids(worker)[0] in names for worker in workers)

    def _exactly(self, count: int, role: str) -> list[Child]:
        living = self._living(role)
        for surplus in living[count:]:
            kill(surplus)
        return living[:count] + [self._start(role) for _ in range(count - len(living))]

    def _living(self, role: str) -> list[Child]:
        return [child for child in self._children if child.name == role and child.running]

    def down(self) -> None:
        """Every process is killed."""
        for child in self._children:
            kill(child)

    async def ready(self, **workers: int) -> None:
        """Until a gateway says so, with as many workers in each pool."""

        async def is_ready() -> bool:
            status, report = await self.readiness()
            return status == 200 and {pool: report["pools"][pool] for pool in workers} == workers

        await until(is_ready, f"the service is ready with {workers}", START)

    async def readiness(self) -> tuple[int, dict]:  # type: ignore[type-arg] # JSON
        """Status and body of /readyz; status 0 when nobody answers."""
        try:
            status, body = await fetch(self.base_url, "/readyz")
        except (OSError, EOFError):
            return 0, {}
        return status, json.loads(body)

    def _start(self, role: str, **variables: str) -> Child:
        def said(name: str, line: str) -> None:
            self.said.append(f"[{name}] {line}")

        child = Child(role, self._commands[role], {**self._environ, **variables}, self._lair, on_line=said)
        self._children.append(child)
        return child


def pid(child: Child) -> int:
    """Of the process itself, behind its guard."""
    (only,) = _pids(child)
    return int(only)


def _pids(child: Child) -> list[str]:
    """None before the guard has come so far."""
    return Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()


def kill(child: Child) -> None:
    """kill -9."""
    if child.running:
        os.kill(pid(child), signal.SIGKILL)
        assert child.wait(STOP)


def freeze(child: Child) -> None:
    os.kill(pid(child), signal.SIGSTOP)


def thaw(child: Child) -> None:
    os.kill(pid(child), signal.SIGCONT)


async def ended(child: Child) -> int | None:
    """Its exit code, when it has ended by itself."""
    assert await asyncio.to_thread(child.wait, STOP), f"{child.name} does not end"
    return child.code
