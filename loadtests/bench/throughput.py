"""How much the machine sustains, client included: many streams at once, their pace, and each process's CPU time.

At a thousand tokens per second some ten of a stream's tokens are due in each flush and go out in one write; at 65 each
goes out alone, and what is measured is the price of a write, beside that of a bare server that writes the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median, quantiles

import uvloop

from loadtests.bench import stand
from loadtests.bench.report import Aim, Figure, Sheet
from loadtests.client import Timing, Wrong, chat, post
from loadtests.load import Plan, Sustained, sustain
from service.pools import Pool, Roofline

_ARRIVALS = 2.0  # s
_FAST = Plan(streams=200, tokens=10_000, rate=1000, arrivals=_ARRIVALS)
_SLOW = Plan(streams=500, tokens=650, rate=65, arrivals=_ARRIVALS)
_WITHIN = 0.98  # of the rate that was asked for


def run() -> Iterator[Sheet]:
    with stand.service(stand.KNOWN_RATES, ["test-1000"]) as service:
        for plan, late in ((_FAST, Aim("<=", 60)), (replace(_FAST, streams=400), None)):
            yield _sheet(service, "test-1000", plan, uvloop.run(measure(service, "test-1000", plan)), late)
    with stand.service(stand.KNOWN_RATES, ["test-65"]) as service:
        ours = uvloop.run(measure(service, "test-65", _SLOW))
    with stand.floor() as floor:
        bare = uvloop.run(_paced(floor, _SLOW))
    yield _sheet(service, "test-65", _SLOW, ours, Aim("<=", 150), bare)


async def measure(service: stand.Service, model: str, plan: Plan) -> Sustained:
    """Run a plan on a model of the bench catalog. Raises Wrong when an answer is not what was asked for."""
    return await sustain(service.address, chat(model, plan.tokens), plan, service.cpu)


async def _paced(floor: stand.Service, plan: Plan) -> Sustained:
    return await sustain(floor.address, post(f"/paced?{plan.tokens}/{plan.rate:g}", {}), plan, floor.cpu)


def _sheet(
    service: stand.Service,
    model: str,
    plan: Plan,
    ours: Sustained,
    late: Aim | None,
    bare: Sustained | None = None,
) -> Sheet:
    first = _first_token(service.catalog.pools[model])
    setting = (
        f"{plan.streams} streams of {model}, {plan.tokens} tokens each, arriving over {plan.arrivals:g} s; plateau"
        f" {ours.seconds:.1f} s; planned TTFT {first * 1e3:.3g} ms: one step of the engine, to which an arrival"
        " within a running step adds what is left of it"
    )
    if bare is not None:
        setting += "; floor: loadtests/bench/floor.py writing an event to every stream at the same rate"
    figures = [*_pace(plan, ours, bare), *_first_tokens(first, ours, late), *_cost(ours, bare)]
    return Sheet("throughput", f"{plan.streams} streams of {plan.rate:g} tok/s", setting, figures)


def _first_token(pool: Pool) -> float:
    """Seconds from arrival to first token in an idle pool of the bench catalog, whose prefill costs nothing."""
    assert isinstance(pool.timing, Roofline)
    return pool.frontend_median + pool.timing.step_time.seconds(1, 1)


def _pace(plan: Plan, ours: Sustained, bare: Sustained | None) -> Iterator[Figure]:
    def rates(run: Sustained) -> list[float]:
        return [timing.rate / plan.rate for timing in _begun(plan, run)]

    def figure(name: str, of: Callable[[Sustained], float], unit: str, aim: Aim | None = None) -> Figure:
        return Figure(name, of(ours), unit, aim, of(bare) if bare else None)

    all_of_it = Aim(">=", plan.streams * plan.rate * _WITHIN)
    yield figure("delivered on the plateau", lambda run: run.tokens / run.seconds, "tok/s", all_of_it)
    yield figure("median stream", lambda run: median(rates(run)), "of its rate", Aim(">=", _WITHIN))
    yield figure("slowest stream", lambda run: min(rates(run)), "of its rate")
    yield figure("reads of the client", lambda run: run.reads / run.seconds, "/s")
    yield figure("streams cut off, taking too long", lambda run: len(run.cut), "", Aim("<=", 0))


def _begun(plan: Plan, run: Sustained) -> list[Timing]:
    timings = run.timings
    if len(timings) < plan.streams:
        raise Wrong(f"{plan.streams - len(timings)} of {plan.streams} streams had not begun when they were cut off")
    return timings


def _first_tokens(planned: float, run: Sustained, late: Aim | None) -> Iterator[Figure]:
    above = [(timing.ttft - planned) * 1e3 for timing in run.timings]
    yield Figure("TTFT above plan, p50", median(above), "ms")
    yield Figure("TTFT above plan, p99", quantiles(above, n=100, method="inclusive")[98], "ms", late)


def _cost(ours: Sustained, bare: Sustained | None) -> Iterator[Figure]:
    """CPU time per token; the gateway's beside that of the bare server."""

    def per_token(run: Sustained, name: str) -> float:
        return run.cpu[name] / run.tokens * 1e6

    for name in ours.cpu:
        floor = per_token(bare, name.replace("gateway", "floor")) if bare and name in ("gateway", "client") else None
        yield Figure(f"CPU per token, {name}", per_token(ours, name), "us", floor=floor)
    if ours.cpu:
        yield Figure("CPU per token, all", sum(ours.cpu.values()) / ours.tokens * 1e6, "us")
        yield Figure("cores in use", sum(ours.cpu.values()) / ours.seconds, "")
