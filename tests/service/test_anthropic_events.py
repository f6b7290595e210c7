"""The events of a streamed message: whatever an engine says, they are grammatical and say what a whole message says."""

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import Broken, Contended, ServiceError, Unavailable
from service.messages import Delta, FinishReason, Part, Usage
from service.wire import anthropic_answer, anthropic_thinking
from service.wire.anthropic_answer import Head
from service.wire.anthropic_bursts import Bursts
from service.wire.anthropic_events import Events
from service.wire.gathered import Gathered

PROMPT = Usage(prompt=10, cached=4)
USED = Usage(prompt=10, cached=4, completion=30, reasoning=7)
DELTA_TYPES = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}
FIELDS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


def parsed(stream: bytes) -> list[dict[str, Any]]:
    """Every event of a stream, whose name has to be its type."""
    assert stream.endswith(b"\n\n")
    events = []
    for block in stream.split(b"\n\n")[:-1]:
        name, data = block.split(b"\n")
        assert name.startswith(b"event: ")
        assert data.startswith(b"data: ")
        event = json.loads(data.removeprefix(b"data: "))
        assert event["type"] == name.removeprefix(b"event: ").decode()
        events.append(event)
    return events


def escaped(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


def deltas(parts: list[tuple[Part, list[list[str]]]], finish: FinishReason, stopped: str | None) -> list[Delta]:
    """Each part with its flushes, each of which has tokens."""
    found: list[Delta] = []
    offset = 0
    for part, flushes in parts:
        for number, tokens in enumerate(flushes):
            text = b"\n".join(map(escaped, tokens))
            found.append(Delta("j", 1, 0, offset, len(tokens), text, part=None if number else part))
            offset += len(tokens)
    last = found[-1]
    found[-1] = Delta("j", 1, 0, last.offset, last.count, last.text, finish, last.part, stopped=stopped)
    return found


def streamed(head: Head, said: list[Delta], used: Usage = USED) -> bytes:
    encoder = Events(head)
    return encoder.opening(PROMPT) + b"".join(map(encoder.delta, said)) + encoder.closing(used)


def whole(head: Head, said: list[Delta], used: Usage = USED) -> dict[str, Any]:
    gathered = Gathered(1)
    for delta in said:
        gathered.add(delta)
    message: dict[str, Any] = json.loads(anthropic_answer.message(head, gathered.answers, used))
    return message


def put_together(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What the events amount to, as a client reads them. Fails where they are not in the order that is promised."""
    events = iter([event for event in events if event["type"] != "ping"])  # type: ignore[assignment]
    start = next(events)  # type: ignore[call-overload]
    assert start["type"] == "message_start"
    message: dict[str, Any] = start["message"]
    event = next(events)  # type: ignore[call-overload]
    while event["type"] == "content_block_start":
        assert event["index"] == len(message["content"])
        block, event = _block(event, events)  # type: ignore[arg-type]
        message["content"].append(block)
    assert event["type"] == "message_delta"
    message.update(event["delta"])
    message["usage"].update(event["usage"])
    assert [later["type"] for later in events] == ["message_stop"]
    return message


def _block(start: dict[str, Any], events: Iterator[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The block that begins, and the event behind its end."""
    block, pieces, signed = start["content_block"], [], False
    for event in events:
        assert event.get("index") == start["index"]
        if event["type"] == "content_block_stop":
            break
        delta = event["delta"]
        assert not signed, "a signature is the last that is said of thinking"
        if delta["type"] == "signature_delta":
            block["signature"], signed = delta["signature"], True
        else:
            assert delta["type"] == DELTA_TYPES[block["type"]]
            pieces.append(delta[FIELDS[delta["type"]]])
    assert signed == (block["type"] == "thinking")
    if block["type"] == "tool_use":
        assert pieces[0] == ""
        block["input"] = "".join(pieces)
        assert all(pieces[1:])
    else:
        assert all(pieces), "a delta says something"
        block["thinking" if block["type"] == "thinking" else "text"] += "".join(pieces)
    return block, next(events)


TOKENS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), min_size=1, max_size=5)
FLUSHES = st.lists(TOKENS, min_size=1, max_size=4)


