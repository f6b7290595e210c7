"""The events of a stream put together again: whole answers, as they are sent at once, kept or looked up later."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from service.messages import Delta, FinishReason, Part


@dataclass(slots=True)
class Said:
    """One part of an answer. `text` is JSON-escaped, without quotes; `logprobs` are JSON objects, one per token."""

    part: Part
    text: bytearray = field(default_factory=bytearray)
    logprobs: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class Answer:
    """One choice."""

    said: list[Said] = field(default_factory=list)
    finish: FinishReason | None = None
    stopped: str | None = None

    def add(self, delta: Delta) -> None:
        if delta.part is not None:
            self.said.append(Said(delta.part))
        if delta.text:
            self.said[-1].text += delta.text.replace(b"\n", b"")
        if delta.logprobs:
            self.said[-1].logprobs += delta.logprobs.split(b"\n")
        self.finish, self.stopped = delta.finish, delta.stopped

    def text(self) -> bytes:
        """All of it that is text proper."""
        return b"".join(said.text for said in self.said if said.part.kind == "text")

    def logprobs(self) -> Iterable[bytes]:
        """Of the text proper."""
        return (logprob for said in self.said if said.part.kind == "text" for logprob in said.logprobs)


class Gathered:
    """All choices of one request."""

    def __init__(self, choices: int) -> None:
        self.answers = [Answer() for _ in range(choices)]

    def add(self, delta: Delta) -> None:
        self.answers[delta.choice].add(delta)
