"""What the whole path adds: one-token answers of an engine that takes no time, beside a bare server in the same run."""

from collections.abc import Iterator
from statistics import median, quantiles

import uvloop

from loadtests.bench import stand
from loadtests.bench.report import Aim, Figure, Sheet
from loadtests.client import chat
from loadtests.load import Asked, ask_repeatedly

MODEL = "test-zero"
_SECONDS = 3.0
_WARM_UP = 0.5
_CLIENTS = (1, 64)


def run() -> Iterator[Sheet]:
    with stand.floor() as floor, stand.service(stand.KNOWN_RATES, [MODEL]) as service:
        for clients in _CLIENTS:
            yield uvloop.run(_compare(service, floor, clients))


async def _compare(service: stand.Service, floor: stand.Service, clients: int) -> Sheet:
    figures: list[Figure] = []
    for stream in (True, False):
        ours, bare = await _ask(service, clients, stream), await _ask(floor, clients, stream)
        figures += [*_latency(ours, bare, clients, stream), *_cost(ours, bare, stream)]
    setting = (
        f"one-token answers of {MODEL}, {clients} keep-alive connection{'s' * (clients > 1)} asking without pause for"
        f" {_SECONDS:g} s; floor: loadtests/bench/floor.py under the gateway's server settings"
    )
    return Sheet("overhead", f"Added by the whole path, concurrency {clients}", setting, figures)


async def _ask(target: stand.Service, clients: int, stream: bool) -> Asked:
    request = chat(MODEL, 1, stream=stream)
    for seconds in (_WARM_UP, _SECONDS):
        asked = await ask_repeatedly(
            target.address, request, target.cpu, clients=clients, seconds=seconds, tokens=1, stream=stream
        )
    return asked


def _latency(ours: Asked, bare: Asked, clients: int, stream: bool) -> Iterator[Figure]:
    """Of a stream, the time to its first token; of a whole answer, the time to its end."""
    what = "TTFT" if stream else "whole answer"
    aims = {"p50": Aim("<=", 3.0)} if clients == 1 and stream else {}
    for name, of_ours, of_bare in zip(("p50", "p99"), _spread(ours, stream), _spread(bare, stream), strict=True):
        yield Figure(f"{what}, {name}", of_ours * 1e3, "ms", aims.get(name), of_bare * 1e3)


def _spread(asked: Asked, stream: bool) -> tuple[float, float]:
    times = [timing.ttft if stream else timing.duration for timing in asked.timings]
    return median(times), quantiles(times, n=100, method="inclusive")[98]


def _cost(ours: Asked, bare: Asked, stream: bool) -> Iterator[Figure]:
    """Answers in all, and the CPU time of each process on one; the gateway's beside that of the bare server."""
    kind = "stream" if stream else "whole answer"
    yield Figure(f"{kind}s", ours.per_second, "/s", floor=bare.per_second)
    for name in (name for name in ours.cpu if name != "client"):
        floor = _per_answer(bare, "floor") if name == "gateway" else None
        yield Figure(f"CPU per {kind}, {name}", _per_answer(ours, name), "us", floor=floor)


def _per_answer(asked: Asked, name: str) -> float:
    return asked.cpu[name] / len(asked.timings) * 1e6
