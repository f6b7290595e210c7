"""Embeddings."""

import base64
import math
import struct
from typing import Any

from features import feature
from features.openai_door import EMBEDDER, MODEL, Door
from features.raising import raises


@feature
def embeddings_are_unit_vectors(door: Door) -> None:
    """An embedding is a vector of length 1 with the model's dimensions, and usage counts the tokens"""
    for model, dimensions in ((EMBEDDER, 1536), ("text-embedding-3-large", 3072)):
        answer = door.client.embeddings.create(model=model, input="Hello world")
        (embedding,) = answer.data
        assert (answer.object, embedding.object, embedding.index) == ("list", "embedding", 0)
        assert len(embedding.embedding) == dimensions
        assert math.isclose(math.hypot(*embedding.embedding), 1, abs_tol=1e-4)
        assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0


@feature
def base64_is_what_floats_are(door: Door) -> None:
    """base64 has the same vector as float"""
    asked = {"model": EMBEDDER, "input": "Hello world"}
    text = door.client.embeddings.create(**asked, encoding_format="base64").data[0].embedding
    floats = door.client.embeddings.create(**asked, encoding_format="float").data[0].embedding
    default = door.client.embeddings.create(**asked).data[0].embedding
    decoded = struct.unpack(f"<{len(floats)}f", base64.b64decode(text)) if isinstance(text, str) else text
    for vector in (floats, default):
        assert all(math.isclose(a, b, abs_tol=1e-6) for a, b in zip(decoded, vector, strict=True))


@feature
def the_same_text_has_the_same_vector(door: Door) -> None:
    """The same text has the same vector, alone or in a list, and another text another one"""
    alone = door.client.embeddings.create(model=EMBEDDER, input="apple").data[0].embedding
    several = door.client.embeddings.create(model=EMBEDDER, input=["pear", "apple"]).data
    assert [embedding.index for embedding in several] == [0, 1]
    assert several[1].embedding == alone
    assert several[0].embedding != alone


@feature
def dimensions_shorten_the_vector(door: Door) -> None:
    """dimensions shortens the vector, which keeps its length 1"""
    vector = door.client.embeddings.create(model=EMBEDDER, input="apple", dimensions=64).data[0].embedding
    assert len(vector) == 64
    assert math.isclose(math.hypot(*vector), 1, abs_tol=1e-4)


@feature
def embeddings_take_token_ids(door: Door) -> None:
    """Token ids are embedded, too"""
    answer = door.client.embeddings.create(model=EMBEDDER, input=[[13225, 2375], [13225]])
    assert len(answer.data) == 2
    assert answer.usage.prompt_tokens == 3


@feature
def embeddings_that_cannot_be_are_refused(door: Door) -> None:
    """Empty input, too many dimensions, and models that do not embed are refused"""
    wrongs: list[dict[str, Any]] = [
        {"input": ""}, {"input": []}, {"dimensions": 4000}, {"model": "nothing"}, {"model": MODEL},
    ]  # fmt: skip
    for wrong in wrongs:
        with raises(door.library.APIStatusError) as raised:
            door.client.embeddings.create(**{"model": EMBEDDER, "input": "apple", **wrong})
        assert raised.error.status_code in (400, 403, 404)
