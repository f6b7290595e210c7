"""The OpenAPI document is true: whatever is sent, the answer is one that the document describes, and no 5xx.

Bodies are the document's own examples with something else in them. `make conformance` has schemathesis look longer.
"""

import json
import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import httpx
import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

POSTS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/responses/input_tokens",
    "/v1/messages",
    "/v1/messages/count_tokens",
)
GETS = (
    "/v1/models",
    "/v1/models/gpt-5",
    "/v1/models/none",
    "/v1/tiers",
    "/v1/tiers/fast",
    "/v1/tiers/none",
    "/v1/prices",
)
MANY = settings(max_examples=int(os.environ.get("CONFORMANCE_EXAMPLES", "30")))
PLACES = {f"/v1/{things}/": f"/v1/{things}/{{{name}}}" for things, name in (("models", "name"), ("tiers", "tier"))}

SCALARS = st.none() | st.booleans() | st.integers(-3, 3000) | st.floats(-3, 3) | st.text(max_size=8)
THINGS = st.recursive(
    SCALARS | st.sampled_from(("auto", "user", "text", "tool", "function", "required", "json_object", "fast")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("type", "role", "content", "text", "name", "id", "schema")), inner, max_size=3
        )
    ),
    max_leaves=6,
)


class Described:
    """A service and its document."""

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=url, trust_env=False, timeout=30)
        self.document: Any = self.http.get("/openapi.json").json()

    def example(self, path: str) -> tuple[Any, list[str]]:
        """A body, and the names of all its fields."""
        body = self.document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        part = self.document["components"]["schemas"][body["schema"]["$ref"].rpartition("/")[2]]
        return body["example"], sorted(part["properties"])

    def check(self, answer: httpx.Response, path: str) -> None:
        """Whether the document describes the answer."""
        method = answer.request.method.lower()
        assert answer.status_code < 500, answer.text
        described = self.document["paths"][path][method]["responses"]
        status = str(answer.status_code)
        content = (described.get(status) or described[f"{status[0]}XX"])["content"]
        kind = answer.headers["content-type"].partition(";")[0]
        assert kind in content
        if kind == "application/json":
            self._validator(json.dumps(content[kind]["schema"])).validate(answer.json())

    @cache  # noqa: B019 - one for the whole module
    def _validator(self, schema: str) -> Any:
        return jsonschema_rs.validator_for({**json.loads(schema), "components": self.document["components"]})


@pytest.fixture(scope="module")
def described(quick_url: str) -> Described:
    return Described(quick_url)


@st.composite
def spoilt(draw: st.DrawFn, example: Any, fields: list[str]) -> Any:
    """The example with one to three things in it left out, replaced, or added."""
    body = json.loads(json.dumps(example))
    for _ in range(draw(st.integers(1, 3))):
        holder, key = draw(st.sampled_from([*_places(body), *((body, name) for name in fields)]))
        if key in holder and draw(st.sampled_from((True, False, False, False))):
            del holder[key]
        else:
            holder[key] = draw(THINGS)
    return body


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every object in it, with every key that it has."""
    for key, each in value.items() if isinstance(value, dict) else ():
        yield value, key
        yield from _places(each)
    for each in value if isinstance(value, list) else ():
        yield from _places(each)


@pytest.mark.parametrize("path", POSTS)
def test_examples_are_answered_as_described(described: Described, path: str) -> None:
    example, _ = described.example(path)
    for stream in (False, True):
        body = {**example, "stream": True} if stream else example
        answer = described.http.post(path, json=body, headers={"anthropic-version": "2023-06-01"})
        assert answer.status_code == 200 or stream, answer.text
        described.check(answer, path)


@pytest.mark.parametrize("path", POSTS)
@MANY
@given(st.data())
def test_whatever_is_posted_is_answered_as_described(described: Described, path: str, data: st.DataObject) -> None:
    body = data.draw(spoilt(*described.example(path)))
    described.check(described.http.post(path, json=body, headers={"anthropic-version": "2023-06-01"}), path)


@pytest.mark.parametrize("path", GETS)
def test_whatever_is_looked_up_is_answered_as_described(described: Described, path: str) -> None:
    place = next((place for start, place in PLACES.items() if path.startswith(start)), path)
    for headers in ({}, {"anthropic-version": "2023-06-01"}):
        described.check(described.http.get(path, headers=headers), place)
