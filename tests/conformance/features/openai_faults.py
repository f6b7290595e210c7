"""Faults that a request asks for, and what the client makes of them."""

from typing import Any

from features import feature
from features.openai_door import FAULT, HELLO, MODEL, Door
from features.raising import listen, raises


def _meeting(fault: str, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": HELLO, "max_tokens": 20, "extra_headers": {FAULT: fault}, **fields}


@feature
def statuses_become_the_clients_exceptions(door: Door) -> None:
    """401, 403, 404, 409, 422, 429, 500 and 503 become the client's exceptions, with their codes"""
    library = door.library
    expected = {
        401: library.AuthenticationError, 403: library.PermissionDeniedError, 404: library.NotFoundError,
        409: library.ConflictError, 422: library.UnprocessableEntityError, 429: library.RateLimitError,
        500: library.InternalServerError, 503: library.InternalServerError,
    }  # fmt: skip
    for status, kind in expected.items():
        with raises(kind) as raised:
            door.client.chat.completions.create(**_meeting(f"status={status}"))
        assert raised.error.status_code == status
        assert raised.error.body.keys() >= {"message", "type", "param", "code"}


@feature
def rate_limits_say_when_to_come_back(door: Door) -> None:
    """A 429 says when to come back: in retry-after, in retry-after-ms, and in words"""
    with raises(door.library.RateLimitError) as raised:
        door.client.chat.completions.create(**_meeting("status=429; retry_after=3"))
    headers = raised.error.response.headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("3", "3000")
    assert raised.error.code == "rate_limit_exceeded"
    assert "try again in 3" in raised.error.message


@feature
def clients_retry_what_may_be_retried(door: Door) -> None:
    """The client retries a 429 and a 503, and not a 400 or a spent quota"""
    for fault, retries in (
        ("status=429; retry_after=0.01", 2), ("status=503; retry_after=0.01", 2), ("status=400", 0),
        ("status=429; code=insufficient_quota; retry_after=0.01", 0),
    ):  # fmt: skip
        counted: list[Any] = []
        http = door.library.DefaultHttpxClient(trust_env=False, event_hooks={"request": [counted.append]})
        client = door.synchronous(max_retries=2, http_client=http)
        with raises(door.library.APIStatusError):
            client.chat.completions.create(**_meeting(fault))
        assert len(counted) == 1 + retries, (fault, len(counted))


@feature
def errors_in_streams_are_raised(door: Door) -> None:
    """An error in the middle of a stream is raised after what came before it"""
    chunks, error = listen(door.client.chat.completions.create(**_meeting("error@5", stream=True)))
    assert sum(bool(chunk.choices[0].delta.content) for chunk in chunks) >= 5
    assert isinstance(error, door.library.APIError)
    assert error.body.keys() >= {"message", "type", "param", "code"}


@feature
def streams_that_are_cut_do_not_look_complete(door: Door) -> None:
    """A stream that is cut off has no finish reason"""
    chunks, error = listen(door.client.chat.completions.create(**_meeting("cut@5", stream=True)))
    assert chunks
    assert not any(chunk.choices[0].finish_reason for chunk in chunks)
    assert not isinstance(error, door.library.APIStatusError)


@feature
def timeouts_are_the_clients(door: Door) -> None:
    """A client that loses patience raises APITimeoutError"""
    with raises(door.library.APITimeoutError):
        door.client.chat.completions.create(**_meeting("slow=5"), timeout=0.2)
