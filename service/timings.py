"""How fast a pool is, when that was measured and not derived: for who knows a provider's figures and not its machines.

A request's time to first token and its token rate are drawn when it begins, and hold until it ends. Data only; the
engine that follows them is workers.engine.recorded.

Knows nothing about hardware or models.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """TTFT and token rate, each lognormal around a median with the standard deviation of its logarithm as spread.

    With b sequences running on a replica (its own and ambient ones) when a request begins, its rate is divided and its
    TTFT multiplied by 1 + load_slope * (b - 1). `ttft_per_token` is added for each prompt token that is not cached.
    """

    ttft: float  # median, s
    ttft_sigma: float = 0.0
    rate: float  # median, tok/s
    rate_sigma: float = 0.0
    load_slope: float = 0.0
    ttft_per_token: float = 0.0  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class Empirical:
    """Recorded requests as (TTFT in s, tok/s). A request draws one of them, so the two keep belonging together."""

    samples: tuple[tuple[float, float], ...]


Recorded = Fixed | Empirical
