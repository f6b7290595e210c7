"""What operators and orchestrators ask: alive, ready, metrics."""

import asyncio

from fastapi import APIRouter
from starlette.responses import Response

from gateway.admission import Admission
from gateway.openai import JSON
from gateway.relay import Relay
from service import metrics
from service.errors import Unavailable
from service.queue import Queue
from service.settings import Settings


def routes(settings: Settings, admission: Admission, relay: Relay, queues: dict[str, Queue]) -> APIRouter:
    router = APIRouter()

    @router.get("/livez")
    async def livez() -> Response:
        """The process answers."""
        return JSON({"status": "alive"})

    @router.get("/readyz")
    async def readyz() -> Response:
        """This gateway can serve what it promises: Redis answers, no emulator is behind, and it is not draining."""
        try:
            alive = await asyncio.gather(*(queue.alive() for queue in queues.values()))
        except Unavailable:
            return JSON({"status": "not_ready", "redis": False, "pools": {}, "lateness": {}}, status_code=503)
        late = any(pool.lateness > settings.lateness_max for pool in alive)
        status = "draining" if admission.draining else "not_ready" if late or not relay.connected else "ready"
        report = {
            "status": status,
            "redis": True,
            "pools": {name: pool.workers for name, pool in zip(queues, alive, strict=True)},
            "lateness": {name: pool.lateness for name, pool in zip(queues, alive, strict=True)},
        }
        return JSON(report, status_code=200 if status == "ready" else 503)

    @router.get("/metrics")
    async def exposition() -> Response:
        for name, queue in queues.items():
            try:
                metrics.queue_depth(name, await queue.depth())
            except Unavailable:
                break
        body, content_type = await asyncio.to_thread(metrics.render)
        return Response(body, media_type=content_type)

    return router
