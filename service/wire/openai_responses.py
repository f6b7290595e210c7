"""Responses inwards: a request body, checked, and what it wants of an answer. Sans-IO.

Fields, defaults and bounds after the OpenAPI document of the OpenAI API, as openai 3.57 has them in its types. Unknown
fields are let through: agents send some that no document names.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from service.errors import InvalidRequest
from service.messages import Wish
from service.wire import openai_responses_items, openai_responses_tools
from service.wire.openai_body import BOUNDED, Fields, as_json, as_text, read
from service.wire.openai_caching import CacheOptions, Caching, Retention, caching
from service.wire.openai_chat import REASONING, VERBOSITY, Effort
from service.wire.openai_errors import missing
from service.wire.openai_formats import ANY_OBJECT
from service.wire.openai_responses_items import Item
from service.wire.openai_tools import Name, schema_fault

OUTPUT_MIN = 16  # tokens that may be asked for at least
LOGPROBS = "message.output_text.logprobs"
ENCRYPTED = "reasoning.encrypted_content"

_Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
]


class Reasoning(Fields):
    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed", "none"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None

    @property
    def tokens(self) -> int:
        """To expect. Who asks for a summary without an effort gets what the API takes for its default."""
        if self.effort is None:
            return REASONING["medium"] if self.shown else 0
        return REASONING[self.effort]

    @property
    def shown(self) -> bool:
        return (self.summary or self.generate_summary or "none") != "none"


class Format(Fields):
    type: Literal["text", "json_object", "json_schema"] = "text"
    name: Name | None = None
    description: str | None = None
    document: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool | None = None


class Text(Fields):
    format: Format | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class StreamOptions(Fields):
    include_obfuscation: bool | None = None


class CountRequest(Fields):
    """What makes up a prompt."""

    model: Annotated[str, Field(min_length=1)] | None = None
    input: str | Annotated[list[Any], BOUNDED] | None = None
    instructions: str | None = None
    tools: Annotated[list[Any], BOUNDED] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    previous_response_id: str | None = None
    conversation: str | dict[str, Any] | None = None
    reasoning: Reasoning | None = None
    text: Text | None = None
    truncation: Literal["auto", "disabled"] | None = None


class CompactRequest(CountRequest):
    model: Annotated[str, Field(min_length=1)]


class ResponsesRequest(CountRequest):
    """Every field of the API; those without effect on what is emulated are there for their types."""

    model: Annotated[str, Field(min_length=1)]
    service_tier: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    background: bool | None = None
    store: bool | None = None
    include: Annotated[list[str], BOUNDED] | None = None
    max_output_tokens: Annotated[int, Field(ge=OUTPUT_MIN)] | None = None
    max_tool_calls: Annotated[int, Field(ge=1)] | None = None
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    ignore_eos: bool | None = None
    seed: int | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    metadata: _Metadata | None = None
    prompt: dict[str, Any] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: Retention | None = None
    prompt_cache_options: CacheOptions | None = None
    safety_identifier: str | None = None
    user: str | None = None
    generate: bool | None = None  # over a WebSocket alone

    @property
    def caching(self) -> Caching:
        return caching(self.prompt_cache_key, self.prompt_cache_options, self.prompt_cache_retention)

    @property
    def kept(self) -> bool:
        """The response can be looked up later."""
        return self.store is not False

    @property
    def verboseness(self) -> float:
        """How long an answer without a limit is, beside what is natural."""
        return VERBOSITY[(self.text and self.text.verbosity) or "medium"]


def parse(body: bytes, streamed: bool = False) -> ResponsesRequest:
    """A request body, checked. `streamed`: it is, whatever it says, since there is no other way to answer it.

    Raises InvalidRequest with the dialect's code and the path of the faulty parameter.
    """
    request = read(body, ResponsesRequest, strict=False)
    if streamed:
        request = request.model_copy(update={"stream": True, "background": None})
    _check(request)
    return request


def parse_count(body: bytes) -> CountRequest:
    """The body of a request that only asks how long a prompt is. Raises InvalidRequest."""
    request = read(body, CountRequest, strict=False)
    _check_prompt(request)
    return request


def parse_compact(body: bytes) -> CompactRequest:
    """The body of a request to make a conversation shorter. Raises InvalidRequest."""
    request = read(body, CompactRequest, strict=False)
    _check_prompt(request)
    return request


def _check(request: ResponsesRequest) -> None:
    """Fields that do not go together."""
    _check_prompt(request)
    if request.prompt is not None:
        raise InvalidRequest(
            "Unsupported parameter: 'prompt' is not supported here, where no prompt templates are kept; send 'input'.",
            code="unsupported_parameter",
            param="prompt",
        )
    if request.stream_options is not None and not request.stream:
        raise InvalidRequest(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )
    if request.background and not request.kept:
        raise InvalidRequest("Background mode requires 'store' to be true.", param="background")


def own_items(request: CountRequest) -> tuple[Item, ...]:
    """The input of a request alone. Raises InvalidRequest."""
    return openai_responses_items.items(request.input if request.input is not None else [])


def conversation(request: CountRequest, items: Sequence[Item]) -> tuple[Item, ...]:
    """All that is to be read: instructions, and all items, in order. Raises InvalidRequest."""
    openai_responses_items.check_results(items)
    if request.instructions is None:
        return tuple(items)
    words = {"type": "input_text", "text": request.instructions}
    return ({"type": "message", "role": "developer", "content": [words]}, *items)


def tool_documents(request: CountRequest, items: Sequence[Item]) -> list[Any]:
    """The definitions of tools: those of the request, and those that items add."""
    added = [tool for item in items if item["type"] == "additional_tools" for tool in item.get("tools") or ()]
    return [*(request.tools or ()), *added]


def tool_text(documents: Sequence[Any]) -> str:
    """The definitions as the model is given them to read: their JSON."""
    return as_text(documents, "tools") if documents else ""


def wish(request: ResponsesRequest, documents: Sequence[Any]) -> Wish:
    """How the answer is to look. Raises InvalidRequest."""
    tools, mode = openai_responses_tools.chosen(
        openai_responses_tools.offered(documents), request.tool_choice, others=bool(documents)
    )
    form = (request.text and request.text.format) or Format(schema=None)
    return Wish(
        tools=tools,
        tool_choice=mode,
        parallel=request.parallel_tool_calls is not False,
        schema=_schema(form),
        strict=form.type == "json_object" or bool(form.strict),
        reasoning=request.reasoning.tokens if request.reasoning else 0,
        logprobs=_logprobs(request),
    )


def _logprobs(request: ResponsesRequest) -> int | None:
    if LOGPROBS in (request.include or ()) or request.top_logprobs:
        return request.top_logprobs or 0
    return None


def _schema(form: Format) -> bytes:
    if form.type == "text":
        return b""
    if form.type == "json_object":
        return ANY_OBJECT
    if form.name is None:
        raise missing("text.format.name")
    if form.document is None:
        raise missing("text.format.schema")
    text = as_json(form.document, "text.format.schema")
    fault = schema_fault(form.document, text, bool(form.strict))
    if fault is not None:
        raise InvalidRequest(
            f"Invalid schema for response_format '{form.name}': {fault}",
            code="invalid_json_schema",
            param="text.format.schema",
        )
    return text


def _check_prompt(request: CountRequest) -> None:
    if request.input is None and request.previous_response_id is None:
        raise missing("input")
    if request.conversation is not None:
        raise InvalidRequest(
            "Unsupported parameter: 'conversation' is not supported here; use 'previous_response_id'.",
            code="unsupported_parameter",
            param="conversation",
        )


def echo(request: ResponsesRequest) -> Mapping[str, Any]:
    """What a response says of its request, with the API's defaults for what was not said."""
    form = (request.text and request.text.format) or Format(schema=None)
    options = request.prompt_cache_options
    return {
        "background": bool(request.background),
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": request.max_tool_calls,
        "model": request.model,
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "previous_response_id": request.previous_response_id,
        "prompt_cache_key": request.prompt_cache_key,
        "prompt_cache_options": options.model_dump(exclude_unset=True) if options is not None else None,
        "prompt_cache_retention": request.prompt_cache_retention,
        "reasoning": {
            "effort": request.reasoning.effort if request.reasoning else None,
            "summary": request.reasoning.summary if request.reasoning else None,
        },
        "safety_identifier": request.safety_identifier,
        "store": request.kept,
        "temperature": 1.0 if request.temperature is None else request.temperature,
        "text": {
            "format": form.model_dump(by_alias=True, exclude_none=True),
            "verbosity": (request.text and request.text.verbosity) or "medium",
        },
        "tool_choice": "auto" if request.tool_choice is None else request.tool_choice,
        "tools": [_shown(tool) for tool in request.tools or ()],
        "top_logprobs": request.top_logprobs or 0,
        "top_p": 1.0 if request.top_p is None else request.top_p,
        "truncation": request.truncation or "disabled",
        "user": request.user,
        "metadata": request.metadata or {},
    }


def _shown(tool: Any) -> Any:
    if tool.get("type") != "function":
        return tool
    return {"description": None, "parameters": None, **tool, "strict": tool.get("strict") is not False}
