"""What operators and orchestrators ask: alive, ready, metrics."""

import asyncio
from contextlib import suppress

from fastapi import APIRouter
from starlette.responses import Response

from gateway.admission import Admission
from gateway.dialects import JSON
from gateway.relay import Relay
from gateway.scripted import Director
from service import metrics
from service.errors import Unavailable
from service.queue import Alive, Queue
from service.settings import Settings


def routes(
    settings: Settings, admission: Admission, relay: Relay, queues: dict[str, Queue], director: Director
) -> APIRouter:
    router = APIRouter()

    @router.get("/livez")
    async def livez() -> Response:
        """The process answers."""
        return JSON({"status": "alive"})

    @router.get("/readyz")
    async def readyz() -> Response:
        """This gateway can serve what it promises: Redis answers, no emulator is behind, and it is not draining."""
        director.look()
        alive = await _alive(relay, queues)
        late = any(pool.lateness > settings.lateness_max for pool in alive.values())
        status = "draining" if admission.draining else "not_ready" if late or not alive else "ready"
        report = {
            "status": status,
            "redis": bool(alive),
            "pools": {name: pool.workers for name, pool in alive.items()},
            "lateness": {name: pool.lateness for name, pool in alive.items()},
        }
        if settings.rules is not None:
            report["rules"] = director.trouble or "ok"
        return JSON(report, status_code=200 if status == "ready" else 503)

    @router.get("/metrics")
    async def exposition() -> Response:
        if relay.connected:
            await asyncio.gather(*(_show_depth(name, queue) for name, queue in queues.items()))
        body, content_type = await asyncio.to_thread(metrics.render)
        return Response(body, media_type=content_type)

    return router


async def _alive(relay: Relay, queues: dict[str, Queue]) -> dict[str, Alive]:
    """What is known of each pool of the catalog; nothing, and at once, while Redis is away."""
    if not relay.connected:
        return {}
    try:
        return dict(zip(queues, await asyncio.gather(*(queue.alive() for queue in queues.values())), strict=True))
    except Unavailable:
        return {}


async def _show_depth(pool: str, queue: Queue) -> None:
    with suppress(Unavailable):
        metrics.queue_depth(pool, await queue.depth())
