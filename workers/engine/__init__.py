"""One replica of an inference engine in virtual time. Pure: no clock, no I/O, no chance but the seeds given."""

from workers.engine.conditions import Condition, Conditions
from workers.engine.engine import Engine, Limits, NeverFits, Occupancy, Snapshot
from workers.engine.recorded import Recorded
from workers.engine.sequence import Ending, Progress, Sequence

__all__ = [
    "Condition",
    "Conditions",
    "Ending",
    "Engine",
    "Limits",
    "NeverFits",
    "Occupancy",
    "Progress",
    "Recorded",
    "Sequence",
    "Snapshot",
]
