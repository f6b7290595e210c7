"""LiteLLM's Anthropic route."""

import asyncio
import json
import math

from features import feature
from features.litellm_door import CLAUDE, FAULT, HELLO, Door
from features.raising import raises

OLDER = "claude-haiku-4-5"  # takes a budget for thinking, and has to call a tool if it is told to
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@feature
def messages_are_translated(door: Door) -> None:
    """A message has content, a finish reason and usage"""
    answer = door.anthropic()
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.prompt_tokens > 0


@feature
def messages_are_streamed(door: Door) -> None:
    """A stream joins to the whole message, with usage"""
    whole = door.anthropic()
    chunks = list(door.anthropic(stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    built = door.library.stream_chunk_builder(chunks, messages=HELLO)
    assert built.usage.total_tokens == whole.usage.total_tokens


@feature
def cost_is_that_of_the_served_speed(door: Door) -> None:
    """LiteLLM charges twice the price for fast, by the speed that usage reports"""
    standard, fast = door.anthropic(), door.anthropic(speed="fast")
    assert standard.usage.total_tokens == fast.usage.total_tokens
    times = door.library.model_cost[CLAUDE]["provider_specific_entry"]["fast"]
    costs = [door.library.completion_cost(answer) for answer in (standard, fast)]
    assert math.isclose(costs[1], costs[0] * times, rel_tol=1e-6), costs


@feature
def tools_are_called(door: Door) -> None:
    """Calls of tools are translated, whole and streamed"""
    asked = {"model": OLDER, "tools": [WEATHER], "tool_choice": "required", "max_tokens": 500}
    (call, *_) = door.anthropic(**asked).choices[0].message.tool_calls
    assert json.loads(call.function.arguments).keys() == {"city"}
    built = door.library.stream_chunk_builder(list(door.anthropic(**asked, stream=True)), messages=HELLO)
    assert json.loads(built.choices[0].message.tool_calls[0].function.arguments) == json.loads(call.function.arguments)


@feature
def thinking_is_translated(door: Door) -> None:
    """reasoning_effort asks for thinking, which comes as reasoning_content"""
    message = door.anthropic(model=OLDER, reasoning_effort="low", max_tokens=6000).choices[0].message
    assert message.reasoning_content
    assert message.content


@feature
def errors_are_mapped(door: Door) -> None:
    """Errors become LiteLLM's own: not found, bad request, rate limit, overloaded"""
    library = door.library
    for fields, kind in (
        ({"model": "claude-nonexistent"}, library.NotFoundError),
        (
            {"messages": [{"role": "user", "content": "x"}], "extra_headers": {FAULT: "status=400"}},
            library.BadRequestError,
        ),
        ({"extra_headers": {FAULT: "status=429; retry_after=1"}}, library.RateLimitError),
        ({"extra_headers": {FAULT: "status=529"}}, library.InternalServerError),
        ({"extra_headers": {FAULT: "status=503"}}, library.ServiceUnavailableError),
    ):
        with raises(kind):
            door.anthropic(**fields)


@feature
def the_asynchronous_route_works(door: Door) -> None:
    """The asynchronous route asks and streams"""

    async def ask() -> None:
        whole = await door.library.acompletion(**door.to_anthropic())
        stream = await door.library.acompletion(**door.to_anthropic(), stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        assert text == whole.choices[0].message.content

    asyncio.run(ask())
