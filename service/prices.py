"""The list price of a token, by what is done with it. A value that travels with a job, so that whoever ends it can say
what it cost.
"""

from decimal import ROUND_HALF_UP, Decimal

import msgspec


class Price(msgspec.Struct, array_like=True, frozen=True):
    """Whole nano-dollars per token; $1 per million tokens is 1,000 of them. What a factor makes of them is rounded.

    `written` tokens of a prompt are put into a cache, those of `written_long` for longer. `long` is the price of a
    request whose prompt has more than `above` tokens.
    """

    input: int
    cached_input: int
    output: int
    written: int
    written_long: int
    above: int = 0
    long: "Price | None" = None

    def of(self, prompt: int) -> "Price":
        """What a request with so many tokens of prompt pays, for all its tokens."""
        return self.long if self.long is not None and prompt > self.above else self

    def times(self, prompt: Decimal, output: Decimal) -> "Price":
        """What it is where prompts and output cost so many times as much."""
        return Price(
            input=nearest(self.input * prompt),
            cached_input=nearest(self.cached_input * prompt),
            output=nearest(self.output * output),
            written=nearest(self.written * prompt),
            written_long=nearest(self.written_long * prompt),
            above=self.above,
            long=self.long.times(prompt, output) if self.long is not None else None,
        )


def nearest(rate: Decimal) -> int:
    return int(rate.quantize(Decimal(1), ROUND_HALF_UP))
