"""What attention reads: of decode sequences, and of the tokens of a prefill chunk.

Sparse attention reads at most `topk` tokens of each context (topk = 0: all of them).

Knows nothing about capacity or time.
"""


class Attention:
    def __init__(self, topk: int) -> None:
        self.topk = topk

    def one(self, context: float) -> float:
        """What one context contributes to S."""
        return min(context, self.topk) if self.topk else context

    def chunk(self, computed: int, tokens: int) -> float:
        """A of one prefill chunk: `tokens` tokens, each attending to what stands before it."""
        if not self.topk:
            return tokens * (computed + tokens / 2)
        return self._area(computed + tokens) - self._area(computed)

    def _area(self, position: int) -> float:
        if position <= self.topk:
            return position * position / 2
        return self.topk * (position - self.topk / 2)
