"""The sequences that decode: every step gives each of them its next draw, and lets its context grow by the mean.

Nothing is touched per step. A sequence keeps the step it decodes from; what it has generated and what attention reads
of it follow from the number of the step. A heap, keyed by step, says which sequence changes the batch when: by
finishing, or by outgrowing sparse attention. One that leaves before its step leaves its entries behind; they are passed
over at the top, and swept out when they outnumber the others.

Knows nothing about time, queues, slots or room.
"""

from heapq import heapify, heappop, heappush
from sys import maxsize

from service.roofline import StepTime
from workers.engine.attention import Attention
from workers.engine.sequence import NOT_DECODING, Place, State
from workers.engine.speculation import Bursts

Entry = tuple[int, int, bool, int, State]  # step, number, whether it finishes, decoding from, who


class Decoding:
    def __init__(self, step_time: StepTime, bursts: Bursts) -> None:
        self.sequences: dict[State, None] = {}
        self.attention = Attention(step_time.sparse_topk, step_time.emitted)
        self._agenda: list[Entry] = []
        self._entries = 0
        self._drafts = step_time.drafts
        self._bursts = bursts
        self._steps_of_leavers = 0
        self._tokens_of_leavers = 0
        self._since = 0  # sum of the steps that the sequences here decode from

    def begin(self, state: State, step: int) -> None:
        """The context is computed and tokens remain to be generated: the sequence decodes from `step` on."""
        bursts = self._bursts
        draw, generated = state.draw, state.generated
        state.place = Place.DECODING
        state.decoding_from = step
        state.shift = draw - step
        state.ahead = generated - bursts.sum(draw)
        self.sequences[state] = None
        self._since += step
        self._entries += 1
        finishes = step + bursts.steps(draw, state.output - generated)
        heappush(self._agenda, (finishes, self._entries, True, step, state))
        saturates = self.attention.add(state)
        if saturates is not None:
            heappush(self._agenda, (saturates, self._entries, False, step, state))

    def end(self, state: State, step: int) -> None:
        """The sequence does not take part in `step`: it finishes, is pre-empted or cancelled."""
        since = state.decoding_from
        steps, tokens = step - since, self.tokens(state, step)
        del self.sequences[state]
        self._since -= since
        self.attention.remove(state)
        self._steps_of_leavers += steps
        self._tokens_of_leavers += tokens - state.generated
        state.draw += steps
        state.decoding_from = NOT_DECODING
        state.restart(tokens)
        if len(self._agenda) > 4 * len(self.sequences) + 64:
            self._agenda = [entry for entry in self._agenda if _holds(entry)]
            heapify(self._agenda)

    def tokens(self, state: State, step: int) -> int:
        """What the sequence has generated before `step`. Its last burst ends where its output does."""
        return min(state.output, state.ahead + self._bursts.sum(state.shift + step))

    def all_tokens(self, step: int) -> list[tuple[State, int]]:
        """The same of every sequence; none has reached its output, or it would have left."""
        total = self._bursts.sum
        return [(state, state.ahead + total(state.shift + step)) for state in self.sequences]

    def next_change(self) -> int:
        """The step before which one finishes or saturates; far away if none does."""
        agenda = self._agenda
        while agenda:
            entry = agenda[0]
            if entry[4].decoding_from == entry[3]:
                return entry[0]
            heappop(agenda)
        return maxsize

    def pass_changes(self, step: int) -> list[State]:
        """Lets happen what is due before `step`; the sequences that have generated all they should."""
        complete = []
        agenda = self._agenda
        while agenda and agenda[0][0] <= step:
            entry = heappop(agenda)
            if _holds(entry):
                if entry[2]:
                    complete.append(entry[4])
                else:
                    self.attention.saturate(entry[4])
        return complete

    def drafted(self, step: int) -> int:
        """Draft tokens in all steps before `step`, of all sequences there ever were."""
        return self._drafts * self._steps_taken(step)

    def accepted(self, step: int) -> int:
        """Those of them that became output: what the steps yielded beyond one token each."""
        if not self._drafts:
            return 0
        gained = sum(tokens - state.generated for state, tokens in self.all_tokens(step))
        return self._tokens_of_leavers + gained - self._steps_taken(step)

    def _steps_taken(self, step: int) -> int:
        return self._steps_of_leavers + len(self.sequences) * step - self._since


def _holds(entry: Entry) -> bool:
    """An entry holds while its sequence decodes from the step it decoded from when the entry was made."""
    return entry[4].decoding_from == entry[3]
