"""What attention reads in a step: S over the decode sequences and A over the prefill chunks, as step time wants them.

Sparse attention reads at most `topk` tokens of each context (topk = 0: all of them). A context grows until it reaches
topk and counts as topk from there on: one more change of the batch, after which the replica's steps lengthen less.

Knows nothing about capacity or time.
"""

from math import ceil

from workers.engine.kv_cache import Growing
from workers.engine.sequence import State


class Attention:
    """The contexts of the sequences that decode, which grow by `rate` tokens in each step."""

    def __init__(self, topk: int, rate: float) -> None:
        self._topk = topk
        self._growing = Growing(rate)
        self._saturated = 0

    def add(self, state: State) -> int | None:
        """A sequence begins to decode. Returns the step before which it must be saturated, if that is to come."""
        if not self._topk:
            self._growing.add(state.context, state.decoding_from)
            return None
        state.saturated = self._topk <= state.context
        if state.saturated:
            self._saturated += 1
            return None
        self._growing.add(state.context, state.decoding_from)
        return state.decoding_from + ceil((self._topk - state.context) / self._growing.rate)

    def saturate(self, state: State) -> None:
        self.remove(state)
        state.saturated = True
        self._saturated += 1

    def remove(self, state: State) -> None:
        if state.saturated:
            self._saturated -= 1
        else:
            self._growing.remove(state.context, state.decoding_from)

    def read(self, step: int) -> float:
        """S of `step`."""
        return self._growing.tokens(step) + self._saturated * self._topk

    @property
    def growth(self) -> float:
        """By how much S grows in each step."""
        return self._growing.rate * self._growing.count

    def chunk(self, computed: int, tokens: int) -> float:
        """A of one prefill chunk: `tokens` tokens, each attending to what stands before it."""
        if not self._topk:
            return tokens * (computed + tokens / 2)
        return self._area(computed + tokens) - self._area(computed)

    def one(self, context: float) -> float:
        """What one context contributes to S."""
        return min(context, self._topk) if self._topk else context

    def _area(self, position: int) -> float:
        if position <= self._topk:
            return position * position / 2
        return self._topk * (position - self._topk / 2)
