"""Places for the processes of one host that share a directory, numbered from 0.

A place is held by a file lock, which the kernel lets go of however its process ends. So a dead process is told from a
living one without process ids, which are used again, and a place that has become free goes to the next process that
starts: what is kept per place stays bounded by the processes that ever ran at once.

Not to be held across a fork: the lock would live on in the child.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path


class Slot:
    """The lowest free place, held until `release`. `prepare` gets its number before others can see it taken."""

    def __init__(self, directory: Path, prepare: Callable[[int], None]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        with _alone(directory):
            self.number, self._lock = next(
                (number, lock) for number in count() if (lock := _try(_path(directory, number))) is not None
            )
            prepare(self.number)

    def release(self) -> None:
        os.close(self._lock)


@contextmanager
def vacant(directory: Path) -> Iterator[list[int]]:
    """The places that nobody holds; none of them is taken before the block ends."""
    with _alone(directory):
        yield [number for number in _known(directory) if _is_free(_path(directory, number))]


def _known(directory: Path) -> range:
    """Every place that was ever taken."""
    return range(len(list(directory.glob("slot-*.lock"))))


def _path(directory: Path, number: int) -> Path:
    return directory / f"slot-{number}.lock"


def _is_free(path: Path) -> bool:
    lock = _try(path)
    if lock is None:
        return False
    os.close(lock)
    return True


def _try(path: Path) -> int | None:
    """The locked file's descriptor, or None if another has it locked."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """For moments only: every process that starts or is scraped waits here."""
    lock = os.open(directory / "slots.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
