"""What measured requests say of a pool: a Fixed timing, or the one factor on a deployment's step times; and how well.

The model of a Fixed timing is that of workers.engine.recorded: with b requests on the replica,

    TTFT = (lognormal(ttft) + ttft_per_token * prompt) * (1 + slope * (b - 1)),     rate = lognormal(rate) / (the same)

- slope: by maximum likelihood of both, their means and spreads being free; b is what was in flight when a request
  began or in the mean while it ran, whichever explains more. 0 unless the likelihood ratio says otherwise (5 %).
- ttft_per_token: Theil-Sen (Sen 1968), pairs weighted by how far their prompts are apart; 0 unless Kendall's test says
  otherwise (5 %).
- Medians, and standard deviations of logarithms, of what is left.
- Intervals: the same fit to resamples of the requests, drawn with replacement (the bootstrap, Efron 1979; percentiles).

What was measured from outside is what a client saw: other people's load is in it, and the way there and back.
Knows nothing about endpoints, files or catalogs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from math import ceil, exp, log, sqrt
from random import Random
from statistics import fmean, median, quantiles, stdev
from typing import TypeVar

from service.pools import Pool, Roofline
from service.timings import Fixed

Value = TypeVar("Value")

LEAST = 4  # samples; fewer have no spread worth the name
ENOUGH = 20  # samples, for medians one would plan with
NOISE = 0.005  # of a measured time: differences below that are the measurement's own
GRID = (0.0, *(10 * 0.5**power for power in range(14, -1, -1)))  # slopes to begin with
PRECISION = 1e-5  # of a slope
NOTICEABLE = 0.01  # at the highest load or longest prompt: a smaller effect is not worth a parameter
POOR = {"TTFT": 0.3, "tok/s": 0.15}  # MAPE above which a fit is called so; a TTFT's spread is seldom below 0.2
UNLIKE = 0.15  # what load does may differ by this share from what the slope says
LONG = 0.3  # s; in a shorter stream, some ms of delay of the first token are some percent of tok/s
NORMAL_5 = 1.96  # two-sided 5 % of a normal variable
CHI_SQUARE_5 = 3.84  # 5 % of chi-square with one degree of freedom
RESAMPLES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One request as its client saw it. Times in seconds."""

    at: float  # when it began, since the measurements did
    ttft: float
    rate: float  # tok/s after the first token
    prompt: int  # tokens that were not cached
    output: int
    begun: int  # requests in flight when it began, itself included
    load: float  # the same, in the mean while it ran


@dataclass(frozen=True, slots=True)
class Errors:
    """Of predictions against measurements; median and p90 in the unit of what is predicted, mape as a share."""

    median: float
    p90: float
    mape: float


@dataclass(frozen=True, slots=True)
class Goodness:
    """How far single requests are from what the fit predicts for their load and prompt."""

    n: int
    ttft: Errors  # s
    rate: Errors  # tok/s

    @property
    def poor(self) -> bool:
        return self.ttft.mape > POOR["TTFT"] or self.rate.mape > POOR["tok/s"]


