"""LiteLLM's OpenAI route."""

import asyncio
import json
import math
from typing import Any

from features import feature
from features.litellm_door import FAULT, GPT, HELLO, LATEST, Door
from features.raising import raises

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def _price(door: Door, usage: Any, suffix: str) -> float:
    prices = door.library.model_cost[GPT]
    cost: float = (
        usage.prompt_tokens * prices[f"input_cost_per_token{suffix}"]
        + usage.completion_tokens * prices[f"output_cost_per_token{suffix}"]
    )
    return cost


@feature
def completions_are_translated(door: Door) -> None:
    """A completion has content, usage and the served tier"""
    answer = door.openai()
    assert answer.choices[0].message.content
    assert answer.usage.completion_tokens == 60
    assert answer.service_tier == "default"


@feature
def completions_are_streamed(door: Door) -> None:
    """A stream joins to the whole answer, and builds up to it, with usage"""
    whole = door.openai(seed=1)
    chunks = list(door.openai(seed=1, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    built = door.library.stream_chunk_builder(chunks, messages=HELLO)
    assert built.usage.total_tokens == whole.usage.total_tokens


@feature
def cost_is_that_of_the_served_tier(door: Door) -> None:
    """LiteLLM charges what the served tier costs: more for priority, half for flex"""
    for asked, suffix in ((None, ""), ("priority", "_priority"), ("flex", "_flex"), ("auto", "")):
        answer = door.openai(service_tier=asked) if asked else door.openai()
        cost = door.library.completion_cost(answer)
        assert math.isclose(cost, _price(door, answer.usage, suffix), rel_tol=1e-6), (asked, cost)


@feature
def newer_tiers_are_passed_on(door: Door) -> None:
    """fast and ultrafast are passed on, and reported as served"""
    for asked in ("fast", "ultrafast"):
        assert door.openai(model=LATEST, service_tier=asked).service_tier == asked


@feature
def tools_are_called(door: Door) -> None:
    """Calls of tools are translated, whole and streamed"""
    asked = {"tools": [WEATHER], "tool_choice": "required", "max_tokens": 500, "seed": 1}
    (call, *_) = door.openai(**asked).choices[0].message.tool_calls
    assert json.loads(call.function.arguments).keys() == {"city"}
    built = door.library.stream_chunk_builder(list(door.openai(**asked, stream=True)), messages=HELLO)
    assert built.choices[0].message.tool_calls[0].function.arguments == call.function.arguments


@feature
def errors_are_mapped(door: Door) -> None:
    """Errors become LiteLLM's own: not found, bad request, rate limit, unavailable"""
    library = door.library
    for fields, kind in (
        ({"model": "gpt-nonexistent"}, library.NotFoundError),
        ({"temperature": 5}, library.BadRequestError),
        ({"extra_headers": {FAULT: "status=429; retry_after=1"}}, library.RateLimitError),
        ({"extra_headers": {FAULT: "status=503"}}, library.ServiceUnavailableError),
        ({"extra_headers": {FAULT: "status=500"}}, library.InternalServerError),
        ({"extra_headers": {FAULT: "status=401"}}, library.AuthenticationError),
    ):
        with raises(kind):
            door.openai(**fields)


@feature
def the_asynchronous_route_works(door: Door) -> None:
    """The asynchronous route asks and streams"""

    async def ask() -> None:
        whole = await door.library.acompletion(**door.to_openai(seed=2))
        stream = await door.library.acompletion(**door.to_openai(seed=2), stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        assert text == whole.choices[0].message.content

    asyncio.run(ask())


@feature
def embeddings_and_text_completions_work(door: Door) -> None:
    """Embeddings and text completions work"""
    base = {"api_base": f"{door.url}/v1", "api_key": "k"}
    embedded = door.library.embedding(model="openai/text-embedding-3-small", input=["a", "b"], **base)
    assert len(embedded.data) == 2
    said = door.library.text_completion(model="text-completion-openai/gpt-5.4", prompt="Once", max_tokens=5, **base)
    assert said.choices[0].text


@feature
def responses_work(door: Door) -> None:
    """The Responses route works, whole and streamed"""
    base = {"model": f"openai/{GPT}", "input": "Hello", "api_base": f"{door.url}/v1", "api_key": "k"}
    whole = door.library.responses(**base)
    assert whole.status == "completed"
    kinds = [event.type for event in door.library.responses(**base, stream=True)]
    assert kinds[-1] == "response.completed"


@feature
def streams_cost_what_was_served(door: Door) -> None:
    """A stream costs what its chunks say was served"""
    options = {"stream": True, "stream_options": {"include_usage": True}, "service_tier": "priority"}
    chunks = list(door.openai(**options))
    built = door.library.stream_chunk_builder(chunks, messages=HELLO)
    cost = door.library.completion_cost(built)
    assert math.isclose(cost, _price(door, built.usage, "_priority"), rel_tol=1e-6), cost
