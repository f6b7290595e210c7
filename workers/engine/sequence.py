"""One sequence: what is asked of the replica, where it stands, and what is reported of it.

There is no prefill phase and no decode phase: a sequence has context tokens that are computed and context tokens still
to compute, and it gains tokens in every step that finds none to compute. Knows nothing about other sequences or time.
"""

from dataclasses import dataclass
from typing import NamedTuple

NOT_DECODING = -1
NOT_ASKED = -1


@dataclass(slots=True)  # not frozen: a frozen one takes four times as long to make, and a plan makes millions
class Sequence:
    """A request for `output` tokens after a prompt of `prompt` tokens. `arrival` (s) may lie in the future.

    `generated` > 0 resumes: those tokens exist already, are recomputed together with the prompt, and are not generated
    again. Equal `seed`s gain their tokens in equal bursts. `band` 0 goes first. `blocks` identify the prompt's full
    blocks in the order of the prompt, each together with all that stands before it. `keep`: the first so many tokens
    are to be found for so many seconds after they were last used, in order; what lies beyond, as long as the last, and
    if there is none, all as long as there is room.

    Raises ValueError if nothing is to be read or generated.
    """

    id: str
    arrival: float
    prompt: int
    output: int
    generated: int = 0
    seed: int = 0
    band: int = 1
    blocks: tuple[int, ...] = ()
    keep: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        if self.prompt < 1:
            raise ValueError(f"sequence {self.id}: a prompt has at least one token, not {self.prompt}")
        if not 0 <= self.generated < self.output:
            raise ValueError(f"sequence {self.id}: {self.generated} of {self.output} tokens leaves none to generate")

    def lives(self, block: int) -> tuple[float, ...]:
        """Seconds for which each of its blocks, of that many tokens, is to be kept; none if `keep` says nothing."""
        if not self.keep:
            return ()
        last = self.keep[-1][1]
        ends = ((number + 1) * block for number in range(len(self.blocks)))
        return tuple(next((seconds for tokens, seconds in self.keep if end <= tokens), last) for end in ends)


class Progress(NamedTuple):
    """`tokens` tokens of a sequence are out (those it came with included), the last of them at `time` (s).

    `first` is when the first token generated here was out, in the one report that contains it. `cached` tokens of its
    prompt were found in the cache.
    """

    id: str
    tokens: int
    time: float
    finished: bool
    first: float | None = None
    cached: int = 0


class Ending(NamedTuple):
    """A sequence has all its `tokens`; the first one generated here was out at `first`, the last at `last` (s)."""

    id: str
    tokens: int
    first: float
    last: float
    cached: int


class Place:
    """Where a sequence is."""

    COMING = 0
    WAITING = 1
    COMPUTING = 2
    DECODING = 3
    GONE = 4


class State:
    """Where a sequence stands. Step numbers count the steps of the replica; times are seconds since its start.

    While it decodes, tokens out before step K = ahead + sum of the draws before index K + shift: one lookup for each.
    """

    __slots__ = (
        "ahead",
        "blocks",
        "cached",
        "computed",
        "context",
        "decoding_from",
        "draw",
        "due",
        "first",
        "generated",
        "key",
        "last",
        "lives",
        "number",
        "output",
        "place",
        "private",
        "reported",
        "saturated",
        "sequence",
        "shared",
        "shift",
        "told_first",
    )
    ahead: int  # both are set when it begins to decode
    shift: int

    def __init__(self, sequence: Sequence, due: float, key: float, number: int, draw: int) -> None:
        generated = sequence.generated
        self.sequence = sequence
        self.output = sequence.output
        self.blocks = sequence.blocks
        self.lives: tuple[float, ...] = ()  # of the blocks (s); none: as long as there is room
        self.due = due  # when it arrives
        self.key = key  # who is before whom: the smaller key, and of two equal ones the smaller number
        self.number = number
        self.place = Place.COMING
        self.draw = draw  # index of its next draw
        self.decoding_from = NOT_DECODING  # the first step in which it decodes
        self.saturated = False  # its context is beyond what sparse attention reads
        self.cached = NOT_ASKED  # tokens of its prompt that it found in the cache the first time
        self.reported = generated
        self.first: float | None = None  # when it gained its first token here
        self.told_first = False
        self.last = due  # when it gained its last one; while it decodes, that follows from the step
        self.generated = generated  # tokens out when it last began or ceased to decode
        self.context = self.private = sequence.prompt + generated + 1  # tokens it has when all is computed
        self.shared = 0  # leading blocks of the prompt that it holds in common with others; the rest is private
        self.computed = 0

    def restart(self) -> None:
        """It holds nothing: prompt and generated tokens are to be computed, which yields one token more."""
        self.context = self.private = self.sequence.prompt + self.generated + 1
        self.shared = 0
        self.computed = 0