Interval = tuple[float, float]
Load = Callable[[Sample], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedFit:
    """The intervals, in the units of Fixed, hold 95 % of what resamples give."""

    timing: Fixed
    ttft: Interval
    rate: Interval
    load_slope: Interval
    ttft_per_token: Interval
    goodness: Goodness
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleFit:
    """`scale` is for Deployment.scale, with its interval."""

    scale: float
    interval: Interval
    goodness: Goodness
    remarks: tuple[str, ...]


class TooFew(ValueError):
    """There are not enough samples to fit anything to."""


def fit_fixed(samples: Sequence[Sample]) -> FixedFit:
    """Raises TooFew."""
    _check(samples)
    load = _load(samples)
    timing, loads = _fixed(samples, load), [load(sample) for sample in samples]
    slower = [1 + timing.load_slope * (load - 1) for load in loads]
    prefills = [timing.ttft_per_token * sample.prompt for sample in samples]
    ttfts = [(timing.ttft + prefill) * factor for prefill, factor in zip(prefills, slower, strict=True)]
    rates = [timing.rate / factor for factor in slower]
    others = [_fixed(resample, load) for resample in _resamples(samples)]
    return FixedFit(
        timing=timing,
        ttft=_interval([other.ttft for other in others]),
        rate=_interval([other.rate for other in others]),
        load_slope=_interval([other.load_slope for other in others]),
        ttft_per_token=_interval([other.ttft_per_token for other in others]),
        goodness=_goodness(samples, ttfts, rates),
        remarks=(*_remarks(samples, ttfts, rates), *_unlike_slopes(samples, loads, timing.load_slope)),
    )


def fit_scale(samples: Sequence[Sample], pool: Pool) -> ScaleFit:
    """The factor on the step times of a pool's deployment, beside the pool's ambient load as it stands. Raises TooFew.

    Predicted for a sample: rate = emitted / t(n, S) with S at half its output and n = ambient + load / replicas, as a
    pool deals requests out, the sample itself at least; TTFT = front end + the steps that compute its prompt. Prefill
    steps of others in between are not accounted for.
    """
    _check(samples)
    assert isinstance(pool.timing, Roofline), "only a roofline has a scale"
    predicted = [_predicted(sample, pool) for sample in samples]
    ratios = [rate / sample.rate for (_, rate), sample in zip(predicted, samples, strict=True)]
    ratio = median(ratios)
    ttfts = [pool.frontend_median + ratio * prefill for prefill, _ in predicted]
    rates = [rate / ratio for _, rate in predicted]
    remarks = list(_remarks(samples, ttfts, rates))
    if not 1 / 3 <= ratio <= 3:
        remarks.append(
            f"steps take {ratio:.2g} times as long as predicted: probably the machines, the layout or the ambient load"
            f" are not those of pool {pool.name!r}"
        )
    front = median(sample.ttft - ratio * prefill for sample, (prefill, _) in zip(samples, predicted, strict=True))
    remarks.append(
        f"scale does not fit TTFT: beside the prefill, {front * 1e3:.0f} ms were measured, and the pool's front end has"
        f" {pool.frontend_median * 1e3:.0f} ms"
    )
    scale = pool.timing.deployment.scale
    return ScaleFit(
        scale=scale * ratio,
        interval=_interval([scale * median(resample) for resample in _resamples(ratios)]),
        goodness=_goodness(samples, ttfts, rates),
        remarks=tuple(remarks),
    )


def _check(samples: Sequence[Sample]) -> None:
    if len(samples) < LEAST:
        raise TooFew(f"{len(samples)} requests were measured; a fit takes at least {LEAST}")


def _fixed(samples: Sequence[Sample], load: Load) -> Fixed:
    slope = _slope(samples, load)
    slower = [1 + slope * (load(sample) - 1) for sample in samples]
    alone = [sample.ttft / factor for sample, factor in zip(samples, slower, strict=True)]
    per_token = _per_token([float(sample.prompt) for sample in samples], alone)
    bare = [ttft - per_token * sample.prompt for ttft, sample in zip(alone, samples, strict=True)]
    rates = [sample.rate * factor for sample, factor in zip(samples, slower, strict=True)]
    return Fixed(
        ttft=median(bare),
        ttft_sigma=stdev(map(log, bare)),
        rate=median(rates),
        rate_sigma=stdev(map(log, rates)),
        load_slope=slope,
        ttft_per_token=per_token,
    )


def _resamples(values: Sequence[Value]) -> list[list[Value]]:
    random = Random(0)
    return [random.choices(values, k=len(values)) for _ in range(RESAMPLES)]


def _interval(values: Sequence[float]) -> Interval:
    cuts = quantiles(values, n=40, method="inclusive")
    return cuts[0], cuts[-1]


# ---- load


def _begun(sample: Sample) -> float:
    return sample.begun


def _mean(sample: Sample) -> float:
    return sample.load


def _load(samples: Sequence[Sample]) -> Load:
    """What the slope goes with."""
    return min((_begun, _mean), key=lambda load: _least(_misfit(samples, load))[1])


def _slope(samples: Sequence[Sample], load: Load) -> float:
    misfit = _misfit(samples, load)
    slope, least = _least(misfit)
    noticed = slope * (max(map(load, samples)) - 1) > NOTICEABLE
    return slope if noticed and 2 * (misfit(0.0) - least) > CHI_SQUARE_5 else 0.0


def _misfit(samples: Sequence[Sample], load: Load) -> Callable[[float], float]:
    """The negative logarithm of the likelihood of a slope, but for a constant."""
    firsts, intervals = [log(sample.ttft) for sample in samples], [-log(sample.rate) for sample in samples]
    others = [load(sample) - 1 for sample in samples]

    def misfit(slope: float) -> float:
        slower = [log(1 + slope * more) for more in others]
        return len(samples) / 2 * (log(_variance(firsts, slower)) + log(_variance(intervals, slower)))

    return misfit


def _variance(values: Sequence[float], expected: Sequence[float]) -> float:
    """Of what is left of the logarithms."""
    left = [value - other for value, other in zip(values, expected, strict=True)]
    mean = sum(left) / len(left)
    return max(NOISE**2, sum([(value - mean) ** 2 for value in left]) / len(left))


def _least(misfit: Callable[[float], float]) -> tuple[float, float]:
    """The slope at which a misfit is least, and how great it is there: on a grid, then ever closer around its best."""
    slope = min(GRID, key=misfit)
    least, step = misfit(slope), max(slope / 2, GRID[1])
    while step > PRECISION:
        step /= 2
        for other in (slope - step, slope + step):
            if other >= 0 and (there := misfit(other)) < least:
                slope, least = other, there
    return slope, least


def _unlike_slopes(samples: Sequence[Sample], loads: Sequence[float], slope: float) -> list[str]:
    """One slope is for both; whether it is far from what each would have alone."""
    most = max(loads) - 1
    if most < 1:
        return []

    def alone(values: Sequence[float]) -> float:
        """How slow the highest load is."""

        def misfit(slope: float) -> float:
            return _variance(values, [log(1 + slope * (load - 1)) for load in loads])

        return 1 + most * _least(misfit)[0]

    first, interval = alone([log(sample.ttft) for sample in samples]), alone([-log(sample.rate) for sample in samples])
    both = 1 + most * slope
    if all(1 - UNLIKE < own / both < 1 + UNLIKE for own in (first, interval)):
        return []
    return [
        f"load acts differently on the two: with {most + 1:.3g} in flight, TTFT alone says {first:.2f} times as slow as"
        f" one, tok/s alone {interval:.2f}, and the one slope there is {both:.2f}"
    ]


# ---- prompt


def _per_token(prompts: Sequence[float], ttfts: Sequence[float]) -> float:
    """Seconds of TTFT for each token of prompt."""
    pairs = [
        (abs(p2 - p1), (t2 - t1) / (p2 - p1))
        for (p1, t1), (p2, t2) in combinations(zip(prompts, ttfts, strict=True), 2)
        if p1 != p2
    ]
    if not pairs or not _rises(prompts, ttfts):
        return 0.0
    slope = max(0.0, _weighted_median(pairs))
    slope = min(slope, 0.95 * min(ttft / prompt for ttft, prompt in zip(ttfts, prompts, strict=True) if prompt))
    return slope if slope * (max(prompts) - min(prompts)) > NOTICEABLE * median(ttfts) else 0.0


def _rises(xs: Sequence[float], ys: Sequence[float]) -> bool:
    """Kendall's test with ties among the xs."""
    n, ordered = len(xs), [y for _, y in sorted(zip(xs, ys, strict=True))]
    score, at = 0, 0
    ties = [len(list(group)) for _, group in groupby(sorted(xs))]
    for many in ties:
        here, beyond = ordered[at : at + many], ordered[at + many :]
        score += sum([(y2 > y1) - (y2 < y1) for y1 in here for y2 in beyond])
        at += many
    variance = (n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties)) / 18
    return variance > 0 and score / sqrt(variance) > NORMAL_5


