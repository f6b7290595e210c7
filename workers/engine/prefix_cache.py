"""Computed blocks of prompts, which later prompts that begin alike need not compute again.

    present = held (some running sequence uses it) + idle (nobody does; the least recently used goes first)

A block is known by a hash of itself and all that stands before it, so the blocks present of a prompt are a leading run.
A sequence that ends leaves its last block as the least recently used of its own: what is shared with most others, the
beginning, stays longest.

A block may have a life: so many seconds after its last use it is not found any more, though it takes the room of an
idle one until that is wanted. Of those who use it while it is there, the longest life counts.

Counts blocks. Knows nothing about how many there is room for.
"""

from itertools import islice
from math import inf

Lives = tuple[float, ...]  # of a prompt's blocks (s); none: as long as there is room


class PrefixCache:
    def __init__(self) -> None:
        self.held: dict[int, int] = {}  # block -> sequences that use it
        self.idle: dict[int, float] = {}  # block -> until when it is found; in the order in which they became idle
        self.lives: dict[int, float] = {}  # of those held or idle that have one

    def hit(self, blocks: tuple[int, ...], most: int, now: float) -> int:
        """How many leading blocks are present, of the first `most`."""
        held, idle = self.held, self.idle
        count = 0
        for block in islice(blocks, most):
            if block not in held and idle.get(block, -inf) < now:
                break
            count += 1
        return count

    def idle_among(self, blocks: tuple[int, ...], count: int) -> int:
        """How many of the first `count` blocks are idle."""
        if not self.idle:
            return 0
        return sum(block in self.idle for block in islice(blocks, count))

    def take(self, blocks: tuple[int, ...], count: int, lives: Lives = ()) -> None:
        """One more sequence uses the first `count` blocks, which are present."""
        held, idle = self.held, self.idle
        for block in islice(blocks, count):
            if block in held:
                held[block] += 1
            else:
                del idle[block]
                held[block] = 1
        if self.lives:
            for number in range(count):
                self._lengthen(blocks[number], lives[number] if lives else inf)

    def publish(self, blocks: tuple[int, ...], start: int, now: float, lives: Lives = ()) -> None:
        """A sequence has computed its blocks from the `start`-th on, and uses them: what is not present, is now."""
        held, idle = self.held, self.idle
        lived = bool(lives or self.lives)
        for number in range(start, len(blocks)):
            block = blocks[number]
            if lived:
                life = lives[number] if lives else inf
                if block in held or idle.get(block, -inf) >= now:
                    self._lengthen(block, life)
                else:
                    self._begin(block, life)
            if block in held:
                held[block] += 1
            else:
                idle.pop(block, None)
                held[block] = 1

    def drop(self, blocks: tuple[int, ...], count: int, now: float) -> None:
        """A sequence does not use its first `count` blocks any more."""
        held, idle, lives = self.held, self.idle, self.lives
        for block in reversed(blocks[:count]):
            if held[block] > 1:
                held[block] -= 1
            else:
                del held[block]
                idle[block] = now + lives.get(block, inf)

    def cut(self, most: int) -> None:
        """At most so many idle blocks stay."""
        idle = self.idle
        for block in list(islice(idle, max(0, len(idle) - most))):
            del idle[block]
            self.lives.pop(block, None)

    def clear(self) -> None:
        """No idle block stays."""
        self.cut(0)

    def _begin(self, block: int, life: float) -> None:
        self.lives[block] = life
        if life == inf:
            del self.lives[block]

    def _lengthen(self, block: int, life: float) -> None:
        if self.lives.get(block, inf) < life:
            self._begin(block, life)
