"""What has been used and what that cost: an account sees its own, whoever runs the service all."""

import asyncio
import re
from datetime import date

from fastapi import APIRouter, Request
from starlette.responses import Response

from gateway import admin
from gateway.dialects import OPENAI, request_id
from gateway.door import account_of
from service.book import BY, Book, as_csv, by_words
from service.errors import InvalidRequest, NotFound
from service.settings import Settings

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def routes(settings: Settings, book: Book | None) -> APIRouter:
    router = APIRouter()

    @router.get("/v1/usage")
    async def own(request: Request) -> Response:
        """`?group_by=model,day` of account, model, tier, day; `?since=` a day; `?format=csv`."""
        return await _answer(request, book, account_of(request).id)

    @router.get("/admin/usage", include_in_schema=False)
    async def every(request: Request) -> Response:
        admin.check(request, settings)
        return await _answer(request, book, request.query_params.get("account"))

    return router


async def _answer(request: Request, book: Book | None, account: str | None) -> Response:
    """Raises NotFound, InvalidRequest, BookError."""
    if book is None:
        raise NotFound("This service keeps no ledger: FASTMODE_LEDGER names no file.")
    query = request.query_params
    by = by_words(query.get("group_by", ",".join(BY)))
    rows = await asyncio.to_thread(book.usage, by, account, _day(query.get("since", "")))
    if query.get("format") == "csv":
        return Response(as_csv(rows, by), media_type="text/csv", headers=OPENAI.headers(request_id()))
    return OPENAI.answer({"object": "list", "data": rows, "total_cost": sum(row["cost"] for row in rows)})


def _day(text: str) -> str:
    try:
        if text and (_DAY.fullmatch(text) is None or not date.fromisoformat(text)):
            raise ValueError
    except ValueError:
        raise InvalidRequest(f"since: {text[:40]!r} must be a day such as 2026-12-01.", param="since") from None
    return text
