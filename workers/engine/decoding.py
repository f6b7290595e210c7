"""The sequences that decode: every step gives each of them its next draw, and lets its context grow by the mean.

Nothing is touched per step. A sequence keeps the step it decodes from; what it has generated, what it holds and what
attention reads of it follow from the number of the step.

Knows nothing about time, queues or slots.
"""

from service.roofline import StepTime
from workers.engine.agenda import Agenda, Change
from workers.engine.attention import Attention
from workers.engine.kv_cache import KVCache
from workers.engine.sequence import NOT_DECODING, State
from workers.engine.speculation import Bursts


class Decoding:
    """Moves a sequence's context from the reserved to the growing part of the cache, and out of it."""

    def __init__(self, step_time: StepTime, bursts: Bursts, kv: KVCache) -> None:
        self.sequences: dict[State, None] = {}
        self.attention = Attention(step_time.sparse_topk, step_time.emitted)
        self._agenda = Agenda()
        self._drafts = step_time.drafts
        self._bursts = bursts
        self._kv = kv
        self._steps_of_leavers = 0
        self._tokens_of_leavers = 0

    def begin(self, state: State, step: int) -> None:
        """The context is computed and tokens remain to be generated: the sequence decodes from `step` on."""
        state.decoding_from = step
        state.shift = state.draw - step
        state.ahead = state.generated - self._bursts.sum(state.draw)
        self.sequences[state] = None
        self._kv.release(state.context)
        self._kv.growing.add(state.context, step)
        self._agenda.add(step + self._bursts.steps(state.draw, state.output - state.generated), Change.FINISHES, state)
        saturates = self.attention.add(state)
        if saturates is not None:
            self._agenda.add(saturates, Change.SATURATES, state)

    def end(self, state: State, step: int) -> None:
        """The sequence does not take part in `step`: it finishes, is pre-empted or cancelled."""
        del self.sequences[state]
        self._kv.growing.remove(state.context, state.decoding_from)
        self.attention.remove(state)
        steps, tokens = step - state.decoding_from, self.tokens(state, step)
        self._steps_of_leavers += steps
        self._tokens_of_leavers += tokens - state.generated
        state.draw += steps
        state.decoding_from = NOT_DECODING
        state.restart(tokens)
        self._agenda.sweep(len(self.sequences))

    def tokens(self, state: State, step: int) -> int:
        """What the sequence has generated before `step`. Its last burst ends where its output does."""
        return min(state.output, state.ahead + self._bursts.sum(state.shift + step))

    def all_tokens(self, step: int) -> list[tuple[State, int]]:
        """The same of every sequence; none has reached its output, or it would have left."""
        total = self._bursts.sum
        return [(state, state.ahead + total(state.shift + step)) for state in self.sequences]

    def next_change(self) -> int:
        """The step before which one finishes or saturates."""
        return self._agenda.next_step()

    def pass_changes(self, step: int) -> list[State]:
        """Lets happen what is due before `step`; the sequences that have generated all they should."""
        complete = []
        for change, state in self._agenda.pop_due(step):
            if change is Change.SATURATES:
                self.attention.saturate(state)
            else:
                complete.append(state)
        return complete

    def steps_taken(self, step: int) -> int:
        """Decode steps before `step`, in sum over all sequences there ever were."""
        return self._steps_of_leavers + self._kv.growing.steps(step)

    def drafted(self, step: int) -> int:
        """Draft tokens in those steps."""
        return self._drafts * self.steps_taken(step)

    def accepted(self, step: int) -> int:
        """Those of them that became output: what the steps yielded beyond one token each."""
        if not self._drafts:
            return 0
        gained = sum(tokens - state.generated for state, tokens in self.all_tokens(step))
        return self._tokens_of_leavers + gained - self.steps_taken(step)
