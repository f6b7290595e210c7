"""Runs one command so that it cannot outlive the process that asked for it, however that process ends.

Run as a script, `python -I -S guard.py DIRECTORY COMMAND ARGUMENT...`, with a pipe for standard input whose other end
only the parent holds. It knows nothing of what it guards, and of Python only what starts in 10 ms.

- The parent ends, or closes the pipe (end of file): the command gets SIGTERM, and SIGKILL after `LAST_WORDS` seconds.
  A byte before the end of file says that the parent lives on and tidies up itself.
- SIGTERM to the guard is passed on to the command, as often as it comes; the parent decides how long to wait.
- SIGINT and SIGHUP of a terminal concern the parent alone: guard and command have a session of their own.
- The command ends: what is left of its process group is killed, and the guard ends with the command's exit code,
  128 + n after signal n, as a shell reports it.
- The guard itself is killed: on Linux the kernel then kills the command; elsewhere it is left alone.
- DIRECTORY is what the processes of one parent share. Parent and guards each hold a shared lock on it; once the parent
  has ended, whoever can turn his into an exclusive one is the last, and removes it.
"""

import fcntl
import os
import select
import signal
import sys
import time

LAST_WORDS = 2.0  # seconds
PARENT_LEAVES = 5.0  # seconds; milliseconds but for a machine under load
NOT_FOUND = 127
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(directory: str, command: list[str]) -> int:
    lock = os.open(directory, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    code, orphaned = _guard(command)
    if orphaned:
        _remove_if_last(directory, lock)
    return code


def _guard(command: list[str]) -> tuple[int, bool]:
    """The command's exit code, and whether its parent has ended."""
    wakes = _signals_to_pipe()
    child = _start(command)
    parent = sys.stdin.fileno()
    watched, orphaned = [parent, wakes], True
    last_words: float | None = None
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            _signal_group(child, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code, orphaned and last_words is not None
        ready, _, _ = select.select(watched, [], [], last_words)
        if not ready:
            _signal_group(child, signal.SIGKILL)
        if wakes in ready and signal.SIGTERM in os.read(wakes, 512):
            os.kill(child, signal.SIGTERM)
        if parent in ready:
            if os.read(parent, 512):
                orphaned = False
            else:
                os.kill(child, signal.SIGTERM)
                watched, last_words = [wakes], LAST_WORDS


def _signals_to_pipe() -> int:
    """A descriptor from which every SIGCHLD and SIGTERM can be read: none is lost between a check and a wait."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return reading


def _start(command: list[str]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
        _die_with_guard()
        os.execvp(command[0], command)  # noqa: S606  there is no shell here
    except OSError as error:
        print(f"cannot run {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
    finally:
        os._exit(NOT_FOUND)


def _die_with_guard() -> None:
    """Where the kernel can: even a guard that is killed takes its command with it."""
    if sys.platform == "linux":
        import ctypes  # in the child alone; it would be a third of the guard's memory

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _signal_group(leader: int, number: int) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):  # macOS says the latter of a group of zombies
        return


def _remove_if_last(directory: str, lock: int) -> None:
    """A parent's pipes may close well before it is gone, and its lock with it."""
    deadline = time.monotonic() + PARENT_LEAVES
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)
    import shutil  # slow to load, and most guards are not the last

    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
