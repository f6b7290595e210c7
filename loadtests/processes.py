"""CPU time and memory of running processes, as the kernel counts them. Linux alone: elsewhere there is no /proc."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")

KNOWN = sys.platform == "linux"


def cpu(pids: Mapping[str, int]) -> dict[str, float]:
    """CPU time used since their start, user and system, in seconds; empty where it cannot be known."""
    return {name: _cpu(pid) for name, pid in pids.items()} if KNOWN else {}


def resident(pids: Mapping[str, int]) -> dict[str, int]:
    """Resident memory in bytes, what is shared with others included; empty where it cannot be known."""
    return {name: _resident(pid) for name, pid in pids.items()} if KNOWN else {}


def child(pid: int) -> int:
    """The one child of a process that guards it, or the process itself where that cannot be known."""
    if not KNOWN:
        return pid
    (only,) = (_PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
    return int(only)


def _cpu(pid: int) -> float:
    """The scheduler's own count (Documentation/scheduler/sched-stats.rst, first field, ns), summed over threads.

    The customary /proc/PID/stat counts in steps of 10 ms: too coarse for a process that is idle. A thread that has
    ended takes its time with it.
    """
    nanoseconds = 0
    for thread in (_PROC / str(pid) / "task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            nanoseconds += int((thread / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def _resident(pid: int) -> int:
    lines = (_PROC / str(pid) / "status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024
