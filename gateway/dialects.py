"""What tells the dialects' answers apart, whichever route they come from: the words of errors, ids and headers.

Knows which of them a request speaks; not what it asks for.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Scope

from service.errors import RequestTimeout, ServiceError
from service.wire import anthropic_errors, openai_errors

NONE: Mapping[str, str] = MappingProxyType({})

_ANTHROPICS_OWN = ("/v1/messages",)
_OURS = ("/v1/tiers", "/v1/prices", "/v1/usage")
_OPENAIS_OWN = ("/v1/chat/", "/v1/completions", "/v1/embeddings", "/v1/responses", *_OURS)


class JSON(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else orjson.dumps(content)


@dataclass(frozen=True, slots=True)
class Dialect:
    """`envelope` words an error for a request of that id; `status` is what a client of this dialect is told.

    `fixed` headers are the same on every answer.
    """

    name: str
    id_header: str
    envelope: Callable[[ServiceError, str], bytes]
    status: Callable[[ServiceError], int]
    says_milliseconds: bool
    fixed: Mapping[str, str]

    def headers(self, request_id: str) -> dict[str, str]:
        """Of every answer."""
        return {self.id_header: request_id, **self.fixed}

    def answer(self, content: Any, status: int = 200, headers: Mapping[str, str] = NONE) -> JSON:
        """A whole answer, but for a generated one."""
        return JSON(content, status_code=status, headers={**self.headers(request_id()), **headers})

    def refuse(self, error: ServiceError, headers: Mapping[str, str] = NONE) -> JSON:
        """An error as an answer of its own."""
        own = request_id()
        more = {**self.headers(own), **self._advice(error), **error.headers, **headers}
        return JSON(self.envelope(error, own), status_code=self.status(error), headers=more)

    def _advice(self, error: ServiceError) -> dict[str, str]:
        more = {}
        if error.reason:
            more["x-fastmode-reason"] = error.reason
        if error.retry_after is not None:
            more["retry-after"] = str(max(1, round(error.retry_after)))
            if self.says_milliseconds:
                more["retry-after-ms"] = str(round(error.retry_after * 1000))
        if error.should_retry is not None:
            more["x-should-retry"] = str(error.should_retry).lower()
        if isinstance(error, RequestTimeout):
            more["connection"] = "close"  # what else comes belongs to the request that was given up
        return more


OPENAI = Dialect(
    name="openai",
    id_header="x-request-id",
    envelope=lambda error, _: openai_errors.envelope(error),
    status=lambda error: error.status,
    says_milliseconds=True,
    fixed=NONE,
)
ANTHROPIC = Dialect(
    name="anthropic",
    id_header="request-id",
    envelope=anthropic_errors.envelope,
    status=anthropic_errors.status,
    says_milliseconds=False,
    fixed=MappingProxyType({"anthropic-organization-id": anthropic_errors.ORGANIZATION}),
)


def request_id() -> str:
    """What a client and the operator of this service can both call a request."""
    return f"req_{uuid.uuid4().hex}"


def spoken(scope: Scope) -> Dialect:
    """The dialect of a request: that of its path, and on paths that both have, that of the versioned header."""
    path = scope["path"]
    if path.startswith(_ANTHROPICS_OWN):
        return ANTHROPIC
    if path.startswith(_OPENAIS_OWN):
        return OPENAI
    return ANTHROPIC if any(name == b"anthropic-version" for name, _ in scope["headers"]) else OPENAI
