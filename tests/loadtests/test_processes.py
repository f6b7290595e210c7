"""What the kernel is asked about processes."""

import os
import subprocess
import sys
import time

import pytest

from loadtests import processes

pytestmark = pytest.mark.skipif(not processes.KNOWN, reason="there is no /proc here")

ME = {"me": os.getpid()}


def test_cpu_time_grows_by_what_is_used_and_not_by_what_is_waited() -> None:
    """Read between two readings of the process's own clock, which counts the same thing."""
    own, counted = time.process_time(), processes.cpu(ME)["me"]
    while time.process_time() < own + 0.1:
        pass
    time.sleep(0.1)
    used = processes.cpu(ME)["me"] - counted
    assert 0.08 < used < time.process_time() - own + 0.02  # the scheduler counts a running thread at its ticks


def test_resident_memory_grows_by_what_is_written() -> None:
    before = processes.resident(ME)["me"]
    block = bytearray(os.urandom(1024)) * (64 * 1024)
    assert processes.resident(ME)["me"] - before > len(block) / 2


def test_the_one_child_of_a_guard_is_found() -> None:
    guard = subprocess.Popen(
        [sys.executable, "-c", "import subprocess; subprocess.run(['sleep', '60'])"], start_new_session=True
    )
    try:
        deadline = time.monotonic() + 15
        while (found := children(guard.pid)) == [] and time.monotonic() < deadline:
            time.sleep(0.02)
        assert processes.child(guard.pid) == found[0]
    finally:
        os.killpg(guard.pid, 9)
        guard.wait()


def children(pid: int) -> list[int]:
    return [int(word) for word in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True).stdout.split()]
