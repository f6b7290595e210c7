"""Whatever comes in, the answer is the dialect's envelope with the right status: never 422, never 500."""

import asyncio
import gzip
import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai
import pytest
import zstandard
from calls import Call, post
from evidence import until
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import DefaultAsyncHttpxClient, DefaultHttpxClient, OpenAI
from openai.types.chat import ChatCompletionMessageParam
from starlette.requests import Request

from fastmode.up import Service
from gateway import body
from service.connection import connect
from service.errors import RequestTimeout
from service.queue import Queue
from service.wire.openai_chat import ChatRequest
from service.wire.openai_messages import Message, Part

CATALOG = Path(__file__).parent.parent / "catalogs" / "chat.toml"
PATH = "/v1/chat/completions"
MODEL = "three-tiers"
USER = {"role": "user", "content": "Hello"}
HELLO: ChatCompletionMessageParam = {"role": "user", "content": "Hello"}
GOOD = {"model": MODEL, "messages": [USER], "max_tokens": 2}
AS_JSON = {"content-type": "application/json"}
DEEP = json.loads('{"a":' * 300 + "{}" + "}" * 300)
BODY_MAX = 32 * 1024 * 1024


@pytest.fixture(scope="module")
def service(module_stack: Callable[..., Service]) -> Service:
    return module_stack(CATALOG, FASTMODE_LEASE="2")


@pytest.fixture(scope="module")
def http(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.base_url, trust_env=False, timeout=30) as http:
        yield http


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[OpenAI]:
    http = DefaultHttpxClient(trust_env=False)
    with OpenAI(base_url=f"{service.base_url}/v1", api_key="k", max_retries=0, http_client=http) as client:
        yield client


def refused(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The error of an answer, which is whole and in the dialect."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"].startswith("req_")
    assert set(answer.json()) == {"error"}
    error: dict[str, Any] = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return error


# ---- Bodies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"{",
        b"null",
        b"[]",
        b"Hello",
        b"\xff\xfe",
        b"\x00",
        b'{"model": "three-tiers", "messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"model": "three-tiers", "messages": [{"role": "user", "content": "Hi"}], "temperature": NaN}',
        b'{"model": "three-tiers", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": Infinity}',
        b'{"model": "three-tiers", "messages": [{"role": "user", "content": "Hi"}], "n": ' + b"9" * 10_000 + b"}",
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b"[" * 10_000,
    ],
)
def test_what_is_not_a_json_object_is_refused(http: httpx.Client, raw: bytes) -> None:
    error = refused(http.post(PATH, content=raw, headers=AS_JSON), 400)
    assert error["type"] == "invalid_request_error"
    assert error["code"] in ("invalid_json", "invalid_type")


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"messages": [{**USER, "content": 5}]}, "invalid_type", "messages[0].content"),
        ({"messages": [USER, {**USER, "role": "wizard"}]}, "invalid_value", "messages[1].role"),
        ({"max_tokens": 0}, "integer_below_min_value", "max_tokens"),
        ({"stop": ["a"] * 5}, "array_above_max_length", "stop"),
        ({"service_tier": "turbo"}, "invalid_value", "service_tier"),
        ({"service_tier": ""}, "invalid_value", "service_tier"),
        ({"service_tier": "x" * 100_000}, "invalid_value", "service_tier"),
        ({"model": "narrow", "service_tier": "spark"}, "tier_not_offered", "service_tier"),
        ({"max_tokens": 10_001}, "invalid_value", "max_tokens"),
        ({"max_tokens": None, "max_completion_tokens": 2**63}, "invalid_value", "max_completion_tokens"),
        ({"max_tokens": None, "min_tokens": 10_001}, "invalid_value", "min_tokens"),
        ({"max_tokens": None, "min_tokens": 2**64 - 1}, "invalid_value", "min_tokens"),
        ({"max_tokens": 2, "min_tokens": 3}, "invalid_value", "min_tokens"),
        ({"n": 65}, "integer_above_max_value", "n"),
        ({"model": "narrow", "n": 3}, "integer_above_max_value", "n"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": DEEP}}]},
            "invalid_value",
            "tools",
        ),
        ({"max_token": 5}, "unknown_parameter", "max_token"),
        (
            {"messages": [{**USER, "content": [{"type": "image_url", "image_url": {"url": "https://a.test/b.png"}}]}]},
            "invalid_value",
            "messages",
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_field_that_cannot_be_served_is_named(
    http: httpx.Client, fields: dict[str, Any], code: str, param: str, stream: bool
) -> None:
    error = refused(http.post(PATH, json={**GOOD, **fields, "stream": stream}), 400)
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", code, param)
    assert len(error["message"]) < 1000


def test_an_unknown_model_is_not_found(http: httpx.Client) -> None:
    error = refused(http.post(PATH, json={**GOOD, "model": "gpt-0"}), 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert "gpt-0" in error["message"]


def test_the_last_of_duplicate_keys_counts(http: httpx.Client) -> None:
    raw = json.dumps(GOOD)[:-1] + ', "max_tokens": 3, "max_tokens": 4}'
    answer = http.post(PATH, content=raw, headers=AS_JSON)
    assert answer.json()["usage"]["completion_tokens"] == 4


names = st.sampled_from([*ChatRequest.model_fields, *Message.model_fields, *Part.model_fields])
scalars = st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.text(max_size=8)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=10
)
near_misses = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from([MODEL, "short-of-breath", "tests/sees-images"]),
        "messages": st.lists(st.just(USER) | st.dictionaries(names, documents, max_size=4), max_size=3),
        "max_tokens": st.integers(-1, 20),
        "min_tokens": st.integers(-1, 20),
        "n": st.integers(-1, 5),
        "stop": st.text(max_size=2) | st.lists(st.text(max_size=2), max_size=5),
        "service_tier": st.sampled_from(["auto", "fast", "turbo", None]),
    },
)


