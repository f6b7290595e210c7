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

from math import inf
from sys import maxsize

from workers.engine.decoding import Decoding
from workers.engine.prefix_cache import PrefixCache
from workers.engine.sequence import State


class KVCache:
    """`block` is 0 where prompts are not cached."""

    def __init__(self, decoding: Decoding, block: int) -> None:
        self.share = 0.0
        self.block = block
        self.reserved = 0
        self.prefixes = PrefixCache()
        self._growing = decoding

    def held(self, step: int) -> float:
        """Tokens held before `step`."""
        growing = self._growing
        whole = self.reserved + self.block * len(self.prefixes.held) + growing.private
        return whole + growing.rate * (len(growing.sequences) * step - growing.since)

    def idle(self, step: int) -> int:
        """Tokens in idle blocks, of which those that `step` needs are already given up."""
        return min(len(self.prefixes.idle), self._left(step)) * self.block

    def fits(self, need: int, step: int) -> bool:
        """Whether `need` more tokens leave room for what `step` adds."""
        growing = self._growing
        whole = self.reserved + self.block * len(self.prefixes.held) + growing.private + need
        return whole + growing.rate * (len(growing.sequences) * (step + 1) - growing.since) <= self.share

    def cut(self, step: int) -> None:
        """Idle blocks make room for what is held before `step`."""
        self.prefixes.cut(self._left(step))

    def share_blocks(self, state: State, hit: int) -> None:
        """A sequence that is about to compute need not compute its first `hit` blocks, which are present."""
        self.prefixes.take(state.blocks, hit, state.lives)
        state.shared = hit
        state.private -= hit * self.block
        state.computed = hit * self.block

    def publish(self, state: State, now: float) -> None:
        """Its context is computed: others may use its prompt."""
        new = (len(state.blocks) - state.shared) * self.block
        self.prefixes.publish(state.blocks, state.shared, now, state.lives)
        self.reserved -= new
        state.private -= new
        state.shared = len(state.blocks)

    def drop(self, state: State, now: float) -> None:
        """It does not need the blocks any more that it shares."""
        self.prefixes.drop(state.blocks, state.shared, now)

    def steps_left(self, step: int, limit: int) -> int:
        """How many steps from `step` on fit in one after another; `limit` if that is less."""
        if self.held(step + limit) <= self.share:
            return limit
        steps = int((self.share - self.held(step)) / self._growing.rate / len(self._growing.sequences))
        while steps and self.held(step + steps) > self.share:
            steps -= 1
        while self.held(step + steps + 1) <= self.share:
            steps += 1
        return steps

    def _left(self, step: int) -> int:
        """For how many idle blocks there is room beside what is held before `step`."""
        if not self.block or self.share == inf:
            return maxsize
        return int((self.share - self.held(step)) // self.block)
