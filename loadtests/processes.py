"""CPU time and memory of running processes, as the kernel counts them. Linux alone: elsewhere there is no /proc."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")

KNOWN = sys.platform == "linux"


def cpu(pids: Mapping[str, int]) -> dict[str, float]:
    """CPU time used since their start, user and system, in seconds, to 10 ms; empty where it cannot be known."""
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
    """proc(5), /proc/PID/stat, fields 14 and 15; the name in field 2 may hold spaces."""
    fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _resident(pid: int) -> int:
    lines = (_PROC / str(pid) / "status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024
