"""Every refusal and failure the service can answer with. Each knows its HTTP status and its machine-readable code.

    FastmodeError
    ├── CatalogError            the catalog cannot be used; the message names the key and the reasoning
    ├── MeasurementsError       a file of measurements cannot be used; the message names line and column
    ├── CalibrationError        an endpoint cannot be measured: its URL, its key, what it answers, what is asked for
    ├── PlanError               what is asked for cannot be planned
    ├── RulesError              a file of rules cannot be used; the message names the key and the reasoning
    ├── TraceError              a file of requests cannot be used; the message names the line
    ├── ScenarioError           a load test cannot be run: its file, its endpoint, what is asked for
    ├── PlotError               a plot cannot be saved as that
    └── ServiceError            something a client is told; carries status, code, param
        ├── InvalidRequest      400  the body is wrong                        (code: invalid_value, ...)
        │   ├── ContextLengthExceeded      the prompt does not fit the model's context window
        │   ├── OutputTooLong              more is asked for than the model can say
        │   └── TierNotOffered             the model is not sold at that tier
        ├── Unauthorized        401
        ├── Forbidden           403  the model exists, and not for that
        ├── ModelNotFound       404
        ├── NotFound            404
        ├── MethodNotAllowed    405
        ├── RequestTimeout      408  the client stopped sending before its request was whole
        ├── BodyTooLarge        413
        ├── UnsupportedMedia    415
        ├── Contended           429  capacity exists, and others hold it: the queue is full or its deadline passed
        │   └── RateLimited              or the account has used what it may use in a minute
        ├── QuotaExceeded       429  the account has spent what it may spend
        ├── Unavailable         503  no capacity: no workers, draining, Redis away
        ├── Broken              500  a job failed, or its stream cannot be completed
        └── Injected            any  what somebody asked for, to see what a client makes of it

How an error looks on the wire is the business of each dialect in service.wire.
"""

from collections.abc import Mapping
from types import MappingProxyType

_NONE: Mapping[str, int | str] = MappingProxyType({})
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class FastmodeError(Exception):
    """Root of the tree."""


class CatalogError(FastmodeError):
    """The catalog cannot be used."""


class MeasurementsError(FastmodeError):
    """A file of measurements cannot be used."""


class CalibrationError(FastmodeError):
    """An endpoint cannot be measured, or not so; asking again would not help."""


class PlanError(FastmodeError):
    """A workload, a mix of tiers or an SLO that cannot be planned."""


class RulesError(FastmodeError):
    """A file of rules cannot be used."""


class TraceError(FastmodeError):
    """A file of requests cannot be used."""


class ScenarioError(FastmodeError):
    """A load test that cannot be run, or reported; the message says what to do."""


class PlotError(FastmodeError):
    """A plot cannot be saved where, or as what, it is wanted."""


class ServiceError(FastmodeError):
    """Something a client is told.

    `reason` comes from a closed set and goes into the x-fastmode-reason header; `retry_after` is in seconds. `facts`
    are what the message says, for dialects that have words of their own for it. `type` is another than a dialect says
    with the status; `should_retry` overrules what clients do by themselves; `headers` are further ones of the answer.
    """

    status = 500
    code: str | None = None
    reason: str | None = None
    type: str | None = None
    should_retry: bool | None = None
    headers: Mapping[str, str] = _NO_HEADERS

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        reason: str | None = None,
        retry_after: float | None = None,
        facts: Mapping[str, int | str] = _NONE,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code if code is not None else type(self).code
        self.param = param
        self.reason = reason if reason is not None else type(self).reason
        self.retry_after = retry_after
        self.facts = facts


class InvalidRequest(ServiceError):
    status = 400
    code = "invalid_value"


class ContextLengthExceeded(InvalidRequest):
    code = "context_length_exceeded"


class OutputTooLong(InvalidRequest):
    """The limit on output tokens is above the model's own."""


class TierNotOffered(InvalidRequest):
    code = "tier_not_offered"


class Unauthorized(ServiceError):
    status = 401
    code = "invalid_api_key"


class Forbidden(ServiceError):
    status = 403


class ModelNotFound(ServiceError):
    status = 404
    code = "model_not_found"


class NotFound(ServiceError):
    status = 404
    code = "not_found"


class MethodNotAllowed(ServiceError):
    status = 405
    code = "method_not_allowed"


class RequestTimeout(ServiceError):
    status = 408
    code = "request_timeout"


class BodyTooLarge(ServiceError):
    status = 413
    code = "request_too_large"


class UnsupportedMedia(ServiceError):
    status = 415
    code = "unsupported_media_type"


class Contended(ServiceError):
    status = 429
    code = "rate_limit_exceeded"


class RateLimited(Contended):
    reason = "rate_limit"


class QuotaExceeded(ServiceError):
    status = 429
    code = "insufficient_quota"
    reason = "budget"
    should_retry = False


class Unavailable(ServiceError):
    status = 503
    code = "server_is_overloaded"


class Broken(ServiceError):
    status = 500
    code = "server_error"


class Injected(ServiceError):
    """Its status is meant literally: every dialect says just that one."""

    def __init__(self, status: int, message: str, *, code: str, reason: str, retry_after: float | None) -> None:
        super().__init__(message, code=code, reason=reason, retry_after=retry_after)
        self.status = status