@st.composite
def answers(draw: st.DrawFn) -> list[tuple[Part, list[list[str]]]]:
    parts = [(Part("reasoning"), draw(FLUSHES))] if draw(st.booleans()) else []
    if draw(st.booleans()):
        parts.append((Part("text"), draw(FLUSHES)))
    for _ in range(draw(st.integers(0 if parts else 1, 3))):
        arguments = json.dumps(draw(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3))))
        cut = draw(st.integers(0, len(arguments)))
        parts.append((Part("tool_call", "look"), [[arguments[:cut]], [arguments[cut:]]]))
    return parts


@given(answers(), st.sampled_from(["stop", "length", "tool_calls", "content_filter"]), st.none() | st.just("\n\nH:"))
def test_any_answer_is_a_grammatical_stream_of_what_the_whole_message_says(
    parts: list[tuple[Part, list[list[str]]]], finish: FinishReason, stopped: str | None
) -> None:
    head = Head(job="msg_x", model="m", speed="fast")
    said = deltas(parts, finish, stopped)
    message = put_together(parsed(streamed(head, said)))
    for block in message["content"]:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["input"])
    assert message == whole(head, said)


@given(answers())
def test_without_the_text_of_thinking_its_signature_alone_is_sent(parts: list[tuple[Part, list[list[str]]]]) -> None:
    said = deltas(parts, "stop", None)
    shown, hidden = (put_together(parsed(streamed(Head(job="j", model="m", shown=s), said))) for s in (True, False))
    for block in shown["content"]:
        if block["type"] == "thinking":
            block["thinking"] = ""
    assert hidden == shown


@given(
    st.dictionaries(
        st.text(max_size=4),
        st.recursive(
            st.text(st.sampled_from(',"\\{}[]a'), max_size=5) | st.integers(),
            lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3),
            max_leaves=6,
        ),
        max_size=4,
    ),
    st.lists(st.integers(0, 60), max_size=12) | st.just(list(range(1000))),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_values_of_an_input_go_out_whole_unless_the_tool_is_eager(
    value: dict[str, Any], cuts: list[int], indented: bool, random: Random
) -> None:
    written = json.dumps(value, indent=1 if indented else None, ensure_ascii=random.random() < 0.5)
    ends = sorted({0, len(written), *(min(cut, len(written)) for cut in cuts)})
    pieces = [written[start:end] for start, end in pairwise(ends)]
    bursts, come, sent = Bursts(), list[str](), list[str]()
    for piece in pieces:
        come.append(piece)
        out = [json.loads(b'"%b"' % each) for each in bursts.add(escaped(piece)).split(b"\n") if each]
        sent += out
        assert complete_values("".join(sent)) == complete_values("".join(come))
        if out and value:
            assert complete_values("".join(sent[:-1])) != complete_values("".join(sent)), "and nothing beyond"
    assert "".join(sent) == written
    assert bursts.rest() == b""


def test_a_backslash_that_is_escaped_escapes_nothing() -> None:
    bursts = Bursts()
    out = [bursts.add(escaped(piece)) for piece in ('{"a":', '"b', '"', ",", ' "c": "\\\\', '"', ', "d": 1}')]
    assert [bool(piece) for piece in out] == [False, False, False, True, False, False, True]
    assert bursts.rest() == b""


def complete_values(text: str) -> dict[str, Any]:
    """What has ended in the beginning of an object: all of it, or what a comma follows."""
    for end in range(len(text), 0, -1):
        if end == len(text) or text[end] == ",":
            with suppress(ValueError):
                whole: dict[str, Any] = json.loads(text if end == len(text) else text[:end] + "}")
                return whole
    return {}


