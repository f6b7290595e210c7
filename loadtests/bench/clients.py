"""Can the load test's client be believed? Streams of known timing, and what it costs the client to follow them.

TPOT is known: a step of the engine is a millisecond. What the client finds beyond that is its own error, and that of
the path, which delivers in flushes and therefore shifts single tokens and not their mean.
"""

from collections.abc import Iterator

import uvloop

from loadtests.bench import stand
from loadtests.bench.report import Aim, Figure, Sheet
from loadtests.client import Wrong
from loadtests.drive import Driver
from loadtests.scenario import Closed, Scenario, Talk
from loadtests.summary import lateness, summary
from loadtests.targets import probe, target
from planning.workload import lengths

MODEL, RATE = "test-1000", 1000  # tok/s of a stream


def run(streams: int = 50, tokens: int = 10_000) -> Iterator[Sheet]:
    with stand.service(stand.KNOWN_RATES, [MODEL]) as service:
        yield _sheet(service, streams, tokens)


def _sheet(service: stand.Service, streams: int, tokens: int) -> Sheet:
    scenario = Scenario(
        name="known",
        about="streams of known timing",
        model=MODEL,
        dialect="openai",
        seconds=tokens / RATE,
        seed=1,
        load=Closed(levels=(streams,)),
        work=Talk(input=lengths("20"), output=lengths(str(tokens)), turns=lengths("1")),
        mix={"standard": 1.0},
        most=streams,
    )
    where = uvloop.run(probe(scenario, target(f"{service.base_url}/v1", scenario, None)))
    before = service.cpu()
    driven = uvloop.run(Driver(scenario, where).drive())
    used = service.cpu().get("client", 0.0) - before.get("client", 0.0)
    (tier,) = summary(driven.records, driven.gaps, scenario.objective, driven.seconds)
    if tier.ok < streams or tier.output_tokens != streams * tokens:
        raise Wrong(f"{tier.ok} of {streams} streams came to their end: {dict(tier.errors)}")
    late = lateness(driven.late)
    figures = [
        Figure("output in all", streams * tokens / (max(r.last for r in driven.records)), "tok/s"),
        Figure("TPOT, median, off by", abs(tier.tpot["p50"].value * RATE - 1) * 100, "%", Aim("<=", 1)),
        Figure("TPOT, p99, off by", abs(tier.tpot["p99"].value * RATE - 1) * 100, "%", Aim("<=", 1)),
        Figure("client CPU per token", used / tier.output_tokens * 1e6, "us", Aim("<=", 3)),
        Figure("how late its timers were, p99", late.p99 * 1e3, "ms"),
    ]
    setting = f"{streams} streams of {tokens} tokens at {RATE} tok/s, with one client process, bench catalog"
    return Sheet("clients", "The load test's own client", setting, figures)
