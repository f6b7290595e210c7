"""The response object and the items of its output: what is answered whole, ends a stream, and is kept. Sans-IO.

Shapes and order of fields after recorded traffic and the types of openai 3.57.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import orjson

from service.errors import ServiceError
from service.messages import Part, Usage
from service.wire.gathered import Answer, Said
from service.wire.ids import derived
from service.wire.openai_responses_ids import item_id

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
_SEALED = 96  # bytes that stand for encrypted reasoning


@dataclass(frozen=True, slots=True)
class Head:
    """What every object of one response says about itself. `created` in Unix seconds.

    `requested` and `served` are words for tiers; `custom` names the tools that take text; `summarized`: reasoning is
    shown; `encrypted`: it is given back sealed; `obfuscate`: events of a stream are padded.
    """

    id: str
    created: int
    requested: str
    served: str
    echo: Mapping[str, Any]
    custom: frozenset[str] = frozenset()
    summarized: bool = False
    encrypted: bool = False
    obfuscate: bool = True
    logprobs: bool = False


def packed(head: Head) -> bytes:
    """To be read by `unpacked`."""
    return orjson.dumps({**asdict(head), "custom": sorted(head.custom)})


def unpacked(data: bytes) -> Head:
    fields = orjson.loads(data)
    return Head(**{**fields, "custom": frozenset(fields["custom"])})


def response(
    head: Head,
    status: Status,
    output: Sequence[Any] = (),
    usage: Usage | None = None,
    completed: int | None = None,
    error: ServiceError | None = None,
    reason: str | None = None,
) -> dict[str, Any]:
    """The object. `completed` in Unix seconds; `reason`: why the response is incomplete. The tier that served it is
    told when it has ended.
    """
    echo = dict(head.echo)
    over = status in ("completed", "incomplete", "failed", "cancelled")
    return {
        "id": head.id,
        "object": "response",
        "created_at": head.created,
        "status": status,
        "background": echo.pop("background"),
        "completed_at": completed,
        "error": {"code": code(error), "message": error.message} if error else None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": echo.pop("instructions"),
        "max_output_tokens": echo.pop("max_output_tokens"),
        "max_tool_calls": echo.pop("max_tool_calls"),
        "model": echo.pop("model"),
        "output": list(output),
        "service_tier": head.served if over else head.requested,
        **echo,
        "usage": usage_of(usage) if usage else None,
    }


def whole(head: Head, answer: Answer, usage: Usage, completed: int) -> dict[str, Any]:
    """A response that has come to its end."""
    reason = incomplete_reason(answer)
    return response(
        head,
        "incomplete" if reason else "completed",
        items(head, answer),
        usage,
        None if reason else completed,
        reason=reason,
    )


def failed(told: dict[str, Any], error: ServiceError) -> bytes:
    """A response that was kept and will not be completed, as JSON."""
    return orjson.dumps({**told, "status": "failed", "error": {"code": code(error), "message": error.message}})


def incomplete_reason(answer: Answer) -> str | None:
    """Why it is not complete, if it is not."""
    return {"length": "max_output_tokens", "content_filter": "content_filter"}.get(answer.finish or "")


def code(error: ServiceError) -> str:
    """Of the few that a response may have failed with."""
    return error.code if error.status in (429, 503) and error.code else "server_error"


def usage_of(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.written},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.completion,
    }


def items(head: Head, answer: Answer) -> list[dict[str, Any]]:
    """The output. An answer that was cut off ends with an item that says so."""
    last = len(answer.said) - 1
    cut = answer.finish in ("length", "content_filter")
    return [
        item(head, index, said, "incomplete" if cut and index == last else "completed")
        for index, said in enumerate(answer.said)
    ]


def item(head: Head, index: int, said: Said, status: str) -> dict[str, Any]:
    """One item of the output."""
    text = orjson.Fragment(b'"%b"' % bytes(said.text))
    begun = opened(head, index, said.part)
    match begun["type"]:
        case "reasoning":
            begun["summary"] = [{"type": "summary_text", "text": text}] if head.summarized else []
            if head.encrypted:
                begun["encrypted_content"] = _sealed(head, index)
            return begun
        case "message":
            content = {**content_part(said.logprobs), "text": text}
            return {**begun, "status": status, "content": [content]}
        case "function_call":
            return {**begun, "status": status, "arguments": text}
        case _:
            return {**begun, "status": status, "input": text}


def opened(head: Head, index: int, part: Part) -> dict[str, Any]:
    """An item of which nothing has come."""
    if part.kind == "reasoning":
        return {"id": _id("reasoning", head, index), "type": "reasoning", "summary": []}
    if part.kind == "text":
        name = _id("message", head, index)
        return {"id": name, "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
    call = part.id or derived("call_", 24, head.id, index)
    custom = part.name in head.custom
    kind, held = ("custom_tool_call", "input") if custom else ("function_call", "arguments")
    return {
        "id": _id(kind, head, index),
        "type": kind,
        "status": "in_progress",
        held: "",
        "call_id": call,
        "name": part.name,
    }


def content_part(logprobs: Sequence[bytes] = ()) -> dict[str, Any]:
    """The text of a message, before anything of it has come."""
    reckoned = [orjson.Fragment(logprob) for logprob in logprobs]
    return {"type": "output_text", "annotations": [], "logprobs": reckoned, "text": ""}


def _id(kind: str, head: Head, index: int) -> str:
    return item_id(kind, head.id, "output", index)


def _sealed(head: Head, index: int) -> str:
    return base64.urlsafe_b64encode(derived("", _SEALED * 3 // 4, head.id, index, "sealed").encode()).decode()
