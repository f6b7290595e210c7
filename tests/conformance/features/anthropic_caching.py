"""Breakpoints of the prompt cache."""

import uuid
from typing import Any

from features import feature
from features.anthropic_door import HELLO, MODEL, Door

_BOOK = "It was the best of times, it was the worst of times. "


def _system(ttl: str | None = None) -> list[dict[str, Any]]:
    """A prompt that nobody has asked before."""
    control = {"type": "ephemeral"} if ttl is None else {"type": "ephemeral", "ttl": ttl}
    return [{"type": "text", "text": f"{uuid.uuid4()} {_BOOK * 300}", "cache_control": control}]


@feature
def what_is_marked_is_written_and_then_read(door: Door) -> None:
    """A marked prompt is written at first and read the next time, and the three kinds of input add up"""
    asked = {"system": _system()}
    counted = door.client.messages.count_tokens(model=MODEL, messages=HELLO, **asked)
    first, again = (door.say(**asked).usage for _ in range(2))
    assert first.cache_creation_input_tokens > 1000
    assert first.cache_creation.ephemeral_5m_input_tokens == first.cache_creation_input_tokens
    assert again.cache_read_input_tokens > 1000
    for usage in (first, again):
        parts = usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens
        assert parts == counted.input_tokens


@feature
def the_hour_is_reported(door: Door) -> None:
    """What is written for an hour is reported as such"""
    usage = door.say(system=_system("1h")).usage
    assert usage.cache_creation.ephemeral_1h_input_tokens == usage.cache_creation_input_tokens > 1000


@feature
def what_is_not_marked_is_not_cached(door: Door) -> None:
    """Nothing is cached that is not marked, or too short"""
    long = f"{uuid.uuid4()} {_BOOK * 300}"
    for asked in ({"system": long}, {"system": [{**_system()[0], "text": "short"}]}):
        for usage in (door.say(**asked).usage for _ in range(2)):
            assert (usage.cache_creation_input_tokens, usage.cache_read_input_tokens) == (0, 0)


@feature
def another_speed_is_another_cache(door: Door) -> None:
    """What was written at one speed is not read at the other"""
    asked = {"system": _system()}
    door.say(**asked)
    assert door.at("fast", **asked).usage.cache_read_input_tokens == 0
