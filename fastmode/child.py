"""One guarded process: started, read, told to stop, waited for. What it is for, and whether it should be replaced,
is its owner's business.

A child is always started through the guard (fastmode/guard.py): it goes when this process goes. All children of one
owner share a `Lair`, a short-named private directory which whoever is last removes.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

GUARD = Path(__file__).with_name("guard.py")
SOCKET_PATH_MAX = 103  # bytes: sun_path holds 104 on macOS and 108 on Linux, the closing zero included
LONGEST_NAME = "/valkey.sock"
LINE_MAX = 4096  # bytes of one line of output that are kept
TAIL_LINES = 20
KILL_WAIT = 10.0  # seconds: a guard kills within two, the rest is for a machine under load


def nothing(*_: object) -> None:
    """What happens when nobody asked to be told."""


class Lair:
    """A private temporary directory, removed by the last of this process and its guards."""

    def __init__(self) -> None:
        self.path = _short_directory()
        self._lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def close(self) -> None:
        os.close(self._lock)
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Child:
    """A running command. `on_exit` and `on_line` are called from the thread that reads its output.

    `on_exit` comes exactly once, when the process is gone, `code` is set and every line has been read.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environ: Mapping[str, str],
        lair: Lair,
        *,
        on_exit: Callable[["Child"], None] = nothing,
        on_line: Callable[[str, str], None] = nothing,
    ) -> None:
        self.name = name
        self.code: int | None = None
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._on_exit = on_exit
        self._on_line = on_line
        self._gone = threading.Event()
        self._guard = subprocess.Popen(  # noqa: S603  the command is ours
            [sys.executable, "-I", "-S", str(GUARD), str(lair.path), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environ),
            start_new_session=True,
        )
        threading.Thread(target=self._read, name=f"reads {name}", daemon=True).start()

    @property
    def pid(self) -> int:
        """The guard's process id; it ends when the command has ended."""
        return self._guard.pid

    @property
    def running(self) -> bool:
        return not self._gone.is_set()

    def terminate(self) -> None:
        """Ask the command to stop; it takes the time it needs."""
        if self.running:
            self._guard.terminate()

    def wait(self, seconds: float) -> bool:
        """Whether the process is gone; answers after `seconds` at the latest."""
        return self._gone.wait(seconds)

    def let_go(self) -> None:
        """The guard acts as if this process had ended: the command is gone within its last words, two seconds."""
        pipe = _pipe(self._guard.stdin)
        with contextlib.suppress(BrokenPipeError, ValueError):  # it is gone already, or the pipe was closed then
            pipe.write(b".")
            pipe.close()

    def last_words(self) -> str:
        """How it ended and what it said last, for a person to read."""
        end = "It does not end" if self.code is None else f"It ended with exit code {self.code}"
        return "\n  ".join([f"{end} and said:" if self.tail else f"{end} and said nothing.", *self.tail])

    def _read(self) -> None:
        output = _pipe(self._guard.stdout)
        while line := output.readline(LINE_MAX):
            text = line.decode(errors="replace").rstrip()
            self.tail.append(text)
            self._on_line(self.name, text)
        output.close()
        self.code = self._guard.wait()
        with contextlib.suppress(BrokenPipeError):
            _pipe(self._guard.stdin).close()
        self._gone.set()
        self._on_exit(self)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _short_directory() -> Path:
    """A new private directory in which a unix socket can be bound: below TMPDIR, or below /tmp if that is too long."""
    path = Path(tempfile.mkdtemp(prefix="fastmode-"))
    if len(os.fsencode(path)) + len(LONGEST_NAME) <= SOCKET_PATH_MAX:
        return path
    path.rmdir()
    return Path(tempfile.mkdtemp(prefix="fastmode-", dir="/tmp"))
