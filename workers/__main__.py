"""Wiring of a worker process: settings, Redis, and for each of its pools the backend and the runner.

One process for several pools starts sooner and holds less memory than one for each; they then share a core.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence

import uvloop

from service import memory, metrics, profiles, settings, tiers
from service.connection import Client, connect, verify
from service.errors import CatalogError, FastmodeError, Unavailable
from service.queue import Queue
from service.settings import Settings
from service.tiers import Catalog
from workers import content
from workers.backends import Backend
from workers.backends.emulated import Emulated
from workers.intake import Intake
from workers.pacing import Paced
from workers.runner import BLOCK, Runner


def main(arguments: list[str] | None = None) -> None:
    """Run a worker until SIGTERM or SIGINT. Exits with 1 and one line when it cannot start."""
    parser = argparse.ArgumentParser(prog="workers", description="Serve the jobs of pools.")
    parser.add_argument("--pool", required=True, action="append", help="name of a pool of the catalog; maybe several")
    serve(parser.parse_args(arguments).pool)


def serve(pools: Sequence[str]) -> None:
    try:
        configuration = settings.read(os.environ)
        logging.basicConfig(
            level=configuration.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
        )
        metrics.configure(configuration.metrics_dir)
        uvloop.run(_serve(configuration, pools))
    except (FastmodeError, OSError) as error:
        sys.exit(f"worker {', '.join(pools)}: {error}")


async def _serve(configuration: Settings, names: Sequence[str]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    catalog = profiles.load(configuration.profile, tiers.load(configuration.catalog)).catalog
    if unknown := [name for name in names if name not in catalog.pools]:
        raise CatalogError(f"there is no pool {unknown[0]!r}; the catalog has: {', '.join(catalog.pools)}")
    content.load()
    commands = connect(configuration.redis_url, configuration.redis_timeout)
    if configuration.metrics_port:
        metrics.serve(configuration.metrics_port, configuration.host)
    memory.settle()
    await _verified(commands, stop)
    async with asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(_runner(configuration, catalog, name, commands).run(stop))
    metrics.farewell()


def _runner(configuration: Settings, catalog: Catalog, name: str, commands: Client) -> Runner:
    bell, words = (connect(configuration.redis_url, configuration.redis_timeout, blocking=BLOCK) for _ in range(2))
    counted = metrics.pool_metrics(name)
    pool = catalog.pools[name]
    offers = [offer for model in catalog.models.values() for offer in model.offers.values()]
    backend: Backend = Emulated(pool, time.monotonic, configuration.flush_every, counted, day=time.time())
    if any(offer.rate for offer in offers):
        backend = Paced(backend, time.monotonic)
    if any(offer.intake for offer in offers):
        backend = Intake(backend, time.monotonic)
    bands = {offer.band for offer in offers if offer.pool == name}
    queue = Queue(commands, name)
    return Runner(configuration, queue, backend, counted, commands, bell, words, aging=pool.aging, bands=bands)


async def _verified(redis: Client, stop: asyncio.Event) -> None:
    """Wait for Redis, and refuse one that evicts keys."""
    while not stop.is_set():
        try:
            await verify(redis)
        except Unavailable:
            await asyncio.sleep(0.5)
        else:
            return


if __name__ == "__main__":
    main()
