"""One sequence: what is asked of the replica, where it stands, and what is reported of it.

There is no prefill phase and no decode phase: a sequence has context tokens that are computed and context tokens still
to compute, and it gains tokens in every step that finds none to compute. Knows nothing about other sequences or time.
"""

from dataclasses import dataclass
from typing import NamedTuple

NOT_DECODING = -1


@dataclass(frozen=True, slots=True)
class Sequence:
    """A request for `output` tokens after a prompt of `prompt` tokens. `arrival` (s) may lie in the future.

    `generated` > 0 resumes: those tokens exist already, are recomputed together with the prompt, and are not generated
    again. Equal `seed`s gain their tokens in equal bursts. Raises ValueError if nothing is to be read or generated.
    """

    id: str
    arrival: float
    prompt: int
    output: int
    generated: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.prompt < 1:
            raise ValueError(f"sequence {self.id}: a prompt has at least one token, not {self.prompt}")
        if not 0 <= self.generated < self.output:
            raise ValueError(f"sequence {self.id}: {self.generated} of {self.output} tokens leaves none to generate")


class Progress(NamedTuple):
    """`tokens` tokens of a sequence are out (those it came with included), the last of them at `time` (s).

    `first` is when the first token generated here was out, in the one report that contains it.
    """

    id: str
    tokens: int
    time: float
    finished: bool
    first: float | None = None


class State:
    """Where a sequence stands. Step numbers count the steps of the replica; times are seconds since its start.

    While it decodes, tokens out before step K = ahead + sum of the draws before index K + shift: one lookup for each.
    """

    __slots__ = (
        "ahead",
        "brought",
        "computed",
        "context",
        "decoding_from",
        "draw",
        "due",
        "finished",
        "first",
        "generated",
        "id",
        "last",
        "output",
        "prompt",
        "reported",
        "saturated",
        "shift",
    )

    def __init__(self, sequence: Sequence, due: float, draw: int) -> None:
        self.id = sequence.id
        self.prompt = sequence.prompt
        self.output = sequence.output
        self.due = due  # when it arrives
        self.draw = draw  # index of its next draw
        self.decoding_from = NOT_DECODING  # the first step in which it decodes
        self.ahead = self.shift = 0
        self.saturated = False  # its context is beyond what sparse attention reads
        self.finished = False
        self.brought = self.reported = sequence.generated
        self.first: float | None = None  # when it gained its first token here, until that is reported
        self.last = due  # when it gained its last one; while it decodes, that follows from the step
        self.restart(sequence.generated)

    def restart(self, generated: int) -> None:
        """Its cache holds nothing: prompt and generated tokens are to be computed, which yields one token more."""
        self.generated = generated  # tokens out when it last began or ceased to decode
        self.context = self.prompt + generated + 1  # tokens it holds when all is computed
        self.computed = 0

    @property
    def to_compute(self) -> int:
        return self.context - 1 - self.computed
