"""The events of a streamed response: whatever an engine says, they are grammatical, and say what a whole one says."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent

from service.errors import Broken, Contended, ServiceError, Unavailable
from service.messages import Delta, FinishReason, Part, Usage
from service.wire.gathered import Gathered
from service.wire.openai_responses import echo, parse
from service.wire.openai_responses_events import Events, bare
from service.wire.openai_responses_object import Head, whole

USAGE = Usage(prompt=7, cached=2, completion=5, reasoning=3)
CUSTOM = "patch"
ECHO = echo(parse(b'{"model":"m","input":"Hello","tools":[{"type":"custom","name":"patch"}]}'))
HEAD = Head("resp_1", 1796000000, "auto", "priority", ECHO, custom=frozenset({CUSTOM}))
TYPES = {get_args(each.model_fields["type"].annotation)[0]: each for each in get_args(get_args(ResponseStreamEvent)[0])}
FINISHES: list[FinishReason] = ["stop", "length", "tool_calls", "content_filter"]

Parts = list[tuple[Part, list[list[str]]]]


def escaped(text: str) -> bytes:
    return orjson.dumps(text)[1:-1]


def logprob(text: str) -> dict[str, Any]:
    other = {"token": "other", "logprob": -2.5, "bytes": [1]}
    return {"token": text, "logprob": -0.5, "bytes": list(text.encode()), "top_logprobs": [other]}


def deltas(parts: Parts, finish: FinishReason, logprobs: bool = False) -> list[Delta]:
    """Each part with its flushes, each of which has tokens."""
    found: list[Delta] = []
    offset = 0
    for part, flushes in parts:
        for number, tokens in enumerate(flushes):
            reckoned = b"\n".join(orjson.dumps(logprob(token)) for token in tokens if token) if logprobs else b""
            text = b"\n".join(map(escaped, tokens))
            begins = None if number else part
            found.append(Delta("j", 1, 0, offset, len(tokens), text, part=begins, logprobs=reckoned))
            offset += len(tokens)
    last = found[-1]
    found[-1] = Delta("j", 1, 0, last.offset, last.count, last.text, finish, last.part, last.logprobs)
    return found


def streamed(head: Head, said: list[Delta]) -> bytes:
    encoder = Events(head, clock=lambda: 1796000001.5)
    return encoder.opening(USAGE) + b"".join(map(encoder.delta, said)) + encoder.closing(USAGE)


def object_of(head: Head, said: list[Delta]) -> dict[str, Any]:
    gathered = Gathered(1)
    for delta in said:
        gathered.add(delta)
    told: dict[str, Any] = orjson.loads(orjson.dumps(whole(head, gathered.answers[0], USAGE, 1796000001)))
    return told


def parsed(stream: bytes, typed: bool = True) -> list[dict[str, Any]]:
    """Every event of a stream, named after its type and counted in sequence; `typed`: as the SDK's types have it."""
    assert stream.endswith(b"\n\n")
    events: list[dict[str, Any]] = []
    for block in stream.split(b"\n\n")[:-1]:
        name, data = block.split(b"\n")
        event = orjson.loads(data.removeprefix(b"data: "))
        assert name == b"event: " + event["type"].encode()
        assert event["sequence_number"] == len(events)
        if typed:
            TYPES[event["type"]].model_validate(event)
        events.append(event)
    return events


