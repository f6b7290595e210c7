"""Fits to requests that follow a known timing find it again, say how far they are off, and why they are poor."""

from dataclasses import replace
from math import log
from random import Random
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning.fit import FixedFit, Sample, TooFew, fit_fixed, fit_scale
from service.conditions import Ambient
from service.pools import Pool, Roofline
from service.roofline import fold
from service.tiers import load
from service.timings import Fixed
from workers.engine import Sequence
from workers.engine.recorded import pace

TIMING = Fixed(ttft=0.3, ttft_sigma=0.15, rate=120.0, rate_sigma=0.08)
FAST = load().pools["fast"]


def requests(
    timing: Fixed,
    n: int = 60,
    *,
    levels: tuple[int, ...] = (1, 2, 4),
    prompts: tuple[int, ...] = (100, 2000),
    seed: int = 1,
) -> list[Sample]:
    """So many requests that take what the timing draws for them, a third at each level, prompts taking turns."""
    random, made = Random(seed), []
    for number in range(n):
        level, prompt = levels[number * len(levels) // n], prompts[number % len(prompts)]
        ttft, interval = pace(timing, Sequence("x", 0.0, prompt, 128, seed=random.getrandbits(40)), level)
        made.append(
            Sample(at=float(number), ttft=ttft, rate=1 / interval, prompt=prompt, output=128, begun=level, load=level)
        )
    return made


def about(fit: FixedFit) -> bool:
    """Whether the fit says that single requests are as far off as their spreads are wide, and no more."""
    return fit.goodness.rate.mape < 1.5 * fit.timing.rate_sigma + 0.01


# ---- fixed timings


@given(
    st.floats(0.05, 5),
    st.floats(5, 2000),
    st.floats(0, 0.3),
    st.floats(0, 0.2),
    st.sampled_from([0.0, 0.05, 0.3]),
    st.integers(0, 10**6),
)
@settings(max_examples=15)
def test_the_timing_that_requests_follow_is_found_again(
    ttft: float, rate: float, ttft_sigma: float, rate_sigma: float, slope: float, seed: int
) -> None:
    true = Fixed(ttft=ttft, ttft_sigma=ttft_sigma, rate=rate, rate_sigma=rate_sigma, load_slope=slope)
    fit = fit_fixed(requests(true, 120, prompts=(500,), seed=seed))
    assert fit.timing.rate == pytest.approx(rate, rel=0.01 + rate_sigma)
    assert fit.timing.ttft == pytest.approx(ttft, rel=0.01 + ttft_sigma)
    assert fit.timing.ttft_sigma == pytest.approx(ttft_sigma, rel=0.35, abs=0.01)
    assert fit.timing.rate_sigma == pytest.approx(rate_sigma, rel=0.35, abs=0.01)
    assert fit.timing.load_slope == pytest.approx(slope, abs=0.02 + rate_sigma / 2)
    assert fit.timing.ttft_per_token == 0
    assert about(fit)


def test_requests_that_all_take_the_same_are_found_exactly() -> None:
    true = Fixed(ttft=0.3, rate=120.0, load_slope=0.1, ttft_per_token=1e-4)
    fit = fit_fixed(requests(true, 24))
    assert fit.timing.rate == pytest.approx(120, rel=1e-3)
    assert fit.timing.ttft == pytest.approx(0.3, rel=2e-3)
    assert fit.timing.load_slope == pytest.approx(0.1, rel=5e-3)
    assert fit.timing.ttft_per_token == pytest.approx(1e-4, rel=5e-3)
    assert max(fit.goodness.ttft.mape, fit.goodness.rate.mape) < 2e-3
    assert fit.remarks == ()


def test_the_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    true = replace(TIMING, load_slope=0.1, ttft_per_token=1e-4)
    held = dict.fromkeys(("ttft", "rate", "load_slope", "ttft_per_token"), 0)
    for seed in range(30):
        fit = fit_fixed(requests(true, 24, seed=seed))
        for name in held:
            low, high = getattr(fit, name)
            held[name] += low <= getattr(true, name) <= high
    assert all(times >= 24 for times in held.values()), held


def test_what_chance_explains_gets_no_parameter() -> None:
    """One in twenty would, by the tests' own account."""
    fits = [fit_fixed(requests(TIMING, 24, seed=seed)) for seed in range(30)]
    assert sum(fit.timing.load_slope > 0 for fit in fits) <= 4
    assert sum(fit.timing.ttft_per_token > 0 for fit in fits) <= 4


def test_one_level_and_one_size_of_prompt_say_nothing_about_load_and_prompts() -> None:
    fit = fit_fixed(requests(replace(TIMING, load_slope=0.2, ttft_per_token=1e-4), levels=(3,), prompts=(1000,)))
    assert (fit.timing.load_slope, fit.timing.ttft_per_token) == (0, 0)
    assert fit.timing.ttft == pytest.approx(0.4 * 1.4, rel=0.1), "what there is, is in the medians"


@pytest.mark.parametrize("which", ["begun", "load"])
def test_load_is_what_explains_more_of_what_was_in_flight_at_the_beginning_or_in_the_mean(which: str) -> None:
    random = Random(5)
    samples = [
        replace(sample, **{"begun": random.randint(1, 4), "load": random.uniform(1, 4), which: getattr(sample, which)})
        for sample in requests(replace(TIMING, load_slope=0.2))
    ]
    assert fit_fixed(samples).timing.load_slope == pytest.approx(0.2, abs=0.05)


def test_errors_are_those_of_single_requests() -> None:
    samples = requests(replace(TIMING, ttft_sigma=0.0, rate_sigma=0.0), 20, prompts=(100,))
    spoilt = [replace(sample, rate=150.0) if number < 4 else sample for number, sample in enumerate(samples)]
    rate = fit_fixed(spoilt).goodness.rate
    assert rate.median == pytest.approx(0, abs=1e-9)
    assert rate.p90 == pytest.approx(30)
    assert rate.mape == pytest.approx(4 / 20 * 30 / 150)


def test_three_requests_are_too_few() -> None:
    with pytest.raises(TooFew, match="3 requests"):
        fit_fixed(requests(TIMING, 3))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda samples: samples[::6], "too few samples: 10"),
        (lambda samples: [replace(sample, output=8) for sample in samples], "ms, too short to be sure"),
        (
            lambda samples: [
                replace(s, rate=s.rate * (0.7 if s.at > 30 else 1)) for s in Random(1).sample(samples, 60)
            ],
            "it changed by -",
        ),
        (
            lambda samples: [
                replace(s, ttft=s.ttft * (4 if s.begun == 2 else 1), begun=1 + s.begun % 3) for s in samples
            ],
            "it depends on load otherwise than the fit says",
        ),
        (lambda samples: [replace(s, ttft=s.ttft * s.load) for s in samples], "load acts differently on the two"),
        (
            lambda samples: [
                replace(s, rate=s.rate * (1 + n % 2)) for n, s in enumerate(Random(1).sample(samples, 60))
            ],
            "requests differ from each other",
        ),
    ],
)
def test_a_poor_fit_says_why(spoil, says: str) -> None:  # type: ignore[no-untyped-def]
    samples = requests(replace(TIMING, ttft_sigma=0.05, rate_sigma=0.03), prompts=(500,))
    assert not any(says in remark for remark in fit_fixed(samples).remarks)
    assert any(says in remark for remark in fit_fixed(spoil(samples)).remarks)


