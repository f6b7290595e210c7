"""What a test asks of the service that it has started: what came, and what is to be said. For the same machine alone.

There are no keys here, so whoever is not on this machine, or is a web page, is turned away.
"""

import asyncio
from typing import Any

import orjson
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from gateway.body import Bodies, parsed
from gateway.dialects import JSON
from gateway.journal import Journal
from gateway.scripted import Director
from service.errors import InvalidRequest, NotFound, RulesError
from service.hosts import loopback

_AT_ONCE = 1000  # notes of one answer


def routes(journal: Journal, director: Director, bodies: Bodies) -> APIRouter:
    router = APIRouter(prefix="/fastmode", dependencies=[Depends(_local)], include_in_schema=False)

    @router.get("/journal")
    async def read(request: Request) -> Response:
        """Notes in order; `?since=` is the number of the last one known, `?limit=` how many to show at most."""
        since, limit = _whole(request, "since", 0), _whole(request, "limit", _AT_ONCE)
        notes = await asyncio.to_thread(journal.since, since, min(limit, _AT_ONCE))
        return JSON({"notes": notes, "last": notes[-1]["number"] if notes else since})

    @router.delete("/journal")
    async def clear() -> Response:
        journal.clear()
        return JSON({"notes": []})

    @router.put("/rules")
    async def put(request: Request) -> Response:
        """Rules as a file of them has them, as JSON, in the place of those in use until the file changes."""
        with bodies.room() as room:
            values = await parsed(await room.read(request), _table)
            try:
                return JSON({"rules": director.replace(values)})
            except RulesError as error:
                raise InvalidRequest(str(error), code="invalid_rules") from None

    @router.delete("/rules")
    async def forget() -> Response:
        return JSON({"rules": director.replace({})})

    return router


async def _local(request: Request) -> None:
    """Raises NotFound: there is nothing here for others, nor for pages that a browser here has from elsewhere."""
    host = request.client.host if request.client is not None else ""
    if not loopback(host) or not loopback(request.url.hostname or "") or "origin" in request.headers:
        raise NotFound(f"Unknown request URL: {request.method} {request.url.path}. Please check the URL for typos.")


def _whole(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isdecimal() or len(text) > 18:
        raise InvalidRequest(f"Invalid '{name}': expected a whole number, but got {text[:64]!r} instead.", param=name)
    return int(text)


def _table(body: bytes) -> dict[str, Any]:
    try:
        values = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The body is no JSON: {error}.", code="invalid_json") from None
    if not isinstance(values, dict):
        raise InvalidRequest("The body must be a JSON object.", code="invalid_type")
    return values
