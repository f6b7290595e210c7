"""Whatever a backend says, in whatever pieces: streams are grammatical, and say what the whole answer says."""

import json
import os
from collections.abc import Callable
from contextlib import suppress

import msgspec
import orjson
import pytest
from engine_events import Drawn, drawn
from grammar import chat, completions, messages, responses
from grammar.events import Ungrammatical
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.surface import Encoder
from service.messages import Delta, Part, Usage
from service.wire import anthropic_answer, openai_chat_answer, openai_completions, openai_responses_object
from service.wire.anthropic_events import Events as MessageEvents
from service.wire.openai_chat_answer import Chunks, Manner
from service.wire.openai_completions import CompletionRequest, Echo
from service.wire.openai_completions import Events as CompletionEvents
from service.wire.openai_responses_events import Events as ResponseEvents
from service.wire.openai_texts import Text

HEAD = openai_chat_answer.Head("chatcmpl-1", 1_796_000_000, "m", "default", "fp_1")
ECHO = dict.fromkeys(("background", "instructions", "max_output_tokens", "max_tool_calls", "model"))
MANY = settings(max_examples=int(os.environ.get("CONFORMANCE_EXAMPLES", "40")))


def ended(answer: Drawn, error: object, done: bool) -> bool:
    """Whether a stream ends as its answer does: complete, with an error, or without a word."""
    return {"finished": (done, error) == (True, None), "failed": not done and error is not None, "cut": not done}[
        answer.ending
    ]


@MANY
@given(st.booleans(), st.booleans(), st.data())
def test_chunks_of_a_chat_completion(include_usage: bool, reckoned: bool, data: st.DataObject) -> None:
    """Roles first, calls in order and named once, one finish each, then the usage, then [DONE]."""
    answer = data.draw(drawn(reckoned=reckoned))
    manner = Manner(include_usage, obfuscate=data.draw(st.booleans()))
    said = chat.read(answer.stream(Chunks(HEAD, answer.choices, manner)), include_usage)
    assert ended(answer, said.error, said.done)
    if answer.ending == "finished":
        whole = chat.whole(json.loads(openai_chat_answer.completion(HEAD, answer.answers(), answer.usage, manner)))
        assert said.choices == whole.choices
        assert said.usage == (whole.usage if include_usage else None)


@MANY
@given(st.booleans(), st.booleans(), st.booleans(), st.data())
def test_chunks_of_a_legacy_completion(include_usage: bool, reckoned: bool, echoes: bool, data: st.DataObject) -> None:
    """Text, and log probabilities that lie where the text does, with the prompt before them if it was asked for."""
    answer = data.draw(drawn(reckoned=reckoned))
    asked = CompletionRequest(model="m", echo=echoes, n=answer.choices, logprobs=2 if reckoned else None)
    echo = Echo(asked, [Text("Once 🤖 upon", 4)])
    encoder = CompletionEvents(HEAD, answer.choices, include_usage, echo)
    said = completions.read(answer.stream(encoder), include_usage)
    assert ended(answer, said.error, said.done)
    if answer.ending == "finished":
        whole = completions.whole(json.loads(openai_completions.completion(HEAD, answer.answers(), answer.usage, echo)))
        assert said.choices == whole.choices
        assert said.usage == (whole.usage if include_usage else None)


@MANY
@given(st.booleans(), st.data())
def test_events_of_a_message(shown: bool, data: st.DataObject) -> None:
    """Blocks are numbered, opened, filled with deltas of their kind, and closed; pings lie between."""
    answer = data.draw(drawn(choices=1))
    head = anthropic_answer.Head(job="msg_1", model="m", shown=shown)
    said = messages.read(answer.stream(MessageEvents(head)))
    assert ended(answer, said.error, said.done)
    if answer.ending == "finished":
        whole = messages.whole(json.loads(anthropic_answer.message(head, answer.answers(), answer.usage)))
        assert [block[::2] for block in said.blocks] == [block[::2] for block in whole.blocks]
        assert [block[1] for block in said.blocks if block[0] != "tool_use"] == [
            block[1] for block in whole.blocks if block[0] != "tool_use"
        ]
        assert (said.stop, said.output_tokens) == (whole.stop, whole.output_tokens)


@MANY
@given(st.booleans(), st.booleans(), st.data())
def test_events_of_a_response(summarized: bool, reckoned: bool, data: st.DataObject) -> None:
    """Events are numbered, items are added, filled and done one after another, and the response has them all."""
    answer = data.draw(drawn(choices=1, reckoned=reckoned))
    custom = frozenset(data.draw(st.sets(st.sampled_from(sorted(_called(answer)) or ["none"]))))
    head = openai_responses_object.Head("resp_1", 1_796_000_000, "auto", "default", ECHO, custom, summarized)
    said = responses.read(answer.stream(ResponseEvents(head, clock=lambda: 1_796_000_001)), summarized)
    assert ended(answer, said.error, said.done)
    if answer.ending == "finished":
        whole = openai_responses_object.whole(head, answer.answers()[0], answer.usage, 1_796_000_001)
        assert said.response == json.loads(orjson.dumps(whole))


def _called(answer: Drawn) -> set[str]:
    return {delta.part.name for delta in answer.deltas if delta and delta.part and delta.part.kind == "tool_call"}


# One answer with a part of each kind, streamed on each surface; of legacy completions, which have but text, that.
READERS: dict[str, tuple[Encoder, Callable[[bytes], object]]] = {
    "chat": (Chunks(HEAD, 1, Manner(include_usage=True)), lambda body: chat.read(body, True)),
    "completions": (
        CompletionEvents(HEAD, 1, True, Echo(CompletionRequest(model="m"), [])),
        lambda body: completions.read(body, True),
    ),
    "messages": (MessageEvents(anthropic_answer.Head(job="msg_1", model="m")), messages.read),
    "responses": (
        ResponseEvents(openai_responses_object.Head("resp_1", 1, "auto", "default", ECHO, summarized=True)),
        lambda body: responses.read(body, True),
    ),
}
PARTS = {"reasoning": ["think", "ing"], "text": ["te", "xt"], "tool_call": ['{"a"', ":1}"]}


@pytest.mark.parametrize("surface", READERS)
def test_grammars_notice_what_is_missing_and_what_comes_twice(surface: str) -> None:
    """Any event of a stream that is left out or doubled is ungrammatical, or changes what the stream says."""
    encoder, read = READERS[surface]
    texts = [(Part(kind, "f"), piece) for kind, pieces in PARTS.items() for piece in pieces]  # type: ignore[arg-type]
    deltas = [
        Delta("j", 1, 0, number, 1, orjson.dumps(piece)[1:-1], part=None if number % 2 else part)
        for number, (part, piece) in enumerate(texts)
    ]
    deltas[-1] = msgspec.structs.replace(deltas[-1], finish="tool_calls")
    body = Drawn(1, tuple(deltas), Usage(prompt=1, completion=6), "finished").stream(encoder)
    said = read(body)
    blocks = [block + b"\n\n" for block in body.split(b"\n\n")[:-1]]
    for number, block in enumerate(blocks):
        if b"ping" in block or b'"partial_json":""' in block:  # which say nothing
            continue
        for times in (0, 2):
            with suppress(Ungrammatical, ValueError):
                assert read(b"".join([*blocks[:number], block * times, *blocks[number + 1 :]])) != said, (block, times)
