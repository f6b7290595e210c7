"""Whatever a backend says, in whatever pieces: streams are grammatical, and say what the whole answer says."""

import json
import os

import pytest
from engine_events import Drawn, drawn
from grammar import chat, completions, messages
from grammar.events import Ungrammatical
from hypothesis import given, settings
from hypothesis import strategies as st

from service.wire import anthropic_answer, openai_chat_answer, openai_completions
from service.wire.anthropic_events import Events as MessageEvents
from service.wire.openai_chat_answer import Chunks, Manner
from service.wire.openai_completions import CompletionRequest, Echo
from service.wire.openai_completions import Events as CompletionEvents
from service.wire.openai_texts import Text

HEAD = openai_chat_answer.Head("chatcmpl-1", 1_796_000_000, "m", "default", "fp_1")
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


# What a grammar has to notice: a stream of each surface, with something wrong.
FAULTS = {
    "done twice": (chat, b"data: [DONE]\n\ndata: [DONE]\n\n"),
    "an event that is torn": (chat, b"data: {"),
    "a chunk after an error": (
        chat,
        b'data: {"error":{"message":"x","type":"t","param":null,"code":null}}\n\ndata: [DONE]\n\n',
    ),
    "a completion after its end": (completions, b"data: [DONE]\n\ndata: {}\n\n"),
    "a message that stops before it starts": (messages, b'event: message_stop\ndata: {"type":"message_stop"}\n\n'),
    "an event of another name": (messages, b'event: ping\ndata: {"type":"message_stop"}\n\n'),
    "a block that was never opened": (
        messages,
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n',
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_grammars_notice_what_is_wrong(fault: str) -> None:
    grammar, body = FAULTS[fault]
    with pytest.raises(Ungrammatical):
        messages.read(body) if grammar is messages else grammar.read(body, False)
