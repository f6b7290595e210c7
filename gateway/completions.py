"""Legacy completions: as gateway.chat, for prompts instead of conversations."""

import asyncio
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from gateway.admission import Ask
from gateway.answers import Stream, Whole
from gateway.chat import head_of
from gateway.desk import Desk
from gateway.door import account_of
from gateway.openai_speech import OpenAISpeech
from service import tokenizer
from service.messages import Usage
from service.wire import openai_completions, openai_embeddings
from service.wire.gathered import Answer
from service.wire.openai_chat_answer import Head
from service.wire.openai_completions import CompletionRequest, Echo, Events, completion


class CompletionSpeech(OpenAISpeech):
    """One completion's answer outside of the stream itself."""

    def __init__(self, head: Head, echo: Echo, arrived: float) -> None:
        super().__init__(arrived)
        self._head = head
        self._echo = echo

    def whole(self, answers: list[Answer], usage: Usage) -> bytes:
        return completion(self._head, answers, usage, self._echo)


def routes(desk: Desk) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/completions")
    async def completions(request: Request) -> Response:
        arrived = asyncio.get_running_loop().time()
        read = partial(_read, request, desk.settings.strict_fields)
        (call, echo), exchange = await desk.take(request, read, prefix="cmpl-")
        head = head_of(exchange.ticket, call.model)
        speech = CompletionSpeech(head, echo, arrived)
        if not call.stream:
            return Whole(desk.settings, exchange, speech)
        include_usage = bool(call.stream_options and call.stream_options.include_usage)
        events = Events(head, exchange.ticket.job.choices, include_usage, echo)
        return Stream(desk.settings, exchange, speech, events)

    return router


def _read(request: Request, strict: bool, body: bytes) -> tuple[tuple[CompletionRequest, Echo], Ask]:
    call = openai_completions.parse(body, strict)
    openai_embeddings.refuse_sampling(call.model)
    prompts = call.prompts()
    suffix = tokenizer.count(call.suffix) if call.suffix else 0
    ask = Ask(
        model=call.model,
        service_tier=None,
        turns=openai_completions.turns(call, prompts),
        prompts=tuple(prompt.tokens + suffix for prompt in prompts),
        max_tokens=call.limit,
        min_tokens=call.min_tokens or 0,
        ignore_eos=bool(call.ignore_eos),
        stop=call.stops,
        seed=call.seed,
        choices=call.drawn * len(prompts),
        account=account_of(request),
        wish=call.wish(),
    )
    return (call, Echo(call, prompts)), ask
