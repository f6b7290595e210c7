"""What the whole stack of the shipped catalog costs while nobody asks for anything: CPU time and memory."""

import time
from collections.abc import Iterator

from loadtests import processes
from loadtests.bench import stand
from loadtests.bench.report import Aim, Figure, Sheet
from loadtests.client import Wrong

_SETTLE = 2.0  # s after the start
_SECONDS = 10.0


def run() -> Iterator[Sheet]:
    if not processes.KNOWN:
        raise Wrong("this system has no /proc to ask")
    with stand.service(None) as service:
        pids = {name: pid for name, pid in service.pids.items() if name != "client"}
        time.sleep(_SETTLE)
        before = processes.cpu(pids)
        time.sleep(_SECONDS)
        used = {name: (seconds - before[name]) / _SECONDS * 100 for name, seconds in processes.cpu(pids).items()}
        resident = {name: size / 2**20 for name, size in processes.resident(pids).items()}
    yield Sheet(
        "idle",
        "Idle",
        f"fastmode's processes on the shipped catalog, nobody asking for {_SECONDS:g} s; resident memory counts what"
        " processes share in each of them",
        [
            *(Figure(f"CPU, {name}", share, "% of a core") for name, share in used.items()),
            Figure("CPU, all", sum(used.values()), "% of a core", Aim("<=", 1)),
            *(Figure(f"resident, {name}", size, "MiB") for name, size in resident.items()),
            Figure("resident, all", sum(resident.values()), "MiB"),
        ],
    )
