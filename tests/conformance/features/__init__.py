"""What clients expect of the service, each expectation written once, and checked with every generation of a client.

A check is a function of a door; its docstring is the sentence that the matrix shows. Checks are also run where nothing
but the client is installed: they import the client, the standard library and each other.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Check = Callable[[Any], None]

# What each client's checks are in; the order is that of the matrix.
MODULES = {
    "openai": (
        "openai_chat",
        "openai_chat_stream",
        "openai_chat_tools",
        "openai_chat_formats",
        "openai_tiers",
        "openai_errors",
        "openai_faults",
        "openai_clients",
        "openai_completions",
        "openai_embeddings",
        "openai_models",
        "openai_responses",
        "openai_responses_stream",
        "openai_responses_tools",
        "openai_responses_stored",
        "openai_websocket",
    ),
    "anthropic": (
        "anthropic_messages",
        "anthropic_stream",
        "anthropic_tools",
        "anthropic_thinking",
        "anthropic_speed",
        "anthropic_versions",
        "anthropic_caching",
        "anthropic_models",
        "anthropic_errors",
        "anthropic_clients",
    ),
    "litellm": ("litellm_openai", "litellm_anthropic", "litellm_money"),
}


class Lacking(Exception):
    """This generation of the client has no way to ask for that."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One row of the matrix; `area` is the module it is from, without the client's name."""

    client: str
    area: str
    name: str
    sentence: str
    check: Check


def feature(check: Check) -> Check:
    """Declares a check. Its module is named after the client and the area."""
    assert check.__doc__, f"{check.__name__} says nothing"
    client, _, area = check.__module__.rpartition(".")[2].partition("_")
    sentence = " ".join(check.__doc__.split())
    _declared.append(Feature(client, area.replace("_", " "), check.__name__, sentence, check))
    return check


def load(client: str) -> list[Feature]:
    """All that is expected with a client. Raises ImportError where it is not installed."""
    for module in MODULES[client]:
        importlib.import_module(f"{__name__}.{module}")
    return [declared for declared in _declared if declared.client == client]


_declared: list[Feature] = []
