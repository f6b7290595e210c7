"""One replica of an inference engine in virtual time. Pure: no clock, no I/O, no chance but the seeds given."""

from workers.engine.engine import Engine, Limits, NeverFits, Snapshot
from workers.engine.sequence import Progress, Sequence

__all__ = ["Engine", "Limits", "NeverFits", "Progress", "Sequence", "Snapshot"]
