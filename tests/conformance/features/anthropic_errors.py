"""What is refused, and as which of the client's exceptions."""

from typing import Any

from features import feature
from features.anthropic_door import FAULT, HELLO, MODEL, Door
from features.plain_http import post
from features.raising import raises


def _is_envelope(body: Any, kind: str) -> bool:
    error = body["error"]
    return body["type"] == "error" and error["type"] == kind and bool(error["message"]) and bool(body["request_id"])


@feature
def an_unknown_model_is_not_found(door: Door) -> None:
    """An unknown model is NotFoundError, and body and header have the same request id"""
    with raises(door.library.NotFoundError) as raised:
        door.say(model="claude-nonexistent")
    error = raised.error
    assert _is_envelope(error.body, "not_found_error")
    assert error.body["request_id"] == error.response.headers["request-id"] == error.request_id


@feature
def what_is_wrong_is_named(door: Door) -> None:
    """Values of a wrong type are BadRequestError, and the path of the fault is named"""
    wrong: dict[str, Any] = {
        "max_tokens": 0.5, "messages": "Hello", "system": 5, "stop_sequences": "x", "stream": "yes", "tools": {},
    }  # fmt: skip
    for name, value in wrong.items():
        with raises(door.library.BadRequestError) as raised:
            door.say(extra_body={name: value})
        assert _is_envelope(raised.error.body, "invalid_request_error")
        assert raised.error.body["error"]["message"].startswith(name), raised.error.body


@feature
def what_is_missing_is_named(door: Door) -> None:
    """A body without model, messages or max_tokens is 400 and names it"""
    body = {"model": MODEL, "messages": HELLO, "max_tokens": 9}
    for missing in body:
        partial = {name: value for name, value in body.items() if name != missing}
        answer = post(door.url, "/v1/messages", partial, anthropic_version="2023-06-01")
        assert (answer.status, answer.json["error"]["message"]) == (400, f"{missing}: Field required")


@feature
def conversations_have_rules(door: Door) -> None:
    """No messages, an unknown role, an empty text, and an unknown block are 400"""
    for messages in (
        [],
        [{"role": "robot", "content": "x"}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": [{"type": "hologram"}]}],
    ):
        with raises(door.library.BadRequestError):
            door.say(messages=messages)


@feature
def unknown_fields_are_refused(door: Door) -> None:
    """A field that nobody knows is an extra input, unless a beta may have brought it"""
    with raises(door.library.BadRequestError) as raised:
        door.say(extra_body={"frobnicate": 1})
    assert raised.error.body["error"]["message"] == "frobnicate: Extra inputs are not permitted"


@feature
def bodies_have_a_limit(door: Door) -> None:
    """A body of more than 32 MB is 413 request_too_large"""
    answer = post(door.url, "/v1/messages", b" " * (33 * 1024 * 1024), anthropic_version="2023-06-01")
    assert answer.status == 413
    assert _is_envelope(answer.json, "request_too_large")


@feature
def statuses_become_the_clients_exceptions(door: Door) -> None:
    """400 to 529 become the client's exceptions, with the types of the API"""
    library = door.library
    expected = {
        400: (library.BadRequestError, "invalid_request_error"),
        401: (library.AuthenticationError, "authentication_error"),
        402: (library.APIStatusError, "billing_error"),
        403: (library.PermissionDeniedError, "permission_error"),
        404: (library.NotFoundError, "not_found_error"),
        409: (library.ConflictError, "conflict_error"),
        413: (library.APIStatusError, "request_too_large"),
        429: (library.RateLimitError, "rate_limit_error"),
        500: (library.InternalServerError, "api_error"),
        504: (library.APIStatusError, "timeout_error"),
        529: (library.APIStatusError, "overloaded_error"),
    }
    for status, (kind, name) in expected.items():
        with raises(kind) as raised:
            door.say(extra_headers={FAULT: f"status={status}"})
        assert raised.error.status_code == status
        assert _is_envelope(raised.error.body, name), raised.error.body
    with raises(library.APIStatusError) as raised:
        door.say(extra_headers={FAULT: "status=overloaded"})
    assert raised.error.status_code == 529


@feature
def clients_retry_what_may_be_retried(door: Door) -> None:
    """The client retries 429 and 529, and not 400"""
    for status, retries in ((429, 1), (529, 1), (400, 0)):
        counted: list[Any] = []
        http = door.library.DefaultHttpxClient(trust_env=False, event_hooks={"request": [counted.append]})
        client = door.synchronous(max_retries=1, http_client=http)
        with raises(door.library.APIStatusError):
            client.messages.create(model=MODEL, messages=HELLO, max_tokens=9, extra_headers={FAULT: f"status={status}"})
        assert len(counted) == 1 + retries, (status, len(counted))


@feature
def requests_that_are_no_requests_are_refused(door: Door) -> None:
    """A body that is no JSON, or of another type, is refused in Anthropic's envelope"""
    for body, kind in ((b"{", "application/json"), (b"[]", "application/json"), (b"{}", "text/plain")):
        answer = post(door.url, "/v1/messages", body, anthropic_version="2023-06-01", content_type=kind)
        assert answer.status in (400, 415)
        assert _is_envelope(answer.json, "invalid_request_error")


@feature
def what_does_not_fit_is_refused(door: Door) -> None:
    """A prompt longer than the context window, and max_tokens above the model's, are 400"""
    for wrong in ({"messages": [{"role": "user", "content": "word " * 210_000}]}, {"max_tokens": 1_000_000}):
        with raises(door.library.BadRequestError) as raised:
            door.client.messages.create(
                **{"model": "claude-haiku-4-5", "messages": HELLO, "max_tokens": 9, **wrong}, timeout=60
            )
        assert (
            "too long" in raised.error.body["error"]["message"] or "max_tokens" in raised.error.body["error"]["message"]
        )
