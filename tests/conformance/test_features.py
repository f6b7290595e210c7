"""The newest official clients find what they expect. Older generations, and LiteLLM: `make conformance`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import features
import pytest
import quick
from features.anthropic_door import Door as AnthropicDoor
from features.openai_door import Door as OpenAIDoor

from fastmode.up import Service

OPENAI, ANTHROPIC = features.load("openai"), features.load("anthropic")


def named(feature: features.Feature) -> str:
    return f"{feature.area.replace(' ', '_')}-{feature.name}"


@pytest.fixture(scope="module")
def url(module_stack: Callable[..., Service], tmp_path_factory: pytest.TempPathFactory) -> str:
    directory: Path = tmp_path_factory.mktemp("quick")
    return module_stack(quick.catalog(directory), FASTMODE_KEEPALIVE_EVERY="1").base_url


@pytest.fixture(scope="module")
def openai_door(url: str) -> OpenAIDoor:
    return OpenAIDoor(url)


@pytest.fixture(scope="module")
def anthropic_door(url: str) -> AnthropicDoor:
    return AnthropicDoor(url)


@pytest.mark.parametrize("feature", OPENAI, ids=named)
def test_openai(openai_door: OpenAIDoor, feature: features.Feature) -> None:
    feature.check(openai_door)


@pytest.mark.parametrize("feature", ANTHROPIC, ids=named)
def test_anthropic(anthropic_door: Any, feature: features.Feature) -> None:
    feature.check(anthropic_door)
