"""The replica's KV cache, in tokens.

    free + held == share            share = capacity - what the ambient load holds
    held = reserved + growing

`reserved` belongs to sequences whose context is being computed: all of it, from admission on, so that a prefill once
begun can end. `growing` belongs to sequences that decode; each gains the mean number of tokens per step in every step.
That the cache grows at the mean, and not by each step's draw, keeps it (and step time) linear between changes of the
batch; the draws decide how many steps a sequence needs and what a client sees when, and stay near the mean.

Knows nothing about who waits and who goes.
"""


class Growing:
    """The sum of contexts that all gain `rate` tokens in each step.

    A context counts as whole tokens until `since`, the first step in which it grows: the sum is one product of integers
    away from exact, however many steps were skipped.
    """

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.count = 0
        self._contexts = 0
        self._since = 0

    def add(self, context: int, since: int) -> None:
        self.count += 1
        self._contexts += context
        self._since += since

    def remove(self, context: int, since: int) -> None:
        self.count -= 1
        self._contexts -= context
        self._since -= since

    def steps(self, step: int) -> int:
        """Steps taken before `step`, in sum over the contexts."""
        return self.count * step - self._since

    def tokens(self, step: int) -> float:
        """The sum of the contexts before `step`."""
        return self._contexts + self.rate * self.steps(step)

    @property
    def per_step(self) -> float:
        return self.rate * self.count


class KVCache:
    """`share` tokens, for contexts that grow by `rate` tokens a step."""

    def __init__(self, share: float, rate: float) -> None:
        self.share = share
        self.reserved = 0
        self.growing = Growing(rate)

    def held(self, step: int) -> float:
        """Tokens held before `step`."""
        return self.reserved + self.growing.tokens(step)

    def fits(self, context: int, step: int) -> bool:
        """Whether `context` more tokens leave room for what `step` adds."""
        return self.held(step + 1) + context <= self.share

    def reserve(self, context: int) -> None:
        self.reserved += context

    def release(self, context: int) -> None:
        self.reserved -= context

    def steps_left(self, step: int, limit: int) -> int:
        """How many steps from `step` on fit in one after another; `limit` if that is less."""
        if self.held(step + limit) <= self.share:
            return limit
        steps = int((self.share - self.held(step)) / self.growing.per_step)
        while steps and self.held(step + steps) > self.share:
            steps -= 1
        while self.held(step + steps + 1) <= self.share:
            steps += 1
        return steps
