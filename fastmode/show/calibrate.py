"""Calibration in a terminal: what will be asked, a bar while it is, what was measured, and a fit with its errors."""

import asyncio
import csv
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from fastmode.show import console, table
from fastmode.show.progress import Bar
from loadtests.calibrate import Measured, Plan, measure
from loadtests.endpoint import Endpoint
from planning.calibrated import Origin, fixed_pool, scaled_pool
from planning.fit import FixedFit, Goodness, Interval, Sample, ScaleFit, TooFew, fit_fixed, fit_scale
from service.errors import CalibrationError, FastmodeError
from service.pools import Pool, Roofline
from service.tiers import SHIPPED, Catalog, load, resolve
from service.toml_table import Document

FITS = ("fixed", "scale")
LEVEL_MAX = 32  # at once; more is no calibration but a load test
PROMPT_MAX = 1_000_000  # tokens
COLUMNS = ("ttft_ms", "tok_s", "prompt_tokens", "output_tokens", "in_flight", "at_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which endpoint, and what is asked of it."""

    base_url: str
    model: str
    tier: str | None
    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to come of it. `fit` is "fixed", or "scale" for the pool of the catalog of that name."""

    fit: str
    name: str | None
    pool: str | None
    catalog: Path | None
    samples: Path | None
    out: Path | None


def run(target: Target, plan: Plan, wanted: Wanted) -> None:
    """Raises FastmodeError. Files that exist are not written over."""
    _check(wanted)
    catalog = load(wanted.catalog)
    pool = _pool(catalog, wanted.pool) if wanted.fit == "scale" else None
    _announce(console(stderr=True), target, plan, catalog)
    measured = asyncio.run(_measure(target, plan))
    if wanted.samples is not None:
        _write_samples(wanted.samples, measured.samples)
    day = datetime.now(UTC).date()
    origin = Origin(what=_in_words(target, plan, measured), day=day)
    out = console()
    try:
        fit = fit_fixed(measured.samples) if pool is None else fit_scale(measured.samples, pool)
    except TooFew as error:
        why = measured.stopped or next(iter(measured.troubles), "")
        raise CalibrationError(f"{error}" + (f"; {why}" if why else "")) from None
    _print_measured(out, measured)
    remarks = [*_circumstances(target, plan, measured), *fit.remarks]
    if isinstance(fit, FixedFit):
        _print_fixed(out, fit)
        text = fixed_pool(wanted.name or "calibrated", fit, origin, remarks)
    else:
        assert wanted.pool is not None
        _print_scale(out, fit, wanted.pool)
        name = wanted.name or f"{wanted.pool}-calibrated"
        text = scaled_pool(name, _table(wanted, wanted.pool), fit, origin, remarks)
    _print_goodness(out, fit.goodness)
    _print_remarks(out, remarks, fit.goodness)
    if wanted.out is None:
        out.print(f"\n{text}", markup=False, soft_wrap=True)
    else:
        wanted.out.write_text(text, encoding="utf-8")
        out.print(f"\nThe pool is in {wanted.out}: put it into a catalog, and give a model an offer from it.")
    if wanted.samples is not None:
        requests = len(measured.samples)
        out.print(f"The requests are in {wanted.samples}: an empirical pool takes them (requests = {requests}).")


async def _measure(target: Target, plan: Plan) -> Measured:
    endpoint = Endpoint(target.base_url, target.model, target.tier, target.key, plan.timeout)
    with Bar() as bar:
        async with endpoint:
            return await measure(endpoint, plan, bar, seed=secrets.randbits(64))


# ---- before


def plan(requests: int, levels: str, prompts: str, *, output: int, pause: float, timeout: float) -> Plan:
    """From the words of a command line. Raises CalibrationError."""
    made = Plan(
        requests=requests,
        levels=_numbers("--concurrency", levels, LEVEL_MAX),
        prompts=_numbers("--prompt-tokens", prompts, PROMPT_MAX),
        output=output,
        pause=pause,
        timeout=timeout,
    )
    if not (isfinite(pause) and isfinite(timeout)):
        raise CalibrationError("--pause and --timeout are seconds, and both end")
    if requests < len(made.levels):
        raise CalibrationError(f"--requests is {requests}: too few for {len(made.levels)} levels of --concurrency")
    return made


def _numbers(option: str, text: str, most: int) -> tuple[int, ...]:
    try:
        numbers = tuple(int(word) for word in text.split(","))
    except ValueError:
        raise CalibrationError(f"{option} is {text!r}; it must be whole numbers, such as 1,2,4") from None
    if not all(1 <= number <= most for number in numbers):
        raise CalibrationError(f"{option} is {text!r}; each must be between 1 and {most}")
    return numbers


def _check(wanted: Wanted) -> None:
    if wanted.fit not in FITS:
        raise CalibrationError(f"--fit is {wanted.fit!r}; it can be {' or '.join(FITS)}")
    if (wanted.fit == "scale") != (wanted.pool is not None):
        raise CalibrationError("--fit scale and --pool belong together: the pool whose step times are fitted")
    if wanted.name is not None and not re.fullmatch(r"[\w.-]{1,60}", wanted.name, re.ASCII):
        raise CalibrationError(f"--name is {wanted.name!r}; it can have letters, digits, '-', '_' and '.'")
    for path in (wanted.samples, wanted.out):
        if path is not None and path.exists():
            raise CalibrationError(f"{path} exists; name a file that does not")
        if path is not None and not path.parent.is_dir():
            raise CalibrationError(f"{path} cannot be written: there is no directory {path.parent}")


def _pool(catalog: Catalog, name: str | None) -> Pool:
    pool = catalog.pools.get(name or "")
    if pool is None:
        raise CalibrationError(f"the catalog has no pool {name!r}; it has {', '.join(catalog.pools)}")
    if not isinstance(pool.timing, Roofline):
        raise CalibrationError(f"pool {name!r} is measured already: only one derived from hardware has a scale")
    return pool


def _table(wanted: Wanted, pool: str) -> Mapping[str, Any]:
    """As the catalog writes it."""
    values: Mapping[str, Any] = Document.read(wanted.catalog or SHIPPED).values["pools"][pool]
    return values


def _announce(out: Console, target: Target, plan: Plan, catalog: Catalog) -> None:
    levels = ", then ".join(map(str, plan.levels))
    out.print(
        f"Asking {target.model}{_at_tier(target)} for {plan.requests} streamed answers, {levels} at once,"
        f" {plan.pause:g} s between them:"
    )
    tokens = f"about {plan.prompt_tokens:,} tokens of prompt, at most {plan.output_tokens:,} of output"
    out.print(
        f"{tokens}{_price(target, plan, catalog)}; at most {plan.timeout:g} s for each answer,"
        f" {plan.seconds_max / 60:.0f} min for all."
    )


def _price(target: Target, plan: Plan, catalog: Catalog) -> str:
    """At the catalog's list price, if it sells the model."""
    try:
        price = resolve(catalog, target.model, target.tier).price
    except FastmodeError:
        return ""
    dollars = (plan.prompt_tokens * price.input + plan.output_tokens * price.output) / 1e9
    return f" (at most ${dollars:.3g} at the catalog's list price)"


# ---- after


def _print_measured(out: Console, measured: Measured) -> None:
    made = table(
        "In flight",
        ">n",
        ">TTFT\nmedian",
        ">TTFT\np90",
        ">tok/s\nmedian",
        ">tok/s\np10",
        title="Measured by the client",
    )
    levels = sorted({round(sample.load) for sample in measured.samples})
    for level in levels:
        here = [sample for sample in measured.samples if round(sample.load) == level]
        ttfts, rates = (sorted(values) for values in zip(*((s.ttft, s.rate) for s in here), strict=True))
        tail = (len(here) - 1) // 10
        cells = (_ms(median(ttfts)), _ms(ttfts[-1 - tail]), f"{median(rates):.4g}", f"{rates[tail]:.4g}")
        made.add_row(str(level), str(len(here)), *cells)
    out.print(made)


def _print_fixed(out: Console, fit: FixedFit) -> None:
    timing = fit.timing
    made = table("Parameter", ">value", ">95 % of resamples", "", title="Fit: fixed")
    for name, value, interval, unit, what in (
        ("ttft_ms", timing.ttft, fit.ttft, 1e3, "median, of an empty prompt and alone"),
        ("ttft_sigma", timing.ttft_sigma, None, 1, "spread: standard deviation of the logarithm"),
        ("tok_s", timing.rate, fit.rate, 1, "median, alone"),
        ("tok_s_sigma", timing.rate_sigma, None, 1, "spread"),
        ("load_slope", timing.load_slope, fit.load_slope, 1, "both are slower by this share for each further request"),
        ("ttft_ms_per_1k_prompt", timing.ttft_per_token, fit.ttft_per_token, 1e6, "added to TTFT"),
    ):
        made.add_row(name, f"{value * unit:.3g}", _interval(interval, unit) if interval else "", what)
    out.print(made)


def _print_scale(out: Console, fit: ScaleFit, pool: str) -> None:
    made = table("Parameter", ">value", ">95 % of resamples", "", title="Fit: scale")
    what = f"on the step times of pool {pool}'s deployment"
    made.add_row("scale", f"{fit.scale:.3g}", _interval(fit.interval, 1), what)
    out.print(made)


def _interval(interval: Interval, unit: float) -> str:
    return " … ".join(f"{bound * unit:.3g}" for bound in interval)


def _print_goodness(out: Console, goodness: Goodness) -> None:
    made = table("Prediction", ">n", ">median\nerror", ">p90", ">MAPE", title="Single requests against the fit")
    ttft, rate = goodness.ttft, goodness.rate
    made.add_row("TTFT", str(goodness.n), _ms(ttft.median), _ms(ttft.p90), f"{ttft.mape:.1%}")
    speeds = (f"{rate.median:.3g} tok/s", f"{rate.p90:.3g} tok/s")
    made.add_row("tok/s", str(goodness.n), *speeds, f"{rate.mape:.1%}")
    out.print(made)


def _print_remarks(out: Console, remarks: Sequence[str], goodness: Goodness) -> None:
    out.print(f"\nThe fit is {'poor' if goodness.poor else 'good'}{'; to be known:' if remarks else '.'}")
    for remark in remarks:
        out.print(f"- {remark}", markup=False)


def _circumstances(target: Target, plan: Plan, measured: Measured) -> list[str]:
    """What happened on the way that one should know."""
    remarks = []
    answers, n = measured.answers, len(measured.answers)
    if measured.stopped is not None:
        remarks.append(f"stopped after {n} of {plan.requests} requests: {measured.stopped}")
    elif measured.troubles:
        remarks.append(f"{len(measured.troubles)} requests came to nothing; the first: {measured.troubles[0]}")
    if any(answer.estimated for answer in answers):
        remarks.append("the endpoint reports no usage: tokens are counted with o200k_base, an estimate")
    hidden = sum(answer.hidden > 0 for answer in answers)
    if hidden:
        remarks.append(f"in {hidden} answers the model thought before its first text: TTFT has that time in it")
    cached = sum(answer.cached > 0 for answer in answers)
    if cached:
        remarks.append(f"in {cached} answers some of the prompt was found in a cache")
    short = sum(answer.tokens < plan.output // 2 for answer in answers)
    if short > n // 2:
        remarks.append(f"{short} of {n} answers were shorter than half of what was asked for")
    others = sorted({answer.tier for answer in answers if answer.tier is not None and answer.tier != target.tier})
    if target.tier is not None and others:
        remarks.append(f"the endpoint reports the service tier as {', '.join(map(repr, others))}")
    return remarks


def _in_words(target: Target, plan: Plan, measured: Measured) -> str:
    """What a source says of it; no host and no key."""
    sizes, levels = " and ".join(map(str, plan.prompts)), ", ".join(map(str, plan.levels))
    return (
        f"fastmode calibrate: {len(measured.samples)} streamed chat completions of {target.model}{_at_tier(target)},"
        f" prompts of about {sizes} tokens, answers of at most {plan.output}, {levels} at once"
    )


def _at_tier(target: Target) -> str:
    return f" (service_tier {target.tier})" if target.tier is not None else ""


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms" if seconds < 1 else f"{seconds * 1e3:,.0f} ms"


def _write_samples(path: Path, samples: Sequence[Sample]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for sample in samples:
            times = (f"{sample.ttft * 1e3:.2f}", f"{sample.rate:.2f}")
            rows.writerow((*times, sample.prompt, sample.output, f"{sample.load:.2f}", f"{sample.at:.2f}"))
