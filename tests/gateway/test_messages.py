"""Anthropic's Messages API through the real door, as its official SDK sees it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import pytest
from anthropic import Anthropic, DefaultHttpxClient, beta_tool
from anthropic.types import Message
from pydantic import BaseModel

from fastmode.up import Service
from service.wire.anthropic_errors import ORGANIZATION

CATALOG = Path(__file__).parent.parent / "catalogs" / "messages.toml"
OLD, NEW, FREE = "claude-early-4-5", "claude-opus-5-5", "anything"
HELLO: list[Any] = [{"role": "user", "content": "Hello"}]
WEATHER: dict[str, Any] = {
    "name": "weather",
    "description": "The weather at a place.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["city", "days"],
    },
}
RULES = """
[[rules]]
match = { last_message = "^count$" }
reply = "One, two, three, four."

[[rules]]
match = { last_message = "^err$" }
reply = { calls = [{ name = "weather", arguments = '{"city": "Par' }] }

[[rules]]
match = { last_message = "^call twice$" }
[rules.reply]
text = "Both."
calls = [
    { name = "weather", arguments = { city = "Oslo", days = 1 } },
    { name = "weather", arguments = { city = "Rome", days = 2 } },
]

[[rules]]
match = { last_message = "^refuse$" }
reply = { text = "No.", finish = "content_filter" }
"""


@pytest.fixture(scope="module")
def url(module_stack: Callable[..., Service], tmp_path_factory: pytest.TempPathFactory) -> str:
    rules = tmp_path_factory.mktemp("messages") / "rules.toml"
    rules.write_text(RULES)
    return module_stack(CATALOG, FASTMODE_RULES=str(rules)).base_url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Anthropic]:
    with Anthropic(base_url=url, api_key="k", max_retries=0, http_client=DefaultHttpxClient(trust_env=False)) as client:
        yield client


@pytest.fixture(scope="module")
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, headers={"anthropic-version": "2023-06-01"}, trust_env=False) as http:
        yield http


def ask(client: Anthropic, says: str | None = None, **fields: Any) -> Message:
    messages = HELLO if says is None else [{"role": "user", "content": says}]
    call = {"model": FREE, "max_tokens": 60, "messages": messages, **fields}
    answer: Message = client.messages.create(**call)
    return answer


def stream(client: Anthropic, says: str | None = None, **fields: Any) -> tuple[list[Any], Message]:
    """The raw events, and what the SDK makes of them."""
    messages = HELLO if says is None else [{"role": "user", "content": says}]
    with client.messages.stream(**{"model": FREE, "max_tokens": 60, "messages": messages, **fields}) as events:
        seen = list(events)
        return seen, events.get_final_message()


def words(answer: Message) -> str:
    return "".join(block.text for block in answer.content if block.type == "text")


def raw(http: httpx.Client, **fields: Any) -> httpx.Response:
    body = {"model": FREE, "max_tokens": 20, "messages": HELLO, **fields}
    return http.post("/v1/messages", json={name: value for name, value in body.items() if value is not ...})


# ---- Whole messages and streams --------------------------------------------------------------------------------------


def test_a_message_looks_as_it_is_documented(http: httpx.Client) -> None:
    answer = raw(http)
    body = answer.json()
    assert list(body) == [
        *("model", "id", "type", "role", "content", "stop_reason", "stop_sequence", "stop_details", "usage"),
    ]
    assert (body["model"], body["type"], body["role"]) == (FREE, "message", "assistant")
    assert body["id"].startswith("msg_01")
    assert body["stop_reason"] == "max_tokens"
    assert list(body["usage"])[:8] == [
        *("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation"),
        *("output_tokens", "output_tokens_details", "service_tier", "inference_geo"),
    ]
    assert answer.headers["request-id"].startswith("req_")
    assert answer.headers["anthropic-organization-id"] == ORGANIZATION


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"max_tokens": 1},
        {"max_tokens": 900},
        {"says": "count"},
        {"says": "count", "stop_sequences": ["four"]},
        {"says": "call twice", "tools": [WEATHER]},
        {"tools": [WEATHER], "tool_choice": {"type": "any"}, "max_tokens": 900},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4000},
        {
            "system": "Be brief.",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "\U0001f600 é\r\n"}]}],
        },
    ],
)
def test_a_stream_says_what_the_whole_message_says(client: Anthropic, fields: dict[str, Any]) -> None:
    whole, (_, streamed) = ask(client, **fields), stream(client, **fields)
    assert streamed.stop_reason == whole.stop_reason is not None
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    assert [_bare(block) for block in streamed.content] == [_bare(block) for block in whole.content]


def _bare(block: Any) -> dict[str, Any]:
    """A block without its id, which is another in every answer, and what the SDK adds."""
    return {name: value for name, value in block.to_dict().items() if name not in ("id", "parsed_output", "citations")}


def test_the_events_of_a_stream_come_in_order(http: httpx.Client) -> None:
    with http.stream("POST", "/v1/messages", json={**_body(), "stream": True}) as answer:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["request-id"].startswith("req_")
        events = [block.split("\n") for block in answer.read().decode().split("\n\n")[:-1]]
    names = [name.removeprefix("event: ") for name, _ in events]
    assert names[:3] == ["message_start", "content_block_start", "ping"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(names[3:-3]) == {"content_block_delta"}
    assert len(names[3:-3]) == 20, "one for each token"
    assert events[2][1] == 'data: {"type": "ping"}'


def _body() -> dict[str, Any]:
    return {"model": FREE, "max_tokens": 20, "messages": HELLO}


def test_what_is_used_is_told_when_it_is_known(client: Anthropic) -> None:
    events, message = stream(client)
    start = next(event for event in events if event.type == "message_start")
    end = next(event for event in events if event.type == "message_delta")
    assert start.message.usage.input_tokens == end.usage.input_tokens == message.usage.input_tokens
    assert start.message.usage.output_tokens == 1
    assert start.message.usage.service_tier == "standard"
    assert end.usage.output_tokens == message.usage.output_tokens


@pytest.mark.parametrize(
    ("fields", "reason", "sequence"),
    [
        ({"says": "count"}, "end_turn", None),
        ({"max_tokens": 3}, "max_tokens", None),
        ({"says": "count", "stop_sequences": ["zero", ", three"]}, "stop_sequence", ", three"),
        ({"says": "call twice", "tools": [WEATHER]}, "tool_use", None),
        ({"says": "refuse"}, "refusal", None),
    ],
)
def test_an_answer_says_why_it_ended(
    client: Anthropic, fields: dict[str, Any], reason: str, sequence: str | None
) -> None:
    for answer in (ask(client, **fields), stream(client, **fields)[1]):
        assert (answer.stop_reason, answer.stop_sequence) == (reason, sequence)
        assert (answer.stop_details is not None) == (reason == "refusal")
        if sequence:
            assert words(answer) == "One, two"


def test_a_limit_is_no_length(client: Anthropic) -> None:
    answer = ask(client, max_tokens=9000)
    assert answer.stop_reason == "end_turn"
    assert answer.usage.output_tokens < 9000


@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
@pytest.mark.parametrize("version", ["2023-06-01", "2026-10-21"])
@pytest.mark.parametrize("query", ["", "?beta=true"])
def test_both_versions_both_keys_and_any_query_are_taken(
    http: httpx.Client, header: str, version: str, query: str
) -> None:
    headers = {header: "Bearer k", "anthropic-version": version}
    assert http.post(f"/v1/messages{query}", json=_body(), headers=headers).status_code == 200


def test_the_beta_surface_is_the_same(client: Anthropic) -> None:
    answer = client.beta.messages.create(
        model=NEW,
        max_tokens=5,
        messages=HELLO,
        speed="fast",
        betas=["fast-mode-2026-02-01", "whatever-2030-01-01"],
        context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
        extra_body={"of_some_beta": 1},
    )
    assert answer.usage.speed == "fast"
    assert answer.context_management is not None
    assert answer.context_management.applied_edits == []
    with client.beta.messages.stream(model=FREE, max_tokens=5, messages=HELLO) as events:
        assert events.get_final_message().usage.output_tokens == 5


# ---- Speed -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("speed", "served"), [("fast", "fast"), ("standard", "standard"), (None, "standard")])
def test_the_speed_that_is_asked_for_is_served(client: Anthropic, speed: Any, served: str) -> None:
    for answer in (ask(client, model=NEW, speed=speed), stream(client, model=NEW, speed=speed)[1]):
        assert (answer.usage.speed, answer.usage.service_tier) == (served, "standard")


def test_a_speed_that_a_model_does_not_have_is_refused(client: Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="'claude-early-4-5' does not support the `speed` parameter"):
        ask(client, model=OLD, speed="fast")


# ---- Thinking and tools ----------------------------------------------------------------------------------------------


def test_thinking_comes_first_is_signed_and_counted(client: Anthropic) -> None:
    fields: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4000}
    for answer in (ask(client, **fields), stream(client, **fields)[1]):
        thinking, *rest = answer.content
        assert thinking.type == "thinking"
        assert thinking.thinking
        assert [block.type for block in rest] == ["text"]
        assert answer.usage.output_tokens_details is not None
        assert 0 < answer.usage.output_tokens_details.thinking_tokens < answer.usage.output_tokens
        said = [*HELLO, {"role": "assistant", "content": answer.content}, *HELLO]
        assert ask(client, messages=said).stop_reason
        thinking.thinking += "!"
        with pytest.raises(anthropic.BadRequestError, match=r"messages\.1\.content\.0: Invalid `signature`"):
            ask(client, messages=said)


def test_thinking_can_be_left_out_but_for_its_signature(client: Anthropic) -> None:
    fields: dict[str, Any] = {"thinking": {"type": "adaptive", "display": "omitted"}, "max_tokens": 2000}
    for answer in (ask(client, model=NEW, **fields), stream(client, model=NEW, **fields)[1]):
        thinking = answer.content[0]
        assert thinking.type == "thinking"
        assert thinking.thinking == ""
        assert thinking.signature
        assert ask(client, messages=[*HELLO, {"role": "assistant", "content": answer.content}, *HELLO]).stop_reason


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "weather"}])
def test_a_tool_is_called_with_what_its_schema_asks_for_and_then_answered_with_text(
    client: Anthropic, choice: Any
) -> None:
    fields: dict[str, Any] = {"tools": [WEATHER], "max_tokens": 9000}
    for answer in (ask(client, tool_choice=choice, **fields), stream(client, tool_choice=choice, **fields)[1]):
        assert answer.stop_reason == "tool_use"
        calls = [block for block in answer.content if block.type == "tool_use"]
        assert len({call.id for call in calls}) == len(calls) > 0
        for call in calls:
            assert call.id.startswith("toolu_01")
            assert call.name == "weather"
            assert isinstance(call.input["city"], str)
            assert call.input["days"] in range(1, 10)
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": "Sunny."} for call in calls]
        said = [*HELLO, {"role": "assistant", "content": answer.content}, {"role": "user", "content": results}]
        assert ask(client, messages=said, **fields).stop_reason == "end_turn"


def test_one_call_at_a_time_can_be_asked_for(client: Anthropic) -> None:
    choice: Any = {"type": "any", "disable_parallel_tool_use": True}
    answer = ask(client, "Compare Oslo and Rome and Paris", tools=[WEATHER], tool_choice=choice, max_tokens=900)
    assert [block.type for block in answer.content].count("tool_use") == 1


def test_a_call_is_streamed_in_pieces_that_join_to_its_input(client: Anthropic) -> None:
    events, answer = stream(client, "call twice", tools=[WEATHER])
    pieces: dict[int, list[str]] = {}
    for event in events:
        if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            pieces.setdefault(event.index, []).append(event.delta.partial_json)
    assert [json.loads("".join(each)) for each in pieces.values()] == [
        {"city": "Oslo", "days": 1},
        {"city": "Rome", "days": 2},
    ]
    assert all(each[0] == "" for each in pieces.values())
    assert [block.input for block in answer.content if block.type == "tool_use"][1] == {"city": "Rome", "days": 2}


def test_a_call_that_is_no_json_is_still_an_object_in_a_whole_message(client: Anthropic) -> None:
    (call,) = (block for block in ask(client, "err", tools=[WEATHER]).content if block.type == "tool_use")
    assert call.input == {"INVALID_JSON": '{"city": "Par'}
    events, _ = stream(client, "err", tools=[WEATHER])
    pieces = [
        e.delta.partial_json for e in events if e.type == "content_block_delta" and e.delta.type == "input_json_delta"
    ]
    assert "".join(pieces) == '{"city": "Par'


def test_the_sdk_runs_tools_to_the_end(client: Anthropic) -> None:
    seen = []

    @beta_tool
    def weather(city: str, days: int) -> str:
        """The weather at a place.

        Args:
            city: where
            days: for how long
        """
        seen.append((city, days))
        return "Sunny."

    ask_it: list[Any] = [{"role": "user", "content": "call twice"}]
    runner = client.beta.messages.tool_runner(model=FREE, max_tokens=9000, tools=[weather], messages=ask_it)
    *_, last = runner
    assert seen == [("Oslo", 1), ("Rome", 2)]
    assert last.stop_reason == "end_turn"


class Place(BaseModel):
    city: str
    population: int


def test_an_answer_can_have_a_schema(client: Anthropic) -> None:
    parsed = client.messages.parse(model=FREE, max_tokens=900, messages=HELLO, output_format=Place)
    assert isinstance(parsed.parsed_output, Place)


# ---- Counting and caching --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"system": "Be brief."},
        {"system": [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}], "tools": [WEATHER]},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"tools": [WEATHER, {"type": "web_search_20250305", "name": "web_search"}], "tool_choice": {"type": "none"}},
        {
            "model": OLD,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                        {"type": "text", "text": "What is it?"},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t1", "name": "weather", "input": {"a": 1}}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "Rain."}]},
            ],
            "tools": [WEATHER],
        },
    ],
)
def test_tokens_are_counted_as_they_are_used(client: Anthropic, fields: dict[str, Any]) -> None:
    call: dict[str, Any] = {"model": FREE, "messages": HELLO, **fields}
    answer = client.messages.create(**{"max_tokens": 2000, **call})
    assert client.messages.count_tokens(**call).input_tokens == answer.usage.input_tokens > 0


def test_what_is_marked_is_written_to_the_cache_once_and_then_read(client: Anthropic) -> None:
    """And a prompt without marks has nothing to do with the cache."""
    system = [{"type": "text", "text": "word " * 3000, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    call: dict[str, Any] = {"system": system, "says": "Hi"}
    first, second = ask(client, **call).usage, stream(client, **call)[1].usage
    plain = ask(client, says="Hi", system="word " * 3000).usage
    written = first.cache_creation_input_tokens or 0
    assert 2900 < written < 3010
    assert first.cache_creation is not None
    assert first.cache_creation.ephemeral_1h_input_tokens == written
    assert first.cache_read_input_tokens == 0
    assert (second.cache_read_input_tokens, second.cache_creation_input_tokens) == (written, 0)
    assert first.input_tokens == second.input_tokens == plain.input_tokens - written
    assert (plain.cache_read_input_tokens, plain.cache_creation_input_tokens) == (0, 0)


@pytest.mark.parametrize("speed", ["standard", "fast"])
def test_to_be_served_in_one_region_alone_costs_a_tenth_more(http: httpx.Client, speed: str) -> None:
    cost, told = [], []
    for where in ("global", "us"):
        answer = http.post(
            "/v1/messages",
            json={"model": NEW, "max_tokens": 5, "messages": HELLO, "speed": speed, "inference_geo": where},
            headers={"x-fastmode-debug": "1"},
        )
        cost.append(int(answer.headers["x-fastmode-cost-nanodollars"]))
        told.append(answer.json()["usage"]["inference_geo"])
    assert told == ["global", "us"]
    assert cost[1] * 10 == cost[0] * 11


def test_a_model_that_is_sold_in_no_region_alone_says_so(http: httpx.Client) -> None:
    assert raw(http).json()["usage"]["inference_geo"] == "not_available"
    refused = raw(http, inference_geo="us")
    assert refused.status_code == 400
    assert "does not support the `inference_geo` parameter" in refused.json()["error"]["message"]


def test_too_little_is_not_cached(client: Anthropic) -> None:
    system = [{"type": "text", "text": "word " * 500, "cache_control": {"type": "ephemeral"}}]
    assert ask(client, system=system).usage.cache_creation_input_tokens == 0


def test_a_cache_can_be_warmed_without_an_answer(client: Anthropic) -> None:
    call: dict[str, Any] = {"system": "warm " * 2000, "cache_control": {"type": "ephemeral"}}
    warmed = ask(client, max_tokens=0, **call)
    assert (warmed.content, warmed.stop_reason, warmed.usage.output_tokens) == ([], "max_tokens", 0)
    assert ask(client, **call).usage.cache_read_input_tokens == warmed.usage.cache_creation_input_tokens != 0


# ---- Models ----------------------------------------------------------------------------------------------------------


def test_models_are_listed_newest_first_and_found(client: Anthropic) -> None:
    listed = client.models.list()
    assert [model.id for model in listed.data] == [NEW, FREE, OLD]
    newest = client.models.retrieve(NEW)
    assert newest == listed.data[0]
    assert (newest.display_name, newest.line, newest.max_tokens) == ("Claude Opus 5.5", "opus", 10_000)
    assert newest.capabilities is not None
    assert not newest.capabilities.thinking.types.enabled.supported
    assert newest.created_at.year == 2026


def test_models_come_in_pages(client: Anthropic, http: httpx.Client) -> None:
    assert [model.id for model in client.models.list(limit=1)] == [NEW, FREE, OLD]
    back = client.models.list(before_id=OLD, limit=1)
    assert ([model.id for model in back.data], back.has_more) == ([FREE], True)
    assert client.models.list(lifecycle=["retired"]).data == []
    for query in ("limit=0", "limit=1001", "limit=x", "after_id=nobody", "lifecycle=old"):
        answer = http.get(f"/v1/models?{query}")
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


# ---- Errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind", "message"),
    [
        ("POST", "/v1/messages", {"max_tokens": 1}, 400, "invalid_request_error", "model: Field required"),
        (
            "POST",
            "/v1/messages",
            {**_body(), "x": 1},
            400,
            "invalid_request_error",
            "x: Extra inputs are not permitted",
        ),
        ("POST", "/v1/messages", {**_body(), "model": "claude-0"}, 404, "not_found_error", "model: claude-0"),
        (
            "POST",
            "/v1/messages/count_tokens",
            {"model": FREE},
            400,
            "invalid_request_error",
            "messages: Field required",
        ),
        (
            "POST",
            "/v1/messages/count_tokens",
            {"model": "claude-0", "messages": HELLO},
            404,
            "not_found_error",
            "model: claude-0",
        ),
        (
            "POST",
            "/v1/messages",
            {**_body(), "max_tokens": 10_001},
            400,
            "invalid_request_error",
            "max_tokens: 10001 > 10000, which is the maximum allowed number of output tokens for anything",
        ),
        ("GET", "/v1/models/claude-0", None, 404, "not_found_error", "model: claude-0"),
        ("GET", "/v1/messages", None, 405, "invalid_request_error", "Not allowed to GET /v1/messages"),
        ("POST", "/v1/messages/batches", {}, 404, "not_found_error", "Unknown request URL"),
    ],
)
def test_errors_have_the_dialects_envelope(
    http: httpx.Client, method: str, path: str, body: Any, status: int, kind: str, message: str
) -> None:
    answer = http.request(method, path, json=body)
    assert answer.status_code == status
    error = answer.json()
    assert list(error) == ["type", "error", "request_id"]
    assert error["type"] == "error"
    assert error["error"]["type"] == kind
    assert error["error"]["message"].startswith(message)
    assert answer.headers["request-id"] == error["request_id"]
    assert answer.headers["anthropic-organization-id"] == ORGANIZATION


@pytest.mark.parametrize(
    ("version", "message"),
    [(None, "anthropic-version: header is required"), ("2024-01-01", 'anthropic-version: "2024-01-01" is not a valid')],
)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_a_version_has_to_be_named(url: str, path: str, version: str | None, message: str) -> None:
    headers = {"anthropic-version": version} if version else {}
    answer = httpx.post(f"{url}{path}", json=_body(), headers=headers, trust_env=False)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(message)


def test_a_long_prompt_is_refused_with_its_length(client: Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: 1\d{4} tokens > 10000 maximum"):
        ask(client, "word " * 12_000)
    with pytest.raises(anthropic.BadRequestError, match=r"exceed context limit: \d+ \+ 5000 > 10000, decrease"):
        ask(client, "word " * 8000, max_tokens=5000)


def test_a_body_that_is_too_large_is_refused(http: httpx.Client) -> None:
    answer = http.post(
        "/v1/messages", content=b" " * (32 * 1024 * 1024 + 1), headers={"content-type": "application/json"}
    )
    assert (answer.status_code, answer.json()["error"]["type"]) == (413, "request_too_large")


def test_the_sdk_knows_every_error(client: Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as unknown:
        ask(client, model="claude-0")
    assert unknown.value.request_id is not None
    with pytest.raises(anthropic.BadRequestError, match="does not support assistant message prefill"):
        ask(client, model=NEW, messages=[*HELLO, {"role": "assistant", "content": "I"}])
    with pytest.raises(anthropic.BadRequestError, match="`temperature` is deprecated for this model"):
        ask(client, model=NEW, extra_body={"temperature": 0.3}, extra_headers={"anthropic-version": "2023-06-01"})
    with pytest.raises(anthropic.BadRequestError, match="temperature: Extra inputs are not permitted"):
        ask(client, extra_body={"temperature": 1})


@pytest.mark.parametrize(
    ("fault", "kind", "status"),
    [
        ("status=429; retry_after=2", anthropic.RateLimitError, 429),
        ("status=overloaded", anthropic.OverloadedError, 529),
        ("status=500", anthropic.InternalServerError, 500),
    ],
)
def test_faults_are_told_in_the_dialect(
    client: Anthropic, fault: str, kind: type[anthropic.APIStatusError], status: int
) -> None:
    for call in (ask, stream):
        with pytest.raises(kind) as refused:
            call(client, extra_headers={"x-fastmode-fault": fault})
        assert refused.value.status_code == status


def test_an_error_within_a_stream_ends_it(client: Anthropic) -> None:
    with pytest.raises(anthropic.APIStatusError) as broken:
        stream(client, extra_headers={"x-fastmode-fault": "error@3"})
    assert broken.value.status_code == 200
    assert broken.value.request_id is not None


def test_agents_find_that_the_api_is_there(http: httpx.Client) -> None:
    assert http.head("/api/hello").status_code == http.get("/api/hello").status_code == 200
