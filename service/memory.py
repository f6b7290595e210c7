"""Tells the garbage collector what is there to stay, so that it does not walk through it again and again."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_YOUNG = 20_000  # allocations between collections of the young; each request leaves some hundred that form no cycles


def settle() -> None:
    """Call once, when everything that lives as long as the process has been loaded.

    A vocabulary is hundreds of thousands of objects: a full collection over them takes some 100 ms, in which no token
    goes out.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 20, 50)


@contextmanager
def without_cycles() -> Iterator[None]:
    """Around work that makes millions of objects and no cycle among them: counting references frees them all."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
