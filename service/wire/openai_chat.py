"""Chat completions inwards: a request body, checked, and what it wants of an answer. Sans-IO.

Fields and bounds after the OpenAPI document of the OpenAI API, as openai 3.57 has them in its types. What would mislead
if it were neglected in silence is refused: sound, and searching the web.

Knows nothing of tiers, queues or engines. Answers are worded in service.wire.openai_chat_answer.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from service.errors import InvalidRequest
from service.messages import Tool, Turn, Wish
from service.wire import openai_messages, openai_tools
from service.wire.openai_body import (
    BOUNDED,
    Biases,
    Fields,
    Penalty,
    Seed,
    Stops,
    StreamOptions,
    as_text,
    check_streaming,
    read,
)
from service.wire.openai_caching import CacheOptions, Caching, Retention, caching
from service.wire.openai_formats import ResponseFormat
from service.wire.openai_messages import IMAGE_TOKENS, Message
from service.wire.openai_tools import Functions, Mode, Named, ToolChoice, Tools

__all__ = ["IMAGE_TOKENS", "ChatRequest", "parse"]

# Assumed: no maker publishes how long its models think. Each step is two to four times the one below, as in the token
# counts that public evaluations report for the efforts of one model.
REASONING = {"none": 0, "minimal": 32, "low": 128, "medium": 512, "high": 1536, "xhigh": 4096, "max": 8192}
VERBOSITY = {"low": 0.4, "medium": 1.0, "high": 2.5}  # of the natural length; assumed, too

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
_Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
]


class PredictedText(Fields):
    type: Literal["text"]
    text: str


class Prediction(Fields):
    type: Literal["content"]
    content: str | Annotated[list[PredictedText], BOUNDED]

    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatRequest(Fields):
    """Every field of the API; those without effect on what is emulated are there for their types."""

    model: Annotated[str, Field(min_length=1)]
    messages: Annotated[list[Message], Field(min_length=1), BOUNDED]
    service_tier: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    ignore_eos: bool | None = None
    stop: Stops | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    seed: Seed | None = None
    reasoning_effort: Effort | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    prediction: Prediction | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    response_format: ResponseFormat | None = None

    tools: Tools | None = None
    tool_choice: Mode | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    functions: Functions | None = None
    function_call: Literal["none", "auto"] | Named | None = None

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: Biases | None = None

    store: bool | None = None
    metadata: _Metadata | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: Retention | None = None
    prompt_cache_options: CacheOptions | None = None
    moderation: dict[str, Any] | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    audio: dict[str, Any] | None = None
    web_search_options: dict[str, Any] | None = None

    @property
    def output_limit(self) -> int | None:
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens

    @property
    def verboseness(self) -> float:
        """How long an answer without a limit is, beside what is natural."""
        return VERBOSITY[self.verbosity or "medium"]

    @property
    def caching(self) -> Caching:
        return caching(self.prompt_cache_key, self.prompt_cache_options, self.prompt_cache_retention)

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def usage_in_every_chunk(self) -> bool:
        return self.include_usage and bool(self.stream_options and self.stream_options.continuous_usage_stats)

    @property
    def include_obfuscation(self) -> bool:
        return self.stream_options is None or self.stream_options.include_obfuscation is not False

    @property
    def custom_tools(self) -> frozenset[str]:
        """The names of those that take text."""
        return frozenset(tool.custom.name for tool in self.tools or () if tool.custom is not None)

    def turns(self) -> tuple[Turn, ...]:
        return openai_messages.turns(self.messages)

    def images(self) -> tuple[tuple[bytes, ...], ...]:
        """Of each message; empty if none has any."""
        return openai_messages.images(self.messages)

    def tool_text(self) -> str:
        """The definitions of tools as the model is given them to read.

        That is their JSON. The real models are given a shorter notation that is not published, so the real count of
        prompt tokens is somewhat lower.
        """
        defined = self.tools or self.functions
        return as_text([each.model_dump(exclude_unset=True) for each in defined], "tools") if defined else ""

    def wish(self) -> Wish:
        """How the answer is to look. Raises InvalidRequest."""
        tools, choice = self._tools()
        form = self.response_format
        return Wish(
            tools=tools,
            tool_choice=choice,
            parallel=self.functions is None and self.parallel_tool_calls is not False,
            schema=form.schema_text(self.turns()) if form else b"",
            strict=form.strict if form else False,
            reasoning=REASONING[self.reasoning_effort] if self.reasoning_effort else 0,
            prediction=self.prediction.text() if self.prediction else "",
            logprobs=(self.top_logprobs or 0) if self.logprobs else None,
        )

    def _tools(self) -> tuple[tuple[Tool, ...], Mode]:
        if self.tools:
            return openai_tools.chosen(openai_tools.offered(self.tools), self.tool_choice)
        if self.functions:
            return openai_tools.chosen_function(openai_tools.offered_functions(self.functions), self.function_call)
        return (), "auto"


def parse(body: bytes, strict: bool = True) -> ChatRequest:
    """A request body, checked; `strict`: unknown fields are refused.

    Raises InvalidRequest with the dialect's code and the path of the faulty parameter.
    """
    request = read(body, ChatRequest, strict)
    openai_messages.check(request.messages)
    check_streaming(request.stream, request.stream_options)
    _require_company(request)
    _refuse_the_unsupported(request)
    if request.prediction is not None:
        _check_prediction(request)
    return request


def _require_company(request: ChatRequest) -> None:
    """Fields that mean nothing without another one."""
    for param, given, other, there in (
        ("tool_choice", request.tool_choice, "tools", request.tools),
        ("parallel_tool_calls", request.parallel_tool_calls, "tools", request.tools),
        ("function_call", request.function_call, "functions", request.functions),
    ):
        if given is not None and there is None:
            raise InvalidRequest(
                f"Invalid value for '{param}': '{param}' is only allowed when '{other}' are specified.", param=param
            )
    if request.top_logprobs and not request.logprobs:
        raise InvalidRequest(
            "The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.", param="top_logprobs"
        )
    if request.tools and request.functions:
        raise InvalidRequest("Only one of 'tools' and 'functions' may be specified.", param="functions")


def _refuse_the_unsupported(request: ChatRequest) -> None:
    if "audio" in (request.modalities or ()):
        raise InvalidRequest(
            "Unsupported value: 'modalities' does not support 'audio' with this model. Supported values are: 'text'.",
            code="unsupported_value",
            param="modalities",
        )
    if request.web_search_options is not None:
        raise InvalidRequest(
            "Unsupported parameter: 'web_search_options' is not supported with this model.",
            code="unsupported_parameter",
            param="web_search_options",
        )


def _check_prediction(request: ChatRequest) -> None:
    """The guide to predicted outputs names what they do not go together with."""
    for param, asked in (
        ("n", (request.n or 1) > 1),
        ("tools", request.tools),
        ("functions", request.functions),
        ("logprobs", request.logprobs),
        ("presence_penalty", (request.presence_penalty or 0) > 0),
        ("frequency_penalty", (request.frequency_penalty or 0) > 0),
    ):
        if asked:
            raise InvalidRequest(
                f"Unsupported parameter: '{param}' is not supported together with 'prediction'.",
                code="unsupported_parameter",
                param=param,
            )
