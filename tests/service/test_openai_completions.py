"""The older surfaces as pure functions: any document is a request or refused, any events make a grammatical stream."""

import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InvalidRequest
from service.messages import Delta, Part, Usage
from service.wire import openai_completions, openai_embeddings
from service.wire.gathered import Gathered
from service.wire.ids import derived
from service.wire.openai_chat_answer import Head
from service.wire.openai_completions import CompletionRequest, Echo, Events, completion

HEAD = Head("cmpl-1", 1796000000, "m", "default", "fp_1")
USAGE = Usage(prompt=3, completion=5)

scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5)
fields = [*CompletionRequest.model_fields, *openai_embeddings.EmbeddingRequest.model_fields]
documents = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4), max_leaves=12)


@given(st.dictionaries(st.sampled_from(fields), documents, max_size=6))
def test_any_document_is_a_request_or_a_refusal(given_fields: dict[str, Any]) -> None:
    body = json.dumps({"model": "m", **given_fields}).encode()
    with suppress(InvalidRequest):
        assert len(openai_completions.parse(body, strict=False).prompts()) >= 1
    with suppress(InvalidRequest):
        assert all(text.tokens > 0 for text in openai_embeddings.parse(body, strict=False).texts())


pieces = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), min_size=1, max_size=6)
parts = st.lists(st.tuples(st.sampled_from(["reasoning", "text", "tool_call"]), pieces), min_size=1, max_size=3)


def deltas(said: list[tuple[Any, list[str]]], cuts: set[int]) -> list[Delta]:
    """One choice as a worker tells it, in runs that end at the cuts and at the ends of parts."""
    told, offset = [], 0
    for number, (kind, texts) in enumerate(said):
        borders = sorted({0, len(texts), *(cut for cut in cuts if 0 < cut < len(texts))})
        for start, end in pairwise(borders):
            text = b"\n".join(orjson.dumps(piece)[1:-1] for piece in texts[start:end])
            last = number == len(said) - 1 and end == len(texts)
            part = Part(kind, "look") if start == 0 else None
            told.append(Delta("job", 1, 0, offset + start, end - start, text, "tool_calls" if last else None, part))
        offset += len(texts)
    return told


@given(parts, st.sets(st.integers(1, 6)), st.booleans(), st.booleans())
def test_a_stream_is_the_text_alone(
    said: list[tuple[Any, list[str]]], cuts: set[int], echoed: bool, include_usage: bool
) -> None:
    """Reasoning and calls, which only a script can ask for, have no place in this form."""
    request = openai_completions.parse(orjson.dumps({"model": "m", "prompt": "Say:\n", "echo": echoed}))
    echo = Echo(request, request.prompts())
    told = deltas(said, cuts)
    encoder = Events(HEAD, 1, include_usage, echo)
    stream = encoder.opening(USAGE) + b"".join(map(encoder.delta, told)) + encoder.closing(USAGE)
    *chunks, done = stream.removesuffix(b"\n\n").split(b"\n\n")
    assert done == b"data: [DONE]"
    events = [orjson.loads(chunk.removeprefix(b"data: ")) for chunk in chunks]
    assert all((event["id"], event["object"]) == ("cmpl-1", "text_completion") for event in events)
    if include_usage:
        assert events.pop()["choices"] == []
        assert all(event["usage"] is None for event in events)
    choices = [event["choices"][0] for event in events]
    expected = [piece for kind, texts in said if kind == "text" for piece in texts if piece]
    assert [choice["text"] for choice in choices] == ["Say:\n"] * echoed + expected + [""]
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["stop"]
    gathered = Gathered(1)
    for delta in told:
        gathered.add(delta)
    whole = orjson.loads(completion(HEAD, gathered.answers, USAGE, echo))
    assert whole["choices"][0]["text"] == "".join(choice["text"] for choice in choices)
    assert whole["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("length", [1, 24, 80])
def test_ids_depend_on_what_they_are_derived_from(length: int) -> None:
    first, again = (derived("call_", length, "job", 0, 1) for _ in range(2))
    assert first == again
    assert len(first) == len("call_") + length
    assert first.removeprefix("call_").isalnum()
    assert length == 1 or first != derived("call_", length, "job", 1, 0)
