"""What a response is asked for, and what it says about itself, whether it goes over HTTP or over a WebSocket."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import orjson
from starlette.requests import HTTPConnection

from gateway.admission import Ask, Ticket, account_of
from service.errors import InvalidRequest
from service.stored import Kept, Stored
from service.wire import openai_responses, openai_responses_items, openai_responses_tools
from service.wire.openai_messages import IMAGE_TOKENS
from service.wire.openai_responses import ENCRYPTED, CountRequest, ResponsesRequest
from service.wire.openai_responses_items import Item
from service.wire.openai_responses_object import Head

PREFIX = "resp_"
_LINKS_MAX = 1000  # responses that one conversation is put together from


class Conversations:
    """What came before a response: the input and the output of those it follows."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored

    async def before(self, previous: str | None, account: str) -> tuple[Item, ...]:
        """All items up to the end of a response, in order. Raises InvalidRequest: it is not kept, or not all is."""
        items: list[Item] = []
        for _ in range(_LINKS_MAX):
            if previous is None:
                return tuple(items)
            kept = await self._stored.find(previous, account)
            if kept is None:
                raise not_found(previous)
            items[:0] = [*orjson.loads(kept.items), *orjson.loads(kept.response)["output"]]
            previous = kept.previous
        raise InvalidRequest(f"This conversation has more than {_LINKS_MAX} responses.", param="previous_response_id")


def not_found(previous: str) -> InvalidRequest:
    return InvalidRequest(
        f"Previous response with id '{previous[:100]}' not found.",
        code="previous_response_not_found",
        param="previous_response_id",
    )


def account_in(connection: HTTPConnection) -> str:
    return account_of(connection.headers.get("authorization"), connection.headers.get("x-api-key"))


def ask_of(call: ResponsesRequest, before: Sequence[Item], account: str) -> Ask:
    """What is asked for, behind what was said before. Raises InvalidRequest."""
    items = openai_responses.conversation(call, before)
    documents = openai_responses.tool_documents(call, items)
    return replace(
        _prompt(call.model, items, documents, account),
        service_tier=call.service_tier,
        max_tokens=call.max_output_tokens,
        max_tokens_param="max_output_tokens",
        min_tokens=call.min_tokens or 0,
        ignore_eos=bool(call.ignore_eos),
        seed=call.seed,
        wish=openai_responses.wish(call, documents),
    )


def counted(call: CountRequest, before: Sequence[Item], account: str, model: str) -> Ask:
    """Something to be counted. Raises InvalidRequest."""
    items = openai_responses.conversation(call, before)
    return _prompt(call.model or model, items, openai_responses.tool_documents(call, items), account)


def _prompt(model: str, items: Sequence[Item], documents: Sequence[Any], account: str) -> Ask:
    return Ask(
        model=model,
        service_tier=None,
        turns=openai_responses_items.turns(items),
        tools=openai_responses.tool_text(documents),
        images=openai_responses_items.images(items),
        image_tokens=IMAGE_TOKENS,
        account=account,
    )


def head_of(call: ResponsesRequest, before: Sequence[Item], ticket: Ticket) -> Head:
    """What every object of the response says about itself."""
    documents = openai_responses.tool_documents(call, (*before, *own_items(call)))
    options = call.stream_options
    return Head(
        id=ticket.job.id,
        created=int(time.time()),
        requested=call.service_tier or "auto",
        served=ticket.offer.reported_as,
        echo=openai_responses.echo(call),
        custom=openai_responses_tools.custom(documents),
        summarized=bool(call.reasoning and call.reasoning.shown),
        encrypted=ENCRYPTED in (call.include or ()),
        obfuscate=options is None or options.include_obfuscation is not False,
    )


def own_items(call: CountRequest) -> tuple[Item, ...]:
    """The input of a request alone. Raises InvalidRequest."""
    return openai_responses_items.items(call.input if call.input is not None else [])


class Keeps(Protocol):
    def keep(self, told: Mapping[str, Any]) -> None:
        """Take the object of a response as it is by now."""


class Keeper:
    """Keeps what becomes of one response, if it is to be kept."""

    def __init__(self, stored: Stored, call: ResponsesRequest, account: str) -> None:
        self._stored = stored
        self._call = call
        self._account = account
        self._items = orjson.dumps(own_items(call)) if call.kept else b"[]"

    def keep(self, told: Mapping[str, Any]) -> None:
        """The object as it is by now."""
        if not self._call.kept:
            return
        self._stored.put(
            Kept(
                id=told["id"],
                account=self._account,
                response=orjson.dumps(told),
                items=self._items,
                previous=self._call.previous_response_id,
                background=bool(self._call.background),
                over=told["status"] not in ("queued", "in_progress"),
            )
        )
