"""What the tests of this directory ask the operating system about processes."""

import subprocess
import time
from collections.abc import Callable

DEADLINE = 15.0  # seconds; everything waited for here takes less than three


def alive(pid: int) -> bool:
    """Not gone, and not merely waiting for somebody to take note of its end."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


def children(pid: int) -> list[int]:
    return [int(word) for word in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True).stdout.split()]


def eventually(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + DEADLINE
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
