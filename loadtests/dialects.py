"""What a load test sends and understands of each dialect: bodies, what an answer says of itself, calls of tools.

Streams are read in bulk; only what is kept of their events is decoded, when they have ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from loadtests.wire import Malformed

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """`fields`: names of its arguments and their JSON types; all are required."""

    name: str
    about: str
    fields: Mapping[str, str]

    @property
    def schema(self) -> Document:
        properties = {name: {"type": kind} for name, kind in self.fields.items()}
        return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


TOOLS = (
    Tool("read_file", "Read a part of a file.", {"path": "string", "first_line": "integer"}),
    Tool("search", "Find a pattern in the files of a directory.", {"pattern": "string", "directory": "string"}),
    Tool("run", "Run a command.", {"command": "string", "timeout_s": "integer"}),
)
_TYPES: Mapping[str, type] = {"string": str, "integer": int}


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool as it was written."""

    id: str
    name: str
    arguments: str

    @property
    def fault(self) -> str | None:
        """What keeps it from being used: what whoever runs tools sees at once."""
        tool = next((tool for tool in TOOLS if tool.name == self.name), None)
        if tool is None:
            return "no such tool"
        try:
            given = orjson.loads(self.arguments)
        except orjson.JSONDecodeError:
            return "no JSON"
        if not isinstance(given, dict) or given.keys() != tool.fields.keys():
            return "other arguments"
        wrong = [name for name, kind in tool.fields.items() if type(given[name]) is not _TYPES[kind]]
        return f"{wrong[0]} of another type" if wrong else None


@dataclass(slots=True)
class Heard:
    """What an answer says of itself; tokens. `served`: the tier, in the dialect's word."""

    prompt: int | None = None
    cached: int = 0
    written: int = 0
    written_long: int = 0
    output: int | None = None
    reasoning: int = 0
    served: str | None = None
    done: bool = False
    error: str | None = None
    calls: list[Call] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Of an answer. `output`: tokens, None: the call of a tool; `exact`: not fewer either, where there is a way to ask
    for that; `effort` with which to think before a call, in OpenAI's words.
    """

    output: int | None
    exact: bool = True
    effort: str = ""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A turn that is over: what was said to the model, and what it answered."""

    said: str
    answered: str
    call: Call | None = None


class Dialect(Protocol):
    """`path` of its requests; `texts`, `calls`: keys of events whose texts are content, of answers and of calls."""

    @property
    def path(self) -> str: ...

    @property
    def texts(self) -> tuple[str, ...]: ...

    @property
    def calls(self) -> tuple[str, ...]: ...

    def headers(self, key: str | None) -> dict[str, str]: ...

    def body(self, model: str, tier: str, before: Sequence[Exchanged], said: str, wanted: Wanted) -> Document:
        """Of a streamed request, at the end of a conversation."""
        ...

    def hear(self, payloads: Iterable[bytes], heard: Heard) -> None:
        """Raises Malformed."""
        ...


class OpenAI:
    path = "/chat/completions"
    texts = ("content",)
    calls = ("content", "name", "arguments")

    def headers(self, key: str | None) -> dict[str, str]:
        return {"authorization": f"Bearer {key or 'none'}"}

    def body(self, model: str, tier: str, before: Sequence[Exchanged], said: str, wanted: Wanted) -> Document:
        messages: list[Document] = []
        for turn in before:
            messages.append(self._said(turn.said, messages))
            messages.append(_openai_answer(turn))
        messages.append(self._said(said, messages))
        body: Document = {"model": model, "messages": messages, "service_tier": tier}
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        if wanted.output is None:
            body |= {"reasoning_effort": wanted.effort} if wanted.effort else {}
            tools = [{"name": tool.name, "description": tool.about, "parameters": tool.schema} for tool in TOOLS]
            body["tools"] = [{"type": "function", "function": tool} for tool in tools]
            return body | {"tool_choice": "required", "parallel_tool_calls": False}
        return body | {"max_tokens": wanted.output} | ({"ignore_eos": True} if wanted.exact else {})

    def _said(self, text: str, messages: Sequence[Document]) -> Document:
        calls = messages[-1].get("tool_calls") if messages else None
        return {"role": "tool", "tool_call_id": calls[0]["id"], "content": text} if calls else _user(text)

    def hear(self, payloads: Iterable[bytes], heard: Heard) -> None:
        names: dict[int, list[str]] = {}
        for payload in payloads:
            if payload == b"[DONE]":
                heard.done = True
                continue
            chunk = _decoded(payload)
            heard.served = chunk.get("service_tier") or heard.served
            if chunk.get("error"):
                heard.error = _error(chunk["error"])
            if usage := chunk.get("usage"):
                prompt, completion = (usage.get(f"{kind}_tokens_details") or {} for kind in ("prompt", "completion"))
                heard.prompt, heard.output = usage["prompt_tokens"], usage["completion_tokens"]
                heard.cached = prompt.get("cached_tokens") or 0
                heard.written = prompt.get("cache_write_tokens") or 0
                heard.reasoning = completion.get("reasoning_tokens") or 0
            for choice in chunk.get("choices") or ():
                for part in (choice.get("delta") or {}).get("tool_calls") or ():
                    name = names.setdefault(part["index"], ["", "", ""])
                    function = part.get("function") or {}
                    name[0] += part.get("id") or ""
                    name[1] += function.get("name") or ""
                    name[2] += function.get("arguments") or ""
        heard.calls = [Call(*name) for _, name in sorted(names.items())]


