"""One request of a load test: what was asked, what came of it, and when. Times in seconds since the run began.

- TTFT is from when the request was due to its first token, be that text or the call of a tool; TPOT =
  (last - first) / (tokens - 1), of the tokens that were shown; e2e is from when it was due to the end of its answer.
- A request of an open load is due when its session was to begin, so a client or a server that stalls makes all that
  comes meanwhile late, and not fewer. One that follows on an answer is due when that has come and its pause has passed.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass, fields
from math import nan
from pathlib import Path
from typing import Any, Literal

import numpy as np

Outcome = Literal["ok", "refused", "failed", "unfinished"]


@dataclass(slots=True, kw_only=True)
class Record:
    """`tier` is what was asked for, `served` what the answer says, in the same words if that is known.

    Tokens that the endpoint did not tell are those that were asked for. `mistake`: what was wrong with the answer, as
    the service itself says or as whoever runs the tool sees; `seen`: the latter. None of `cost`, `queued`: not known.
    """

    session: int
    turn: int
    attempt: int
    tier: str
    due: float
    sent: float
    served: str = ""
    outcome: Outcome = "unfinished"
    error: str = ""
    status: int = 0
    first: float = nan
    last: float = nan
    ended: float = nan
    prompt: int = 0
    cached: int = 0
    output: int = 0
    shown: int = 0  # tokens of the output that came as text or calls; the rest was thought
    call: bool = False  # it is the call of a tool: a few tokens, of which some come together
    cost: int | None = None  # nano-dollars
    queued: float | None = None
    mistake: str = ""
    seen: bool = False

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def ttft(self) -> float:
        return self.first - self.due

    @property
    def tpot(self) -> float:
        """NaN of fewer than two tokens, and of a call."""
        return (self.last - self.first) / (self.shown - 1) if self.shown > 1 and not self.call else nan

    @property
    def e2e(self) -> float:
        return self.ended - self.due


class Gaps:
    """Between tokens, over many answers: how long, and how many of each.

    Several tokens often come in one read of the socket. `spread`: the time before them is theirs in equal parts, as if
    they had come one by one. Otherwise it is the first one's, and the others have none.
    """

    def __init__(self, *, spread: bool) -> None:
        self._spread = spread
        self._gaps: list[Any] = []
        self._counts: list[Any] = []

    def add(self, steps: list[tuple[float, int]], tokens: int) -> None:
        """`steps`: when pieces came, and how many; where they are fewer than `tokens`, each counts for more."""
        if len(steps) < 2:
            return
        times, pieces = (np.array(column, dtype=np.float64) for column in zip(*steps, strict=True))
        gaps, counts = np.diff(times), pieces[1:] * max(1.0, tokens / pieces.sum())
        if self._spread:
            self._gaps.append(gaps / counts)
            self._counts.append(counts)
        else:
            self._gaps += [gaps, np.zeros(1)]
            self._counts += [np.ones(len(gaps)), np.array([counts.sum() - len(gaps)])]

    def percentiles(self, ranks: Iterable[float]) -> list[float]:
        """Seconds; NaN where there is none."""
        if not self._gaps:
            return [nan for _ in ranks]
        gaps, counts = np.concatenate(self._gaps), np.concatenate(self._counts)
        order = np.argsort(gaps)
        reached = np.cumsum(counts[order])
        places = np.searchsorted(reached, [rank / 100 * reached[-1] for rank in ranks])
        return [float(gaps[order][min(place, len(gaps) - 1)]) for place in places]


COLUMNS = (*(field.name for field in fields(Record)), "ttft", "tpot", "e2e")


def write(path: Path, records: Iterable[Record]) -> None:
    """A row for each request. Raises OSError."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        rows.writerows([_cell(getattr(record, name)) for name in COLUMNS] for record in records)


def _cell(value: Any) -> Any:
    if value is None or value != value:  # NaN
        return ""
    return f"{value:.6f}" if isinstance(value, float) else value
