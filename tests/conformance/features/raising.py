"""Expecting an exception, where no test framework is installed."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Raised:
    error: Any = None


@contextmanager
def raises(kind: type[BaseException]) -> Iterator[Raised]:
    """What is raised within has to be of that kind; it can be looked at afterwards."""
    raised = Raised()
    try:
        yield raised
    except kind as error:
        raised.error = error
        return
    raise AssertionError(f"no {kind.__name__} was raised")


def listen(stream: Iterable[Any]) -> tuple[list[Any], Exception | None]:
    """What a stream gives, and what it raises in the end, if anything."""
    heard: list[Any] = []
    try:
        heard.extend(stream)
    except Exception as error:  # noqa: BLE001 - which it is, is what is asked
        return heard, error
    return heard, None