def _weighted_median(pairs: Sequence[tuple[float, float]]) -> float:
    """Of (weight, value)."""
    ordered = sorted(pairs, key=lambda pair: pair[1])
    half, passed = sum(weight for weight, _ in ordered) / 2, 0.0
    for weight, value in ordered:
        passed += weight
        if passed >= half:
            return value
    raise AssertionError("the weights of all are at least half of them")


# ---- a roofline's prediction


def _predicted(sample: Sample, pool: Pool) -> tuple[float, float]:
    """Seconds of prefill, and tok/s."""
    assert isinstance(pool.timing, Roofline)
    step, ambient = pool.timing.step_time, pool.ambient
    running = max(1.0, sample.load / pool.replicas)
    n = ambient.sequences + running
    own = running * step.attended(sample.prompt + sample.output / 2)
    beside = ambient.sequences * step.attended(ambient.context)
    chunk, prefill = pool.limits.prefill_chunk, 0.0
    for number in range(ceil(sample.prompt / chunk)):
        done = number * chunk
        tokens = min(chunk, sample.prompt - done)
        prefill += step.seconds(n - 1, beside, tokens, tokens * step.attended(done + tokens / 2))
    return prefill, step.emitted / step.seconds(n, own + beside)


# ---- how good it is


def _goodness(samples: Sequence[Sample], ttfts: Sequence[float], rates: Sequence[float]) -> Goodness:
    return Goodness(
        len(samples),
        _errors(ttfts, [sample.ttft for sample in samples]),
        _errors(rates, [sample.rate for sample in samples]),
    )


