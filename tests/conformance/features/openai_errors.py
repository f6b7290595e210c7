"""What is refused, and as which of the client's exceptions."""

import json
from typing import Any

from features import feature
from features.openai_door import HELLO, MODEL, Door
from features.plain_http import post, send
from features.raising import raises

PATH = "/v1/chat/completions"


def _is_envelope(body: Any) -> bool:
    return bool(body.keys() == {"error"} and body["error"].keys() >= {"message", "type", "param", "code"})


@feature
def an_unknown_model_is_not_found(door: Door) -> None:
    """An unknown model is NotFoundError with code model_not_found"""
    with raises(door.library.NotFoundError) as raised:
        door.chat(model="gpt-nonexistent")
    error = raised.error
    assert (error.status_code, error.code, error.type) == (404, "model_not_found", "invalid_request_error")
    assert error.request_id
    assert "gpt-nonexistent" in error.message


@feature
def what_is_wrong_is_named(door: Door) -> None:
    """Values of a wrong type or out of range are BadRequestError and name the parameter"""
    wrong: dict[str, Any] = {
        "temperature": 3, "n": 0, "max_tokens": -1, "top_p": "high", "top_logprobs": 21, "messages": "Hello",
        "stop": ["a", "b", "c", "d", "e"], "presence_penalty": 9, "reasoning_effort": "extreme", "seed": "x",
    }  # fmt: skip
    for name, value in wrong.items():
        beside = {"logprobs": True} if name == "top_logprobs" else {}
        with raises(door.library.BadRequestError) as raised:
            door.client.chat.completions.create(**{"model": MODEL, "messages": HELLO, **beside, name: value})
        assert raised.error.type == "invalid_request_error"
        assert (raised.error.param or "").startswith(name), (name, raised.error.body)


@feature
def what_is_missing_is_named(door: Door) -> None:
    """A body without model or messages is 400 and names it"""
    for body, missing in (({"messages": HELLO}, "model"), ({"model": MODEL}, "messages")):
        answer = post(door.url, PATH, body)
        assert answer.status == 400
        assert _is_envelope(answer.json)
        assert missing in answer.json["error"]["message"]
    with raises(door.library.BadRequestError):
        door.chat(messages=[])


@feature
def unknown_fields_are_refused(door: Door) -> None:
    """A field that nobody knows is 400 and named"""
    with raises(door.library.BadRequestError) as raised:
        door.chat(extra_body={"frobnicate": 1})
    assert "frobnicate" in raised.error.message


@feature
def a_prompt_that_is_too_long_is_refused(door: Door) -> None:
    """A prompt longer than the context window is 400 with code context_length_exceeded"""
    with raises(door.library.BadRequestError) as raised:
        door.chat(model="gpt-4o", messages=[{"role": "user", "content": "word " * 140_000}])
    assert raised.error.code == "context_length_exceeded"


@feature
def a_body_that_is_no_json_is_refused(door: Door) -> None:
    """A body that is not JSON, not an object, or too deep is 400 with an envelope"""
    for body in (b"{", b"[]", b'"text"', b"\xff\xfe", b"", b"[" * 100_000):
        answer = post(door.url, PATH, body)
        assert answer.status == 400, (body[:20], answer.status)
        assert _is_envelope(answer.json)
        assert answer.headers["x-request-id"]


@feature
def other_content_types_are_refused(door: Door) -> None:
    """A body of another content type is refused with an envelope"""
    body = json.dumps({"model": MODEL, "messages": HELLO}).encode()
    answer = post(door.url, PATH, body, content_type="text/plain")
    assert answer.status in (400, 415)
    assert _is_envelope(answer.json)


@feature
def bodies_have_a_limit(door: Door) -> None:
    """A body of more than 32 MB is 413 with an envelope"""
    with raises(door.library.APIStatusError) as raised:
        door.chat(messages=[{"role": "user", "content": "x" * (33 * 1024 * 1024)}])
    assert raised.error.status_code == 413


@feature
def unknown_routes_and_methods_are_refused(door: Door) -> None:
    """Unknown routes are 404 and unknown methods 405, with an envelope"""
    for method, path, status in (("GET", "/v1/nothing", 404), ("GET", PATH, 405), ("DELETE", PATH, 405)):
        answer = send(door.url, method, path)
        assert answer.status == status
        assert _is_envelope(answer.json)


@feature
def stream_options_need_a_stream(door: Door) -> None:
    """stream_options without stream is 400"""
    with raises(door.library.BadRequestError):
        door.chat(stream_options={"include_usage": True})


@feature
def errors_of_streams_come_before_them(door: Door) -> None:
    """A request for a stream that is refused gets a status, not a stream"""
    with raises(door.library.NotFoundError):
        door.stream(model="gpt-nonexistent")


@feature
def browsers_may_ask(door: Door) -> None:
    """A page on this machine may ask: preflight requests are answered, and answers name the origin"""
    page = "http://localhost:3000"
    wants: dict[str, str] = {"access_control_request_method": "POST", "access_control_request_headers": "authorization"}
    answer = send(door.url, "OPTIONS", PATH, None, origin=page, **wants)
    assert answer.status in (200, 204)
    assert answer.headers["access-control-allow-origin"] in ("*", page)
    assert {"authorization", "*"} & set(answer.headers["access-control-allow-headers"].lower().split(", "))
    said = post(door.url, PATH, {"model": MODEL, "messages": HELLO, "max_tokens": 1}, origin=page)
    assert said.headers["access-control-allow-origin"] in ("*", page)
