"""Wiring of a worker process: settings, Redis, the pool's backend, the runner."""

import argparse
import asyncio
import logging
import os
import signal
import sys
import time

import uvloop

from service import memory, metrics, profiles, settings, tiers
from service.connection import Client, connect, verify
from service.errors import CatalogError, FastmodeError, Unavailable
from service.queue import Queue
from service.settings import Settings
from workers import content
from workers.backends.emulated import Emulated
from workers.runner import BLOCK, Runner


def main(arguments: list[str] | None = None) -> None:
    """Run a worker until SIGTERM or SIGINT. Exits with 1 and one line when it cannot start."""
    parser = argparse.ArgumentParser(prog="workers", description="Serve the jobs of one pool.")
    parser.add_argument("--pool", required=True, help="name of a pool of the catalog")
    serve(parser.parse_args(arguments).pool)


def serve(pool: str) -> None:
    try:
        configuration = settings.read(os.environ)
        logging.basicConfig(
            level=configuration.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
        )
        metrics.configure(configuration.metrics_dir)
        uvloop.run(_serve(configuration, pool))
    except (FastmodeError, OSError) as error:
        sys.exit(f"worker {pool}: {error}")


async def _serve(configuration: Settings, name: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    catalog = profiles.load(configuration.profile, tiers.load(configuration.catalog)).catalog
    if name not in catalog.pools:
        raise CatalogError(f"there is no pool {name!r}; the catalog has: {', '.join(catalog.pools)}")
    content.load()
    commands = connect(configuration.redis_url, configuration.redis_timeout)
    bell, words = (connect(configuration.redis_url, configuration.redis_timeout, blocking=BLOCK) for _ in range(2))
    if configuration.metrics_port:
        metrics.serve(configuration.metrics_port, configuration.host)
    memory.settle()
    await _verified(commands, stop)
    counted = metrics.pool_metrics(name)
    pool = catalog.pools[name]
    bands = {offer.band for model in catalog.models.values() for offer in model.offers.values() if offer.pool == name}
    backend = Emulated(pool, time.monotonic, configuration.flush_every, counted, day=time.time())
    queue = Queue(commands, name)
    runner = Runner(configuration, queue, backend, counted, commands, bell, words, aging=pool.aging, bands=bands)
    await runner.run(stop)
    metrics.farewell()


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
