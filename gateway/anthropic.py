"""Anthropic's Messages API: a request reads as five verbs: parse, admit, submit, relay, encode."""

from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from gateway.admission import Ask, Ticket
from gateway.answers import Stream, Whole
from gateway.desk import Desk
from gateway.dialects import ANTHROPIC, request_id
from gateway.door import account_of
from service.errors import ServiceError
from service.messages import Usage, Wish
from service.profiles import AnthropicRules, Profile
from service.wire import anthropic_prompt, anthropic_rules, anthropic_thinking, anthropic_tools
from service.wire.anthropic_answer import Head, message
from service.wire.anthropic_blocks import IMAGE_TOKENS, as_json
from service.wire.anthropic_events import Events
from service.wire.anthropic_messages import MessagesRequest, parse, parse_count
from service.wire.anthropic_prompt import TTLS, Prompt
from service.wire.gathered import Answer

HELLO = b'{"message":"hello"}'  # what agents ask for to see whether the API is there


class Speech:
    """One message outside of the stream itself."""

    def __init__(self, head: Head) -> None:
        self._head = head

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(name.encode(), value.encode()) for name, value in ANTHROPIC.headers(request_id()).items()]

    def whole(self, answers: list[Answer], usage: Usage) -> bytes:
        return message(self._head, answers, usage)

    def refusal(self, error: ServiceError) -> Response:
        return ANTHROPIC.refuse(error)


def routes(desk: Desk) -> APIRouter:
    router = APIRouter()
    profile = desk.admission.profile

    @router.post("/v1/messages")
    async def messages(request: Request) -> Response:
        version = anthropic_rules.version(request.headers, profile.anthropic_versions)
        read = partial(_read, request, version, profile)
        call, exchange = await desk.take(request, read, prefix="msg_")
        head = replace(_head(call, exchange.ticket, profile), fine_grained=_fine_grained(request))
        if not call.stream:
            return Whole(desk.settings, exchange, Speech(head))
        return Stream(desk.settings, exchange, Speech(head), Events(head))

    @router.post("/v1/messages/count_tokens")
    async def count_tokens(request: Request) -> Response:
        version = anthropic_rules.version(request.headers, profile.anthropic_versions)
        ask = await desk.read(request, partial(_read_to_count, request, version, profile))
        return ANTHROPIC.answer({"input_tokens": await desk.admission.count(ask)})

    @router.get("/api/hello")
    async def hello() -> Response:
        return ANTHROPIC.answer(HELLO)

    return router


def _betas(request: Request) -> frozenset[str]:
    """What the request takes part in; some fields and blocks exist for it alone."""
    said = ",".join(request.headers.getlist("anthropic-beta"))
    return frozenset(filter(None, map(str.strip, said.split(","))))


def _fine_grained(request: Request) -> bool:
    return any(beta.startswith("fine-grained-tool-streaming-") for beta in _betas(request))


def _read(request: Request, version: str, profile: Profile, body: bytes) -> tuple[MessagesRequest, Ask]:
    call = parse(body, lenient=bool(_betas(request)))
    rules = profile.anthropic_rules(call.model)
    anthropic_rules.check(call, rules, version)
    prompt = anthropic_prompt.read(call)
    return call, _ask(call, prompt, rules, request)


def _read_to_count(request: Request, version: str, profile: Profile, body: bytes) -> Ask:
    call = parse_count(body, lenient=bool(_betas(request)))
    anthropic_rules.check(call, profile.anthropic_rules(call.model), version)
    prompt = anthropic_prompt.read(call)
    return Ask(
        model=call.model,
        dialect="anthropic",
        service_tier=None,
        account=account_of(request),
        turns=prompt.turns,
        tools=prompt.tools,
        images=prompt.images,
        image_tokens=IMAGE_TOKENS,
    )


def _ask(call: MessagesRequest, prompt: Prompt, rules: AnthropicRules, request: Request) -> Ask:
    return Ask(
        model=call.model,
        dialect="anthropic",
        service_tier=call.service_tier,
        speed=call.speed,
        betas=_betas(request),
        region=call.inference_geo if call.inference_geo not in (None, "global") else "",
        turns=prompt.turns,
        tools=prompt.tools,
        images=prompt.images,
        image_tokens=IMAGE_TOKENS,
        max_tokens=call.max_tokens or 1,  # nothing but a first token shows that a prompt has been computed
        verbosity=call.verbosity,
        stop=tuple(call.stop_sequences or ()),
        account=account_of(request),
        keep=_kept(prompt, rules),
        wish=_wish(call),
    )


def _kept(prompt: Prompt, rules: AnthropicRules) -> tuple[tuple[int, int], ...]:
    """Nothing is cached that is not marked, or too short."""
    if not prompt.marks or prompt.marks[-1].tokens < rules.cacheable:
        return ()
    return tuple((mark.tokens, TTLS[mark.ttl]) for mark in prompt.marks)


def _wish(call: MessagesRequest) -> Wish:
    tools = anthropic_tools.callable_tools(call.tools or (), call.tool_choice)
    schema = call.schema_document
    return Wish(
        tools=tools,
        tool_choice=anthropic_tools.mode(tools, call.tool_choice),
        parallel=anthropic_tools.parallel(call.tool_choice),
        schema=as_json(schema).encode() if schema is not None else b"",
        strict=schema is not None,
        reasoning=anthropic_thinking.expected(call.thinking, call.effort, call.max_tokens),
        capped=True,
    )


def _head(call: MessagesRequest, ticket: Ticket, profile: Profile) -> Head:
    served = profile.catalog.models[ticket.offer.model]
    beside: dict[str, Any] = {"diagnostics": None} if call.diagnostics is not None else {}
    if call.context_management is not None:
        beside["context_management"] = {"applied_edits": []}
    return Head(
        job=ticket.job.id,
        model=call.model,
        speed=profile.speed_reported(ticket.offer, call.speed),
        inference_geo=(call.inference_geo or "global") if served.regions else "not_available",
        shown=anthropic_thinking.shown(call.thinking),
        prewarm=call.max_tokens == 0,
        eager_tools=anthropic_tools.eager(call.tools or ()),
        beside=tuple(beside.items()),
    )
