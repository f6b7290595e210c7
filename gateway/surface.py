"""What each surface brings along to have its requests answered: words for a stream, and for an answer that is none."""

from typing import Protocol

from starlette.responses import Response

from service.errors import ServiceError
from service.messages import Delta, Usage
from service.wire.gathered import Answer


class Encoder(Protocol):
    """What a surface makes of a stream.

    The opening comes once, before all other events; `usage` is what is known of the prompt by then. A keep-alive says
    nothing; one that is an event itself has to be opened for (`opens_early`), a comment need not.
    """

    opens_early: bool

    def opening(self, usage: Usage) -> bytes: ...
    def delta(self, delta: Delta) -> bytes: ...
    def keepalive(self) -> bytes: ...
    def closing(self, usage: Usage) -> bytes: ...
    def failure(self, error: ServiceError) -> bytes: ...


class Speech(Protocol):
    """What a surface makes of an answer that is not, or not yet, a stream. Its headers are the same for both."""

    def headers(self) -> list[tuple[bytes, bytes]]: ...
    def whole(self, answers: list[Answer], usage: Usage) -> bytes: ...
    def refusal(self, error: ServiceError) -> Response: ...