@settings(max_examples=100)
@given(well_formed=near_misses, beside=st.dictionaries(names, documents, max_size=3))
def test_no_body_is_the_servers_fault(http: httpx.Client, well_formed: dict[str, Any], beside: dict[str, Any]) -> None:
    raw = json.dumps({"model": MODEL, "messages": [USER], "max_tokens": 3, **beside, **well_formed}).encode()
    answer = http.post(PATH, content=raw, headers=AS_JSON)
    if answer.status_code != 200:
        assert answer.status_code in (400, 404)
        refused(answer, answer.status_code)


@settings(max_examples=50)
@given(st.binary(max_size=64))
def test_no_bytes_are_the_servers_fault(http: httpx.Client, raw: bytes) -> None:
    refused(http.post(PATH, content=raw, headers=AS_JSON), 400)


# ---- Size ------------------------------------------------------------------------------------------------------------


def in_pieces(raw: bytes) -> Iterator[bytes]:
    """Sent with chunked transfer coding: no length is announced."""
    for start in range(0, len(raw), 65536):
        yield raw[start : start + 65536]


def padded(size: int) -> bytes:
    """A good body of exactly that many bytes."""
    raw = json.dumps(GOOD).encode()
    return raw + b" " * (size - len(raw))


@pytest.mark.parametrize("send", [bytes, in_pieces])
def test_a_body_is_bounded(http: httpx.Client, send: Callable[[bytes], bytes | Iterator[bytes]]) -> None:
    assert http.post(PATH, content=send(padded(BODY_MAX)), headers=AS_JSON).status_code == 200
    error = refused(http.post(PATH, content=send(padded(BODY_MAX + 1)), headers=AS_JSON), 413)
    assert error["code"] == "request_too_large"
    assert http.post(PATH, json=GOOD).status_code == 200


def test_a_body_that_is_announced_too_large_is_not_waited_for(service: Service) -> None:
    head = f"POST {PATH} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: {10**12}\r\n\r\n"
    assert exchange(service, head.encode()).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("count", [2049, 500_000])
