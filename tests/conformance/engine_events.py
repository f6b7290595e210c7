"""Any answer a backend may give, as the events of service.messages, and the bytes a surface makes of them.

An answer is drawn in its parts and pieces, cut into deltas anywhere, and its choices are shuffled together, as workers
and their flushes do. `Drawn.stream` plays the gateway: it calls an encoder as gateway.answers does.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec
import orjson
from hypothesis import strategies as st

from gateway.surface import Encoder
from service.errors import Unavailable
from service.messages import Delta, FinishReason, Part, Usage
from service.wire.gathered import Answer, Gathered

Ending = Literal["finished", "failed", "cut"]

_PIECES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_ODD = st.sampled_from(
    ["", "\n\n", "\r\n", "\x00", '"', "\\", "data: ", "[DONE]", "🤖", "\u2028", "\u202e", "{}", "event: x"]
)
_NAMES = st.text("abcxyz_-09", min_size=1, max_size=12)


@dataclass(frozen=True, slots=True)
class Drawn:
    """`deltas` in the order in which they come; None is a silence in which a keep-alive falls due."""

    choices: int
    deltas: tuple[Delta | None, ...]
    usage: Usage
    ending: Ending

    def stream(self, encoder: Encoder) -> bytes:
        """What is sent. A stream that is cut ends anywhere, and without a word."""
        sent, opened, known = b"", False, Usage(prompt=self.usage.prompt)
        for delta in self.deltas:
            if not opened and (delta is not None or encoder.opens_early):
                sent, opened = sent + encoder.opening(known), True
            sent += encoder.keepalive() if delta is None else encoder.delta(delta)
        if self.ending == "failed":
            return sent + (b"" if opened else encoder.opening(known)) + encoder.failure(Unavailable("Too much to do."))
        return sent + encoder.closing(self.usage) if self.ending == "finished" else sent

    def answers(self) -> list[Answer]:
        gathered = Gathered(self.choices)
        for delta in self.deltas:
            if delta is not None:
                gathered.add(delta)
        return gathered.answers


@st.composite
def drawn(draw: st.DrawFn, choices: int = 3, reckoned: bool = False) -> Drawn:
    """Up to so many choices; `reckoned`: tokens of text come with log probabilities."""
    count = draw(st.integers(1, choices))
    waiting = [draw(_answer(choice, reckoned)) for choice in range(count)]
    tokens = sum(delta.count for answer in waiting for delta in answer)
    ending: Ending = draw(st.sampled_from(("finished", "finished", "failed", "cut")))
    if ending != "finished":
        waiting = [answer[: draw(st.integers(0, len(answer)))] for answer in waiting]
    return Drawn(
        count, tuple(_shuffled(draw, waiting)), Usage(prompt=draw(st.integers(1, 99)), completion=tokens), ending
    )


def _shuffled(draw: st.DrawFn, waiting: list[list[Delta]]) -> Iterator[Delta | None]:
    """Of each choice in order, with silences anywhere."""
    queues = [iter(answer) for answer in waiting]
    order = draw(st.permutations([choice for choice, answer in enumerate(waiting) for _ in answer]))
    for choice in order:
        for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
            yield None
        yield next(queues[choice])


@st.composite
def _answer(draw: st.DrawFn, choice: int, reckoned: bool) -> list[Delta]:
    """All deltas of one choice, the last of them with its finish."""
    deltas: list[Delta] = []
    parts = draw(_parts())
    finish, stopped = draw(_finish(any(part.kind == "tool_call" for part in parts)))
    for part in parts:
        for number, pieces in enumerate(draw(_batches())):
            offset = sum(delta.count for delta in deltas)
            text = b"\n".join(orjson.dumps(piece)[1:-1] for piece in pieces)
            logprobs = b"\n".join(map(_logprob, filter(None, pieces))) if reckoned and part.kind == "text" else b""
            begins = part if number == 0 else None
            deltas.append(Delta("j", 1, choice, offset, len(pieces), text, part=begins, logprobs=logprobs))
    *others, last = deltas
    if draw(st.booleans()):  # tokens of a stop sequence, or of nothing: they have no text
        others.append(last)
        last = Delta("j", 1, choice, last.offset + last.count, draw(st.integers(0, 3)), b"")
    return [*others, msgspec.structs.replace(last, finish=finish, stopped=stopped)]


@st.composite
def _parts(draw: st.DrawFn) -> list[Part]:
    """Reasoning, then text, then calls, each if there is any; of a choice of which there is anything."""
    parts = [Part(kind) for kind in ("reasoning", "text") if draw(st.booleans())]
    ids = st.sampled_from(("", "call_scripted"))
    parts += [Part("tool_call", draw(_NAMES), draw(ids)) for _ in range(draw(st.integers(0, 2)))]
    return parts or [Part("text")]


def _batches() -> st.SearchStrategy[list[list[str]]]:
    """Tokens come alone or several at once; some have no text, as those that name a tool."""
    blank = st.lists(st.just(""), min_size=1, max_size=3)
    return st.lists(blank | st.lists(_PIECES | _ODD, min_size=1, max_size=5), min_size=1, max_size=3)


@st.composite
def _finish(draw: st.DrawFn, calls: bool) -> tuple[FinishReason, str | None]:
    if calls:
        return "tool_calls", None
    finish: FinishReason = draw(st.sampled_from(("stop", "length", "content_filter")))
    return finish, draw(st.none() | st.just("END")) if finish == "stop" else None


def _logprob(piece: str) -> bytes:
    known = {"token": piece, "logprob": -0.25, "bytes": list(piece.encode())}
    return orjson.dumps({**known, "top_logprobs": [known, {**known, "token": f"{piece}x", "logprob": -2.5}]})
