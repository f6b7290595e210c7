"""One run of an agent's command line, in an empty home, until it stops or its time is up; what it says of itself.

It knows no agent: `claude_code` and `codex` say how each is pointed at a service and what it prints.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

PATIENCE = 60.0  # seconds; a run takes two, or as many more as it is told to wait

Tier = Literal["standard", "fast", "spark"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What an agent says it has used: tokens of all its requests. `prompt` includes `cached`."""

    prompt: int
    cached: int
    output: int


@dataclass(frozen=True, slots=True)
class Said:
    """Of a run: its last words, what it used, and its own reckoning of the price (dollars) where it makes one."""

    words: str
    usage: Usage
    dollars: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """`said` is None if the agent printed nothing that could be read; then `printed` has what there is."""

    exit_code: int
    said: Said | None
    printed: str


class Agent(Protocol):
    """An agent's command line, pointed at a service."""

    name: str
    models: Mapping[Tier, str]

    def version(self) -> str: ...

    def run(self, base_url: str, tier: Tier, home: Path, project: Path) -> Run:
        """The task of `task.PROMPT`, done or not."""


def execute(command: Sequence[object], environ: Mapping[str, str], home: Path, where: Path) -> tuple[int, str, str]:
    """Exit code, standard output and error of a program and its arguments.

    Nothing is inherited but PATH; whatever it has started ends with it. One that outlasts PATIENCE is ended; its exit
    code is then that of a signal.
    """
    bare = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **environ}
    with subprocess.Popen(
        [str(word) for word in command],
        cwd=where,
        env=bare,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            _end(process)
            out, err = process.communicate()
        finally:
            _end(process)
    return process.returncode, out, err


def _end(process: subprocess.Popen[str]) -> None:
    """The agent and all of its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
