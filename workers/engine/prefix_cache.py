"""Computed blocks of prompts, which later prompts that begin alike need not compute again.

    present = held (some running sequence uses it) + idle (nobody does; the least recently used goes first)

A block is known by a hash of itself and all that stands before it, so the blocks present of a prompt are a leading run.
A sequence that ends leaves its last block as the least recently used of its own: what is shared with most others, the
beginning, stays longest.

Counts blocks. Knows nothing about how many there is room for.
"""

from itertools import islice


class PrefixCache:
    def __init__(self) -> None:
        self.held: dict[int, int] = {}  # block -> sequences that use it
        self.idle: dict[int, None] = {}  # in the order in which they became idle

    def hit(self, blocks: tuple[int, ...], most: int) -> int:
        """How many leading blocks are present, of the first `most`."""
        held, idle = self.held, self.idle
        count = 0
        for block in islice(blocks, most):
            if block not in held and block not in idle:
                break
            count += 1
        return count

    def idle_among(self, blocks: tuple[int, ...], count: int) -> int:
        """How many of the first `count` blocks are idle."""
        if not self.idle:
            return 0
        return sum(block in self.idle for block in islice(blocks, count))

    def take(self, blocks: tuple[int, ...], count: int) -> None:
        """One more sequence uses the first `count` blocks, which are present."""
        held, idle = self.held, self.idle
        for block in islice(blocks, count):
            if block in held:
                held[block] += 1
            else:
                del idle[block]
                held[block] = 1

    def publish(self, blocks: tuple[int, ...], start: int) -> None:
        """A sequence has computed its blocks from the `start`-th on, and uses them: what is not present, is now."""
        held, idle = self.held, self.idle
        for block in islice(blocks, start, None):
            if block in held:
                held[block] += 1
            else:
                idle.pop(block, None)
                held[block] = 1

    def drop(self, blocks: tuple[int, ...], count: int) -> None:
        """A sequence does not use its first `count` blocks any more."""
        held, idle = self.held, self.idle
        for block in reversed(blocks[:count]):
            if held[block] > 1:
                held[block] -= 1
            else:
                del held[block]
                idle[block] = None

    def cut(self, most: int) -> None:
        """At most so many idle blocks stay."""
        idle = self.idle
        for block in list(islice(idle, max(0, len(idle) - most))):
            del idle[block]
