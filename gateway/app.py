"""Puts the gateway together: routes, and one place where errors become answers."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import asdict

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway import (
    admin,
    anthropic,
    chat,
    completions,
    control,
    embeddings,
    health,
    models,
    responses,
    responses_socket,
    spending,
)
from gateway.admission import Admission
from gateway.answers import RAW_SEND
from gateway.backgrounds import Backgrounds
from gateway.cors import sharing
from gateway.desk import Desk
from gateway.dialects import OPENAI, request_id, spoken
from gateway.door import Door
from gateway.explained import explained
from gateway.journal import Journal
from gateway.openapi import Described
from gateway.relay import Relay
from gateway.scripted import Director
from service import figures, metrics, price_list
from service.book import Book
from service.errors import Broken, MethodNotAllowed, NotFound, ServiceError
from service.keys import Keys
from service.queue import Queue
from service.settings import Settings
from service.stored import Stored
from service.tiers import Catalog
from service.wire import openai_models

_CLIENT_LEFT = 499  # nobody reads it


def create_app(
    settings: Settings,
    catalog: Catalog,
    admission: Admission,
    relay: Relay,
    queues: dict[str, Queue],
    stored: Stored,
    backgrounds: Backgrounds,
    keys: Keys,
    book: Book | None,
) -> ASGIApp:
    """The ASGI application. The caller runs relay, stored, backgrounds and keys beside it. Raises RulesError."""
    app = Described(admission.profile)
    journal = Journal(settings.journal) if settings.journal else None
    director = Director(settings, catalog.tiers, time.monotonic)
    desk = Desk(settings, admission, relay, queues, director, journal)
    app.include_router(chat.routes(desk))
    app.include_router(completions.routes(desk))
    app.include_router(embeddings.routes(desk, catalog))
    app.include_router(anthropic.routes(desk))
    app.include_router(responses.routes(desk, stored, backgrounds))
    app.include_router(responses_socket.routes(desk, stored))
    app.include_router(models.routes(admission.profile))
    app.include_router(admin.routes(settings, catalog, keys, desk.bodies))
    app.include_router(spending.routes(settings, book))
    app.include_router(health.routes(settings, admission, relay, queues, director))
    if journal is not None:
        app.include_router(control.routes(journal, director, desk.bodies))
    report = openai_models.listing(asdict(row) for row in figures.rows(catalog))
    listed = price_list.litellm(catalog)

    @app.get("/v1/tiers")
    async def tiers() -> Response:
        return OPENAI.answer(report)

    @app.get("/v1/prices")
    async def prices() -> Response:
        return OPENAI.answer(listed)

    @app.get("/v1/tiers/{tier}")
    async def tier(tier: str, request: Request) -> Response:
        answer = await asyncio.to_thread(explained, catalog, tier, request.query_params)  # as long as many tokens take
        return OPENAI.answer(asdict(answer))

    @app.exception_handler(ServiceError)
    async def refused(request: Request, error: ServiceError) -> Response:
        metrics.refused(error)
        return spoken(request.scope).refuse(error)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        if error.status_code == 405 and request.method == "OPTIONS":
            return _methods(request, error.headers or {})
        return spoken(request.scope).refuse(_translate(request, error), error.headers or {})

    @app.exception_handler(ClientDisconnect)
    async def left(_: Request, __: ClientDisconnect) -> Response:
        return Response(status_code=_CLIENT_LEFT)

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> Response:
        words = f"The server had an error ({type(error).__name__}) while processing the request."
        return spoken(request.scope).refuse(Broken(words))

    return sharing(_outermost(Door(app, keys, settings)), settings.cors_origins)


def _outermost(app: ASGIApp) -> ASGIApp:
    """What is alike for every route.

    - Streams write with the server's own `send`: each layer the framework wraps around it costs every token.
    - A path may end with a slash. The framework would redirect, to an address that is wrong behind a proxy with TLS.
    - HEAD is answered wherever GET is (RFC 9110, section 9.1); the server leaves the body out.
    """

    async def outermost(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            scope = {**scope, "method": method, "path": scope["path"].rstrip("/") or "/", RAW_SEND: send}
        await app(scope, receive, send)

    return outermost


def _methods(request: Request, headers: Mapping[str, str]) -> Response:
    """What may be done with a path (RFC 9110, section 9.3.7); `headers` are those of a refusal, which say it."""
    allow = {"allow": ", ".join([*headers.values(), "OPTIONS"])}
    return Response(status_code=204, headers={**spoken(request.scope).headers(request_id()), **allow})


def _translate(request: Request, error: HTTPException) -> ServiceError:
    asked = f"{request.method} {request.url.path}"
    if error.status_code == 405:
        return MethodNotAllowed(f"Not allowed to {asked}. Check the method in the documentation.")
    return NotFound(f"Unknown request URL: {asked}. Please check the URL for typos.")
