"""The error envelope of the Anthropic dialect: {"type": "error", "error": {type, message}, "request_id"}.

Types by status after the errors page of Anthropic's API documentation.
"""

import orjson

from service.errors import Injected, ServiceError

_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OVERLOADED = 529


def envelope(error: ServiceError, request_id: str) -> bytes:
    """The body of an error answer."""
    told = status(error)
    kind = error.type or _TYPES.get(told, "api_error" if told >= 500 else "invalid_request_error")
    words = {"type": kind, "message": error.message}
    return orjson.dumps({"type": "error", "error": words, "request_id": request_id})


def status(error: ServiceError) -> int:
    """Where OpenAI says 503, Anthropic says 529."""
    return _OVERLOADED if error.status == 503 and not isinstance(error, Injected) else error.status
