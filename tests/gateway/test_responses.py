"""Responses through the real door, as the official SDK sees them."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from openai import APIError, BadRequestError, DefaultHttpxClient, NotFoundError, OpenAI
from openai.types.responses import Response
from pydantic import BaseModel

MODEL = "gpt-5.3-codex"
THINKS = {"effort": "low", "summary": "auto"}
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
PATCH = {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}}
PNG = "data:image/png;base64,iVBORw0KGgo="


@pytest.fixture(scope="module")
def connect(quick_url: str) -> Iterator[Callable[[str], OpenAI]]:
    """A client with a key of its own."""
    http = DefaultHttpxClient(trust_env=False)
    yield lambda key: OpenAI(base_url=f"{quick_url}/v1", api_key=key, max_retries=0, http_client=http)
    http.close()


@pytest.fixture(scope="module")
def client(connect: Callable[[str], OpenAI]) -> OpenAI:
    return connect("k")


def ask(client: OpenAI, **fields: Any) -> Response:
    answer: Response = client.responses.create(
        **{"model": MODEL, "input": "Say hello.", "max_output_tokens": 24, **fields}
    )
    return answer


def without_place(answer: Response) -> dict[str, Any]:
    """What is said, without when and under which ids."""
    told = answer.model_dump(exclude={"id", "created_at", "completed_at", "background"})
    for item in told["output"]:
        item.pop("id")
        item.pop("call_id", None)
        item.pop("encrypted_content", None)
    return told


def raw(url: str, **fields: Any) -> httpx.Response:
    body = {"model": MODEL, "input": "Say hello.", **fields}
    return httpx.post(f"{url}/v1/responses", json=body, trust_env=False, timeout=30)


def test_a_response_says_all_about_itself(quick_url: str) -> None:
    answer = raw(quick_url, max_output_tokens=16, metadata={"a": "b"}, service_tier="priority", tools=[WEATHER])
    told = answer.json()
    assert answer.headers["x-request-id"].startswith("req_")
    assert (answer.headers["openai-version"], answer.headers["openai-model"]) == ("2020-10-01", MODEL)
    assert told.pop("id").startswith("resp_")
    [message] = told.pop("output")
    assert isinstance(told.pop("created_at"), int)
    usage = told.pop("usage")
    assert told == {
        "object": "response",
        "status": "incomplete",
        "background": False,
        "completed_at": None,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"},
        "instructions": None,
        "max_output_tokens": 16,
        "max_tool_calls": None,
        "model": MODEL,
        "service_tier": "priority",
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "prompt_cache_options": None,
        "prompt_cache_retention": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [WEATHER],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": None,
        "metadata": {"a": "b"},
    }
    assert usage["output_tokens"] == 16
    assert usage["total_tokens"] == usage["input_tokens"] + 16
    assert usage["output_tokens_details"] == {"reasoning_tokens": 0}
    assert (message["type"], message["role"], message["status"]) == ("message", "assistant", "incomplete")
    assert message["content"][0]["annotations"] == []


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}], "instructions": "Be short."},
        {"reasoning": THINKS, "include": ["reasoning.encrypted_content"], "max_output_tokens": 2000},
        {"tools": [WEATHER], "tool_choice": "required", "input": "How is Paris?", "max_output_tokens": None},
        {"tools": [PATCH], "tool_choice": {"type": "custom", "name": "apply_patch"}, "max_output_tokens": None},
        {"text": {"format": {"type": "json_object"}}, "max_output_tokens": None},
        {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
        {"store": False, "service_tier": "fast"},
    ],
)
def test_a_stream_ends_with_what_the_whole_answer_is(client: OpenAI, fields: dict[str, Any]) -> None:
    whole = ask(client, **fields)
    given = {"model": MODEL, "input": "Say hello.", "max_output_tokens": 24, **fields}
    events = list(client.responses.create(**given, stream=True))
    assert without_place(events[-1].response) == without_place(whole)
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1].type == f"response.{whole.status}"
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_reasoning_can_be_summed_up_and_given_back_sealed(client: OpenAI) -> None:
    answer = ask(client, reasoning=THINKS, include=["reasoning.encrypted_content"], max_output_tokens=4000)
    thought, message = answer.output
    assert thought.type == "reasoning"
    assert thought.summary[0].text
    assert thought.encrypted_content
    assert message.type == "message"
    assert answer.usage is not None
    assert 0 < answer.usage.output_tokens_details.reasoning_tokens < answer.usage.output_tokens
    turns = [*[item.model_dump(exclude_none=True) for item in answer.output], {"role": "user", "content": "Go on."}]
    assert ask(client, input=turns).status == "incomplete"


def test_log_probabilities_are_reported_of_each_token(client: OpenAI) -> None:
    [message] = ask(client, top_logprobs=3, include=["message.output_text.logprobs"]).output
    assert message.type == "message"
    [text] = message.content
    assert text.type == "output_text"
    assert text.logprobs is not None
    assert "".join(each.token for each in text.logprobs) == text.text
    assert {len(each.top_logprobs) for each in text.logprobs} == {3}


class Person(BaseModel):
    name: str
    age: int


def test_a_schema_is_satisfied(client: OpenAI) -> None:
    answer = client.responses.parse(model=MODEL, input="Describe a person.", text_format=Person)
    assert isinstance(answer.output_parsed, Person)
    assert answer.text is not None
    assert answer.text.format is not None
    assert answer.text.format.type == "json_schema"


def test_a_tool_is_called_and_its_result_read(client: OpenAI) -> None:
    question = {"role": "user", "content": "What is the weather in Paris?"}
    answer = ask(client, input=[question], tools=[WEATHER], tool_choice="required", max_output_tokens=None)
    [call] = answer.output
    assert call.type == "function_call"
    assert call.arguments == '{"city":"Paris"}'
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}
    sent = ask(client, input=[question, call.model_dump(exclude_none=True), result], tools=[WEATHER])
    kept = ask(client, input=[result], tools=[WEATHER], previous_response_id=answer.id)
    assert sent.output[0].type == kept.output[0].type == "message"
    assert sent.usage is not None
    assert kept.usage is not None
    assert sent.usage.input_tokens == kept.usage.input_tokens


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "name": "get_weather"},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_weather"}]},
    ],
)
def test_a_tool_can_be_named(client: OpenAI, choice: dict[str, Any]) -> None:
    other = {**WEATHER, "name": "get_time"}
    [call] = ask(client, tools=[other, WEATHER], tool_choice=choice, max_output_tokens=None).output
    assert (call.type, getattr(call, "name", "")) == ("function_call", "get_weather")


def test_what_an_agent_sends_is_taken(client: OpenAI) -> None:
    """Items with ids of the client's own, calls of many kinds, and tools that are not to be run here."""
    items = [
        {
            "type": "additional_tools",
            "id": "at_1",
            "role": "developer",
            "tools": [{"type": "namespace", "name": "functions", "tools": [WEATHER, PATCH]}],
        },
        {
            "type": "message",
            "id": "msg_own",
            "role": "developer",
            "content": [{"type": "input_text", "text": "Be terse"}],
        },
        {"role": "user", "content": [{"type": "input_image", "image_url": PNG, "detail": "low"}]},
        {"role": "user", "content": [{"type": "input_file", "filename": "a.pdf", "file_data": "JVBERi0="}]},
        {"type": "reasoning", "id": "rs_own", "summary": [], "encrypted_content": "sealed"},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": '{"torn'},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "It failed."}]},
        {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** Begin Patch"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "Done."}]},
        {
            "type": "local_shell_call",
            "call_id": "c3",
            "action": {"type": "exec", "command": ["ls"]},
            "status": "completed",
        },
        {"type": "local_shell_call_output", "call_id": "c3", "output": "README.md"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Hm."}, {"type": "refusal", "refusal": "No."}],
        },
        {"role": "user", "content": "Go on."},
    ]
    hosted = [{"type": "web_search", "external_web_access": False}, {"type": "tool_search"}, {"type": "local_shell"}]
    answer = ask(
        client,
        input=items,
        tools=hosted,
        store=False,
        prompt_cache_key="p",
        safety_identifier="s",
        truncation="auto",
        extra_body={"client_metadata": {"a": "b"}, "reasoning": {"effort": "low", "context": "all_turns"}},
        max_output_tokens=None,
    )
    assert answer.status == "completed"
    assert (answer.prompt_cache_key, answer.safety_identifier, answer.truncation) == ("p", "s", "auto")


def test_what_is_kept_is_what_was_answered(client: OpenAI) -> None:
    answer = ask(client, reasoning=THINKS)
    assert client.responses.retrieve(answer.id) == answer
    client.responses.delete(answer.id)
    with pytest.raises(NotFoundError):
        client.responses.retrieve(answer.id)


def test_a_stream_is_kept_as_well(client: OpenAI) -> None:
    with client.responses.stream(model=MODEL, input="Say hello.") as events:
        told = events.until_done().get_final_response()
    assert client.responses.retrieve(told.id).output_text == told.output_text


def test_what_is_not_to_be_kept_is_not(client: OpenAI) -> None:
    with pytest.raises(NotFoundError) as refused:
        client.responses.retrieve(ask(client, store=False).id)
    assert refused.value.param == "response_id"


def test_an_account_has_responses_of_its_own(client: OpenAI, connect: Callable[[str], OpenAI]) -> None:
    answer, other = ask(client), connect("another")
    for asked in (other.responses.retrieve, other.responses.delete, other.responses.cancel):
        with pytest.raises(NotFoundError):
            asked(answer.id)
    with pytest.raises(BadRequestError) as refused:
        ask(other, previous_response_id=answer.id)
    assert refused.value.code == "previous_response_not_found"
    assert client.responses.retrieve(answer.id) == answer


def test_a_conversation_goes_on_from_a_response(client: OpenAI) -> None:
    first = ask(client, input="One", instructions="Count.")
    second = ask(client, input="Two", previous_response_id=first.id)
    third = ask(client, input="Three", previous_response_id=second.id)
    turns: list[Any] = [
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": first.output_text},
        {"role": "user", "content": "Two"},
        {"role": "assistant", "content": second.output_text},
        {"role": "user", "content": "Three"},
    ]
    assert third.usage is not None
    assert third.usage.input_tokens == client.responses.input_tokens.count(model=MODEL, input=turns).input_tokens
    assert third.previous_response_id == second.id
    counted = client.responses.input_tokens.count(model=MODEL, input="Three", previous_response_id=second.id)
    assert counted.input_tokens == third.usage.input_tokens


def test_the_input_of_a_response_can_be_listed(client: OpenAI) -> None:
    turns = [{"role": "user", "content": str(number)} for number in range(5)]
    answer = ask(client, input=turns)
    pages = client.responses.input_items.list(answer.id, limit=2, order="asc")
    assert len(pages.data) == 2
    listed: list[Any] = list(pages)
    assert [item.content[0].text for item in listed] == list("01234")
    assert [item.id for item in client.responses.input_items.list(answer.id)] == [item.id for item in reversed(listed)]


def test_items_of_kept_responses_can_be_referred_to(client: OpenAI) -> None:
    first = ask(client, input="One")
    [asked] = client.responses.input_items.list(first.id)
    references = [{"type": "item_reference", "id": item.id} for item in (asked, first.output[0])]
    told = [{"role": "user", "content": "One"}, {"role": "assistant", "content": first.output_text}]
    by_reference, sent = ask(client, input=references), ask(client, input=told)
    assert by_reference.usage == sent.usage
    with pytest.raises(NotFoundError):
        ask(client, input=[{"type": "item_reference", "id": "msg_unknown"}])


def test_a_prompt_is_counted_as_it_is_charged(client: OpenAI) -> None:
    given: dict[str, Any] = {"input": "What is the weather?", "tools": [WEATHER], "instructions": "Be terse."}
    usage = ask(client, **given).usage
    assert usage is not None
    assert client.responses.input_tokens.count(model=MODEL, **given).input_tokens == usage.input_tokens


def test_a_background_response_is_polled(client: OpenAI) -> None:
    answer = ask(client, background=True, max_output_tokens=None)
    assert (answer.status, answer.background, answer.output) == ("queued", True, [])
    seen = [answer.status]
    while answer.status in ("queued", "in_progress"):
        answer = client.responses.retrieve(answer.id)
        seen.append(answer.status)
    assert answer.status == "completed"
    assert answer.completed_at is not None
    assert list(dict.fromkeys(seen)) in (["queued", "completed"], ["queued", "in_progress", "completed"])
    assert answer.output_text == ask(client, max_output_tokens=None).output_text
    assert client.responses.cancel(answer.id) == answer


def test_a_background_stream_can_be_left_and_taken_up_again(client: OpenAI) -> None:
    stream = client.responses.create(model=MODEL, input="Say hello.", background=True, stream=True)
    first = [next(stream) for _ in range(5)]
    stream.close()
    assert first[0].type == "response.created"
    name = first[0].response.id
    rest = list(client.responses.retrieve(name, stream=True, starting_after=4))
    again = list(client.responses.retrieve(name, stream=True))
    assert [event.sequence_number for event in rest] == list(range(5, 5 + len(rest)))
    assert [*first, *rest] == again
    assert rest[-1].type == "response.completed"
    assert rest[-1].response == client.responses.retrieve(name)
    deltas = [event.delta for event in again if event.type == "response.output_text.delta"]
    assert "".join(deltas) == rest[-1].response.output_text


def test_only_background_streams_can_be_followed(client: OpenAI) -> None:
    for answer in (ask(client), ask(client, background=True)):
        with pytest.raises(BadRequestError):
            client.responses.retrieve(answer.id, stream=True)


def test_only_background_responses_can_be_cancelled(client: OpenAI) -> None:
    with pytest.raises(BadRequestError):
        client.responses.cancel(ask(client).id)


def test_a_conversation_can_be_compacted(client: OpenAI) -> None:
    turns: list[Any] = [
        {"role": "user", "content": "Count."},
        {"role": "assistant", "content": "word " * 3000},
        {"role": "user", "content": "Go on."},
    ]
    compacted = client.responses.compact(model=MODEL, input=turns)
    assert compacted.object == "response.compaction"
    assert [item.type for item in compacted.output] == ["message", "message", "compaction"]
    before = client.responses.input_tokens.count(model=MODEL, input=turns).input_tokens
    items: list[Any] = [item.model_dump(exclude_none=True, warnings=False) for item in compacted.output]
    assert compacted.usage.input_tokens == before
    assert client.responses.input_tokens.count(model=MODEL, input=items).input_tokens < before / 2


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"input": None}, "missing_required_parameter", "input"),
        ({"input": 5}, "invalid_type", "input"),
        ({"input": [5]}, "invalid_type", "input[0]"),
        ({"input": [{"content": "a"}]}, "missing_required_parameter", "input[0].type"),
        ({"input": [{"role": "robot", "content": "a"}]}, "invalid_value", "input[0].role"),
        ({"input": [{"role": "user"}]}, "missing_required_parameter", "input[0].content"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_sound"}]}]},
            "invalid_value",
            "input[0].content[0].type",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "missing_required_parameter",
            "input[0].content[0].image_url",
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "c", "output": "a"}]},
            "invalid_value",
            "input[0].call_id",
        ),
        (
            {"input": [{"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}]},
            "invalid_value",
            "input",
        ),
        ({"max_output_tokens": 15}, "integer_below_min_value", "max_output_tokens"),
        ({"tool_choice": "required"}, "invalid_value", "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "no"}}, "invalid_value", "tool_choice"),
        ({"tools": [{"type": "function"}]}, "missing_required_parameter", "tools[0].name"),
        ({"tools": [{**WEATHER, "name": "a b"}]}, "invalid_value", "tools[0].name"),
        ({"tools": [{**WEATHER, "parameters": {"type": 5}}]}, "invalid_function_parameters", "tools[0].parameters"),
        (
            {"text": {"format": {"type": "json_schema", "name": "a"}}},
            "missing_required_parameter",
            "text.format.schema",
        ),
        ({"stream_options": {"include_obfuscation": False}}, "invalid_value", "stream_options"),
        ({"background": True, "store": False}, "invalid_value", "background"),
        ({"previous_response_id": "resp_no"}, "previous_response_not_found", "previous_response_id"),
        ({"prompt": {"id": "pmpt_1"}}, "unsupported_parameter", "prompt"),
        ({"conversation": "conv_1"}, "unsupported_parameter", "conversation"),
        ({"service_tier": "warp"}, "invalid_value", "service_tier"),
        ({"reasoning": {"effort": "huge"}}, "invalid_value", "reasoning.effort"),
        ({"metadata": {"a": 5}}, "invalid_type", "metadata"),
        ({"model": "gpt-0"}, "model_not_found", "model"),
    ],
)
def test_a_fault_is_named(quick_url: str, fields: dict[str, Any], code: str, param: str) -> None:
    answer = raw(quick_url, **fields)
    error = answer.json()["error"]
    assert answer.status_code == (404 if code == "model_not_found" else 400)
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", code, param)


def test_a_stream_that_breaks_raises(client: OpenAI) -> None:
    fault = {"x-fastmode-fault": "error@3"}
    with pytest.raises(APIError) as broken:
        list(client.responses.create(model=MODEL, input="Say hello.", stream=True, extra_headers=fault))
    assert broken.value.code == "server_error"


def test_a_stream_is_of_named_events_and_padded_unless_it_is_not_to_be(quick_url: str) -> None:
    padded = raw(quick_url, stream=True, max_output_tokens=16)
    plain = raw(quick_url, stream=True, max_output_tokens=16, stream_options={"include_obfuscation": False})
    assert padded.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert padded.text.startswith('event: response.created\ndata: {"type":"response.created","sequence_number":0,')
    assert padded.text.count('"obfuscation":"') == 16
    assert "obfuscation" not in plain.text
    assert "[DONE]" not in padded.text
