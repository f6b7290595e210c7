"""Chat completions: the request body inwards; the whole answer and the chunks of a stream outwards. Sans-IO.

Shapes after the OpenAPI document of the OpenAI API and recorded traffic: every chunk of a stream has the same id and
`created`, `service_tier` on each, the role first, one finish chunk per choice, then one chunk with empty `choices` for
the usage if it was asked for, then [DONE].

Knows nothing of tiers, queues or engines. Text arrives as service.messages.Delta defines it, already escaped.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from service.errors import InvalidRequest, ServiceError
from service.messages import Delta, Turn, Usage
from service.wire import sse
from service.wire.gathered import Answer
from service.wire.openai_errors import envelope, missing, not_json, refusal

IMAGE_TOKENS = 85  # assumed: what an image of low detail costs in the published vision price tables

# The real API takes at most 2,048 messages; here the bound holds for every list, so that what a body costs to check is
# bounded too. The first fault in a list is enough.
_BOUNDED = Field(max_length=2048, fail_fast=True)
_Stop = Annotated[str, Field(min_length=1)]

_NEEDED = {
    "developer": ("content",),
    "system": ("content",),
    "user": ("content",),
    "tool": ("content", "tool_call_id"),
}


class _Lenient(BaseModel):
    """The real API ignores most fields it does not know; types it does know are checked without conversion."""

    model_config = ConfigDict(extra="ignore", strict=True)


class ImageUrl(_Lenient):
    url: str


class Part(_Lenient):
    """A piece of a message. `type` names the field that holds it."""

    type: Literal["text", "refusal", "image_url"]
    text: str | None = None
    refusal: str | None = None
    image_url: ImageUrl | None = None

    def words(self) -> str:
        """What can be read of it."""
        held = getattr(self, self.type)
        return held if isinstance(held, str) else ""


class Message(_Lenient):
    """One turn. The names of participants are accepted, and neither shown to the model nor counted."""

    role: Literal["developer", "system", "user", "assistant", "tool", "function"]
    content: str | Annotated[list[Part], _BOUNDED] | None = None
    tool_calls: Annotated[list[dict[str, Any]], _BOUNDED] | None = None
    tool_call_id: str | None = None

    def missing(self) -> str | None:
        """The path, from here, of something that its role or one of its parts cannot do without."""
        for field in _NEEDED.get(self.role, ()):
            if getattr(self, field) is None:
                return field
        if isinstance(self.content, list):
            for index, part in enumerate(self.content):
                if getattr(part, part.type) is None:
                    return f"content[{index}].{part.type}"
        return None

    def text(self) -> str:
        """All that is text in it, tool calls included: what the model would be given to read."""
        content = self.content or ""
        said = content if isinstance(content, str) else "".join(part.words() for part in content)
        return said + (_readable(self.tool_calls, "messages") if self.tool_calls else "")

    def images(self) -> tuple[bytes, ...]:
        """What tells its images apart: digests of what they are, or of where."""
        parts = self.content if isinstance(self.content, list) else []
        return tuple(
            blake2b(part.image_url.url.encode(), digest_size=16).digest()
            for part in parts
            if part.type == "image_url" and part.image_url
        )


class StreamOptions(_Lenient):
    include_usage: bool | None = None


class ChatRequest(_Lenient):
    """The fields that are honoured, and those whose silent neglect would mislead."""

    model: Annotated[str, Field(min_length=1)]
    messages: Annotated[list[Message], Field(min_length=1), _BOUNDED]
    service_tier: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    ignore_eos: bool | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    stop: _Stop | Annotated[list[_Stop], Field(max_length=4)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: Annotated[list[dict[str, Any]], _BOUNDED] | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, Any] | None = None
    function_call: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    modalities: list[str] | None = None

    @property
    def output_limit(self) -> int | None:
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    def turns(self) -> tuple[Turn, ...]:
        return tuple(Turn(message.role, message.text()) for message in self.messages)

    def images(self) -> tuple[tuple[bytes, ...], ...]:
        """Of each message; empty if none has any."""
        images = tuple(message.images() for message in self.messages)
        return images if any(images) else ()

    def tool_text(self) -> str:
        """The definitions of tools as the model is given them to read.

        That is their JSON. The real models are given a shorter notation that is not published, so the real count of
        prompt tokens is somewhat lower.
        """
        return _readable(self.tools, "tools") if self.tools else ""


def _readable(document: list[dict[str, Any]], param: str) -> str:
    """JSON as text. Raises InvalidRequest: reading goes deeper (1,024 levels) than writing (254)."""
    try:
        return orjson.dumps(document).decode()
    except orjson.JSONEncodeError:
        raise InvalidRequest(f"Invalid '{param}': nested too deeply.", param=param) from None


def parse(body: bytes) -> ChatRequest:
    """A request body, checked. Raises InvalidRequest with the dialect's code and the path of the faulty parameter."""
    try:
        document = orjson.loads(body)  # stricter than pydantic's own: no NaN, no lone surrogates
    except orjson.JSONDecodeError as error:
        raise not_json(str(error)) from None
    try:
        request = ChatRequest.model_validate(document)
    except ValidationError as invalid:
        raise refusal(invalid, ChatRequest) from None
    _require_what_is_missing(request)
    _refuse_the_unsupported(request)
    return request


