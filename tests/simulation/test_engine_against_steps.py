"""The event-driven engine does what a replica does that takes every step."""

import pytest
from comparison import Pair
from workload import workload


@pytest.mark.parametrize("block", range(30))
def test_the_engine_agrees_with_every_step_taken_one_by_one(block: int) -> None:
    """First and last token times to 1e-9 of the run, counts at any time exactly, and conservation after every event."""
    for seed in range(20 * block, 20 * block + 20):
        try:
            Pair(workload(seed)).run()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
