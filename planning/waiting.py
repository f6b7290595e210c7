"""The queue of a pool as service/lua has it, in virtual time and in memory. Pure: time comes in as an argument.

- It holds a bounded number; who waits longer than `patience` leaves, refused.
- Within a band, start-time fair queueing between tenants (Goyal, Vin and Cheng 1996): a request starts where its
  tenant's last one finishes, never in the past; who starts first is served first.
- Of the heads of all bands that one is next which came first, where one of a worse band counts as having come `aging`
  seconds later for each band between them.

Knows nothing about slots or replicas, nor about leases: nobody dies in a plan.
"""

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(slots=True, eq=False)
class _Place(Generic[Item]):
    item: Item
    since: float
    left: bool = False


@dataclass(slots=True)
class Waiting(Generic[Item]):
    """At most `most` requests, each for at most `patience` seconds."""

    most: int
    patience: float
    aging: float
    _bands: dict[int, list[tuple[float, int, _Place[Item]]]] = field(default_factory=dict)  # heaps by start tag
    _arrived: deque[_Place[Item]] = field(default_factory=deque)  # in the order of time
    _tags: dict[int, float] = field(default_factory=dict)  # tenant -> finish tag of its last request
    _clock: float = 0.0  # the virtual time of fair queueing
    _numbers: int = 0
    _count: int = 0

    def __len__(self) -> int:
        return self._count

    def offer(self, now: float, item: Item, tenant: int, share: float, band: int) -> bool:
        """Whether there is room. `share` is what fair queueing charges the tenant, in tokens."""
        if self._count >= self.most:
            return False
        start = max(self._clock, self._tags.get(tenant, 0.0))
        self._tags[tenant] = start + share
        place = _Place(item, now)
        self._numbers += 1
        self._count += 1
        heappush(self._bands.setdefault(band, []), (start, self._numbers, place))
        self._arrived.append(place)
        return True

    def next_band(self) -> int:
        """Of who is next. Somebody has to be here."""
        if len(self._bands) == 1:
            (band,) = self._bands
            _trim(self._bands[band])
            return band
        ranks = [(heap[0][2].since + band * self.aging, band) for band, heap in self._bands.items() if _trim(heap)]
        return min(ranks)[1]

    def claim(self) -> Item:
        """Who is next. Somebody has to be here."""
        tag, _, place = heappop(self._bands[self.next_band()])
        if tag > self._clock:
            self._clock = tag
        self._leave(place)
        return place.item

    @property
    def patient_until(self) -> float:
        """Before then, nobody has waited too long."""
        return self._arrived[0].since + self.patience if self._arrived else inf

    def expire(self, now: float) -> list[Item]:
        """Who has waited too long leaves."""
        arrived, gone = self._arrived, []
        while arrived and (arrived[0].left or arrived[0].since + self.patience <= now):
            place = arrived.popleft()
            if not place.left:
                self._leave(place)
                gone.append(place.item)
        return gone

    def _leave(self, place: _Place[Item]) -> None:
        place.left = True
        self._count -= 1
        if not self._count:  # an empty queue owes nobody anything
            self._bands.clear()
            self._arrived.clear()
            self._tags.clear()
            self._clock = 0.0


def _trim(heap: list[tuple[float, int, _Place[Item]]]) -> bool:
    """Whether anybody is left, once those who gave up are passed over."""
    while heap and heap[0][2].left:
        heappop(heap)
    return bool(heap)
