"""A message, whole, and what every form of it says about itself: head, content blocks, usage, why it ended.

Shapes and the order of keys after recorded answers of the API (October 2026) and the types of Anthropic's Python SDK.
The input of a tool call is an object on the wire. A model that errs may write something else: a stream sends it piece
by piece as it is, and a whole message as {"INVALID_JSON": what was written}, which is how Anthropic's page on
fine-grained tool streaming has clients send it back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from service.messages import FinishReason, Part, Usage
from service.wire.anthropic_thinking import signature
from service.wire.gathered import Answer, Said
from service.wire.ids import derived

_STOP_REASONS: dict[FinishReason | None, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_DIGITS = 22  # of an id, behind its prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What an answer says besides what it has to say.

    `shown`: the text of thinking is part of the answer. `prewarm`: only the prompt was computed, and nothing is said.
    Inputs of `eager_tools` stream letter by letter, of all tools if `fine_grained`. `beside` are fields that only
    some requests get back.
    """

    job: str
    model: str
    service_tier: str = "standard"
    speed: str | None = None
    inference_geo: str = "global"
    shown: bool = True
    prewarm: bool = False
    fine_grained: bool = False
    eager_tools: frozenset[str] = frozenset()
    beside: tuple[tuple[str, Any], ...] = ()

    def eager(self, tool: str) -> bool:
        """Whether the input of its calls goes out before its values are complete."""
        return self.fine_grained or tool in self.eager_tools

    def opening(self, content: list[Any]) -> dict[str, Any]:
        return {
            "model": self.model,
            "id": derived("msg_01", _DIGITS, self.job),
            "type": "message",
            "role": "assistant",
            "content": content,
        }


def ending(finish: FinishReason | None, stopped: str | None) -> dict[str, Any]:
    """Why it ended; all null as long as it has not."""
    reason = "stop_sequence" if stopped is not None else _STOP_REASONS.get(finish)
    details = {"type": "refusal", "category": None, "explanation": None} if reason == "refusal" else None
    return {"stop_reason": reason, "stop_sequence": stopped, "stop_details": details}


def usage(head: Head, used: Usage) -> dict[str, Any]:
    """Input tokens in three parts that sum to the prompt: read from the cache, written to it, and neither."""
    output, thought = (0, 0) if head.prewarm else (used.completion, used.reasoning)
    report: dict[str, Any] = {
        "input_tokens": used.prompt - used.cached - used.written,
        "cache_creation_input_tokens": used.written,
        "cache_read_input_tokens": used.cached,
        "cache_creation": {
            "ephemeral_5m_input_tokens": used.written - used.written_long,
            "ephemeral_1h_input_tokens": used.written_long,
        },
        "output_tokens": output,
        "output_tokens_details": {"thinking_tokens": thought},
        "service_tier": head.service_tier,
        "inference_geo": head.inference_geo,
    }
    return report if head.speed is None else {**report, "speed": head.speed}


def delta_usage(head: Head, used: Usage) -> dict[str, Any]:
    """What of the usage a stream says again in the end."""
    whole = usage(head, used)
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    return {name: whole[name] for name in (*names, "output_tokens_details")}


def message(head: Head, answers: Sequence[Answer], used: Usage) -> bytes:
    """The whole answer."""
    answer = answers[0]
    said = [] if head.prewarm else answer.said
    blocks = b",".join(_block(head, index, each) for index, each in enumerate(said))
    opening = orjson.dumps(head.opening([]))[: -len(b"]}")]
    finish = "length" if head.prewarm else answer.finish
    rest = {**ending(finish, answer.stopped), "usage": usage(head, used), **dict(head.beside)}
    return b"%b%b],%b" % (opening, blocks, orjson.dumps(rest)[1:])


def tool_use(head: Head, index: int, part: Part) -> dict[str, Any]:
    """A call of a tool, before its input is known."""
    name = part.id or derived("toolu_01", _DIGITS, head.job, index)
    return {"type": "tool_use", "id": name, "name": part.name, "input": {}, "caller": {"type": "direct"}}


def _block(head: Head, index: int, said: Said) -> bytes:
    escaped = bytes(said.text)
    match said.part.kind:
        case "reasoning":
            shown = escaped if head.shown else b""
            return b'{"type":"thinking","thinking":"%b","signature":"%b"}' % (shown, signature(escaped))
        case "tool_call":
            before, after = orjson.dumps(tool_use(head, index, said.part)).split(b'"input":{}', 1)
            return b'%b"input":%b%b' % (before, _input(escaped), after)
        case _:
            return b'{"type":"text","text":"%b"}' % escaped


def _input(escaped: bytes) -> bytes:
    """What was written as a call's input, letter by letter, if it is an object."""
    written: str = orjson.loads(b'"%b"' % escaped)
    try:
        if isinstance(orjson.loads(written), dict):
            return written.encode()
    except orjson.JSONDecodeError:
        pass
    return orjson.dumps({"INVALID_JSON": written})
