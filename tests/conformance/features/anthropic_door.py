"""Anthropic's official client, pointed at the service. Generations differ in the header that carries the key, in the
API version they speak, and in whether `speed` is a parameter or a beta's."""

import inspect
from typing import Any

import anthropic

MODEL = "claude-opus-5-5"  # fast without a beta
PREVIEW = "claude-opus-5"  # fast with one
FORMER = "claude-opus-4-6"  # was fast once; such requests run as standard
SLOW = "claude-sonnet-5-5"  # never fast
BETA = "fast-mode-2026-02-01"
HELLO = [{"role": "user", "content": "Hello"}]
FAULT = "x-fastmode-fault"


class Door:
    """Clients do not retry unless a check makes one that does."""

    library = anthropic

    def __init__(self, url: str) -> None:
        self.url = url
        self.client: Any = self.synchronous()
        self.has_speed = "speed" in inspect.signature(self.client.messages.create).parameters

    def synchronous(self, **options: Any) -> Any:
        http = anthropic.DefaultHttpxClient(trust_env=False)
        return anthropic.Anthropic(**{**self._options(), "http_client": http, **options})

    def asynchronous(self, **options: Any) -> Any:
        http = anthropic.DefaultAsyncHttpxClient(trust_env=False)
        return anthropic.AsyncAnthropic(**{**self._options(), "http_client": http, **options})

    def say(self, **fields: Any) -> Any:
        """A message of a few tokens, unless told otherwise."""
        return self.client.messages.create(**_message(fields))

    def events(self, **fields: Any) -> list[Any]:
        """The events of a streamed message, as the client gives them."""
        return list(self.client.messages.create(**_message(fields), stream=True))

    def at(self, speed: str | None, **fields: Any) -> Any:
        """A message at a speed, asked for as this generation of the client does."""
        if self.has_speed:
            return self.say(speed=speed, **fields)
        return self.client.beta.messages.create(**_message(fields), speed=speed, betas=[BETA])

    def _options(self) -> dict[str, Any]:
        return {"base_url": self.url, "api_key": "sk-ant-test", "max_retries": 0}


def _message(fields: dict[str, Any]) -> dict[str, Any]:
    return {"model": MODEL, "messages": HELLO, "max_tokens": 60, **fields}