def put_together(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The response the events amount to. Fails where they are not in the order that is promised."""
    created, begun, *middle, last = events
    assert (created["type"], begun["type"]) == ("response.created", "response.in_progress")
    assert created["response"] == begun["response"]
    assert (begun["response"]["status"], begun["response"]["output"]) == ("in_progress", [])
    told: dict[str, Any] = last["response"]
    assert last["type"] == f"response.{told['status']}"
    rest = iter(middle)
    output: list[dict[str, Any]] = []
    for event in rest:
        assert event["type"] == "response.output_item.added"
        assert event["output_index"] == len(output)
        output.append(_item(event["item"], len(output), rest))
    return {**told, "output": output}


def _item(begun: dict[str, Any], index: int, events: Iterator[dict[str, Any]]) -> dict[str, Any]:
    pieces: list[str] = []
    for event in events:
        kind = event["type"].removeprefix("response.")
        assert event["output_index"] == index
        if kind == "output_item.done":
            done: dict[str, Any] = event["item"]
            assert "".join(pieces) == text_of(done)
            assert {**done, "status": None} == {**begun, **contents(done), "status": None}
            return done
        assert event["item_id"] == begun["id"]
        if kind.endswith(".delta"):
            assert event["delta"]
            pieces.append(event["delta"])
        elif kind in ("output_text.done", "reasoning_summary_text.done"):
            assert event["text"] == "".join(pieces)
    raise AssertionError("an item has no end")


def text_of(item: dict[str, Any]) -> str:
    parts = item.get("content", item.get("summary", []))
    said = item.get("arguments", item.get("input", "".join(part["text"] for part in parts)))
    assert isinstance(said, str)
    return said


def contents(item: dict[str, Any]) -> dict[str, Any]:
    names = ("content", "summary", "arguments", "input", "encrypted_content")
    return {name: item[name] for name in names if name in item}


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
TOKENS = st.lists(WORDS | st.just(""), min_size=1, max_size=5)
FLUSHES = st.lists(TOKENS, min_size=1, max_size=4)
CALL = st.builds(Part, st.just("tool_call"), st.sampled_from(["look", "say", CUSTOM]), st.sampled_from(["", "call_1"]))
SAID = st.builds(
    lambda reasoning, text, calls: [*reasoning, *text, *calls],
    st.lists(st.tuples(st.just(Part("reasoning")), FLUSHES), max_size=1),
    st.lists(st.tuples(st.just(Part("text")), FLUSHES), max_size=1),
    st.lists(st.tuples(CALL, FLUSHES), max_size=3),
).filter(bool)
HEADS = st.builds(
    lambda summarized, encrypted, obfuscate: replace(
        HEAD, summarized=summarized, encrypted=encrypted, obfuscate=obfuscate
    ),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


@given(HEADS, SAID, st.sampled_from(FINISHES), st.booleans())
def test_any_answer_is_told_in_the_order_of_the_api(
    head: Head, parts: Parts, finish: FinishReason, logprobs: bool
) -> None:
    said = deltas(parts, finish, logprobs)
    told = object_of(head, said)
    assert put_together(parsed(streamed(head, said))) == told
    Response.model_validate(told)


@given(HEADS, SAID, st.sampled_from(FINISHES))
def test_each_token_with_text_is_an_event_of_its_own(head: Head, parts: Parts, finish: FinishReason) -> None:
    events = parsed(streamed(head, deltas(parts, finish)))
    shown = [flushes for part, flushes in parts if part.kind != "reasoning" or head.summarized]
    pieces = [token for flushes in shown for tokens in flushes for token in tokens if token]
    assert [event["delta"] for event in events if event["type"].endswith(".delta")] == pieces


@given(SAID, st.sampled_from(FINISHES))
def test_a_socket_says_the_same_without_names(parts: Parts, finish: FinishReason) -> None:
    said = deltas(parts, finish)
    over_http = parsed(streamed(HEAD, said))
    encoder = Events(HEAD, bare, clock=lambda: 1796000001.5)
    frames = encoder.opening(USAGE) + b"".join(map(encoder.delta, said)) + encoder.closing(USAGE)
    assert [orjson.loads(frame) for frame in frames.splitlines()] == over_http


def events_of(*parts: tuple[Part, list[str]], finish: FinishReason = "stop", head: Head = HEAD) -> list[dict[str, Any]]:
    return parsed(streamed(head, deltas([(part, [tokens]) for part, tokens in parts], finish)))


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


BEGIN, END = ["created", "in_progress"], ["completed"]


def test_text_is_a_message_with_one_part() -> None:
    assert kinds(events_of((Part(), ["a", "b"]))) == [
        *BEGIN,
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        *END,
    ]


def test_a_call_is_an_item_whose_arguments_come_piece_by_piece() -> None:
    events = events_of((Part("tool_call", "look", "call_own"), ["", "{", "}"]), finish="tool_calls")
    call = "function_call_arguments"
    assert kinds(events) == [
        *BEGIN,
        "output_item.added",
        f"{call}.delta",
        f"{call}.delta",
        f"{call}.done",
        "output_item.done",
        *END,
    ]
    added, done = events[2]["item"], events[-2]["item"]
    assert (added["arguments"], added["status"]) == ("", "in_progress")
    assert (done["arguments"], done["status"]) == ("{}", "completed")
    assert (done["name"], done["call_id"]) == ("look", "call_own")
    assert done["id"].startswith("fc_")
    assert events[-3]["name"] == "look"


def test_a_custom_tool_takes_text() -> None:
    events = events_of((Part("tool_call", CUSTOM), ["*** Begin", " Patch\n"]), finish="tool_calls")
    done = events[-2]["item"]
    assert (done["type"], done["input"]) == ("custom_tool_call", "*** Begin Patch\n")
    assert "custom_tool_call_input.delta" in kinds(events)


def test_reasoning_is_summed_up_only_if_asked_for() -> None:
    thought = (Part("reasoning"), ["Let", " me", " see"])
    silent = events_of(thought, (Part(), ["a"]))
    assert kinds(silent)[2:4] == ["output_item.added", "output_item.done"]
    assert silent[3]["item"]["summary"] == []
    summary = "reasoning_summary"
    shown = events_of(thought, head=replace(HEAD, summarized=True))
    assert kinds(shown)[2:-1] == [
        "output_item.added",
        f"{summary}_part.added",
        *[f"{summary}_text.delta"] * 3,
        f"{summary}_text.done",
        f"{summary}_part.done",
        "output_item.done",
    ]


@pytest.mark.parametrize(("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_an_answer_that_is_cut_off_is_incomplete(finish: FinishReason, reason: str) -> None:
    last = events_of((Part(), ["a"]), finish=finish)[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": reason}
    assert last["response"]["output"][0]["status"] == "incomplete"
    assert last["response"]["completed_at"] is None


def test_the_tier_that_served_is_told_in_the_end() -> None:
    events = events_of((Part(), ["a"]))
    assert [event["response"]["service_tier"] for event in events if "response" in event] == [
        "auto",
        "auto",
        "priority",
    ]


def test_usage_has_its_details() -> None:
    assert object_of(HEAD, deltas([(Part(), [["a"]])], "stop"))["usage"] == {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 12,
    }


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (Broken("Gone."), "server_error", "server_error"),
        (Unavailable("Full."), "service_unavailable_error", "server_is_overloaded"),
        (Contended("Please try again in 1.5s."), "requests", "rate_limit_exceeded"),
    ],
)
def test_a_stream_that_fails_says_so_twice(error: ServiceError, kind: str, code: str) -> None:
    encoder = Events(HEAD)
    said = encoder.opening(USAGE) + encoder.delta(deltas([(Part(), [["a"], ["b"]])], "stop")[0])
    *_, told, failed = parsed(said + encoder.failure(error), typed=False)  # real ones have codes the types do not know
    words = {"code": code, "message": error.message, "param": None}
    number = told["sequence_number"]
    assert told == {"type": "error", "sequence_number": number, "error": {"type": kind, **words}, **words}
    assert failed["type"] == "response.failed"
    assert failed["response"]["error"] == {"code": code, "message": error.message}
    assert failed["response"]["output"][0]["content"][0]["text"] == "a"


def test_a_token_and_its_padding_are_together_as_long_as_others() -> None:
    encoder = Events(HEAD)
    encoder.delta(Delta("job", 1, 0, 0, 1, b"x", part=Part()))
    sizes = {len(encoder.delta(Delta("job", 1, 0, 1, 1, b"x" * length))) for length in range(1, 6)}
    assert len(sizes) == 1


def test_whoever_encodes_an_answer_again_writes_the_same() -> None:
    said = deltas([(Part("reasoning"), [["x"]]), (Part(), [["a", "b"]]), (Part("tool_call", "look"), [["{}"]])], "stop")
    assert streamed(HEAD, said) == streamed(HEAD, said) != streamed(replace(HEAD, id="resp_2"), said)