def test_a_conversation_of_too_many_messages_is_refused(http: httpx.Client, count: int) -> None:
    error = refused(http.post(PATH, json={**GOOD, "messages": [USER] * count}), 400)
    assert (error["code"], error["param"]) == ("array_above_max_length", "messages")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_that_does_not_fit_is_refused_before_it_is_queued(
    service: Service, busy: httpx.AsyncClient, stream: bool
) -> None:
    """Nothing more can be queued, and yet the answer is about the prompt."""
    long = {**GOOD, "model": "narrow", "messages": [{**USER, "content": "word " * 10_000}], "stream": stream}
    error = refused(await busy.post(PATH, json=long), 400)
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")
    assert "10000 tokens" in error["message"]
    assert "resulted in 10008 tokens" in error["message"]
    both = {**long, "messages": [{**USER, "content": "word " * 9_000}], "max_tokens": 2000}
    assert refused(await busy.post(PATH, json=both), 400)["code"] == "context_length_exceeded"


def test_a_prompt_of_megabytes_is_counted(http: httpx.Client) -> None:
    error = refused(http.post(PATH, json={**GOOD, "messages": [{**USER, "content": "word " * 1_000_000}]}), 400)
    assert error["code"] == "context_length_exceeded"
    assert "resulted in 1000008 tokens" in error["message"]


def zstd(raw: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(raw)


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("GZIP", gzip.compress), ("zstd", zstd)])
def test_a_body_may_be_compressed(http: httpx.Client, coding: str, pack: Callable[[bytes], bytes]) -> None:
    headers = {**AS_JSON, "content-encoding": coding}
    packed = pack(json.dumps(GOOD).encode())
    assert http.post(PATH, content=packed, headers=headers).status_code == 200
    assert refused(http.post(PATH, content=packed[:-5], headers=headers), 400)["code"] in (
        "invalid_encoding",
        "invalid_json",
    )
    assert refused(http.post(PATH, content=b"{}", headers=headers), 400)["code"] == "invalid_encoding"


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("zstd", zstd)])
def test_a_compressed_body_is_as_large_as_what_it_unpacks_to(
    http: httpx.Client, coding: str, pack: Callable[[bytes], bytes]
) -> None:
    headers = {**AS_JSON, "content-encoding": coding}
    assert http.post(PATH, content=pack(padded(BODY_MAX)), headers=headers).status_code == 200
    assert refused(http.post(PATH, content=pack(padded(BODY_MAX + 1)), headers=headers), 413)["code"]


def test_a_byte_order_mark_is_no_obstacle(http: httpx.Client) -> None:
    assert http.post(PATH, content=json.dumps(GOOD).encode("utf-8-sig"), headers=AS_JSON).status_code == 200
    for other in ("utf-16", "utf-32"):
        assert refused(http.post(PATH, content=json.dumps(GOOD).encode(other), headers=AS_JSON), 400)


# ---- HTTP ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "content"),
    [
        ({"content-type": "text/plain"}, json.dumps(GOOD).encode()),
        ({"content-type": "application/x-www-form-urlencoded"}, b"model=three-tiers"),
        ({"content-type": "multipart/form-data; boundary=x"}, b"--x--"),
        ({"content-type": ""}, json.dumps(GOOD).encode()),
        ({**AS_JSON, "content-encoding": "br"}, b"anything"),
        ({**AS_JSON, "content-encoding": "gzip, zstd"}, b"anything"),
    ],
)
def test_a_body_that_is_not_plain_json_is_refused(http: httpx.Client, headers: dict[str, str], content: bytes) -> None:
    assert refused(http.post(PATH, content=content, headers=headers), 415)["code"] == "unsupported_media_type"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "application/json; charset=utf-8"},
        {"content-type": "Application/JSON"},
        {**AS_JSON, "content-encoding": "identity"},
        {**AS_JSON, "authorization": "Bearer \xe9\xff", "x-api-key": ""},
        {**AS_JSON, "x-stainless-lang": "python", "cookie": "a=b", "expect": "100-continue"},
    ],
)
def test_headers_that_change_nothing(http: httpx.Client, headers: dict[str, str]) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    assert http.post(PATH, content=json.dumps(GOOD).encode(), headers=raw).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", PATH, "POST"),
        ("PUT", PATH, "POST"),
        ("PATCH", PATH, "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", "/v1/models/three-tiers", "GET"),
        ("POST", "/livez", "GET"),
        ("TRACE", PATH, "POST"),
    ],
)
def test_a_wrong_method_is_told_the_right_one(http: httpx.Client, method: str, path: str, allowed: str) -> None:
    answer = http.request(method, path)
    assert refused(answer, 405)["code"] == "method_not_allowed"
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize(("path", "allowed"), [(PATH, "POST"), ("/v1/models", "GET"), ("/v1/embeddings", "POST")])
def test_options_says_what_may_be_done(http: httpx.Client, path: str, allowed: str) -> None:
    answer = http.options(path)
    assert (answer.status_code, answer.content) == (204, b"")
    assert allowed in answer.headers["allow"]
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/chat", "/v1/chat/completion", "/v1/%00", "/%ff", "/../etc", "/docs"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_path_is_not_found(http: httpx.Client, method: str, path: str) -> None:
    assert refused(http.request(method, path), 404)["code"] == "not_found"


