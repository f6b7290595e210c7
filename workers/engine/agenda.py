"""Which decode sequence changes the batch at which step: by finishing, or by outgrowing sparse attention.

A heap keyed by step. A sequence that leaves before its step leaves its entries behind; they are passed over at the top,
and swept out when they outnumber the others.

Knows nothing about time: steps are counted, not timed.
"""

from collections.abc import Iterator
from enum import IntEnum
from heapq import heapify, heappop, heappush
from sys import maxsize

from workers.engine.sequence import State


class Change(IntEnum):
    SATURATES = 0
    FINISHES = 1


class Agenda:
    """An entry holds while its sequence decodes from the step it decoded from when the entry was made."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Change, int, State]] = []
        self._entries = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, step: int, change: Change, state: State) -> None:
        self._entries += 1
        heappush(self._heap, (step, self._entries, change, state.decoding_from, state))

    def next_step(self) -> int:
        """The step before which the next change is due; far away if there is none."""
        while self._heap and not _holds(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else maxsize

    def pop_due(self, step: int) -> Iterator[tuple[Change, State]]:
        """The changes that are due before `step`, in the order in which they are."""
        while self.next_step() <= step:
            _, _, change, _, state = heappop(self._heap)
            yield change, state

    def sweep(self, live: int) -> None:
        """Forget entries of sequences that left, once they are more than those of `live` sequences can be."""
        if len(self._heap) > 4 * live + 64:
            self._heap = [entry for entry in self._heap if _holds(entry)]
            heapify(self._heap)


def _holds(entry: tuple[int, int, Change, int, State]) -> bool:
    _, _, _, decoding_from, state = entry
    return state.decoding_from == decoding_from
