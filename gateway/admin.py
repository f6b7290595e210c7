"""What whoever runs the service does with keys: make, list, change, delete. Answers are JSON of no dialect.

Guarded by a key of its own, if there is one; from other machines than this only if the settings allow it, and with that
key alone. Web pages are turned away.
"""

import hmac
import time
from collections.abc import Collection
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from gateway.body import Bodies, parsed
from gateway.dialects import JSON
from service.accounts import Account
from service.errors import InvalidRequest, NotFound, Unauthorized
from service.hosts import loopback
from service.keys import Keys, Record
from service.settings import Settings
from service.tiers import Catalog


def routes(settings: Settings, catalog: Catalog, keys: Keys, bodies: Bodies) -> APIRouter:
    async def allowed(request: Request) -> None:
        check(request, settings)

    router = APIRouter(prefix="/admin", dependencies=[Depends(allowed)], include_in_schema=False)

    async def wanted(request: Request, before: Account) -> Account:
        with bodies.room() as room:
            return _checked(_merged(before, await parsed(await room.read(request), _parse)), catalog)

    @router.post("/keys")
    async def create(request: Request) -> Response:
        """The only answer that has the key itself."""
        key, record = await keys.create(await wanted(request, Account()), time.time())
        return JSON({"key": key, **_shown(record)}, status_code=201)

    @router.get("/keys")
    async def every() -> Response:
        return JSON({"keys": [_shown(record) for record in await keys.list()]})

    @router.patch("/keys/{name}")
    async def change(name: str, request: Request) -> Response:
        before = next((record.account for record in await keys.list() if record.account.id == name), None)
        if before is None:
            raise NotFound(f"There is no key with the id {name[:64]!r}.")
        return JSON(_shown(await keys.change(await wanted(request, before))))

    @router.delete("/keys/{name}")
    async def delete(name: str) -> Response:
        await keys.delete(name)
        return JSON({"id": name, "deleted": True})

    return router


def check(request: Request, settings: Settings) -> None:
    """Raises NotFound, as if there were nothing here, and Unauthorized."""
    host = request.client.host if request.client is not None else ""
    near = loopback(host) and loopback(request.url.hostname or "")
    far = settings.admin_from == "anywhere" and settings.admin_key
    if "origin" in request.headers or not (near or far):
        raise NotFound(f"Unknown request URL: {request.method} {request.url.path}. Please check the URL for typos.")
    said = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    if settings.admin_key and not hmac.compare_digest(said.encode(), settings.admin_key.encode()):
        raise Unauthorized("The admin key is missing or wrong: it is what FASTMODE_ADMIN_KEY says.")


def _parse(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"The body is no JSON object: {error}.", code="invalid_json") from None


def _merged(before: Account, said: dict[str, Any]) -> Account:
    """What is left out stays as it was. Raises InvalidRequest."""
    fields = msgspec.structs.asdict(before)
    unknown = next((name for name in said if name not in fields or name == "id"), None)
    if unknown is not None:
        raise InvalidRequest(f"Unknown parameter: {unknown[:64]!r}.", code="unknown_parameter", param=unknown[:64])
    try:
        return msgspec.convert({**fields, **said}, Account)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{error}.", code="invalid_type") from None


def _checked(account: Account, catalog: Catalog) -> Account:
    """Raises InvalidRequest: there is no such thing, or it makes no sense."""
    for name in account.models:
        _known("models", name, catalog.models)
    for name in account.tiers:
        _known("tiers", name, catalog.tiers)
    if account.plan:
        _known("plan", account.plan, catalog.plans)
    for field in ("highest", "default_tier"):
        if getattr(account, field):
            _known(field, getattr(account, field), catalog.tiers)
    for field in ("requests", "tokens", "parallel", "budget"):
        if (getattr(account, field) or 0) < 0:
            raise InvalidRequest(f"{field}: it must be zero or more.", param=field)
    if not 0.001 <= account.weight <= 1000:
        raise InvalidRequest("weight: it must lie between 0.001 and 1000.", param="weight")
    if len(account.name) > 100:
        raise InvalidRequest("name: it must have 100 characters at most.", param="name")
    return account


def _known(field: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise InvalidRequest(f"{field}: {name[:100]!r} is not among {', '.join(known)}.", param=field)


def _shown(record: Record) -> dict[str, Any]:
    return {**msgspec.structs.asdict(record.account), "created": record.created}
