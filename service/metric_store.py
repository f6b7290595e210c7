"""Where a process keeps the values of its metrics. The only importer of prometheus_client.

Two ways to keep values:

- Without a directory a process keeps its own, in memory.
- With a directory all processes of a host share it, and whichever is scraped speaks for all. Each writes files of its
  own (see service.slots). Counters and histograms of a dead process are carried on by the next one in its place, so
  they never go back; its gauges vanish at the next scrape, whatever it died of. The directory belongs to one version
  of the declarations: an upgrade starts with an empty one.

Knows nothing about what is counted, nor why.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypeVar

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
    start_http_server,
    values,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from service.slots import Slot, vacant

SUM, FULLEST, LATEST = "livesum", "livemax", "livemostrecent"  # how the gauges of several processes make one


@dataclass(frozen=True, slots=True)
class Declared:
    """A metric. Counters are named as they are exposed, with _total."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    merge: str = ""


_FILES = ("counter", "histogram", *(f"gauge_{merge}" for merge in (SUM, FULLEST, LATEST)))
_FILE_SIZE = 1 << 16

_M = TypeVar("_M", Counter, Gauge, Histogram)


class _MappedValue:
    """A number in a file that others read. Stands in for the library's own, which go by process id."""

    _multiprocess = True
    _lock = Lock()

    def __init__(
        self,
        files: Mapping[str, MmapedDict],
        kind: str,
        metric: str,
        name: str,
        labels: Sequence[str],
        labelvalues: Sequence[str],
        text: str,
        multiprocess_mode: str = "",
    ) -> None:
        self._file = files[f"{kind}_{multiprocess_mode}" if multiprocess_mode else kind]
        self._key = mmap_key(metric, name, list(labels), list(labelvalues), text)
        with self._lock:
            self._value = self._file.read_value(self._key)[0]  # type: ignore[no-untyped-call]

    def inc(self, amount: float) -> None:
        with self._lock:
            self._value += amount
            self._file.write_value(self._key, self._value, 0.0)  # type: ignore[no-untyped-call]

    def set(self, value: float, timestamp: float | None = None) -> None:
        with self._lock:
            self._value = value
            self._file.write_value(self._key, value, timestamp or 0.0)  # type: ignore[no-untyped-call]


class Store:
    """The metrics of this process, in memory or in a shared directory. Raises OSError: the directory cannot be used."""

    def __init__(self, metrics: Iterable[Declared], directory: Path | None) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._directory = directory
        self._slot: Slot | None = None
        self._files: dict[str, MmapedDict] = {}
        self._value_class: Any = values.MutexValue
        self._children: dict[tuple[str, ...], Any] = {}
        own = CollectorRegistry()
        self._registry = own
        if directory:
            self._slot = Slot(directory, self._take_over)
            self._value_class = partial(_MappedValue, self._files)
            self._registry = CollectorRegistry()
            self._registry.register(_Shared(directory))
        with self._keeping():
            self._metrics = {declared.name: _build(declared, own) for declared in metrics}

    def counter(self, declared: Declared, *labels: str) -> Counter:
        """The one series of a metric with these label values, as are the others."""
        return self._child(declared, Counter, *labels)

    def gauge(self, declared: Declared, *labels: str) -> Gauge:
        return self._child(declared, Gauge, *labels)

    def histogram(self, declared: Declared, *labels: str) -> Histogram:
        return self._child(declared, Histogram, *labels)

    def folded(self, declared: Declared, *labels: str) -> "Folded":
        return Folded(self.histogram(declared, *labels), declared.buckets)

    def render(self) -> tuple[bytes, str]:
        """The exposition in Prometheus' text format, and its content type. May be called in a thread."""
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4

    def serve(self, port: int, host: str) -> Callable[[], None]:
        """Answer scrapes in a thread of their own. Call the result to stop."""
        server, thread = start_http_server(port, host, self._registry)

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return stop

    def close(self) -> None:
        """Leave the shared directory. Nothing may be counted after that."""
        if self._directory and self._slot:
            for file in self._files.values():
                file.close()  # type: ignore[no-untyped-call]
            _remove_gauges(self._directory, self._slot.number)
            self._slot.release()

    def _take_over(self, number: int) -> None:
        """The files of a place. One that is missing comes into being whole: a scrape must not meet an empty one."""
        assert self._directory is not None
        _remove_gauges(self._directory, number)
        for kind in _FILES:
            path = self._directory / f"{kind}_{number}.db"
            if not path.exists():
                draft = path.with_suffix(".new")
                draft.write_bytes(bytes(_FILE_SIZE))
                draft.rename(path)
            self._files[kind] = MmapedDict(str(path))  # type: ignore[no-untyped-call]

    def _child(self, declared: Declared, kind: type[_M], *labels: str) -> _M:
        key = (declared.name, *labels)
        if key not in self._children:
            metric = self._metrics[declared.name]
            with self._keeping():
                self._children[key] = metric.labels(*labels) if declared.labels else metric
        child = self._children[key]
        assert isinstance(child, kind)
        return child

    @contextmanager
    def _keeping(self) -> Iterator[None]:
        """A metric takes from a global of the library where its value is kept, when it comes into being."""
        before, values.ValueClass = values.ValueClass, self._value_class
        try:
            yield
        finally:
            values.ValueClass = before


class _Shared(Collector):
    """What all processes that share a directory have counted."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> Iterable[Metric]:
        with vacant(self._directory) as numbers:
            for number in numbers:
                _remove_gauges(self._directory, number)
        files = sorted(map(str, self._directory.glob("*.db")))
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        return merged


def _build(declared: Declared, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    name, text, labels = declared.name, declared.help, declared.labels
    match declared.kind:
        case "counter":
            return Counter(name, text, labels, registry=registry)
        case "gauge":
            return Gauge(name, text, labels, registry=registry, multiprocess_mode=declared.merge)  # type: ignore[arg-type]
        case "histogram":
            return Histogram(name, text, labels, registry=registry, buckets=declared.buckets)


def _remove_gauges(directory: Path, number: int) -> None:
    for path in directory.glob(f"gauge_*_{number}.db"):
        path.unlink(missing_ok=True)


class Folded:
    """A histogram for what happens per token: counted here, and passed on once in a while."""

    PASS_ON = 1000  # observations

    __slots__ = ("_bounds", "_count", "_counts", "_histogram", "_sum")

    def __init__(self, histogram: Histogram, bounds: Sequence[float]) -> None:
        self._histogram = histogram
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._count = 0
        self._sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times
        self._count += times
        if self._count >= self.PASS_ON:
            self.pass_on()

    def pass_on(self) -> None:
        """The library has no public way to observe a value several times; its own `observe` does just this."""
        for bucket, times in zip(self._histogram._buckets, self._counts, strict=True):
            if times:
                bucket.inc(times)
        self._histogram._sum.inc(self._sum)
        self._counts = [0] * len(self._counts)
        self._count, self._sum = 0, 0.0
