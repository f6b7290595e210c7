"""Who asks for how much, and when: drawn from a rate and distributions of lengths, or read from traces.

A workload yields requests in the order of time, the same ones for the same seed. Each belongs to a tenant: a trace is
one, and so is each further copy of it.

Knows nothing about tiers, queues or engines.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import count, repeat, takewhile
from math import inf, log
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from service.errors import PlanError
from service.traces import Arrival, read

DURATION = 3600.0  # s, unless told otherwise
BURSTS = (0.01, 100.0)  # coefficients of variation that can be drawn
REQUESTS_MAX = 20_000_000  # what a plan holds of each, some tens of bytes, has to fit into memory

_CHUNK = 8192  # requests drawn together
_SHIFT_MAX = 60.0  # s by which a copy of a trace is late, at most
_SALT = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: multiples of it lie far apart

Asked = tuple[float, int, int, tuple[int, ...], int]  # time (s), prompt and output tokens, prefix blocks, tenant


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of tokens. `draw(random, count)` gives that many integers of at least 1."""

    text: str
    draw: Callable[[np.random.Generator, int], Any]

    def __str__(self) -> str:
        return self.text


def lengths(text: str) -> Lengths:
    """`500`: always; `100-900`: each number alike; `500:0.8`: lognormal by median and sigma. Raises PlanError."""
    if match := re.fullmatch(r"(\d+)", text):
        tokens = _positive(text, match[1])
        return Lengths(text, lambda _, size: np.full(size, tokens))
    if match := re.fullmatch(r"(\d+)-(\d+)", text):
        least, most = _positive(text, match[1]), _positive(text, match[2])
        if least > most:
            raise PlanError(f"{text!r} names no lengths: {least} is more than {most}")
        return Lengths(text, lambda random, size: random.integers(least, most, size, endpoint=True))
    if match := re.fullmatch(r"(\d+):(\d+|\d*\.\d+)", text):
        median, sigma = _positive(text, match[1]), float(match[2])
        if sigma > 5:
            raise PlanError(f"{text!r}: a sigma of {sigma:g} spreads lengths over more than five decades")
        return Lengths(text, lambda random, size: np.ceil(random.lognormal(log(median), sigma, size)).astype(np.int64))
    raise PlanError(
        f"{text!r} is no distribution of lengths; say 500 (always), 100-900 (uniform) or 500:0.8 (lognormal,"
        " median:sigma)"
    )


