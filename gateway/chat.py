"""Chat completions: a request reads as five verbs: parse, admit, submit, relay, encode."""

import asyncio
import time
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from gateway.admission import Ask, Ticket
from gateway.answers import Stream, Whole
from gateway.desk import Desk
from gateway.door import account_of
from gateway.openai_speech import OpenAISpeech
from service.messages import Usage
from service.wire import openai_chat, openai_embeddings
from service.wire.gathered import Answer
from service.wire.openai_chat_answer import Chunks, Head, Manner, completion
from service.wire.openai_continuous import ContinuousChunks


class ChatSpeech(OpenAISpeech):
    """One chat completion's answer outside of the stream itself."""

    def __init__(self, head: Head, manner: Manner, arrived: float) -> None:
        super().__init__(arrived)
        self._head = head
        self._manner = manner

    def whole(self, answers: list[Answer], usage: Usage) -> bytes:
        return completion(self._head, answers, usage, self._manner)


def routes(desk: Desk) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> Response:
        arrived = asyncio.get_running_loop().time()
        read = partial(_read, request, desk.settings.strict_fields)
        call, exchange = await desk.take(request, read, prefix="chatcmpl-")
        head, manner = head_of(exchange.ticket, call.model), _manner(call)
        speech = ChatSpeech(head, manner, arrived)
        if not call.stream:
            return Whole(desk.settings, exchange, speech)
        encoder = ContinuousChunks if call.usage_in_every_chunk else Chunks
        return Stream(desk.settings, exchange, speech, encoder(head, exchange.ticket.job.choices, manner))

    return router


def head_of(ticket: Ticket, model: str) -> Head:
    """What every object of the answer says about itself; `model` is the name by which the model was asked for."""
    return Head(ticket.job.id, int(time.time()), model, ticket.offer.reported_as, ticket.fingerprint)


def _read(request: Request, strict: bool, body: bytes) -> tuple[openai_chat.ChatRequest, Ask]:
    call = openai_chat.parse(body, strict)
    openai_embeddings.refuse_sampling(call.model)
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
        verbosity=call.verboseness,
        stop=call.stops,
        seed=call.seed,
        choices=call.n or 1,
        account=account_of(request),
        caching=call.caching,
        wish=call.wish(),
    )


def _manner(call: openai_chat.ChatRequest) -> Manner:
    return Manner(call.include_usage, call.include_obfuscation, call.custom_tools, call.functions is not None)
