"""What it costs to write a token on each surface: its encoder alone, without server, sockets and clients.

All surfaces get the same events, in turns, so that what else the machine does slows them alike. A delta holds one token
where tokens come slower than workers coalesce them (10 ms), and ten at a thousand tokens per second.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
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
_WORDS = [b" engines", b" of", b" a", b" fleet", b",", b" which", b" have", b" to", b" be", b" scheduled"]
# Of the input of a call, as agents' are: a path, and some code.
_INPUT = [b' \\"', b"file", b"_path", b'\\":', b' \\"', b"src", b"/", b"main", b".py", b'\\",']
_INPUT += [b' \\"', b"new", b"_string", b'\\":', b' \\"', b"   ", b" engine", b" =", b" Engine", b"(pool"]
_INPUT += [b",", b" start", b"=", b"clock", b"())", b"\\\\n", b"   ", b" while", b" engine", b".busy"]
_INPUT += [b"():", b"\\\\n", b"       ", b" await", b" sleep", b"(engine", b".next", b"_event", b"())", b"\\\\n"]
_INPUT += [b"   ", b" return", b" engine", b".adv", b"ance", b"(clock", b"())", b"\\\\n", b"\\\\n", b'\\",']
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
    pieces = _WORDS if part.kind == "text" else _INPUT
    texts = [b"\n".join(pieces[at : at + tokens]) for at in range(0, len(pieces), tokens)]
    offsets = range(tokens, _TOKENS + 1, tokens)
    deltas = [Delta(_JOB, 1, 0, offset, tokens, text) for offset, text in zip(offsets, cycle(texts), strict=False)]
    surfaces = {name: make for name, make in SURFACES.items() if part.kind == "text" or name != "completions"}
    least = dict.fromkeys(surfaces, float("inf"))
    for _ in range(_ROUNDS):
        for surface, make in surfaces.items():
            encoder = make()
            encoder.opening(Usage(prompt=1))
            encoder.delta(Delta(_JOB, 1, 0, 0, tokens, texts[0], part=part))
            least[surface] = min(least[surface], _timed(encoder, deltas) / _TOKENS)
    return least


def _timed(encoder: _Encoder, deltas: list[Delta]) -> float:
    encode = encoder.delta
    began = time.perf_counter()
    for delta in deltas:
        encode(delta)
    return time.perf_counter() - began