def _positive(text: str, digits: str) -> int:
    if not 1 <= int(digits) <= 10**9:
        raise PlanError(f"{text!r}: a request has at least one token and at most a billion")
    return int(digits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Requests for `duration` seconds, `rate` a second in the mean, with gamma-distributed gaps.

    `burst` is the coefficient of variation of the gaps: 0 at equal distances, 1 a Poisson process, more: in bursts.
    Raises PlanError.
    """

    rate: float
    burst: float
    input: Lengths
    output: Lengths
    duration: float

    def __post_init__(self) -> None:
        if not (self.rate > 0 and self.duration > 0):
            raise PlanError("rate and duration must be above 0")
        if self.burst != 0 and not BURSTS[0] <= self.burst <= BURSTS[1]:
            raise PlanError(f"a burst is 0 (equal gaps), or {BURSTS[0]:g} to {BURSTS[1]:g}; 1 is a Poisson process")
        if self.rate * self.duration > REQUESTS_MAX:
            raise PlanError(
                f"{self.rate:g} requests/s for {self.duration:g} s are more than {REQUESTS_MAX:,} requests: plan a"
                " shorter --duration"
            )

    @property
    def requests(self) -> int:
        """About how many there are."""
        return round(self.rate * self.duration)

    @property
    def span(self) -> float:
        """Seconds until the last one comes."""
        return self.duration

    @property
    def blocks(self) -> int:
        """Tokens of a prefix block; 0: prompts have nothing in common."""
        return 0

    def arrivals(self, seed: int) -> Iterator[Asked]:
        gaps, prompts, outputs = (np.random.default_rng((seed, stream)) for stream in range(3))
        start = 0.0
        while True:
            times = start + np.cumsum(self._gaps(gaps))
            within = int(np.searchsorted(times, self.duration))
            columns = (self.input.draw(prompts, _CHUNK), self.output.draw(outputs, _CHUNK))
            yield from zip(
                times[:within].tolist(), columns[0].tolist(), columns[1].tolist(), repeat(()), repeat(0), strict=False
            )
            if within < _CHUNK:
                return
            start = float(times[-1])

    def _gaps(self, random: np.random.Generator) -> Any:
        if not self.burst:
            return np.full(_CHUNK, 1 / self.rate)
        return random.gamma(self.burst**-2, self.burst**2 / self.rate, _CHUNK)

    def __str__(self) -> str:
        gaps = {0.0: "evenly spaced", 1.0: "Poisson"}.get(self.burst, f"gamma gaps, CV {self.burst:g}")
        return (
            f"{self.rate:g} requests/s for {self.duration:g} s ({gaps}), {self.input} tokens in, {self.output} tokens"
            f" out{'' if ':' not in f'{self.input}{self.output}' else ' (a:b is lognormal, median:sigma)'}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """Recorded requests, `copies` times each, with all gaps stretched by `time_scale`, up to `duration` seconds.

    A further copy comes up to a minute later than the first and has prompts of its own. `blocks` is the size of the
    prefix blocks that the traces name, in tokens; 0 if they name none. `left_out` requests had no prompt or no output.
    Raises PlanError.
    """

    names: tuple[str, ...]
    traces: tuple[tuple[Arrival, ...], ...]
    blocks: int = 0
    left_out: int = 0
    time_scale: float = 1.0
    copies: int = 1
    duration: float = inf

    def __post_init__(self) -> None:
        if not (self.time_scale > 0 and self.copies > 0 and self.duration > 0):
            raise PlanError("time scale, copies and duration must be above 0")
        if not all(self.traces):
            raise PlanError(f"a trace without requests: {' and '.join(self.names)}")
        if self.requests > REQUESTS_MAX:
            raise PlanError(f"{self.requests:,} requests are more than {REQUESTS_MAX:,}: fewer --copies")

    @property
    def requests(self) -> int:
        """How many there are, at most."""
        return self.copies * sum(map(len, self.traces))

    @property
    def span(self) -> float:
        """About how many seconds pass until the last one comes."""
        return min(self.duration, self.time_scale * max(trace[-1].time for trace in self.traces) or 1.0)

    def arrivals(self, seed: int) -> Iterator[Asked]:
        shifts = np.random.default_rng((seed, 0)).uniform(0, _SHIFT_MAX, self.copies).tolist()
        shifts[0] = 0.0
        tenants = count()
        sources = [self._copy(trace, shift, next(tenants)) for trace in self.traces for shift in shifts]
        ordered = sources[0] if len(sources) == 1 else merge(*sources, key=itemgetter(0))
        return takewhile(lambda asked: asked[0] < self.duration, ordered)

    def _copy(self, trace: tuple[Arrival, ...], shift: float, tenant: int) -> Iterator[Asked]:
        salt = tenant * _SALT % 2**64
        for time, prompt, output, blocks in trace:
            own = tuple(block ^ salt for block in blocks) if salt and blocks else blocks
            yield shift + time * self.time_scale, prompt, output, own, tenant

    def __str__(self) -> str:
        changes = [
            *([f"{self.left_out} requests without tokens left out"] if self.left_out else []),
            *([f"{self.copies} copies"] if self.copies > 1 else []),
            *([f"gaps stretched by {self.time_scale:g}"] if self.time_scale != 1 else []),
            *([f"the first {self.duration:g} s"] if self.duration < inf else []),
        ]
        return f"{' and '.join(self.names)}{''.join(f', {change}' for change in changes)}"


Workload = Drawn | Traced


def workload(
    traces: Sequence[Path],
    rate: float | None,
    input_: str | None,
    output: str | None,
    *,
    burst: float | None = None,
    duration: float | None = None,
    time_scale: float = 1.0,
    copies: int = 1,
) -> Workload:
    """From the words of a command line. Raises PlanError, and TraceError for a trace that cannot be read."""
    if traces and (rate, input_, output, burst) == (None,) * 4:
        return _traced(traces, time_scale, copies, inf if duration is None else duration)
    if traces or rate is None or input_ is None or output is None or (time_scale, copies) != (1.0, 1):
        raise PlanError(
            "say what comes, and when: --trace FILE [--time-scale --copies], or --rate, --input and --output [--burst];"
            " either with --duration"
        )
    return Drawn(
        rate=rate,
        burst=1.0 if burst is None else burst,
        input=lengths(input_),
        output=lengths(output),
        duration=DURATION if duration is None else duration,
    )


def _traced(paths: Sequence[Path], time_scale: float, copies: int, duration: float) -> Traced:
    traces = [read(path) for path in paths]
    sizes = {trace.block for trace in traces}
    if len(sizes) > 1:
        raise PlanError("traces with prefix blocks and traces without, or with others, cannot be planned together")
    return Traced(
        names=tuple(path.name for path in paths),
        traces=tuple(trace.arrivals for trace in traces),
        blocks=sizes.pop(),
        left_out=sum(trace.left_out for trace in traces),
        time_scale=time_scale,
        copies=copies,
        duration=duration,
    )
