"""The error envelope of the Anthropic dialect, and what is wrong with a body in its words.

{"type": "error", "error": {type, message, details?}, "request_id"}. Types by status after the errors page of
Anthropic's API documentation. A fault's path is made of names, indices and tags:
`messages.0.content.1.text.text: Field required`.
"""

from typing import Any

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from service.errors import ContextLengthExceeded, Injected, InvalidRequest, OutputTooLong, ServiceError

ORGANIZATION = "11111111-2222-4333-8444-555555555555"  # whose API it is: made up, and told with every answer

_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OVERLOADED = 529

# What pydantic says otherwise, by its name for the fault; the rest of its words are the API's own.
_WORDS = {
    "list_type": "Input should be a valid array",
    "model_type": "Input should be an object",
    "model_attributes_type": "Input should be an object",
    "union_tag_not_found": "Field required",
}
# Codes that clients tell errors of one status apart by, after the error classes of Anthropic's Python SDK 2.14.
_CODES = frozenset(
    {
        "ramp_limit_exceeded",
        "enforced_spend_limit_reached",
        "contract_spend_limit_reached",
        "thread_not_found",
        "thread_unsupported_request",
    }
)
_RANGES = {
    "temperature": "range: 0..1",
    "top_p": "range: 0..1",
    "max_tokens": "must be greater than or equal to 0",
}


def envelope(error: ServiceError, request_id: str) -> bytes:
    """The body of an error answer."""
    return orjson.dumps({"type": "error", "error": _error(error), "request_id": request_id})


def event(error: ServiceError) -> bytes:
    """The payload of an error event within a stream."""
    return orjson.dumps({"type": "error", "error": _error(error)})


def status(error: ServiceError) -> int:
    """Where OpenAI says 503, Anthropic says 529; a server that shuts down is no overloaded one."""
    literal = error.reason == "draining" or isinstance(error, Injected)
    return _OVERLOADED if error.status == 503 and not literal else error.status


def invalid(words: str) -> InvalidRequest:
    return InvalidRequest(words)


def refusal(faulty: ValidationError) -> InvalidRequest:
    """The first fault found in a request body."""
    fault = faulty.errors(include_url=False)[0]
    path, words = ".".join(map(str, fault["loc"])), _words(fault)
    if fault["type"] == "union_tag_not_found":
        path += ".type"
    return invalid(f"{path}: {words}" if path else words)


def _words(fault: ErrorDetails) -> str:
    if fault["type"] in ("less_than_equal", "greater_than_equal") and fault["loc"][-1] in _RANGES:
        return _RANGES[str(fault["loc"][-1])]
    return _WORDS.get(fault["type"], fault["msg"])


def _error(error: ServiceError) -> dict[str, Any]:
    told = status(error)
    kind = error.type or _TYPES.get(told, "invalid_request_error" if told < 500 else "api_error")
    details = {"details": {"error_code": error.code}} if error.code in _CODES else {}
    return {"type": kind, "message": _message(error), **details}


def _message(error: ServiceError) -> str:
    """Limits are worded as clients of the API know them, which read numbers out of the words."""
    facts = error.facts
    match error:
        case OutputTooLong():
            limit = "which is the maximum allowed number of output tokens for"
            return f"max_tokens: {facts['wanted']} > {facts['most']}, {limit} {facts['model']}"
        case ContextLengthExceeded() if "wanted" in facts:
            limit = f"{facts['prompt']} + {facts['wanted']} > {facts['window']}"
            advice = "decrease input length or `max_tokens` and try again"
            return f"input length and `max_tokens` exceed context limit: {limit}, {advice}"
        case ContextLengthExceeded() if facts:
            return f"prompt is too long: {facts['prompt']} tokens > {facts['window']} maximum"
        case _:
            return error.message
