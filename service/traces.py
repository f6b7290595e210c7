"""Recorded request traces: who asked for how many tokens, and when. Three published formats, told apart by content.

- Azure 2023 (github.com/Azure/AzurePublicDataset, CSV): TIMESTAMP, ContextTokens, GeneratedTokens.
- BurstGPT (github.com/HPMLL/BurstGPT, CSV): Timestamp in seconds, Model, Request tokens, Response tokens, ... Requests
  that failed have no response tokens.
- Mooncake (github.com/kvcache-ai/Mooncake, JSONL, may be gzipped): timestamp in ms, input_length, output_length, and
  hash_ids: each names a block of 512 tokens together with all before it.

Requests without prompt or output tokens were not served; they are left out and counted. Knows nothing of who plans what
with them.
"""

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import IO, NamedTuple

from service.errors import TraceError

MOONCAKE_BLOCK = 512  # tokens
AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
BURSTGPT = ("Timestamp", "Request tokens", "Response tokens")

_FORMATS = (
    f"Azure 2023 (CSV: {', '.join(AZURE)}), BurstGPT (CSV: {', '.join(BURSTGPT)}, ...) or Mooncake (JSONL, maybe .gz: "
    "timestamp, input_length, output_length, hash_ids)"
)


class Arrival(NamedTuple):
    """`time` in seconds since the first request of the trace; `blocks` name the beginnings of the prompt."""

    time: float
    prompt: int
    output: int
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """In the order of time. `block` is the size of a prefix block in tokens; 0: the trace names none."""

    arrivals: tuple[Arrival, ...]
    block: int = 0
    left_out: int = 0  # requests without prompt or output tokens


def read(path: Path) -> Trace:
    """Raises TraceError: the file cannot be read, is of no known format, or a line is not what it should be."""
    try:
        with _opened(path) as file:
            first = file.readline()
            lines = chain((first,), file)
            if first.lstrip().startswith("{"):
                return _trace(path, _mooncake(path, lines), MOONCAKE_BLOCK)
            return _trace(path, _csv(path, first, lines), 0)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        raise TraceError(f"{path}: cannot be read as a trace: {error}") from error


def profile(trace: Trace, parts: int) -> tuple[float, ...]:
    """Output tokens asked for in each of `parts` equal parts of the trace's time, relative to their mean."""
    span = trace.arrivals[-1].time or 1.0
    tokens = [0] * parts
    for arrival in trace.arrivals:
        tokens[min(parts - 1, int(arrival.time / span * parts))] += arrival.output
    mean = sum(tokens) / parts
    return tuple(count / mean for count in tokens)


def _opened(path: Path) -> IO[str]:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    if zipped:
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8-sig", newline="")


def _trace(path: Path, arrivals: Iterator[Arrival], block: int) -> Trace:
    asked = sorted(arrivals, key=lambda arrival: arrival.time)  # stable; published traces have some out of order
    served = [arrival for arrival in asked if arrival.prompt > 0 and arrival.output > 0]
    if not served:
        raise TraceError(f"{path}: no request has prompt and output tokens, of {len(asked)}")
    start = served[0].time
    moved = tuple(arrival._replace(time=arrival.time - start) for arrival in served)
    return Trace(moved, block, len(asked) - len(served))


def _mooncake(path: Path, lines: Iterator[str]) -> Iterator[Arrival]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            blocks = tuple(int(block) for block in row.get("hash_ids", ()))
            arrival = Arrival(
                float(row["timestamp"]) / 1e3, int(row["input_length"]), int(row["output_length"]), blocks
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise TraceError(
                f"{path}: line {number} is no Mooncake request ({type(error).__name__}: {error}); it needs timestamp, "
                "input_length and output_length, and may have hash_ids"
            ) from error
        yield _checked(path, number, arrival)


def _csv(path: Path, first: str, lines: Iterator[str]) -> Iterator[Arrival]:
    seconds: Callable[[str], float]
    header = [name.strip() for name in next(csv.reader([first]), [])]
    if set(AZURE) <= set(header):
        names, seconds = AZURE, _azure_seconds
    elif set(BURSTGPT) <= set(header):
        names, seconds = BURSTGPT, float
    else:
        raise TraceError(f"{path}: its first line is none of a known trace; known are {_FORMATS}")
    columns = [header.index(name) for name in names]
    rows = csv.reader(lines)
    next(rows)
    for row in rows:
        if not row:
            continue
        try:
            time, prompt, output = (row[column] for column in columns)
            arrival = Arrival(seconds(time), int(float(prompt)), int(float(output)))
        except (ValueError, IndexError, OverflowError) as error:
            raise TraceError(f"{path}: line {rows.line_num} is no request: {error}") from error
        yield _checked(path, rows.line_num, arrival)


def _checked(path: Path, line: int, arrival: Arrival) -> Arrival:
    if not isfinite(arrival.time) or arrival.prompt < 0 or arrival.output < 0:
        raise TraceError(f"{path}: line {line} has a time that is no number, or less than no tokens")
    return arrival


def _azure_seconds(stamp: str) -> float:
    """Of 2023-11-16 18:17:03.9799600: UTC where it says nothing else, lest summer time make a gap."""
    time = datetime.fromisoformat(stamp.strip())  # to the microsecond
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