@pytest.mark.parametrize("variant", [f"{PATH}/", f"{PATH}?beta=true", f"{PATH}/?a=b&a=%ff", f"{PATH}?"])
def test_a_slash_at_the_end_and_a_query_change_nothing(http: httpx.Client, variant: str) -> None:
    assert http.post(variant, json=GOOD).status_code == 200


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\nx-bell: \x07\r\ncontent-length: 0\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\nx-null: a\x00b\r\ncontent-length: 0\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\nbad name: x\r\ncontent-length: 0\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\ncontent-length: -5\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"POST /v1/ch\xe9t HTTP/1.1\r\nhost: t\r\ncontent-length: 0\r\n\r\n",
        b"GARBAGE\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03",
    ],
)
def test_what_is_not_http_is_a_bad_request(service: Service, request_: bytes) -> None:
    head, _, content = exchange(service, request_).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nx-request-id: req_" in head
    assert set(json.loads(content)["error"]) == {"message", "type", "param", "code"}


def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_no_trace(service: Service, http: httpx.Client) -> None:
    """The stack sees to it that no traceback is logged."""
    head = f"POST {PATH} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{{"
    for _ in range(5):
        with connection(service) as client:
            client.sendall(head.encode())
    assert http.post(PATH, json=GOOD).status_code == 200


async def test_a_body_that_trickles_in_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even while it still grows."""
    monkeypatch.setattr(body, "_PATIENCE", 0.05)

    async def receive() -> Any:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"{", "more_body": True}

    bodies = body.Bodies(each=1000, together=1000)
    with pytest.raises(RequestTimeout), bodies.room() as room:
        await room.read(Request({"type": "http", "headers": []}, receive))
    assert bodies.held == 0


def connection(service: Service) -> socket.socket:
    parts = urlsplit(service.base_url)
    return socket.create_connection((parts.hostname, parts.port), timeout=20)


def exchange(service: Service, request_: bytes) -> bytes:
    """What comes back on a connection of its own, which the client then ends."""
    with connection(service) as client:
        client.sendall(request_)
        answer = b""
        while b"\r\n\r\n" not in answer or b"}}" not in answer:
            if not (part := client.recv(65536)):
                break
            answer += part
        return answer


# ---- What the SDK makes of it ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"max_tokens": 0}, openai.BadRequestError),
        ({"service_tier": "turbo"}, openai.BadRequestError),
        ({"messages": [{**USER, "content": "word " * 100_000}]}, openai.BadRequestError),
        ({"model": "gpt-0"}, openai.NotFoundError),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_the_sdk_raises_what_it_raises_for_the_real_api(
    client: OpenAI, fields: dict[str, Any], error: type[openai.APIStatusError], stream: bool
) -> None:
    with pytest.raises(error) as raised:
        client.chat.completions.create(**{**GOOD, **fields}, stream=stream)
    assert raised.value.code
    assert raised.value.param
    assert raised.value.type == "invalid_request_error"
    assert raised.value.request_id


@pytest.fixture
async def busy(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a service whose narrow pool runs two requests and queues a third: no more is taken."""
    async with full(service, tokens=5000), httpx.AsyncClient(base_url=service.base_url, trust_env=False) as client:
        yield client


