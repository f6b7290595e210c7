"""The sequences that decode: every step gives each of them its next draw, and lets its context grow by the mean.

Nothing is touched per step. A sequence keeps the step it decodes from; what it has generated follows from the number of
the step, and so do the sums over all of them:

    steps taken = count * step - since              since: sum of the steps they decode from
    tokens held = private + rate * steps taken      what they hold for themselves
    S = context + rate * steps taken                what attention reads of them

Where attention is sparse, a sequence that outgrows it counts as topk from there on: it is saturated.

A heap, keyed by step, says which sequence changes the batch when: by finishing, or by becoming saturated. One that
leaves before its step leaves its entries behind; they are passed over at the top, and swept out when they outnumber the
others.

Knows nothing about time, queues, slots or room.
"""

from heapq import heapify, heappop, heappush
from math import ceil
from sys import maxsize

from service.roofline import StepTime
from workers.engine.sequence import NOT_DECODING, Place, State
from workers.engine.speculation import Bursts

Entry = tuple[int, int, bool, int, State]  # step, number, whether it finishes, decoding from, who


class Decoding:
    def __init__(self, step_time: StepTime, bursts: Bursts) -> None:
        self.sequences: dict[State, None] = {}
        self.rate = step_time.emitted
        self.since = 0
        self.private = 0
        self._context = 0
        self._topk = step_time.sparse_topk
        self._saturated = 0
        self._saturated_since = 0
        self._saturated_context = 0
        self._agenda: list[Entry] = []
        self._entries = 0
        self._drafts = step_time.drafts
        self._bursts = bursts
        self._steps_of_leavers = 0
        self._tokens_of_leavers = 0

    def begin(self, state: State, step: int) -> None:
        """The context is computed and tokens remain to be generated: the sequence decodes from `step` on."""
        bursts = self._bursts
        draw, generated, context = state.draw, state.generated, state.context
        drawn = bursts.sum(draw)
        state.place = Place.DECODING
        state.decoding_from = step
        state.shift = draw - step
        state.ahead = generated - drawn
        self.sequences[state] = None
        self.since += step
        self.private += state.private
        self._context += context
        self._entries += 1
        finishes = step - draw + bursts.reaches(drawn + state.output - generated)
        heappush(self._agenda, (finishes, self._entries, True, step, state))
        if self._topk:
            if context >= self._topk:
                self._saturate(state)
            else:
                grown = step + ceil((self._topk - context) / self.rate)
                self._entries += 1
                heappush(self._agenda, (grown, self._entries, False, step, state))

    def finish(self, state: State, step: int) -> None:
        """Its last tokens were those before `step`."""
        self._leave(state, step, state.output)

    def end(self, state: State, step: int) -> None:
        """The sequence does not take part in `step`: it is pre-empted or cancelled."""
        tokens = self.tokens(state, step)
        state.draw += step - state.decoding_from
        self._leave(state, step, tokens)
        state.restart()
        if len(self._agenda) > 4 * len(self.sequences) + 64:
            self._agenda = [entry for entry in self._agenda if _holds(entry)]
            heapify(self._agenda)

    def read(self, step: int) -> float:
        """S of `step`."""
        if not self._saturated:
            return self._context + self.rate * self._steps(step)
        count = len(self.sequences) - self._saturated
        steps = count * step - (self.since - self._saturated_since)
        return self._context - self._saturated_context + self.rate * steps + self._saturated * self._topk

    @property
    def growth(self) -> float:
        """By how much S grows in each step."""
        return self.rate * (len(self.sequences) - self._saturated)

    def tokens(self, state: State, step: int) -> int:
        """What the sequence has generated before `step`. Its last burst ends where its output does."""
        return min(state.output, state.ahead + self._bursts.sum(state.shift + step))

    def all_tokens(self, step: int) -> list[tuple[State, int]]:
        """The same of every sequence; none has reached its output, or it would have left."""
        total = self._bursts.sum
        return [(state, state.ahead + total(state.shift + step)) for state in self.sequences]

    def next_change(self) -> int:
        """The step before which one finishes or is saturated; far away if none does."""
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
                    self._saturate(entry[4])
        return complete

    def drafted(self, step: int) -> int:
        """Draft tokens in all steps before `step`, of all sequences there ever were."""
        return self._drafts * (self._steps_of_leavers + self._steps(step))

    def accepted(self, step: int) -> int:
        """Those of them that became output: what the steps yielded beyond one token each."""
        if not self._drafts:
            return 0
        gained = sum(tokens - state.generated for state, tokens in self.all_tokens(step))
        return self._tokens_of_leavers + gained - (self._steps_of_leavers + self._steps(step))

    def _steps(self, step: int) -> int:
        return len(self.sequences) * step - self.since

    def _leave(self, state: State, step: int, tokens: int) -> None:
        since = state.decoding_from
        del self.sequences[state]
        self.since -= since
        self.private -= state.private
        self._context -= state.context
        if state.saturated:
            self._saturated -= 1
            self._saturated_since -= since
            self._saturated_context -= state.context
            state.saturated = False
        self._steps_of_leavers += step - since
        self._tokens_of_leavers += tokens - state.generated
        state.generated = tokens
        state.decoding_from = NOT_DECODING

    def _saturate(self, state: State) -> None:
        state.saturated = True
        self._saturated += 1
        self._saturated_since += state.decoding_from
        self._saturated_context += state.context


def _holds(entry: Entry) -> bool:
    """An entry holds while its sequence decodes from the step it decoded from when the entry was made."""
    return entry[4].decoding_from == entry[3]
