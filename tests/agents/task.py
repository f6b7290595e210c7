"""What agents are asked to do: to mend a function so that its test passes. It knows no agent.

The test leaves a file when it passes, so that a project says afterwards whether an agent had it run.
"""

from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

PROMPT = "Fix add() in calc.py so that test_calc passes."
BROKEN, MENDED = "return a - b", "return a + b"
TEST_COMMAND = "python3 -m unittest -q test_calc"

_PASSED = "passed"


@dataclass(frozen=True, slots=True)
class Project:
    """A directory of two modules, one of them wrong."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> "Project":
        path.mkdir(parents=True)
        (path / "calc.py").write_text(f"def add(a, b):\n    {BROKEN}\n")
        (path / "test_calc.py").write_text(
            dedent(
                f"""\
                import unittest
                from pathlib import Path

                from calc import add


                class AddTest(unittest.TestCase):
                    def test_add(self):
                        self.assertEqual(add(2, 3), 5)
                        Path({_PASSED!r}).touch()
                """
            )
        )
        return cls(path)

    @property
    def is_mended(self) -> bool:
        return MENDED in (self.path / "calc.py").read_text()

    @property
    def was_tested(self) -> bool:
        """The test has been run, and passed."""
        return (self.path / _PASSED).exists()
