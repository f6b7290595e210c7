"""`fastmode up`, run as people run it: what it shows works, and whatever ends it, it leaves nothing behind."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
import redis
from openai import OpenAI
from pools import SWIFT, catalog
from processes import DEADLINE, alive, children, eventually

from fastmode import embedded
from fastmode.up import Service

Up = subprocess.Popen[str]


def is_interrupted_from_the_terminal(up: Up) -> None:
    os.killpg(up.pid, signal.SIGINT)


def is_terminated(up: Up) -> None:
    up.terminate()


def is_terminated_with_its_group(up: Up) -> None:
    os.killpg(up.pid, signal.SIGTERM)


def is_killed(up: Up) -> None:
    up.kill()


@pytest.fixture
def small(bare_environ: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """With one pool, which is soon there."""
    return {**bare_environ, "FASTMODE_CATALOG": str(catalog(tmp_path, SWIFT))}


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (is_interrupted_from_the_terminal, 0),
        (is_terminated, 0),
        (is_terminated_with_its_group, 0),
        (is_killed, -signal.SIGKILL),
    ],
)
def test_no_process_no_socket_and_no_file_is_left_when_it(
    small: dict[str, str], free_port: int, end: Callable[[Up], None], code: int
) -> None:
    with running(small, "--port", str(free_port)) as (up, home):
        said_up_to(up, "Ctrl-C stops it.")
        family = descendants(up.pid)
        assert len(family) == 2 * 3  # a guard each for the store, the gateway, the worker
        assert list(home.iterdir())
        end(up)
        assert up.wait(DEADLINE) == code
        assert eventually(lambda: not any(map(alive, family)))
        assert eventually(lambda: not list(home.iterdir()))
        socket.create_server(("127.0.0.1", free_port)).close()


def test_it_stops_with_its_parent_if_told_to(small: dict[str, str], free_port: int) -> None:
    """As `make up` does: a make that is killed leaves nothing behind."""
    command = f"{sys.executable} -m fastmode up --follow-parent --port {free_port} & wait"
    with running(small, command=["sh", "-c", command]) as (shell, home):
        said_up_to(shell, "Ctrl-C stops it.")
        family = descendants(shell.pid)
        shell.kill()
        assert eventually(lambda: not any(map(alive, family)))
        assert not list(home.iterdir())


def test_the_examples_it_prints_work_as_they_are(bare_environ: dict[str, str], free_port: int) -> None:
    with running(bare_environ, "--port", str(free_port)) as (up, _):
        said = said_up_to(up, "Ctrl-C stops it.")
        curl = "curl " + said.partition("\ncurl ")[2].partition("\n\n")[0]
        program = "from openai import " + said.partition("\nfrom openai import ")[2].partition("Ctrl-C")[0]
        streamed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert streamed.stdout.strip(), streamed.stderr
        if shutil.which("curl"):
            events = subprocess.run(curl, shell=True, capture_output=True, text=True, timeout=60).stdout
            assert events.startswith("data: {")
            assert events.rstrip().endswith("data: [DONE]")


def test_a_worker_that_dies_is_reported_and_replaced(bare_environ: dict[str, str], free_port: int) -> None:
    with running(bare_environ, "--port", str(free_port)) as (up, _):
        said_up_to(up, "Ctrl-C stops it.")
        (victim,) = [
            pid for pid in descendants(up.pid) if "workers --pool fast" in command_of(pid) and not is_guard(pid)
        ]
        os.kill(victim, signal.SIGKILL)
        assert "worker fast is gone; it is started again in 0.5 s" in said_up_to(up, "exit code 137", stream="err")
        answer = OpenAI(base_url=f"http://127.0.0.1:{free_port}/v1", api_key="any").chat.completions.create(
            model="gpt-5.3-codex",
            service_tier="priority",
            max_tokens=1,
            messages=[{"role": "user", "content": "Hello"}],
        )
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 1


def test_a_start_that_cannot_succeed_ends_with_the_reason(small: dict[str, str], free_port: int) -> None:
    """A store that throws keys away is refused by the processes, and their word reaches the user."""
    with embedded.valkey() as url, redis.Redis.from_url(url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        with running({**small, "REDIS_URL": url}, "--port", str(free_port)) as (up, home):
            assert up.stderr is not None
            said = up.stderr.read()
            assert up.wait(DEADLINE) == 2
            assert not list(home.iterdir())
    assert "does not start" in said
    assert "noeviction" in said


def test_several_gateways_share_the_port(stack: Callable[..., Service], free_port: int, tmp_path: Path) -> None:
    service = stack(catalog=catalog(tmp_path, SWIFT), gateways=2, FASTMODE_PORT=str(free_port))
    listeners = {
        pid for name, guard in service.stack.pids.items() if name.startswith("gateway") for pid in children(guard)
    }
    assert len(listeners) == 2
    for _ in range(20):
        assert httpx.get(f"{service.base_url}/livez").status_code == 200


@contextmanager
def running(environ: dict[str, str], *options: str, command: list[str] | None = None) -> Iterator[tuple[Up, Path]]:
    """`fastmode up` as leader of a process group, and the directory in which it keeps its files."""
    with ExitStack() as undo:
        home = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="up-", dir="/tmp")))
        up = undo.enter_context(
            subprocess.Popen(
                command or [sys.executable, "-m", "fastmode", "up", *options],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**environ, "TMPDIR": str(home)},
                start_new_session=True,
            )
        )
        undo.callback(up.kill)
        yield up, home


def said_up_to(up: Up, words: str, stream: str = "out") -> str:
    """What it says until a line has these words."""
    source = up.stdout if stream == "out" else up.stderr
    assert source is not None
    said = ""
    for line in source:
        said += line
        if words in line:
            return said
    raise AssertionError(f"it ended without saying {words!r}: {said}{up.communicate()}")


def descendants(pid: int) -> list[int]:
    return [found for child in children(pid) for found in (child, *descendants(child))]


def command_of(pid: int) -> str:
    return subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True).stdout


def is_guard(pid: int) -> bool:
    return "guard.py" in command_of(pid)
