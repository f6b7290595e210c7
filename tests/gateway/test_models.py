"""What the service says of itself: models, tiers, and whether it lives and is ready."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import httpx
import orjson
import pytest
from openai import DefaultHttpxClient, NotFoundError, OpenAI

from fastmode.up import Service
from service import figures, tiers
from service.embeddings import EMBEDDERS

CATALOG = Path(__file__).parent.parent / "catalogs" / "chat.toml"


@pytest.fixture(scope="module")
def url(module_stack: Callable[..., Service]) -> str:
    return module_stack(CATALOG).base_url


@pytest.fixture(scope="module")
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, trust_env=False) as http:
        yield http


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[OpenAI]:
    http = DefaultHttpxClient(trust_env=False)
    with OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, http_client=http) as client:
        yield client


def test_the_models_of_the_catalog_are_listed_in_its_order_and_then_those_that_embed(client: OpenAI) -> None:
    listed = client.models.list().data
    catalog = tiers.load(CATALOG)
    known = [(model.id, model.created, model.owned_by) for model in catalog.models.values()]
    known += [(model.id, model.created, model.owned_by) for model in EMBEDDERS.values()]
    assert [(model.id, model.created, model.owned_by) for model in listed] == known
    assert {model.object for model in listed} == {"model"}


@pytest.mark.parametrize("name", ["three-tiers", "tests/sees-images", "text-embedding-3-small"])
def test_a_model_is_found_by_its_name(client: OpenAI, http: httpx.Client, name: str) -> None:
    model = client.models.retrieve(name)
    assert model.id == name
    assert model in client.models.list().data
    assert http.get(f"/v1/models/{name}").json()["id"] == name


@pytest.mark.parametrize("name", ["gpt-0", "tests", "tests/sees", "three-tiers ", "\N{SNOWMAN}", "%", "a" * 4000])
def test_an_unknown_model_is_not_found(client: OpenAI, name: str) -> None:
    with pytest.raises(NotFoundError) as refused:
        client.models.retrieve(name)
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
    assert refused.value.request_id


def test_the_figures_of_every_tier_are_those_of_the_catalog(http: httpx.Client) -> None:
    shown = http.get("/v1/tiers").json()
    assert shown["object"] == "list"
    assert shown["data"] == [orjson.loads(orjson.dumps(asdict(row))) for row in figures.rows(tiers.load(CATALOG))]
    assert [(row["model"], row["tier"]) for row in shown["data"]][:3] == [
        ("three-tiers", "standard"),
        ("three-tiers", "fast"),
        ("three-tiers", "spark"),
    ]


def test_it_says_that_it_lives_and_is_ready(http: httpx.Client) -> None:
    assert http.get("/livez").status_code == 200
    ready = http.get("/readyz")
    assert ready.status_code == 200
    assert {name: ready.json()[name] for name in ("status", "redis", "pools")} == {
        "status": "ready",
        "redis": True,
        "pools": {"swift": 1, "narrow": 1},
    }


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/three-tiers", "/v1/tiers", "/livez", "/metrics"])
@pytest.mark.parametrize("variant", ["{}/", "{}?beta=true", "{}/?a=b&a=%ff&=", "{}?"])
def test_a_slash_at_the_end_and_a_query_change_nothing(http: httpx.Client, path: str, variant: str) -> None:
    plain, varied = http.get(path), http.get(variant.format(path))
    assert (varied.status_code, varied.headers["content-type"]) == (200, plain.headers["content-type"])
    if path != "/metrics":
        assert varied.content == plain.content


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/three-tiers", "/v1/tiers", "/livez", "/readyz"])
def test_head_is_get_without_a_body(http: httpx.Client, path: str) -> None:
    got, head = http.get(path), http.head(path)
    assert head.content == b""
    for name in ("content-type", "content-length"):
        assert head.headers[name] == got.headers[name]
    assert head.status_code == got.status_code == 200


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/three-tiers", "/v1/tiers", "/v1/models/gpt-0"])
def test_every_answer_of_the_dialect_can_be_referred_to(http: httpx.Client, path: str) -> None:
    names = {http.get(path).headers["x-request-id"] for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("req_") for name in names)
