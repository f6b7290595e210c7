"""Chat completions: a request reads as five verbs: parse, admit, submit, relay, encode."""

import asyncio
import time
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from gateway.admission import Ask, account_of
from gateway.answers import Stream, Whole
from gateway.desk import Desk
from gateway.dialects import OPENAI, request_id
from service.errors import ServiceError
from service.messages import Usage
from service.wire import openai_chat
from service.wire.gathered import Answer


class ChatSpeech:
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

    def whole(self, answers: list[Answer], usage: Usage) -> bytes:
        return openai_chat.completion(self._head, answers, usage)

    def refusal(self, error: ServiceError) -> Response:
        return OPENAI.refuse(error)


def routes(desk: Desk) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> Response:
        arrived = asyncio.get_running_loop().time()
        call, exchange = await desk.take(request, partial(_read, request), prefix="chatcmpl-")
        ticket = exchange.ticket
        head = openai_chat.Head(
            ticket.job.id, int(time.time()), ticket.job.model, ticket.offer.reported_as, ticket.fingerprint
        )
        speech = ChatSpeech(head, arrived)
        if not call.stream:
            return Whole(desk.settings, exchange, speech)
        return Stream(desk.settings, exchange, speech, openai_chat.Chunks(head, ticket.job.choices, call.include_usage))

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
