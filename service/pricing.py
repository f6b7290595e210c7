"""What a request costs its sender, in integers, and what a token costs who serves it.

List prices are what a provider charges; the cost to serve is derived from hardware and load. Neither follows from the
other, so both are shown. Money that somebody pays is nano-dollars in integers: $1 per million tokens is 1,000
nano-dollars per token.
"""

from dataclasses import dataclass

from service.messages import Usage
from service.prices import Price
from service.roofline import StepTime


@dataclass(frozen=True, slots=True)
class Bill:
    """Nano-dollars of one request, in disjoint parts.

    `input` is without tokens that were cached, or were put into a cache; `output` without reasoning.
    """

    input: int
    cached_input: int
    written: int
    written_long: int
    output: int
    reasoning: int

    @property
    def total(self) -> int:
        return self.input + self.cached_input + self.written + self.written_long + self.output + self.reasoning


def bill(price: Price, usage: Usage) -> Bill:
    """Every token of `usage` at the price of the tier that served it; reasoning costs what output costs."""
    price = price.of(usage.prompt)
    return Bill(
        input=(usage.prompt - usage.cached - usage.written) * price.input,
        cached_input=usage.cached * price.cached_input,
        written=(usage.written - usage.written_long) * price.written,
        written_long=usage.written_long * price.written_long,
        output=(usage.completion - usage.reasoning) * price.output,
        reasoning=usage.reasoning * price.output,
    )


def cost(price: Price, usage: Usage) -> int:
    """Nano-dollars."""
    return bill(price, usage).total


def cost_to_serve(dollars_per_hour: float, tokens_per_second: float, utilisation: float) -> float:
    """$ per million tokens of machines that are paid for all day and do this for a share `utilisation` of it."""
    return dollars_per_hour * 1e6 / (3600 * tokens_per_second * utilisation)


def request_seconds(step: StepTime, batch: float, prompt: float, cached: float, output: float) -> float:
    """Seconds of a whole replica that one request takes among `batch` like it: its prefill, and its part of its steps.

    `cached` tokens of the prompt are not computed, only attended to. Sparse attention counts the mean context.
    """
    computed, context = prompt - cached, prompt + output / 2
    prefill = step.cp * computed + step.ca * computed * step.attended(cached + computed / 2)
    return prefill + output / (batch * step.speed(batch, context))


def request_speed(step: StepTime, batch: float, prompt: float, cached: float, output: float) -> float:
    """Tokens per second of each of `batch` requests in flight, with the prefill of those that follow in between."""
    return output / (batch * request_seconds(step, batch, prompt, cached, output))


def batch_at(step: StepTime, speed: float, prompt: float, cached: float, output: float) -> float:
    """The batch in which each request runs at `speed` tok/s by `request_speed`, or the most that the KV cache holds.

    At least 1, even where that is slower.
    """
    fast, slow = 1.0, max(1.0, step.kv_capacity / (prompt + output / 2))
    if request_speed(step, slow, prompt, cached, output) >= speed:
        return slow
    for _ in range(60):  # halvings of the logarithm: more than a float can tell apart
        middle = (fast * slow) ** 0.5
        if request_speed(step, middle, prompt, cached, output) >= speed:
            fast = middle
        else:
            slow = middle
    return fast


# Speed against price on the same chips. Let a step with B sequences take a*(1 + beta*B), let x = beta*B be the load of
# the faster tier, g its speed-up, and let prices follow chip time. Then premium R = 1 + (1 - 1/g)/x, and no batch,
# however small, is faster than (1 + x) times the faster tier.


def implied_load(speedup: float, premium: float) -> float:
    """x that makes a tier `speedup` times as fast cost `premium` times as much. Both above 1."""
    return (1 - 1 / speedup) / (premium - 1)


def premium(speedup: float, load: float) -> float:
    """R: the ratio of prices that chip time alone justifies."""
    return 1 + (1 - 1 / speedup) / load


def floor_speed(speed: float, load: float) -> float:
    """Speed (tok/s) that the faster tier would reach with an empty batch."""
    return speed * (1 + load)