@asynccontextmanager
async def full(service: Service, tokens: int) -> AsyncIterator[list[Call]]:
    """Three requests of that many tokens: the narrow pool runs two of them and queues the third."""
    redis = connect(service.stack.redis_url, timeout=5)
    queue = Queue(redis, "narrow")
    first, second, third = (post(service.base_url, "narrow", tokens) for _ in range(3))
    async with aclosing(redis):

        async def queued(jobs: int) -> bool:
            return await queue.depth() == jobs

        await until(lambda: queued(0), "the queue is empty")
        async with first:
            await first.pieces(1)
            async with second:
                await second.pieces(1)
                async with third:
                    await until(lambda: queued(1), "the third request is queued")
                    yield [first, second, third]


async def test_a_full_queue_is_told_with_when_to_come_back(service: Service, busy: httpx.AsyncClient) -> None:
    answer = await busy.post(PATH, json={**GOOD, "model": "narrow"})
    error = refused(answer, 429)
    assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
    assert "try again in 1s" in error["message"]
    assert (answer.headers["retry-after"], answer.headers["retry-after-ms"]) == ("1", "1000")
    assert answer.headers["x-fastmode-reason"] == "queue_full"
    async with async_client(service, max_retries=0) as client:
        with pytest.raises(openai.RateLimitError):
            await client.chat.completions.create(model="narrow", messages=[HELLO], max_tokens=2)


async def test_a_client_that_comes_back_as_told_is_served(service: Service) -> None:
    """The SDK waits as long as `retry-after-ms` says, and by then there is room."""
    async with full(service, tokens=80) as holding, async_client(service, max_retries=5) as client:
        answer = await client.chat.completions.with_raw_response.create(model="narrow", messages=[HELLO], max_tokens=2)
        assert answer.retries_taken > 0
        assert answer.parse().choices[0].finish_reason == "length"
        await asyncio.gather(*(call.rest() for call in holding))


async def test_without_a_worker_there_is_no_capacity(service: Service) -> None:
    """The worker is not gone but frozen: after its lease it does not count as alive."""
    ask = {**GOOD, "model": "narrow"}
    async with httpx.AsyncClient(base_url=service.base_url, trust_env=False) as http:

        async def alive(workers: int) -> bool:
            return bool((await http.get("/readyz")).json()["pools"].get("narrow") == workers)

        with frozen(service, "worker narrow"):
            await until(lambda: alive(0), "the worker does not count as alive")
            answer = await http.post(PATH, json=ask)
            error = refused(answer, 503)
            assert (error["type"], error["code"]) == ("service_unavailable_error", "server_is_overloaded")
            assert (answer.headers["retry-after"], answer.headers["retry-after-ms"]) == ("5", "5000")
            assert answer.headers["x-fastmode-reason"] == "no_workers"
            async with async_client(service, max_retries=0) as client:
                with pytest.raises(openai.InternalServerError) as raised:
                    await client.chat.completions.create(model="narrow", messages=[HELLO])
            assert raised.value.status_code == 503
        await until(lambda: alive(1), "the worker counts again")
        assert (await http.post(PATH, json=ask)).status_code == 200


@contextmanager
def frozen(service: Service, role: str) -> Iterator[None]:
    """A process that is there and does nothing."""
    pgrep = subprocess.run(["pgrep", "-P", str(service.stack.pids[role])], capture_output=True, check=True)
    pid = int(pgrep.stdout)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def async_client(service: Service, max_retries: int) -> openai.AsyncOpenAI:
    http = DefaultAsyncHttpxClient(trust_env=False)
    return openai.AsyncOpenAI(base_url=f"{service.base_url}/v1", api_key="k", max_retries=max_retries, http_client=http)
