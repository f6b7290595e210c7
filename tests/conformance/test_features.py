"""The newest official clients find what they expect. Older generations, and LiteLLM: `make conformance`."""

import features
import pytest
from features.anthropic_door import Door as AnthropicDoor
from features.openai_door import Door as OpenAIDoor

OPENAI, ANTHROPIC = features.load("openai"), features.load("anthropic")


def named(feature: features.Feature) -> str:
    return f"{feature.area.replace(' ', '_')}-{feature.name}"


@pytest.fixture(scope="module")
def openai_door(quick_url: str) -> OpenAIDoor:
    return OpenAIDoor(quick_url)


@pytest.fixture(scope="module")
def anthropic_door(quick_url: str) -> AnthropicDoor:
    return AnthropicDoor(quick_url)


@pytest.mark.parametrize("feature", OPENAI, ids=named)
def test_openai(openai_door: OpenAIDoor, feature: features.Feature) -> None:
    feature.check(openai_door)


@pytest.mark.parametrize("feature", ANTHROPIC, ids=named)
def test_anthropic(anthropic_door: AnthropicDoor, feature: features.Feature) -> None:
    feature.check(anthropic_door)
