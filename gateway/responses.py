"""Responses: a request reads as five verbs: parse, admit, submit, relay, encode. What is kept can be looked up."""

import asyncio
import re
import time
import uuid
from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from gateway.admission import Ask
from gateway.answers import Stream, Whole
from gateway.backgrounds import Backgrounds
from gateway.desk import Desk
from gateway.dialects import OPENAI
from gateway.door import account_of
from gateway.exchange import Exchange
from gateway.openai_speech import OpenAISpeech
from gateway.replays import Log, Replay, check_followed
from gateway.responses_asked import Conversations, Keeper, Keeps, Said, ask_of, counted, head_of
from service import tokenizer
from service.errors import InvalidRequest, NotFound
from service.messages import Usage
from service.stored import Kept, Stored
from service.wire import openai_embeddings, openai_responses, openai_responses_compaction
from service.wire.gathered import Answer
from service.wire.openai_responses import ResponsesRequest
from service.wire.openai_responses_events import Events, Frame, server_sent
from service.wire.openai_responses_ids import PREFIX
from service.wire.openai_responses_object import Head, response, whole

_NUMBER = re.compile("-1|[0-9]{1,9}")
_PAGE, _PAGE_MAX = 20, 100  # items of a listing


class ResponsesSpeech(OpenAISpeech):
    """One response outside of a stream. What is answered is kept before."""

    def __init__(self, head: Head, keeper: Keeps, arrived: float) -> None:
        super().__init__(arrived)
        self._head = head
        self._keeper = keeper

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [*super().headers(), (b"openai-model", str(self._head.echo["model"]).encode())]

    def whole(self, answers: list[Answer], usage: Usage) -> bytes:
        told = whole(self._head, answers[0], usage, int(time.time()))
        self._keeper.keep(told)
        return orjson.dumps(told)


class KeptEvents(Events):
    """A stream whose last object is kept before it is sent."""

    def __init__(self, head: Head, keeper: Keeps, frame: Frame = server_sent) -> None:
        super().__init__(head, frame)
        self._keeper = keeper

    def _last(self, told: dict[str, Any]) -> bytes:
        self._keeper.keep(told)
        return super()._last(told)


def routes(desk: Desk, stored: Stored, backgrounds: Backgrounds) -> APIRouter:
    router = APIRouter()
    conversations = Conversations(stored)

    @router.post("/v1/responses")
    async def create(request: Request) -> Response:
        arrived = asyncio.get_running_loop().time()
        account = account_of(request)
        said = Said((), ())

        async def ask(call: ResponsesRequest) -> Ask:
            nonlocal said
            said = await conversations.read(call, account.id)
            return ask_of(call, said, account)

        call, exchange = await desk.take_after(request, _parse, ask, PREFIX)
        head = head_of(call, said, exchange.ticket)
        keeper = Keeper(stored, call, said, exchange.ticket)
        if call.background:
            return await _begin(call, head, keeper, exchange)
        speech = ResponsesSpeech(head, keeper, arrived)
        if not call.stream:
            return Whole(desk.settings, exchange, speech)
        return Stream(desk.settings, exchange, speech, KeptEvents(head, keeper))

    async def _begin(call: ResponsesRequest, head: Head, keeper: Keeper, exchange: Exchange) -> Response:
        """What is answered at once to who asks for something in the background."""
        if exchange.error is not None:
            await exchange.settle()
            raise exchange.error
        queued = response(head, "queued")
        keeper.keep(queued)
        log = Log(stored, head) if call.stream else None
        if log is not None:
            await log.flush(0.0, last=True)  # there is something to follow from the beginning
        backgrounds.serve(exchange, Events(head), keeper.keep, log)
        await stored.write(desk.settings.redis_timeout)  # whoever knows its name can find it, whatever happens here
        if log is None:
            return OPENAI.answer(queued)
        return Replay(desk.settings, stored, keeper.kept(queued))

    @router.post("/v1/responses/input_tokens")
    async def input_tokens(request: Request) -> Response:
        account = account_of(request)
        call = await desk.read(request, openai_responses.parse_count)
        said = await conversations.read(call, account.id)
        ask = counted(call, said, account, next(iter(desk.admission.profile.catalog.models)))
        count = await desk.admission.count(ask)
        return OPENAI.answer({"object": "response.input_tokens", "input_tokens": count})

    @router.post("/v1/responses/compact")
    async def compact(request: Request) -> Response:
        account = account_of(request)
        call = await desk.read(request, openai_responses.parse_compact)
        said = await conversations.read(call, account.id)
        prompt = await desk.admission.count(counted(call, said, account, call.model))
        name = PREFIX + uuid.uuid4().hex[:29]
        usage = Usage(prompt=prompt, completion=tokenizer.count(openai_responses_compaction.sealed(name)))
        return OPENAI.answer(openai_responses_compaction.compacted(name, int(time.time()), said.items, usage))

    @router.get("/v1/responses/{name}")
    async def retrieve(name: str, request: Request) -> Response:
        kept = await _find(stored, name, request)
        if _yes(request, "stream"):
            check_followed(await stored.logged(name, 0))
            return Replay(desk.settings, stored, kept, _number(request, "starting_after"))
        return OPENAI.answer((await backgrounds.settled(kept)).response)

    @router.get("/v1/responses/{name}/input_items")
    async def input_items(name: str, request: Request) -> Response:
        kept = await _find(stored, name, request)
        return OPENAI.answer(_page(orjson.loads(kept.items), request.query_params))

    @router.delete("/v1/responses/{name}")
    async def delete(name: str, request: Request) -> Response:
        await stored.remove(await _find(stored, name, request))
        return OPENAI.answer({"id": name, "object": "response", "deleted": True})

    @router.post("/v1/responses/{name}/cancel")
    async def cancel(name: str, request: Request) -> Response:
        kept = await _find(stored, name, request)
        if not kept.background:
            raise InvalidRequest("Cannot cancel a synchronous response.", param="response_id")
        return OPENAI.answer((await backgrounds.cancel(kept)).response)

    return router


def _parse(body: bytes) -> ResponsesRequest:
    call = openai_responses.parse(body)
    openai_embeddings.refuse_sampling(call.model)
    return call


async def _find(stored: Stored, name: str, request: Request) -> Kept:
    kept = await stored.find(name, account_of(request).id)
    if kept is None:
        raise NotFound(f"Response with id '{name[:100]}' not found.", param="response_id")
    return kept


def _yes(request: Request, name: str) -> bool:
    return request.query_params.get(name, "false").lower() in ("true", "1")


def _number(request: Request, name: str) -> int:
    """Raises InvalidRequest. -1 is before all."""
    text = request.query_params.get(name, "-1")
    if not _NUMBER.fullmatch(text):
        raise InvalidRequest(f"Invalid type for '{name}': expected an integer.", code="invalid_type", param=name)
    return int(text)


def _page(items: list[Any], query: Mapping[str, str]) -> dict[str, Any]:
    """Some of the input of a response, the last first unless asked otherwise."""
    if query.get("order", "desc") != "asc":
        items.reverse()
    limit = query.get("limit", "")
    size = min(max(int(limit), 1), _PAGE_MAX) if limit.isascii() and limit.isdecimal() else _PAGE
    ids = [item["id"] for item in items]
    after = query.get("after")
    start = ids.index(after) + 1 if after in ids else 0
    page = items[start : start + size]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": start + size < len(items),
    }
