"""What the gateway says of one tier is what the command says; a question without an answer is refused as others are."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import httpx
import pytest

from fastmode.up import Service


@pytest.fixture(scope="module")
def http(module_stack: Callable[..., Service]) -> Iterator[httpx.Client]:
    """A gateway with the catalog that ships."""
    with httpx.Client(base_url=module_stack().base_url, trust_env=False) as http:
        yield http


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("/v1/tiers/fast", ["fast"]),
        ("/v1/tiers/standard?context=40000&output=600", ["standard", "--context", "40000", "--output", "600"]),
        ("/v1/tiers/priority?model=gpt-5.3-codex", ["priority", "--model", "gpt-5.3-codex"]),
        ("/v1/tiers/spark/?model=gpt-5.3-codex-spark", ["spark", "--model", "gpt-5.3-codex-spark"]),
        ("/v1/tiers/auto", ["default"]),
    ],
)
def test_a_tier_is_explained_as_the_command_explains_it(http: httpx.Client, path: str, arguments: list[str]) -> None:
    environ = {name: text for name, text in os.environ.items() if not name.startswith("FASTMODE_")}
    said = subprocess.run(
        [sys.executable, "-m", "fastmode", "explain", *arguments, "--json"],
        capture_output=True,
        text=True,
        env=environ,
        timeout=60,
        check=True,
    )
    answered = http.get(path)
    assert answered.status_code == 200
    assert answered.json() == json.loads(said.stdout)
    assert answered.json()["object"] == "tier.explanation"
    assert answered.headers["x-request-id"].startswith("req_")


def test_the_tier_of_an_explanation_is_one_of_the_list(http: httpx.Client) -> None:
    for row in http.get("/v1/tiers").json()["data"]:
        explained = http.get(f"/v1/tiers/{row['tier']}", params={"model": row["model"]}).json()
        assert (explained["model"], explained["tier"], explained["pool"]) == (row["model"], row["tier"], row["pool"])
        assert explained["known"]["price_output"]["value"] == row["price_output"]["value"]
        assert explained["physics"]["operation"]["speed_lone"]["value"] == row["speed_ambient"]["value"]


@pytest.mark.parametrize(
    ("path", "status", "code", "param"),
    [
        ("/v1/tiers/turbo", 404, "tier_not_found", "tier"),
        ("/v1/tiers/fast?model=gpt-0", 404, "model_not_found", "model"),
        ("/v1/tiers/spark?model=claude-opus-4-6", 400, "tier_not_offered", "service_tier"),
        ("/v1/tiers/fast?context=many", 400, "invalid_value", "context"),
        ("/v1/tiers/fast?context=1.5", 400, "invalid_value", "context"),
        ("/v1/tiers/fast?context=", 400, "invalid_value", "context"),
        ("/v1/tiers/fast?context=%D9%A3", 400, "invalid_value", "context"),
        ("/v1/tiers/fast?context=" + "9" * 5000, 400, "invalid_value", "context"),
        ("/v1/tiers/fast?output=0", 400, "invalid_value", "output"),
        ("/v1/tiers/fast?output=-1", 400, "invalid_value", "output"),
        ("/v1/tiers/spark?context=128000", 400, "invalid_value", "context"),
        ("/v1/tiers/fast/slow", 404, "not_found", None),
    ],
)
def test_what_cannot_be_explained_is_refused_with_the_envelope_of_the_dialect(
    http: httpx.Client, path: str, status: int, code: str, param: str | None
) -> None:
    refused = http.get(path)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (status, code, param)
    assert error["type"] == "invalid_request_error"
    assert error["message"]


def test_other_parameters_and_head_change_nothing(http: httpx.Client) -> None:
    plain = http.get("/v1/tiers/fast")
    assert http.get("/v1/tiers/fast?beta=true&a=%ff").content == plain.content
    assert http.head("/v1/tiers/fast").headers["content-length"] == plain.headers["content-length"]
