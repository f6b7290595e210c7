"""The body of a message request, checked: fields, types and ranges, in the order in which the real API reports faults.

Shapes after the types of Anthropic's Python SDK (2.14, and 0.125 for what newer versions of the API have dropped). What
one field means for another, for the API's version or for the model is for `anthropic_rules`.
"""

from collections.abc import Set
from typing import Annotated, Any, Literal, TypeVar

import orjson
from pydantic import Field, PrivateAttr, ValidationError

from service.wire.anthropic_blocks import CacheControl, Contents, Fields, Texts
from service.wire.anthropic_errors import invalid, refusal
from service.wire.anthropic_thinking import Config, Effort
from service.wire.anthropic_tools import AnyTool, Choice

VERBOSITY: dict[Effort, float] = {"low": 0.5, "medium": 0.8, "high": 1.0, "xhigh": 1.1, "max": 1.2}  # assumed
_MESSAGES_MAX = 100_000  # in one request, after the API reference


class Message(Fields):
    """`clear_at` and `output_config` belong to a beta's messages of role system."""

    role: str
    content: Contents


class Format(Fields):
    type: Literal["json_schema"]
    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class OutputConfig(Fields):
    effort: Effort | None = None
    format: Format | None = None


class Metadata(Fields):
    user_id: str | None = None


class CountRequest(Fields):
    """What is sent to have the tokens of a prompt counted."""

    model: Annotated[str, Field(min_length=1)]
    tool_choice: Choice | None = None
    tools: list[AnyTool] | None = None
    messages: Annotated[list[Message], Field(max_length=_MESSAGES_MAX, fail_fast=True)]
    system: Texts | None = None
    thinking: Config | None = None
    output_config: OutputConfig | None = None
    output_format: Format | None = None  # where a beta had what output_config.format is
    cache_control: CacheControl | None = None
    speed: str | None = None
    mcp_servers: list[dict[str, Any]] | None = None
    context_management: dict[str, Any] | None = None
    _tools: list[dict[str, Any]] = PrivateAttr(default_factory=list)

    @property
    def tool_documents(self) -> list[dict[str, Any]]:
        """The definitions of tools as they came."""
        return self._tools

    @property
    def schema_document(self) -> dict[str, Any] | None:
        """The JSON Schema that the answer's text has to satisfy."""
        given = (self.output_config and self.output_config.format) or self.output_format
        return given.schema_ if given else None

    @property
    def verbosity(self) -> float:
        """The length of an answer that ends by itself, as a factor on what is natural."""
        return VERBOSITY[self.effort or "high"]

    @property
    def effort(self) -> Effort | None:
        return self.output_config.effort if self.output_config else None


class NewThread(Fields):
    type: Literal["create"]


class ContinuedThread(Fields):
    type: Literal["continue"]
    previous_message_id: str


class MessagesRequest(CountRequest):
    """What is sent to have a message written."""

    max_tokens: Annotated[int, Field(ge=0)]
    metadata: Metadata | None = None
    stop_sequences: list[str] | None = None
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    service_tier: str | None = None
    top_k: int | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    stream: bool | None = None
    container: str | dict[str, Any] | None = None
    inference_geo: Literal["global", "us"] | None = None
    diagnostics: dict[str, Any] | None = None
    thread: Annotated[NewThread | ContinuedThread, Field(discriminator="type")] | None = None


_Request = TypeVar("_Request", bound=CountRequest)
_BESIDE = MessagesRequest.model_fields.keys() - CountRequest.model_fields.keys()


def parse(body: bytes, lenient: bool) -> MessagesRequest:
    """A body to be answered. With a beta header it is read leniently: unknown fields and blocks may belong to the beta.

    Raises InvalidRequest.
    """
    return _parse(body, MessagesRequest, lenient)


def parse_count(body: bytes, lenient: bool) -> CountRequest:
    """A body to be counted. All that a message request may have is taken and, as far as it costs no tokens, ignored."""
    return _parse(body, CountRequest, lenient, beside=_BESIDE)


def _parse(body: bytes, kind: type[_Request], lenient: bool, beside: Set[str] = frozenset()) -> _Request:
    try:
        document = orjson.loads(body)  # stricter than pydantic's own: no NaN, no lone surrogates
    except orjson.JSONDecodeError as error:
        raise invalid(f"The request body is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise invalid("Input should be an object")
    document = {name: value for name, value in document.items() if name not in beside}
    try:
        request = kind.model_validate(document, extra="ignore" if lenient else None, context=lenient or None)
    except ValidationError as faulty:
        raise refusal(faulty) from None
    request._tools = document.get("tools") or []
    return request
