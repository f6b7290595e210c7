"""The guard: nothing outlives the process that asked for it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from processes import DEADLINE, alive, eventually

from fastmode.child import LINE_MAX, Child, Lair

Run = Callable[[str], Child]

PARENT = """
import os, signal, sys, time
from fastmode.child import Child, Lair

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
lair = Lair()
say = lambda name, *words: os.write(1, (" ".join([name, *words]) + "\\n").encode())  # whole lines, from any thread
texts = enumerate(sys.argv[1:])
children = [Child(str(n), [sys.executable, "-c", text], os.environ, lair, on_line=say) for n, text in texts]
say("lair", str(lair.path))
say("guards", *(str(child.pid) for child in children))
if sys.stdin.readline() == "slowly\\n":  # as an interpreter under load: pipes closed, lock still held
    for child in children:
        os.close(child._guard.stdin.fileno())
    time.sleep(0.5)
    os._exit(0)
"""
SLEEPER = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER
WITH_CHILD = (
    "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
    "print(child.pid, flush=True); " + SLEEPER
)


def exits(parent: subprocess.Popen[str]) -> None:
    assert parent.stdin is not None
    parent.stdin.write("go\n")
    parent.stdin.flush()


def takes_its_time_to_exit(parent: subprocess.Popen[str]) -> None:
    assert parent.stdin is not None
    parent.stdin.write("slowly\n")
    parent.stdin.flush()


def is_terminated(parent: subprocess.Popen[str]) -> None:
    parent.terminate()


def is_killed(parent: subprocess.Popen[str]) -> None:
    parent.kill()


def is_interrupted_with_its_group(parent: subprocess.Popen[str]) -> None:
    os.killpg(parent.pid, signal.SIGINT)


def is_killed_with_its_group(parent: subprocess.Popen[str]) -> None:
    os.killpg(parent.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "end",
    [
        exits,
        takes_its_time_to_exit,
        is_terminated,
        is_killed,
        is_interrupted_with_its_group,
        is_killed_with_its_group,
    ],
)
def test_commands_and_directory_go_when_the_parent(end: Callable[[subprocess.Popen[str]], None]) -> None:
    with family(SLEEPER, SLEEPER) as (parent, said):
        pids = [int(pid) for name in ("0", "1", "guards") for pid in said[name]]
        assert len(pids) == 4
        assert all(map(alive, pids))
        assert Path(said["lair"][0]).is_dir()
        end(parent)
        assert eventually(lambda: not any(map(alive, pids)))
        assert eventually(lambda: not Path(said["lair"][0]).exists())


def test_a_command_takes_its_own_children_with_it() -> None:
    with family(WITH_CHILD) as (parent, said):
        pids = [int(pid) for pid in said["0"]]
        assert len(pids) == 2
        assert all(map(alive, pids))
        parent.kill()
        assert eventually(lambda: not any(map(alive, pids)))


def test_a_command_that_ignores_sigterm_is_killed_and_the_directory_stays_until_then() -> None:
    with family(SLEEPER, STUBBORN) as (parent, said):
        (quick,), (slow,), lair = said["0"], said["1"], Path(said["lair"][0])
        parent.kill()
        assert eventually(lambda: not alive(int(quick)))
        assert lair.is_dir()
        assert eventually(lambda: not lair.exists())
        assert not alive(int(slow))


def test_an_interrupt_meant_for_the_terminal_leaves_guard_and_command_alone(run: Run) -> None:
    child = run(SLEEPER)
    assert eventually(lambda: bool(child.tail))
    os.killpg(child.pid, signal.SIGINT)
    os.killpg(child.pid, signal.SIGHUP)
    assert not child.wait(0.3)
    assert alive(int(child.tail[0]))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's end")
def test_a_guard_that_is_killed_takes_its_command_with_it(run: Run) -> None:
    child = run(SLEEPER)
    assert eventually(lambda: bool(child.tail))
    os.kill(child.pid, signal.SIGKILL)
    assert eventually(lambda: not alive(int(child.tail[0])))
    assert child.wait(DEADLINE)


def test_a_command_may_take_its_time_after_sigterm(run: Run) -> None:
    """The guard passes SIGTERM on and sets no deadline of its own while the parent lives."""
    child = run(f"import signal; signal.signal(signal.SIGTERM, lambda *_: print('heard', flush=True)); {SLEEPER}")
    assert eventually(lambda: bool(child.tail))
    child.terminate()
    assert eventually(lambda: child.tail[-1] == "heard")
    assert child.running


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("import sys; sys.exit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
    ],
)
def test_the_exit_code_is_that_of_the_command(run: Run, text: str, code: int) -> None:
    child = run(text)
    assert child.wait(DEADLINE)
    assert child.code == code


def test_a_command_that_cannot_be_run_says_so() -> None:
    with Lair() as lair:
        child = Child("stand-in", ["/nowhere/to/be/found"], {}, lair)
        assert child.wait(DEADLINE)
    assert child.code == 127
    assert "cannot run /nowhere/to/be/found: No such file or directory" in child.last_words()


def test_a_command_reads_nothing_and_its_signals_are_as_usual(run: Run) -> None:
    child = run(
        "import signal, sys; print(repr(sys.stdin.read())); "
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGHUP).name)"
    )
    assert child.wait(DEADLINE)
    assert list(child.tail) == ["''", "True SIG_DFL"]


def test_the_last_words_are_bounded(run: Run) -> None:
    """However much a command says, and however long its lines are."""
    child = run("print('x' * 100_000)")
    assert child.wait(DEADLINE)
    assert max(map(len, child.tail)) == LINE_MAX
    child = run("[print(n) for n in range(10_000)]")
    assert child.wait(DEADLINE)
    assert list(child.tail) == [str(n) for n in range(9980, 10_000)]


@contextmanager
def family(*texts: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, list[str]]]]:
    """A parent, leader of a process group, with one guarded command per text; and what they said: name -> words."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, *texts],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as parent:
        try:
            assert parent.stdout is not None
            said: dict[str, list[str]] = {}
            for _ in range(len(texts) + 2 + sum("Popen" in text for text in texts)):
                name, *words = parent.stdout.readline().split()
                said.setdefault(name, []).extend(words)
            yield parent, said
        finally:
            parent.kill()


@pytest.fixture
def run() -> Iterator[Run]:
    """Starts guarded Python programs, and lets them go in the end."""
    children: list[Child] = []
    with Lair() as lair:

        def start(text: str) -> Child:
            children.append(Child("stand-in", [sys.executable, "-c", text], os.environ, lair))
            return children[-1]

        yield start
        for child in children:
            child.let_go()
            assert child.wait(DEADLINE)
