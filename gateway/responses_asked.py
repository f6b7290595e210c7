"""What a response is asked for, and what it says about itself, whether it goes over HTTP or over a WebSocket."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import orjson

from gateway.admission import Ask, Ticket
from service.accounts import Account
from service.errors import InvalidRequest, NotFound
from service.stored import Kept, Stored
from service.wire import openai_responses, openai_responses_items, openai_responses_tools
from service.wire.openai_messages import IMAGE_TOKENS
from service.wire.openai_responses import ENCRYPTED, CountRequest, ResponsesRequest
from service.wire.openai_responses_ids import identified, response_of
from service.wire.openai_responses_items import REFERENCE, Item
from service.wire.openai_responses_object import Head

_LINKS_MAX = 1000  # responses that one conversation is put together from


@dataclass(frozen=True, slots=True)
class Said:
    """A conversation up to an answer: what came `before` a request, and its `own` input."""

    before: tuple[Item, ...]
    own: tuple[Item, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        return (*self.before, *self.own)


class Conversations:
    """What is said in requests that name what came before instead of sending it."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored

    async def read(self, call: CountRequest, account: str, before: tuple[Item, ...] | None = None) -> Said:
        """`before` if it is known already. Raises InvalidRequest and NotFound: it is not kept, or not all is."""
        if before is None:
            before = await self._before(call.previous_response_id, account)
        own = openai_responses.own_items(call)
        if any(item["type"] == REFERENCE for item in own):
            own = await self._resolved(own, before, account)
        return Said(before, own)

    async def _before(self, previous: str | None, account: str) -> tuple[Item, ...]:
        """All items up to the end of a response, in order."""
        parts: list[list[Item]] = []
        while previous is not None:
            if len(parts) == _LINKS_MAX:
                raise InvalidRequest(
                    f"This conversation has more than {_LINKS_MAX} responses.", param="previous_response_id"
                )
            kept = await self._stored.find(previous, account)
            if kept is None:
                raise _not_found(previous)
            parts.append(_items(kept))
            previous = kept.previous
        return tuple(item for part in reversed(parts) for item in part)

    async def _resolved(self, own: Sequence[Item], before: Sequence[Item], account: str) -> tuple[Item, ...]:
        """Items in the places of those that refer to them."""
        known = {item["id"]: item for item in before if "id" in item}
        found = []
        for item in own:
            name = item.get("id", "")
            if item["type"] == REFERENCE and name not in known:
                kept = await self._stored.find(response_of(name), account)
                known |= {} if kept is None else {each["id"]: each for each in _items(kept)}
                if name not in known:
                    raise NotFound(
                        f"Item with id '{name[:100]}' not found. Items can be referred to while the response they "
                        "belong to is stored; send the item itself.",
                        param="input",
                    )
            found.append(known[name] if item["type"] == REFERENCE else item)
        return tuple(found)


def _items(kept: Kept) -> list[Item]:
    return [*orjson.loads(kept.items), *orjson.loads(kept.response)["output"]]


def _not_found(previous: str) -> InvalidRequest:
    return InvalidRequest(
        f"Previous response with id '{previous[:100]}' not found.",
        code="previous_response_not_found",
        param="previous_response_id",
    )


def ask_of(call: ResponsesRequest, said: Said, account: Account) -> Ask:
    """What is asked for. Raises InvalidRequest."""
    documents = openai_responses.tool_documents(call, said.items)
    return replace(
        _prompt(call, said, call.model, account),
        service_tier=call.service_tier,
        max_tokens=call.max_output_tokens,
        max_tokens_param="max_output_tokens",
        min_tokens=call.min_tokens or 0,
        ignore_eos=bool(call.ignore_eos),
        seed=call.seed,
        verbosity=call.verboseness,
        caching=call.caching,
        wish=openai_responses.wish(call, documents),
    )


def counted(call: CountRequest, said: Said, account: Account, model: str) -> Ask:
    """Something to be counted, as for `model` if it does not say for which. Raises InvalidRequest."""
    return _prompt(call, said, call.model or model, account)


def _prompt(call: CountRequest, said: Said, model: str, account: Account) -> Ask:
    items = openai_responses.conversation(call, said.items)
    return Ask(
        model=model,
        service_tier=None,
        turns=openai_responses_items.turns(items),
        tools=openai_responses.tool_text(openai_responses.tool_documents(call, items)),
        images=openai_responses_items.images(items),
        image_tokens=IMAGE_TOKENS,
        account=account,
    )


def head_of(call: ResponsesRequest, said: Said, ticket: Ticket) -> Head:
    """What every object of the response says about itself."""
    documents = openai_responses.tool_documents(call, said.items)
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


class Keeps(Protocol):
    def keep(self, told: Mapping[str, Any]) -> None:
        """Take the object of a response as it is by now."""


class Keeper:
    """Keeps what becomes of one response, if it is to be kept."""

    def __init__(self, stored: Stored, call: ResponsesRequest, said: Said, ticket: Ticket) -> None:
        self._stored = stored
        self._call = call
        self._ticket = ticket
        self._items = orjson.dumps(identified(said.own, ticket.job.id)) if call.kept else b"[]"

    def keep(self, told: Mapping[str, Any]) -> None:
        if self._call.kept:
            self._stored.put(self.kept(told))

    def kept(self, told: Mapping[str, Any]) -> Kept:
        return Kept(
            id=told["id"],
            account=self._ticket.job.tenant,
            response=orjson.dumps(told),
            items=self._items,
            previous=self._call.previous_response_id,
            background=bool(self._call.background),
            over=told["status"] not in ("queued", "in_progress"),
            gateway=self._ticket.job.gateway,
        )