# ---- scale


def scaled(pool: Pool, scale: float) -> Pool:
    assert isinstance(pool.timing, Roofline)
    deployment = replace(pool.timing.deployment, scale=scale)
    step_time = fold(pool.timing.accelerator, pool.timing.architecture, deployment)
    return replace(pool, timing=replace(pool.timing, deployment=deployment, step_time=step_time))


def from_steps(pool: Pool, noise: float = 0.0) -> list[Sample]:
    """Requests as fast as StepTime.speed says, which the fit does not use."""
    assert isinstance(pool.timing, Roofline)
    step, random, made = pool.timing.step_time, Random(3), []
    for number in range(30):
        load, prompt = 1 + 12 * (number // 10), (1000, 4000)[number % 2]
        own = max(1, load / pool.replicas)
        n = pool.ambient.sequences + own
        context = (pool.ambient.sequences * pool.ambient.context + own * (prompt + 64)) / n
        made.append(
            Sample(
                at=float(number),
                ttft=pool.frontend_median + step.seconds(n - 1, (n - 1) * 2250, prompt, prompt**2 / 2),
                rate=step.speed(n, context) * random.lognormvariate(0, noise),
                prompt=prompt,
                output=128,
                begun=load,
                load=load,
            )
        )
    return made


@pytest.mark.parametrize("before", [1.0, 0.8])
@pytest.mark.parametrize("true", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("ambient", [0.0, 6.5])
def test_the_scale_of_a_deployment_is_found_whatever_it_was_set_to_before(
    before: float, true: float, ambient: float
) -> None:
    pool = replace(FAST, ambient=Ambient(sequences=ambient, context=2250))
    fit = fit_scale(from_steps(scaled(pool, true), noise=0.05), scaled(pool, before))
    assert fit.scale == pytest.approx(true, rel=0.03)
    assert fit.interval[0] <= fit.scale <= fit.interval[1]
    assert fit.interval[1] / fit.interval[0] < 1.1
    assert fit.goodness.rate.mape == pytest.approx(0.05 * 0.8, rel=0.4), "mean of |normal| is 0.8 sigma"


def test_a_scale_far_from_one_is_doubted_and_a_missing_front_end_is_named() -> None:
    samples = [replace(sample, ttft=sample.ttft + 1.0) for sample in from_steps(scaled(FAST, 5.0))]
    remarks = fit_scale(samples, FAST).remarks
    assert any("steps take 5 times as long as predicted" in remark for remark in remarks)
    front = next(remark for remark in remarks if "scale does not fit TTFT" in remark)
    assert int(front.split(" ms were measured")[0].split()[-1]) == pytest.approx(1055, rel=0.02)
    assert "front end has 55 ms" in front


def test_medians_resist_a_few_wild_requests() -> None:
    samples = requests(TIMING, 60, prompts=(100,), levels=(1,))
    wild = [
        replace(sample, ttft=60.0, rate=1.0) if number % 10 == 0 else sample for number, sample in enumerate(samples)
    ]
    assert log(fit_fixed(wild).timing.rate / median(sample.rate for sample in samples)) == pytest.approx(0, abs=0.03)