def _require_what_is_missing(request: ChatRequest) -> None:
    for index, message in enumerate(request.messages):
        field = message.missing()
        if field is not None:
            raise missing(f"messages[{index}].{field}")


def _refuse_the_unsupported(request: ChatRequest) -> None:
    if request.stream_options is not None and not request.stream:
        raise InvalidRequest(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )
    forced_tool = isinstance(request.tool_choice, dict) or request.tool_choice == "required"
    forced_function = isinstance(request.function_call, dict)
    structured = (request.response_format or {}).get("type", "text") != "text"
    spoken = "audio" in (request.modalities or ())
    for param, asked in (
        ("logprobs", request.logprobs),
        ("top_logprobs", request.top_logprobs),
        ("tool_choice", forced_tool),
        ("function_call", forced_function),
        ("response_format", structured),
        ("modalities", spoken),
    ):
        if asked:
            raise InvalidRequest(
                f"Unsupported value: '{param}' asks for something this service does not emulate.",
                code="unsupported_value",
                param=param,
            )


@dataclass(frozen=True, slots=True)
class Head:
    """What every object of one answer says about itself."""

    id: str
    created: int
    model: str
    service_tier: str
    system_fingerprint: str

    def fields(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "service_tier": self.service_tier,
            "system_fingerprint": self.system_fingerprint,
        }


def completion(head: Head, answers: list[Answer], usage: Usage) -> bytes:
    """The whole answer."""
    choices = b",".join(
        b'{"index":%d,"message":{"role":"assistant","content":"%b","refusal":null,"annotations":[]},'
        b'"logprobs":null,"finish_reason":%b}' % (index, answer.text(), orjson.dumps(answer.finish))
        for index, answer in enumerate(answers)
    )
    opening = orjson.dumps(head.fields("chat.completion"))[:-1]
    return b'%b,"choices":[%b],"usage":%b}' % (opening, choices, orjson.dumps(_usage(usage)))


class Chunks:
    """Encodes one stream. All that does not change between tokens is rendered once, here."""

    opens_early = False

    def __init__(self, head: Head, choices: int, include_usage: bool) -> None:
        self._start = b"data: " + orjson.dumps(head.fields("chat.completion.chunk"))[:-1] + b',"choices":['
        self._end = b"]%b}\n\n" % (b',"usage":null' if include_usage else b"")
        self._choices = choices
        self._include_usage = include_usage
        self._before = [b'%b{"index":%d,"delta":{"content":"' % (self._start, index) for index in range(choices)]
        self._after = b'"},"logprobs":null,"finish_reason":null}' + self._end
        self._between = [self._after + before for before in self._before]

    def opening(self, _: Usage) -> bytes:
        """The chunks that come before any token: who speaks, once per choice."""
        role = b'{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}'
        return b"".join(b'%b{"index":%d,"delta":%b%b' % (self._start, i, role, self._end) for i in range(self._choices))

    def delta(self, delta: Delta) -> bytes:
        """One event for each token with text, and the finish chunk behind the last."""
        choice, text = delta.choice, delta.text
        events = self._before[choice] + text.replace(b"\n", self._between[choice]) + self._after if text else b""
        return events if delta.finish is None else events + self._finish(choice, delta.finish)

    def keepalive(self) -> bytes:
        return sse.KEEPALIVE

    def closing(self, usage: Usage) -> bytes:
        """What follows when all choices have finished."""
        if not self._include_usage:
            return sse.DONE
        return self._start + b'],"usage":%b}\n\n' % orjson.dumps(_usage(usage)) + sse.DONE

    def failure(self, error: ServiceError) -> bytes:
        """A stream that cannot be completed says so; no [DONE] follows."""
        return sse.data(envelope(error))

    def _finish(self, choice: int, reason: str) -> bytes:
        chunk = b'{"index":%d,"delta":{},"logprobs":null,"finish_reason":"%b"}' % (choice, reason.encode())
        return self._start + chunk + self._end


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
