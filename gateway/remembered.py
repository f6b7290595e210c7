"""The conversations of open connections, of which nothing else may be kept: all of a gateway's together are bounded.

The one that was used longest ago goes first. Whoever wants to go on with one that is gone has to send all of it again.
"""

from collections import OrderedDict


class Remembered:
    """By the id of their last response, as JSON. Invariant: `held` is the sum of their sizes, in bytes."""

    def __init__(self, together: int) -> None:
        self.held = 0
        self._together = together
        self._items: OrderedDict[str, bytes] = OrderedDict()

    def put(self, name: str, items: bytes) -> None:
        self.forget(name)
        self._items[name] = items
        self.held += len(items)
        while self.held > self._together:
            self.forget(next(iter(self._items)))

    def find(self, name: str) -> bytes | None:
        if name in self._items:
            self._items.move_to_end(name)
        return self._items.get(name)

    def forget(self, name: str) -> None:
        self.held -= len(self._items.pop(name, b""))
