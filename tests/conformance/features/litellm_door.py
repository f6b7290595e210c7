"""LiteLLM, pointed at the service as at the real APIs: its OpenAI route and its Anthropic route."""

from typing import Any

import litellm  # type: ignore[import-not-found, unused-ignore]

GPT, LATEST, CLAUDE = "gpt-5.4", "gpt-6-astra", "claude-opus-5-5"
HELLO = [{"role": "user", "content": "Hello"}]
FAULT = "x-fastmode-fault"


class Door:
    """Its routes do not retry unless a check asks for it."""

    library: Any = litellm

    def __init__(self, url: str) -> None:
        self.url = url

    def openai(self, **fields: Any) -> Any:
        return litellm.completion(**self.to_openai(**fields))

    def anthropic(self, **fields: Any) -> Any:
        return litellm.completion(**self.to_anthropic(**fields))

    def to_openai(self, **fields: Any) -> dict[str, Any]:
        """Arguments of a completion through the OpenAI route."""
        model = fields.pop("model", GPT)
        return {"model": f"openai/{model}", "api_base": f"{self.url}/v1", **_SHARED, **fields}

    def to_anthropic(self, **fields: Any) -> dict[str, Any]:
        """Arguments of a completion through the Anthropic route."""
        model = fields.pop("model", CLAUDE)
        return {"model": f"anthropic/{model}", "api_base": self.url, **_SHARED, **fields}


_SHARED: dict[str, Any] = {
    "messages": HELLO,
    "max_tokens": 60,
    "api_key": "sk-test",
    "max_retries": 0,
    "num_retries": 0,
}