class Anthropic:
    path = "/messages"
    texts = ("text",)
    calls = ("text", "name", "partial_json")

    def headers(self, key: str | None) -> dict[str, str]:
        return {
            "x-api-key": key or "none",
            "anthropic-version": "2023-06-01",
            "anthropic-beta": "fast-mode-2026-02-01",
        }

    def body(
        self,
        model: str,
        tier: str,
        before: Sequence[Exchanged],
        said: str,
        wanted: Wanted,
    ) -> Document:
        messages: list[Document] = []
        called: Call | None = None
        for turn in before:
            messages += [_anthropic_said(turn.said, called), _anthropic_answer(turn)]
            called = turn.call
        messages.append(_anthropic_said(said, called))
        body: Document = {"model": model, "messages": messages, "stream": True, "max_tokens": wanted.output or 4096}
        if tier == "fast":
            body["speed"] = "fast"
        if wanted.output is None:
            body["tools"] = [
                {"name": tool.name, "description": tool.about, "input_schema": tool.schema} for tool in TOOLS
            ]
            body["tool_choice"] = {"type": "any", "disable_parallel_tool_use": True}
        return body

    def hear(self, payloads: Iterable[bytes], heard: Heard) -> None:
        calls: dict[int, list[str]] = {}
        for payload in payloads:
            event = _decoded(payload)
            match event.get("type"):
                case "message_start":
                    self._usage(event["message"]["usage"], heard)
                case "message_delta":
                    self._usage(event.get("usage") or {}, heard)
                case "content_block_start" if event["content_block"]["type"] == "tool_use":
                    block = event["content_block"]
                    calls[event["index"]] = [block["id"], block["name"], ""]
                case "content_block_delta" if event["index"] in calls:
                    calls[event["index"]][2] += event["delta"].get("partial_json", "")
                case "message_stop":
                    heard.done = True
                case "error":
                    heard.error = _error(event["error"])
        heard.calls = [Call(id_, name, arguments or "{}") for _, (id_, name, arguments) in sorted(calls.items())]

    def _usage(self, usage: Mapping[str, Any], heard: Heard) -> None:
        if "input_tokens" in usage:
            read, written = (usage.get(f"cache_{kind}_input_tokens") or 0 for kind in ("read", "creation"))
            heard.prompt, heard.cached, heard.written = usage["input_tokens"] + read + written, read, written
            heard.written_long = (usage.get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0
        heard.output = usage.get("output_tokens", heard.output)
        heard.served = usage.get("speed") or heard.served


DIALECTS: Mapping[str, Dialect] = {"openai": OpenAI(), "anthropic": Anthropic()}


def _user(text: str) -> Document:
    return {"role": "user", "content": text}


def _openai_answer(turn: Exchanged) -> Document:
    if turn.call is None:
        return {"role": "assistant", "content": turn.answered}
    function = {"name": turn.call.name, "arguments": turn.call.arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": turn.call.id, "type": "function", "function": function}],
    }


def _anthropic_said(text: str, called: Call | None) -> Document:
    if called is None:
        return _user(text)
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": called.id, "content": text}]}


def _anthropic_answer(turn: Exchanged) -> Document:
    if turn.call is None:
        return {"role": "assistant", "content": turn.answered}
    block = {"type": "tool_use", "id": turn.call.id, "name": turn.call.name, "input": orjson.loads(turn.call.arguments)}
    return {"role": "assistant", "content": [block]}


def _decoded(payload: bytes) -> Document:
    try:
        event = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"an event is no JSON ({error}): {payload[:100]!r}") from None
    if not isinstance(event, dict):
        raise Malformed(f"an event is no JSON object: {payload[:100]!r}")
    return event


def _error(error: Any) -> str:
    if isinstance(error, dict):
        return str(error.get("code") or error.get("type") or error.get("message") or "error")
    return str(error)
