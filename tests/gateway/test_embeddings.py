"""Embeddings through the real door, as the official SDK sees them."""

import base64
import struct
from collections.abc import Iterator, Sequence
from math import hypot
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import DefaultHttpxClient, OpenAI

from fastmode.up import Service
from service import tokenizer
from service.embeddings import EMBEDDERS, embed

SMALL, LARGE, ADA = "text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002"


@pytest.fixture(scope="module")
def url(steady: Service) -> str:
    return steady.base_url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[OpenAI]:
    http = DefaultHttpxClient(trust_env=False)
    with OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, http_client=http) as client:
        yield client


def vector(client: OpenAI, text: Any, model: str = SMALL, **fields: Any) -> list[float]:
    embedded = client.embeddings.create(model=model, input=text, **fields)
    assert [each.index for each in embedded.data] == [0]
    return embedded.data[0].embedding


@pytest.mark.parametrize(("model", "dimensions"), [(SMALL, 1536), (LARGE, 3072), (ADA, 1536)])
def test_a_text_becomes_a_unit_vector_of_its_model(client: OpenAI, model: str, dimensions: int) -> None:
    first, again = (vector(client, "The cat sat on the mat", model) for _ in "ab")
    assert first == again
    assert len(first) == dimensions
    assert hypot(*first) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("dimensions", [1, 256, 1536])
def test_fewer_dimensions_are_the_first_ones_brought_to_unit_length(client: OpenAI, dimensions: int) -> None:
    whole, short = vector(client, "A cat"), vector(client, "A cat", dimensions=dimensions)
    length = hypot(*whole[:dimensions])
    assert short == pytest.approx([value / length for value in whole[:dimensions]], abs=1e-6)


def test_both_encodings_say_the_same(url: str, client: OpenAI) -> None:
    """The SDK asks for base64 and decodes it; who asks for neither gets numbers."""
    numbers = vector(client, "A cat", encoding_format="float")
    assert vector(client, "A cat") == numbers
    body = {"model": SMALL, "input": "A cat"}
    plain = httpx.post(f"{url}/v1/embeddings", json=body, trust_env=False).json()
    coded = httpx.post(f"{url}/v1/embeddings", json={**body, "encoding_format": "base64"}, trust_env=False).json()
    assert plain["data"][0]["embedding"] == numbers
    assert list(struct.unpack("<1536f", base64.b64decode(coded["data"][0]["embedding"]))) == numbers


def test_a_text_may_come_as_tokens(client: OpenAI) -> None:
    said = "The cat sat on the mat"
    assert vector(client, tokenizer.encode(said)) == vector(client, said)
    many = client.embeddings.create(model=SMALL, input=[tokenizer.encode(said), tokenizer.encode("A dog")])
    assert many.data[0].embedding == vector(client, said)
    assert many.usage.prompt_tokens == many.usage.total_tokens == tokenizer.count(said) + tokenizer.count("A dog")


def test_every_input_has_its_vector_in_order(client: OpenAI) -> None:
    texts = [f"text number {number}" for number in range(500)]
    embedded = client.embeddings.create(model=SMALL, input=texts, dimensions=8)
    assert [each.index for each in embedded.data] == list(range(500))
    assert embedded.data[377].embedding == vector(client, texts[377], dimensions=8)
    assert embedded.usage.prompt_tokens == sum(map(tokenizer.count, texts))


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"input": ""}, 400, "input"),
        ({"input": []}, 400, "input"),
        ({"input": ["a", ""]}, 400, "input[1]"),
        ({"input": [[]]}, 400, "input[0]"),
        ({"input": None}, 400, "input"),
        ({"input": 5}, 400, "input"),
        ({"input": ["a", 5]}, 400, "input[1]"),
        ({"input": [1, "a"]}, 400, "input[1]"),
        ({"input": [True]}, 400, "input[0]"),
        ({"input": [10**9]}, 400, "input"),
        ({"input": ["a"] * 2049}, 400, "input"),
        ({"input": "word " * 8193}, 400, "input"),
        ({"input": ["word " * 8000] * 38}, 400, "input"),
        ({"input": ["a"] * 1025, "model": LARGE}, 400, "input"),
        ({"dimensions": 0}, 400, "dimensions"),
        ({"dimensions": 1537}, 400, "dimensions"),
        ({"dimensions": 8, "model": ADA}, 400, "dimensions"),
        ({"encoding_format": "hex"}, 400, "encoding_format"),
        ({"model": ""}, 400, "model"),
        ({"inputs": "a"}, 400, "inputs"),
        ({"model": "text-embedding-0"}, 404, "model"),
        ({"model": "swift"}, 403, "model"),
    ],
)
def test_what_cannot_be_embedded_is_refused(url: str, fields: dict[str, Any], status: int, param: str) -> None:
    answer = httpx.post(f"{url}/v1/embeddings", json={"model": SMALL, "input": "a", **fields}, trust_env=False)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (status, "invalid_request_error", param)
    assert answer.headers["x-request-id"].startswith("req_")


def test_a_model_that_embeds_writes_nothing(client: OpenAI) -> None:
    with pytest.raises(openai.PermissionDeniedError, match="sample from this model"):
        client.chat.completions.create(model=SMALL, messages=[{"role": "user", "content": "a"}])
    with pytest.raises(openai.PermissionDeniedError, match="sample from this model"):
        client.completions.create(model=SMALL, prompt="a")


def likeness(one: Sequence[float], other: Sequence[float]) -> float:
    """Their cosine, since both have unit length."""
    return sum(first * second for first, second in zip(one, other, strict=True))


NEAR = [
    ("The cat sat on the mat.", "A cat is sitting on a mat", "Quarterly revenue rose by ten percent"),
    ("How do I reset my password?", "resetting a password", "The best pasta in Rome"),
    ("def add(a, b): return a + b", "def subtract(a, b): return a - b", "Once upon a time in the west"),
    ("機械学習の基礎", "機械学習の応用", "今日の天気は晴れです"),
]


@pytest.mark.parametrize(("text", "near", "far"), NEAR)
@pytest.mark.parametrize("model", EMBEDDERS)
@pytest.mark.parametrize("dimensions", [None, 256])
def test_texts_with_words_in_common_are_near(
    model: str, text: str, near: str, far: str, dimensions: int | None
) -> None:
    first, second, third = (embed(EMBEDDERS[model], each, dimensions) for each in (text, near, far))
    assert likeness(first, second) > likeness(first, third) + 0.1


@settings(max_examples=50)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.sampled_from([1, 2, 13, 1536]))
def test_any_text_has_a_direction(text: str, dimensions: int) -> None:
    found = embed(EMBEDDERS[SMALL], text, dimensions)
    assert len(found) == dimensions
    assert hypot(*found) == pytest.approx(1, abs=1e-5)
    assert dimensions < 1536 or embed(EMBEDDERS[SMALL], f"{text} .", dimensions) != found
