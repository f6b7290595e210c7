"""Places in a shared directory: one per living process, each used again."""

import subprocess
import sys
from pathlib import Path

from service.slots import Slot, vacant

ROOT = Path(__file__).parents[2]


def take(directory: Path) -> Slot:
    return Slot(directory, lambda number: None)


def free(directory: Path) -> list[int]:
    with vacant(directory) as numbers:
        return sorted(numbers)


def test_places_are_distinct_and_the_lowest_free_one_is_next(tmp_path: Path) -> None:
    slots = [take(tmp_path) for _ in range(3)]
    assert [slot.number for slot in slots] == [0, 1, 2]
    assert free(tmp_path) == []
    slots[1].release()
    assert free(tmp_path) == [1]
    again = take(tmp_path)
    assert again.number == 1
    for slot in (slots[0], again, slots[2]):
        slot.release()
    assert free(tmp_path) == [0, 1, 2]


def test_a_place_is_prepared_before_anyone_sees_it_taken(tmp_path: Path) -> None:
    prepared: list[int] = []
    slot = Slot(tmp_path / "not" / "there", prepared.append)
    assert prepared == [slot.number]
    slot.release()


def test_the_place_of_a_process_that_ends_without_a_word_is_free(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, signal, sys; from service.slots import Slot\n"
        "Slot(pathlib.Path(sys.argv[1]), print); sys.stdout.flush(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    died = subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert died.stdout == "0\n"
    assert free(tmp_path) == [0]
