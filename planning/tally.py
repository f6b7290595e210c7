"""What became of the requests of one tier.

    asked == refused + full + late + completed      once nobody is in flight

Knows nothing about pools or money.
"""

from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from service.messages import Usage
from service.tiers import Offer

Row = tuple[float, float, int, int, int, float, float]  # arrived, claimed, prompt, output, cached, first, last


@dataclass(frozen=True, slots=True)
class Objective:
    """What a share of a tier's requests must meet (TTFT and TPOT in s). A request of one token has no TPOT to miss."""

    ttft: float = inf
    tpot: float = inf
    share: float = 0.99

    def __str__(self) -> str:
        bounds = [
            *([f"TTFT <= {self.ttft:g} s"] if self.ttft < inf else []),
            *([f"TPOT <= {self.tpot * 1e3:g} ms"] if self.tpot < inf else []),
        ]
        return f"{' and '.join(bounds)} for {100 * self.share:g} %"


NO_OBJECTIVE = Objective()


@dataclass(slots=True)
class Tally:
    """Of requests that ask for `offer`. A completed one is a row; times are seconds of one clock, the rest tokens."""

    offer: Offer
    objective: Objective = NO_OBJECTIVE
    asked: int = 0
    refused: int = 0  # beyond the context window, the output limit or the KV cache
    full: int = 0  # rejected: the queue was full
    late: int = 0  # rejected: waited too long
    met: int = 0  # completed within the objective, of those folded
    rows: list[Row] = field(default_factory=list)  # not folded yet
    _folded: list[Any] = field(default_factory=list)  # arrays of (requests, 7)

    @property
    def completed(self) -> int:
        return len(self.rows) + sum(map(len, self._folded))

    @property
    def missed(self) -> int:
        """Served or rejected, and not within the objective; of those folded."""
        return self.full + self.late + sum(map(len, self._folded)) - self.met

    @property
    def share_met(self) -> float:
        """Of the requests that were not refused; 1 if there is none."""
        ended = self.met + self.missed
        return self.met / ended if ended else 1.0

    def fits(self, prompt: int, output: int) -> bool:
        """Whether the offer allows so many tokens."""
        offer = self.offer
        return prompt + output <= offer.context_window and output <= offer.max_output

    def fold(self) -> None:
        """Rows become arrays, which take a fifth of the memory."""
        if not self.rows:
            return
        table = np.array(self.rows, dtype=np.float64)
        self.rows.clear()
        self._folded.append(table)
        good = _ttft(table) <= self.objective.ttft
        good &= ~(_tpot(table) > self.objective.tpot)
        self.met += int(good.sum())

    def table(self) -> Any:
        """All rows, as one array."""
        self.fold()
        if len(self._folded) != 1:
            self._folded = [np.concatenate(self._folded) if self._folded else np.empty((0, 7))]
        return self._folded[0]

    def usage(self) -> Usage:
        """What the completed requests consumed in sum."""
        prompt, output, cached = (int(tokens) for tokens in self.table()[:, 2:5].sum(axis=0))
        return Usage(prompt=prompt, cached=cached, completion=output)

    @property
    def seconds(self) -> float:
        """From claim to last token, in sum over the completed requests."""
        table = self.table()
        return float((table[:, 6] - table[:, 1]).sum())

    def samples(self) -> dict[str, Any]:
        """Arrays of seconds, one element for each completed request; TPOT of those that have one."""
        table = self.table()
        return {
            "ttft": _ttft(table),
            "tpot": _tpot(table)[table[:, 3] > 1],
            "wait": table[:, 1] - table[:, 0],
        }


def _ttft(table: Any) -> Any:
    return table[:, 5] - table[:, 0]


def _tpot(table: Any) -> Any:
    """NaN where there is only one token."""
    gaps = np.where(table[:, 3] > 1, table[:, 3] - 1, np.nan)
    return (table[:, 6] - table[:, 5]) / gaps
