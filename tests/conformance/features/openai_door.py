"""OpenAI's official client, pointed at the service."""

from typing import Any

import openai

MODEL = "gpt-5.3-codex"  # of the generation that echoes `priority`
LATEST = "gpt-6-astra"  # of the one that echoes `fast`, and is sold as ultrafast
SPARK = "gpt-5.3-codex-spark"  # takes no images
SIGHTED = "gpt-4o"
EMBEDDER = "text-embedding-3-small"
HELLO = [{"role": "user", "content": "Hello"}]
FAULT = "x-fastmode-fault"

# A picture of one pixel.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PNG = f"data:image/png;base64,{PIXEL}"


class Door:
    """Clients do not retry unless a check makes one that does."""

    library = openai

    def __init__(self, url: str) -> None:
        self.url = url
        self.client: Any = self.synchronous()

    def synchronous(self, **options: Any) -> Any:
        http = openai.DefaultHttpxClient(trust_env=False)
        return openai.OpenAI(**{**self._options(), "http_client": http, **options})

    def asynchronous(self, **options: Any) -> Any:
        http = openai.DefaultAsyncHttpxClient(trust_env=False)
        return openai.AsyncOpenAI(**{**self._options(), "http_client": http, **options})

    def chat(self, **fields: Any) -> Any:
        """A chat completion of a few tokens, unless told otherwise."""
        return self.client.chat.completions.create(**_chat(fields))

    def stream(self, **fields: Any) -> list[Any]:
        """The chunks of a chat completion."""
        return list(self.client.chat.completions.create(**_chat(fields), stream=True))

    def respond(self, **fields: Any) -> Any:
        """A response of a few tokens, unless told otherwise."""
        return self.client.responses.create(**_response(fields))

    def events(self, **fields: Any) -> list[Any]:
        """The events of a response."""
        return list(self.client.responses.create(**_response(fields), stream=True))

    def _options(self) -> dict[str, Any]:
        return {"base_url": f"{self.url}/v1", "api_key": "sk-test", "max_retries": 0}


def _chat(fields: dict[str, Any]) -> dict[str, Any]:
    limits = () if "max_completion_tokens" in fields else ("max_tokens",)
    return _without_none({"model": MODEL, "messages": HELLO, **dict.fromkeys(limits, 12), **fields})


def _response(fields: dict[str, Any]) -> dict[str, Any]:
    return _without_none({"model": MODEL, "input": "Hello", "max_output_tokens": 24, **fields})


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    """A limit that is None is not asked for."""
    return {name: value for name, value in fields.items() if value is not None}