def test_an_eager_tool_streams_its_input_as_it_is_written() -> None:
    first = Delta("j", 1, 0, 0, 2, b'\n{\\"a\\"', part=Part("tool_call", "f"))
    for names, pieces in ((["g"], [""]), (["f"], ["", '{"a"'])):
        events = parsed(Events(Head(job="j", model="m", eager_tools=frozenset(names))).delta(first))
        assert [event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta"] == pieces


def test_a_stream_looks_as_it_is_documented() -> None:
    parts = [
        (Part("reasoning"), [["Hm", "."]]),
        (Part("text"), [["Hel"], ["lo", " \u2603\n"]]),
        (Part("tool_call", "f"), [[""], ['{"a"', ":1}"]]),
    ]
    events = parsed(streamed(Head(job="j", model="m"), deltas(parts, "tool_calls", None)))
    assert [event["type"] for event in events] == [
        "message_start",
        *("content_block_start", "ping", *["content_block_delta"] * 3, "content_block_stop"),
        *("content_block_start", *["content_block_delta"] * 3, "content_block_stop"),
        *("content_block_start", *["content_block_delta"] * 3, "content_block_stop"),
        *("message_delta", "message_stop"),
    ]
    first, last = events[0]["message"], events[-2]
    assert list(first) == [
        "model",
        "id",
        "type",
        "role",
        "content",
        "stop_reason",
        "stop_sequence",
        "stop_details",
        "usage",
    ]
    assert first["usage"]["output_tokens"] == 1
    assert last["delta"] == {"stop_reason": "tool_use", "stop_sequence": None, "stop_details": None}
    assert last["usage"]["output_tokens"] == 30
    start = events[-7]["content_block"]
    assert start["id"].startswith("toolu_01")
    assert {**start, "id": ""} == {"type": "tool_use", "id": "", "name": "f", "input": {}, "caller": {"type": "direct"}}


@pytest.mark.parametrize(
    ("written", "is_read_as"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"a": ', {"INVALID_JSON": '{"a": '}),
        ("[1]", {"INVALID_JSON": "[1]"}),
        ("", {"INVALID_JSON": ""}),
    ],
)
def test_what_is_no_object_reaches_a_whole_message_as_an_object(written: str, is_read_as: dict[str, Any]) -> None:
    """A stream sends what a model wrote; where an object is promised, it is wrapped into one."""
    said = deltas([(Part("tool_call", "f"), [["", *written]])], "tool_calls", None)
    head = Head(job="j", model="m")
    assert whole(head, said)["content"][0]["input"] == is_read_as
    assert put_together(parsed(streamed(head, said)))["content"][0]["input"] == written


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Broken("lost", reason="lost"), "api_error"),
        (Unavailable("no", reason="no_workers"), "overloaded_error"),
        (Contended("wait", reason="queue_deadline"), "rate_limit_error"),
    ],
)
def test_a_stream_that_cannot_go_on_says_so_and_no_more(error: ServiceError, kind: str) -> None:
    (event,) = parsed(Events(Head(job="j", model="m")).failure(error))
    assert event == {"type": "error", "error": {"type": kind, "message": error.message}}


def test_a_silence_is_bridged_by_pings() -> None:
    assert parsed(Events(Head(job="j", model="m")).keepalive()) == [{"type": "ping"}]


def test_a_prompt_that_is_only_to_be_cached_gets_an_empty_message() -> None:
    head = Head(job="j", model="m", prewarm=True)
    said = deltas([(Part("text"), [["Hi"]])], "length", None)
    message = put_together(parsed(streamed(head, said)))
    assert message == whole(head, said)
    assert (message["content"], message["stop_reason"], message["usage"]["output_tokens"]) == ([], "max_tokens", 0)


@st.composite
def prompts(draw: st.DrawFn) -> Usage:
    prompt = draw(st.integers(1, 300))
    cached = draw(st.integers(0, prompt))
    written = draw(st.integers(0, prompt - cached))
    return Usage(
        prompt=prompt, cached=cached, written=written, written_long=draw(st.integers(0, written)), completion=5
    )


@given(prompts())
def test_the_parts_of_the_prompt_sum_to_it(used: Usage) -> None:
    usage = anthropic_answer.usage(Head(job="j", model="m"), used)
    parts = [usage[f"{name}input_tokens"] for name in ("", "cache_creation_", "cache_read_")]
    assert sum(parts) == used.prompt
    assert min(parts) >= 0
    split = usage["cache_creation"]
    assert list(split.values()) == [used.written - used.written_long, used.written_long]


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_a_signature_belongs_to_its_text(thinking: str, other: str) -> None:
    signed = anthropic_thinking.signature(escaped(thinking)).decode()
    assert anthropic_thinking.genuine(thinking, signed)
    assert anthropic_thinking.genuine("", signed), "it may have been left out"
    assert anthropic_thinking.genuine(other, signed) == (other in ("", thinking))


@pytest.mark.parametrize("foreign", ["", "EqQBCgIYAhIM", "no base64!", "\u2603", "c29tZWJvZHkgZWxzZSdz"])
def test_signatures_of_others_are_let_through(foreign: str) -> None:
    assert anthropic_thinking.genuine("Hm.", foreign)
