"""What it costs to write a token on each surface: its encoder alone, without server, sockets and clients.

All surfaces get the same events, in turns, so that what else the machine does slows them alike. A delta holds one token
where tokens come slower than workers coalesce them (10 ms), and ten at a thousand tokens per second.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from loadtests.bench.report import Aim, Figure, Sheet
from service.messages import Delta, Part, Usage
from service.wire import (
    anthropic_answer,
    anthropic_events,
    openai_chat_answer,
    openai_completions,
    openai_responses,
    openai_responses_events,
    openai_responses_object,
)

_MODEL = "gpt-5.3-codex"
_JOB = "chatcmpl-" + "0" * 29
_PIECES = [b" engines", b" of", b" a", b" fleet", b",", b" which", b" have", b" to", b" be", b" scheduled"]
_ROUNDS = 25
_TOKENS = 4_000  # of one round
_RATIO_MAX = 2.0

_PARTS = {"text": Part("text"), "arguments of a call": Part("tool_call", "look", "call_1")}


class _Encoder(Protocol):
    def opening(self, usage: Usage) -> bytes: ...
    def delta(self, delta: Delta) -> bytes: ...


def _chat() -> _Encoder:
    head = openai_chat_answer.Head(_JOB, 1_764_547_200, _MODEL, "default", "fp_" + "0" * 10)
    return openai_chat_answer.Chunks(head, 1, openai_chat_answer.Manner(include_usage=True))


def _completions() -> _Encoder:
    request = openai_completions.parse(b'{"model":"m","prompt":"p"}')
    head = openai_chat_answer.Head(_JOB, 1_764_547_200, _MODEL, "default", "fp_" + "0" * 10)
    echo = openai_completions.Echo(request, request.prompts())
    return openai_completions.Events(head, 1, include_usage=True, echo=echo)


def _responses() -> _Encoder:
    request = openai_responses.parse(b'{"model":"m","input":"p"}')
    echo = openai_responses.echo(request)
    head = openai_responses_object.Head(_JOB, 1_764_547_200, "auto", "default", echo)
    return openai_responses_events.Events(head)


def _anthropic() -> _Encoder:
    return anthropic_events.Events(anthropic_answer.Head(job=_JOB, model=_MODEL))


SURFACES: Mapping[str, Callable[[], _Encoder]] = {
    "chat completions": _chat,
    "completions": _completions,  # which know no calls
    "responses": _responses,
    "Anthropic messages": _anthropic,
}


def run() -> Iterator[Sheet]:
    for kind, part in _PARTS.items():
        for tokens in (1, 10):
            yield _sheet(kind, part, tokens)


def _sheet(kind: str, part: Part, tokens: int) -> Sheet:
    costs = _costs(part, tokens)
    reference = costs["chat completions"]
    figures = []
    for surface, cost in costs.items():
        figures.append(Figure(surface, cost * 1e9, "ns per token"))
        if surface != "chat completions":
            figures.append(Figure(f"{surface}, ratio to chat", cost / reference, "", Aim("<=", _RATIO_MAX)))
    title = f"Encoding {kind}, {tokens} token{'s' * (tokens > 1)} at once"
    return Sheet("encoding", title, f"the least of {_ROUNDS} rounds of {_TOKENS:,} tokens, surfaces in turns", figures)


def _costs(part: Part, tokens: int) -> dict[str, float]:
    """Seconds per token of each surface."""
    text = b"\n".join(_PIECES[:tokens])
    deltas = [Delta(_JOB, 1, 0, offset, tokens, text) for offset in range(tokens, _TOKENS + 1, tokens)]
    surfaces = {name: make for name, make in SURFACES.items() if part.kind == "text" or name != "completions"}
    least = dict.fromkeys(surfaces, float("inf"))
    for _ in range(_ROUNDS):
        for surface, make in surfaces.items():
            encoder = make()
            encoder.opening(Usage(prompt=1))
            encoder.delta(Delta(_JOB, 1, 0, 0, tokens, text, part=part))
            least[surface] = min(least[surface], _timed(encoder, deltas) / _TOKENS)
    return least


def _timed(encoder: _Encoder, deltas: list[Delta]) -> float:
    encode = encoder.delta
    began = time.perf_counter()
    for delta in deltas:
        encode(delta)
    return time.perf_counter() - began
