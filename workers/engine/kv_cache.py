"""The replica's KV cache, in tokens.

    free + idle + held == share     share = capacity - what the ambient load holds
    held = reserved + growing + block * (blocks of prompts in use)

`reserved` belongs to sequences whose context is being computed: all of it, from admission on, so that a prefill once
begun can end. `growing` belongs to sequences that decode; each gains the mean number of tokens per step in every step.
Both count what a sequence holds for itself; blocks of prompts count once, however many share them. `idle` are blocks
that nobody uses: they make room, the least recently used first, as soon as a step needs it.

That the cache grows at the mean, and not by each step's draw, keeps it (and step time) linear between changes of the
batch; the draws decide how many steps a sequence needs and what a client sees when, and stay near the mean.

Knows nothing about who waits and who goes.
"""

from workers.engine.prefix_cache import PrefixCache
from workers.engine.sequence import State


class Growing:
    """The sum of contexts that all gain `rate` tokens in each step.

    A context counts as whole tokens until `since`, the first step in which it grows: the sum is one product of integers
    away from exact, however many steps were skipped.
    """

    __slots__ = ("contexts", "count", "rate", "since")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.count = 0
        self.contexts = 0
        self.since = 0

    def add(self, context: int, since: int) -> None:
        self.count += 1
        self.contexts += context
        self.since += since

    def remove(self, context: int, since: int) -> None:
        self.count -= 1
        self.contexts -= context
        self.since -= since

    def steps(self, step: int) -> int:
        """Steps taken before `step`, in sum over the contexts."""
        return self.count * step - self.since

    def tokens(self, step: int) -> float:
        """The sum of the contexts before `step`."""
        return self.contexts + self.rate * (self.count * step - self.since)


class KVCache:
    """For contexts that grow by `rate` tokens a step. `block` is 0 where prompts are not cached."""

    def __init__(self, rate: float, block: int) -> None:
        self.share = 0.0
        self.block = block
        self.reserved = 0
        self.growing = Growing(rate)
        self.prefixes = PrefixCache()

    def held(self, step: int) -> float:
        """Tokens held before `step`."""
        growing = self.growing
        whole = self.reserved + self.block * len(self.prefixes.held) + growing.contexts
        return whole + growing.rate * (growing.count * step - growing.since)

    def idle(self, step: int) -> int:
        """Tokens in idle blocks, of which those that `step` needs are already given up."""
        fit = int((self.share - self.held(step)) // self.block) if self.prefixes.idle else 0
        return min(fit, len(self.prefixes.idle)) * self.block

    def fits(self, need: int, step: int) -> bool:
        """Whether `need` more tokens leave room for what `step` adds."""
        growing = self.growing
        whole = self.reserved + self.block * len(self.prefixes.held) + growing.contexts + need
        return whole + growing.rate * (growing.count * (step + 1) - growing.since) <= self.share

    def cut(self, step: int) -> None:
        """Idle blocks make room for what is held before `step`."""
        if self.prefixes.idle:
            self.prefixes.cut(int((self.share - self.held(step)) // self.block))

    def admit(self, state: State, hit: int) -> None:
        """A sequence takes part whose first `hit` blocks are present."""
        if hit:
            self.prefixes.take(state.blocks, hit)
            state.shared = hit
            state.private -= hit * self.block
            state.computed = hit * self.block
        self.reserved += state.private

    def publish(self, state: State) -> None:
        """Its context is computed: others may use its prompt."""
        new = (len(state.blocks) - state.shared) * self.block
        self.prefixes.publish(state.blocks, state.shared)
        self.reserved -= new
        state.private -= new
        state.shared = len(state.blocks)

    def grow(self, state: State, step: int) -> None:
        """Its context is computed, and grows from `step` on."""
        self.reserved -= state.private
        self.growing.add(state.private, step)

    def leave(self, state: State) -> None:
        """A sequence that computes or decodes holds nothing any more."""
        if state.decoding_from < 0:
            self.reserved -= state.private
        else:
            self.growing.remove(state.private, state.decoding_from)
        if state.shared:
            self.prefixes.drop(state.blocks, state.shared)

    def steps_left(self, step: int, limit: int) -> int:
        """How many steps from `step` on fit in one after another; `limit` if that is less."""
        if self.held(step + limit) <= self.share:
            return limit
        growing = self.growing
        steps = int((self.share - self.held(step)) / (growing.rate * growing.count))
        while steps and self.held(step + steps) > self.share:
            steps -= 1
        while self.held(step + steps + 1) <= self.share:
            steps += 1
        return steps
