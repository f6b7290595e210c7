"""The OpenAI dialect's routes. A completion reads as five verbs: parse, admit, submit, relay, encode."""

import asyncio
import time
import uuid
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from gateway.admission import Admission, Ask, account_of
from gateway.answers import Stream, Whole
from gateway.body import Bodies, parsed
from gateway.exchange import Exchange
from gateway.relay import Relay
from service.errors import RequestTimeout, ServiceError
from service.messages import Usage
from service.queue import Queue
from service.settings import Settings
from service.tiers import Catalog, ServedModel, find
from service.wire import openai_chat, openai_models
from service.wire.openai_errors import envelope


class JSON(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else orjson.dumps(content)


def answer(content: Any, status: int = 200, headers: Mapping[str, str] = MappingProxyType({})) -> JSON:
    """A whole answer of the dialect, but for a completion's."""
    return JSON(content, status_code=status, headers={"x-request-id": request_id(), **headers})


def refuse(error: ServiceError, headers: Mapping[str, str] = MappingProxyType({})) -> JSON:
    """An error as an answer of its own."""
    more = dict(headers)
    if error.reason:
        more["x-fastmode-reason"] = error.reason
    if error.retry_after is not None:
        more["retry-after"] = str(max(1, round(error.retry_after)))
        more["retry-after-ms"] = str(round(error.retry_after * 1000))
    if isinstance(error, RequestTimeout):
        more["connection"] = "close"  # what else comes belongs to the request that was given up
    return answer(envelope(error), error.status, more)


def request_id() -> str:
    """What a client and the operator of this service can both call a request."""
    return f"req_{uuid.uuid4().hex}"


class ChatDialect:
    """One chat completion's answer outside of the stream itself."""

    def __init__(self, head: openai_chat.Head, arrived: float) -> None:
        self._head = head
        self._arrived = arrived

    def headers(self) -> list[tuple[bytes, bytes]]:
        taken = asyncio.get_running_loop().time() - self._arrived
        return [
            (b"x-request-id", request_id().encode()),
            (b"openai-version", b"2020-10-01"),
            (b"openai-processing-ms", str(round(taken * 1000)).encode()),
        ]

    def whole(self, texts: list[bytes], finishes: list[str | None], usage: Usage) -> bytes:
        return openai_chat.completion(self._head, texts, finishes, usage)

    def refusal(self, error: ServiceError) -> Response:
        return refuse(error)


def routes(
    settings: Settings, catalog: Catalog, admission: Admission, relay: Relay, queues: dict[str, Queue]
) -> APIRouter:
    router = APIRouter()
    bodies = Bodies(settings.body_max, settings.bodies_max)

    @router.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> Response:
        arrived = asyncio.get_running_loop().time()
        with bodies.room() as room:
            body = await room.read(request)
            async with bodies.turn(body):
                call, ask = await parsed(body, partial(_read, request))
                ticket = await admission.admit(ask, prefix="chatcmpl-")
            exchange = Exchange(settings, relay, ticket, arrived)
            await exchange.submit(queues[ticket.pool.name])
        head = openai_chat.Head(
            ticket.job.id, int(time.time()), ticket.job.model, ticket.offer.reported_as, ticket.fingerprint
        )
        dialect = ChatDialect(head, arrived)
        if not call.stream:
            return Whole(settings, exchange, dialect)
        return Stream(settings, exchange, dialect, openai_chat.Chunks(head, ticket.job.choices, call.include_usage))

    @router.get("/v1/models")
    async def models() -> Response:
        return answer(openai_models.listing(_model(model) for model in catalog.models.values()))

    @router.get("/v1/models/{name:path}")
    async def model(name: str) -> Response:
        return answer(_model(find(catalog, name)))

    return router


def _read(request: Request, body: bytes) -> tuple[openai_chat.ChatRequest, Ask]:
    call = openai_chat.parse(body)
    return call, _ask(call, request)


def _ask(call: openai_chat.ChatRequest, request: Request) -> Ask:
    return Ask(
        model=call.model,
        service_tier=call.service_tier,
        turns=call.turns(),
        tools=call.tool_text(),
        images=call.images(),
        image_tokens=openai_chat.IMAGE_TOKENS,
        max_tokens=call.output_limit,
        max_tokens_param="max_tokens" if call.max_completion_tokens is None else "max_completion_tokens",
        min_tokens=call.min_tokens or 0,
        ignore_eos=bool(call.ignore_eos),
        stop=call.stops,
        seed=call.seed,
        choices=call.n or 1,
        account=account_of(request.headers.get("authorization"), request.headers.get("x-api-key")),
    )


def _model(model: ServedModel) -> dict[str, Any]:
    return openai_models.model(model.id, model.created, model.owned_by)
