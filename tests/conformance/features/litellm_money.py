"""What LiteLLM computes of an answer with the price list of the service, and what the service charged for it."""

import json
import random
import urllib.request
from typing import Any

from features import feature
from features.litellm_door import Door

_EACH = 500  # requests of either dialect
_DEBUG = {"x-fastmode-debug": "1"}
_LONG = " ".join(f"and {number}" for number in range(2500))  # enough to be kept in any model's cache


@feature
def five_hundred_completions_cost_what_was_charged(door: Door) -> None:
    """500 mixed requests of the OpenAI route cost what the ledger has, to a billionth of a dollar"""
    dice = random.Random(1)

    def ask() -> Any:
        model, tier = dice.choice(["gpt-5.4", "gpt-5.6-sol", "gpt-6-astra"]), dice.choice(["auto", "priority", "flex"])
        said = _said(dice)
        return door.openai(
            model=model, service_tier=tier, messages=said, max_tokens=dice.randint(1, 200), extra_headers=_DEBUG
        )

    _compare(door, ask)


@feature
def five_hundred_messages_cost_what_was_charged(door: Door) -> None:
    """500 mixed requests of the Anthropic route cost what the ledger has, to a billionth of a dollar"""
    dice = random.Random(2)

    def ask() -> Any:
        speed = dice.choice([{}, {"speed": "fast"}])
        ttl = dice.choice(["5m", "1h"])
        text = {"type": "text", "text": _said(dice)[0]["content"]}
        marked = {**text, "cache_control": {"type": "ephemeral", "ttl": ttl}} if dice.random() < 0.5 else text
        said = [{"role": "user", "content": [marked]}]
        where = dice.choice([{}, {"inference_geo": "us"}])
        return door.anthropic(messages=said, max_tokens=dice.randint(1, 200), extra_headers=_DEBUG, **speed, **where)

    _compare(door, ask)


def _said(dice: random.Random) -> list[dict[str, str]]:
    return [{"role": "user", "content": dice.choice(["Hello", f"{dice.random()} {_LONG}", _LONG])}]


def _compare(door: Door, ask: Any) -> None:
    with urllib.request.urlopen(f"{door.url}/v1/prices") as prices:
        door.library.register_model(json.load(prices))
    for _ in range(_EACH):
        answer = ask()
        headers = answer._hidden_params["additional_headers"]
        charged = int(headers["llm_provider-x-fastmode-cost-nanodollars"])
        computed = door.library.completion_cost(answer)
        assert abs(computed * 1e9 - charged) < 1, (answer.model, answer.usage, computed, charged)
