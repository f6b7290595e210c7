"""The event-driven engine does what a replica does that takes every step."""

from dataclasses import replace

import pytest
from comparison import Pair
from workload import Act, workload

from service.conditions import Ambient
from service.roofline import StepTime
from workers.engine import Limits, Sequence


@pytest.mark.parametrize("block", range(30))
def test_the_engine_agrees_with_every_step_taken_one_by_one(block: int) -> None:
    """First and last token times to 1e-9 of the run, counts at any time exactly, and conservation after every event."""
    for seed in range(20 * block, 20 * block + 20):
        try:
            Pair(workload(seed)).run()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def test_it_does_so_when_nearly_all_leave_at_once() -> None:
    """What was noted of hundreds that have left is forgotten; those that stay end as they would have."""
    sequences = [Sequence(str(number), 0.0, 5, 100 + 7 * number % 97) for number in range(200)]
    come = [Act(time=0.0, add=sequence) for sequence in sequences]
    go = [Act(time=0.3, cancel=sequence.id) for sequence in sequences[10:]]
    plain = replace(workload(0), ambient=Ambient(), slowdowns=(), start=0.0, step=StepTime(c0=0.005, cs=2e-5, ck=1e-8))
    Pair(replace(plain, limits=Limits(300), acts=(*come, *go))).run()
