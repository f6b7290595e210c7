"""What request bodies of the OpenAI dialect have in common: their JSON, types of fields, and fields nobody knows.

The API refuses a top-level field that it does not know, and ignores unknown fields further down. So does this: whoever
misspells a parameter learns of it here and not in production. What servers and routers understand beyond it that speak
this dialect, too, is let through, since their clients send it wherever they are pointed.
"""

from typing import Annotated, Any, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from service.errors import InvalidRequest
from service.wire.openai_errors import not_json, refusal
from service.wire.openai_extensions import EXTENSIONS

# No list is longer than the most messages that the API takes, so that what a body costs to check is bounded. The first
# fault in a list is enough.
LIST_MAX = 2048
BOUNDED = Field(max_length=LIST_MAX, fail_fast=True)
_SEED_MAX = 2**63 - 1

Stop = Annotated[str, Field(min_length=1)]
Stops = Stop | Annotated[list[Stop], Field(max_length=4)]
Seed = Annotated[int, Field(ge=-_SEED_MAX - 1, le=_SEED_MAX)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Biases = dict[str, Annotated[float, Field(ge=-100, le=100)]]

_RESERVED = "x_"  # and any name that begins so


class Fields(BaseModel):
    """Types are checked without conversion."""

    model_config = ConfigDict(extra="ignore", strict=True)


class StreamOptions(Fields):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None  # of vLLM
    include_obfuscation: bool | None = None


Body = TypeVar("Body", bound=Fields)


def read(body: bytes, model: type[Body], strict: bool) -> Body:
    """A request body as what `model` says. `strict`: unknown fields are refused.

    Raises InvalidRequest with the dialect's code and the path of the faulty parameter.
    """
    try:
        document = orjson.loads(body)  # stricter than pydantic's own: no NaN, no lone surrogates
    except orjson.JSONDecodeError as error:
        raise not_json(str(error)) from None
    try:
        request = model.model_validate(document)
    except ValidationError as invalid:
        raise refusal(invalid, model) from None
    if strict:
        _refuse_strangers(document, model)
    return request


def _refuse_strangers(document: dict[str, Any], model: type[BaseModel]) -> None:
    for name in document:
        if name not in model.model_fields and name not in EXTENSIONS and not name.startswith(_RESERVED):
            raise InvalidRequest(
                f"Unrecognized request argument supplied: {name[:100]}", code="unknown_parameter", param=name[:100]
            )


def check_streaming(stream: bool | None, options: StreamOptions | None) -> None:
    """Raises InvalidRequest."""
    if options is not None and not stream:
        raise InvalidRequest(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )


def as_text(document: Any, param: str) -> str:
    """JSON as text. Raises InvalidRequest: reading goes deeper (1,024 levels) than writing (254)."""
    return as_json(document, param).decode()


def as_json(document: Any, param: str) -> bytes:
    """As `as_text`, in bytes."""
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:
        raise InvalidRequest(f"Invalid '{param}': nested too deeply.", param=param) from None