def _errors(predicted: Sequence[float], measured: Sequence[float]) -> Errors:
    errors = sorted(abs(p - m) for p, m in zip(predicted, measured, strict=True))
    shares = (abs(p / m - 1) for p, m in zip(predicted, measured, strict=True))
    return Errors(median(errors), errors[ceil(0.9 * len(errors)) - 1], fmean(shares))


def _remarks(samples: Sequence[Sample], ttfts: Sequence[float], rates: Sequence[float]) -> list[str]:
    """Why one should not rely on the fit."""
    remarks = []
    if len(samples) < ENOUGH:
        remarks.append(f"too few samples: {len(samples)} were measured, medians want at least {ENOUGH}")
    if (lasting := median(sample.output / sample.rate for sample in samples)) < LONG:
        remarks.append(f"streams last {lasting * 1e3:.0f} ms, too short to be sure of tok/s: ask for longer answers")
    measured = {"TTFT": [sample.ttft for sample in samples], "tok/s": [sample.rate for sample in samples]}
    for name, predicted in (("TTFT", ttfts), ("tok/s", rates)):
        left = [log(m / p) for m, p in zip(measured[name], predicted, strict=True)]
        causes = _causes(samples, left)
        if (mape := _errors(predicted, measured[name]).mape) > POOR[name]:
            why = "; ".join(causes) or "requests differ from each other, whatever their load, prompt and time"
            remarks.append(f"{name} of single requests is off by {mape:.0%} in the mean: {why}")
        elif causes:
            remarks.append(f"{name}: {'; '.join(causes)}")
    return remarks


def _causes(samples: Sequence[Sample], left: Sequence[float]) -> list[str]:
    """What the logarithms that are left over go with."""
    causes = []
    by_load: dict[int, list[float]] = {}
    for sample, value in zip(samples, left, strict=True):
        by_load.setdefault(round(sample.load), []).append(value)
    groups = sorted((group for group in by_load.values() if len(group) > 2), key=fmean)
    if len(groups) > 1 and _differ(groups[0], groups[-1], stdev(left)):
        factor = exp(fmean(groups[-1]) - fmean(groups[0])) - 1
        causes.append(f"it depends on load otherwise than the fit says, by up to {factor:.0%}")
    in_time = [value for _, value in sorted(zip((sample.at for sample in samples), left, strict=True))]
    early, late = in_time[: len(in_time) // 2], in_time[len(in_time) // 2 :]
    if _differ(early, late, stdev(left)):
        drift = exp(fmean(late) - fmean(early)) - 1
        causes.append(f"it changed by {drift:+.0%} from the first half of the measurements to the second")
    return causes


def _differ(some: Sequence[float], others: Sequence[float], sigma: float) -> bool:
    """Whether two groups of logarithms are apart, by more than chance and more than a fit may err."""
    apart = abs(fmean(some) - fmean(others))
    return apart > 3 * sigma * sqrt(1 / len(some) + 1 / len(others)) and apart > log(1 + UNLIKE / 2)
