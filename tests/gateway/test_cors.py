"""Which pages a browser lets use the service: those from the same machine, unless the operator says otherwise."""

from collections.abc import Iterator

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from fastmode.up import Service
from gateway.cors import sharing

PATH = "/v1/chat/completions"
GOOD = {"model": "swift", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}
HERE = ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:8080", "https://app.localhost", "app://desk"]
ELSEWHERE = ["https://example.com", "http://localhost.example.com", "http://127.0.0.1.example.com", "null", "http://["]


@pytest.fixture(scope="module")
def http(steady: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=steady.base_url, trust_env=False) as http:
        yield http


def beforehand(origin: str, method: str = "POST") -> dict[str, str]:
    """What a browser sends before a request that a page wants to make."""
    return {
        "origin": origin,
        "access-control-request-method": method,
        "access-control-request-headers": "authorization,content-type,x-stainless-lang",
    }


@pytest.mark.parametrize("origin", HERE)
def test_a_page_from_this_machine_may_ask(http: httpx.Client, origin: str) -> None:
    asked = http.options(PATH, headers=beforehand(origin))
    assert (asked.status_code, asked.content) == (204, b"")
    assert asked.headers["access-control-allow-origin"] == origin
    assert asked.headers["access-control-allow-headers"] == "authorization,content-type,x-stainless-lang"
    assert "POST" in asked.headers["access-control-allow-methods"]
    assert "access-control-allow-credentials" not in asked.headers


@pytest.mark.parametrize("fields", [{"stream": False}, {"stream": True}, {"max_tokens": 0}])
def test_its_answers_may_be_read(http: httpx.Client, fields: dict[str, object]) -> None:
    answer = http.post(PATH, json={**GOOD, **fields}, headers={"origin": HERE[0]})
    assert answer.headers["access-control-allow-origin"] == HERE[0]
    assert answer.headers["access-control-expose-headers"] == "*"
    assert answer.headers["vary"] == "origin"
    assert answer.status_code == (400 if "max_tokens" in fields else 200)
    assert answer.text.endswith("data: [DONE]\n\n") == bool(fields.get("stream"))


@pytest.mark.parametrize("origin", ELSEWHERE)
def test_a_page_from_elsewhere_may_not(http: httpx.Client, origin: str) -> None:
    """Not even with what a browser sends without asking beforehand."""
    asked = http.options(PATH, headers=beforehand(origin))
    sent = http.post(PATH, json=GOOD, headers={"origin": origin})
    read = http.get("/v1/models", headers={"origin": origin})
    for refused in (asked, sent):
        assert refused.status_code == 403
        assert refused.json()["error"]["code"] == "origin_not_allowed"
    for answer in (asked, sent, read):
        assert "access-control-allow-origin" not in answer.headers


def test_what_operators_ask_for_is_not_for_pages(http: httpx.Client) -> None:
    assert http.options("/metrics", headers=beforehand(HERE[0], "GET")).status_code == 403
    assert "access-control-allow-origin" not in http.get("/metrics", headers={"origin": HERE[0]}).headers


def test_who_is_no_browser_is_not_asked_where_it_comes_from(http: httpx.Client) -> None:
    answer = http.post(PATH, json=GOOD)
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("origins", "allowed", "refused"),
    [
        ("*", [*HERE, *ELSEWHERE], []),
        ("", [], [*HERE, *ELSEWHERE]),
        ("https://example.com,http://localhost:3000", ["https://example.com", HERE[0]], [*HERE[1:], *ELSEWHERE[1:]]),
    ],
)
async def test_the_operator_says_whose_pages_may(origins: str, allowed: list[str], refused: list[str]) -> None:
    transport = httpx.ASGITransport(sharing(PlainTextResponse("yes"), origins))
    async with httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        statuses = {origin: (await client.post(PATH, headers={"origin": origin})).status_code for origin in allowed}
        refusals = {origin: (await client.post(PATH, headers={"origin": origin})).status_code for origin in refused}
    assert set(statuses.values()) <= {200}
    assert set(refusals.values()) <= {403}


@pytest.mark.parametrize(
    ("origin", "heard"), [(b"https://example.com", "websocket.close"), (b"http://localhost", "yes")]
)
async def test_a_websocket_is_held_to_the_same(origin: bytes, heard: str) -> None:
    said = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "yes"})

    async def send(message: Message) -> None:
        said.append(message["type"])

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/v1/responses", "headers": [(b"origin", origin)]}
    await sharing(app, "loopback")(scope, receive, send)
    assert said == [heard]
