"""The stack, with small programs in the roles of gateway and worker: order, readiness, restarts, bounds."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from processes import children, eventually

from fastmode.stack import BACKOFF_MAX, SAME_WISH, Role, Stack, StackError, Stage, backoff, processes

GRACE = 10.0  # seconds; nothing here takes that long unless it is meant to

GATEWAY = """
import json, http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"status": sys.argv[2], "redis": True, "pools": json.loads(sys.argv[3])}).encode()
        self.send_response(200 if sys.argv[2] == "ready" else 503)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
WORKER = "import time; print('at work', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + WORKER


def test_it_is_ready_when_the_gateway_says_so_and_every_pool_has_a_worker(free_port: int) -> None:
    with standing(gateway(free_port, "ready", '{"fast": 1, "spark": 2}'), worker(WORKER)) as stack:
        assert stack.await_ready(f"http://127.0.0.1:{free_port}", ["fast", "spark"])
        with redis.Redis.from_url(stack.redis_url) as client:
            assert client.ping()


@pytest.mark.parametrize(
    ("status", "pools", "says"),
    [
        ("ready", '{"fast": 1, "spark": 0}', "not ready after 0 s: no worker of pool spark has reported"),
        ("ready", "{}", "not ready after 0 s: no worker of pool fast, spark has reported"),
        ("not_ready", '{"fast": 1, "spark": 1}', "not ready after 0 s: the gateway says not_ready, redis: True"),
    ],
)
def test_what_is_missing_in_the_end_is_named(free_port: int, status: str, pools: str, says: str) -> None:
    with standing(gateway(free_port, status, pools)) as stack:
        assert eventually(lambda: listens(free_port))
        with pytest.raises(StackError) as error:
            stack.await_ready(f"http://127.0.0.1:{free_port}", ["fast", "spark"], seconds=0)
    assert str(error.value) == says


def test_a_gateway_that_never_answers_is_named(free_port: int) -> None:
    with standing(worker(WORKER)) as stack, pytest.raises(StackError, match=r"does not answer \(ConnectError\)"):
        stack.await_ready(f"http://127.0.0.1:{free_port}", [], seconds=0.2)


def test_what_ends_before_all_is_ready_ends_the_start_with_its_last_words(free_port: int) -> None:
    broken = worker("import sys; sys.exit('the catalog has no pool named turbo')")
    with standing(broken) as stack, pytest.raises(StackError) as error:
        stack.await_ready(f"http://127.0.0.1:{free_port}", [])
    assert str(error.value) == (
        "worker does not start. It ended with exit code 1 and said:\n  the catalog has no pool named turbo"
    )


def test_to_be_asked_to_stop_ends_the_wait_for_readiness(free_port: int) -> None:
    with standing(worker(WORKER)) as stack:
        stack.ask_stop()
        assert not stack.await_ready(f"http://127.0.0.1:{free_port}", [])


def test_what_dies_is_reported_and_started_again() -> None:
    reports: list[str] = []
    births = threading.Semaphore(0)
    with standing(worker(WORKER), on_line=lambda *_: births.release()) as stack:
        assert births.acquire(timeout=GRACE)
        kill_command(stack.pids["worker"])
        keeper = threading.Thread(target=stack.keep_running, args=(reports.append,))
        keeper.start()
        assert births.acquire(timeout=GRACE)
        stack.ask_stop()
        keeper.join(GRACE)
        assert not keeper.is_alive()
    assert reports == [
        "worker is gone; it is started again in 0.5 s. It ended with exit code 137 and said:\n  at work",
    ]


def test_gateways_stop_before_workers_and_the_store_after_both(tmp_path: Path) -> None:
    """A stream that is still being served needs its worker, and both need the store."""
    diary = tmp_path / "diary"
    with standing(diarist("worker", diary, Stage.WORKER), diarist("gateway", diary, Stage.GATEWAY)) as stack:
        diary_has(diary, 2)
    assert diary.read_text().split()[2:] == ["gateway:True", "worker:True"]
    assert stack.exit_codes == {"gateway": 0, "worker": 0, "valkey": 0}


def test_what_does_not_stop_within_the_grace_period_is_killed() -> None:
    heard = threading.Event()
    with standing(worker(STUBBORN), on_line=lambda *_: heard.set(), grace=0.2) as stack:
        assert heard.wait(GRACE)
    assert stack.exit_codes["worker"] == 137


def test_to_be_asked_again_while_stopping_ends_the_patience() -> None:
    """The grace period is an hour; the test ends."""
    heard = threading.Event()
    with standing(worker(STUBBORN), on_line=lambda *_: heard.set(), grace=3600) as stack:
        assert heard.wait(GRACE)
        stack.ask_stop()
        again = threading.Timer(SAME_WISH + 0.1, stack.ask_stop)
        again.start()
    assert stack.exit_codes["worker"] == 137
    assert again.finished.is_set()


def test_nothing_is_left_when_the_context_is_left_by_an_error() -> None:
    homes: list[Path] = []

    def fail() -> None:
        with standing(worker(WORKER)) as stack:
            homes.append(home(stack))
            assert homes[0].is_dir()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not homes[0].exists()


def test_a_store_that_is_named_is_used_and_none_is_started(redis_url: str) -> None:
    with standing(worker(WORKER), environ={"REDIS_URL": redis_url}) as stack:
        assert stack.redis_url == redis_url
        assert set(stack.pids) == {"worker"}


def test_the_processes_of_a_service_are_its_gateways_and_a_worker_for_each_pool() -> None:
    roles = processes(["standard", "fast"], gateways=2)
    assert [role.name for role in roles] == ["gateway 1", "gateway 2", "worker standard", "worker fast"]
    assert [role.name for role in processes([], gateways=1)] == ["gateway"]
    assert roles[-1].command[1:] == ("-P", "-m", "workers", "--pool", "fast")
    *_, together = processes(["standard", "fast"], gateways=1, together=True)
    assert (together.name, together.command[4:]) == ("workers", ("--pool", "standard", "--pool", "fast"))


@given(st.integers(min_value=1, max_value=10**9))
def test_each_failure_waits_twice_as_long_as_the_one_before_up_to_a_bound(failures: int) -> None:
    assert backoff(failures + 1) == min(2 * backoff(failures), BACKOFF_MAX)


@contextmanager
def standing(
    *roles: Role, environ: dict[str, str] | None = None, grace: float = GRACE, on_line: object = None
) -> Iterator[Stack]:
    """A stack that has been started."""
    bare = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
    options = {"on_line": on_line} if callable(on_line) else {}
    with Stack(roles, bare | (environ or {}), grace=grace, **options) as stack:
        stack.start()
        yield stack


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def home(stack: Stack) -> Path:
    return Path(stack.redis_url.removeprefix("unix://").partition("?")[0]).parent


def gateway(port: int, status: str, pools: str) -> Role:
    return Role("gateway", (sys.executable, "-c", GATEWAY, str(port), status, pools), Stage.GATEWAY)


def worker(text: str) -> Role:
    return Role("worker", (sys.executable, "-c", text), Stage.WORKER)


def diarist(name: str, diary: Path, stage: Stage) -> Role:
    """Notes that it lives; asked to stop, takes its time and notes whether the store still does."""
    text = f"""
import os, signal, sys, time

def note(word):
    with open({str(diary)!r}, "a") as diary:
        diary.write(word + chr(10))

def stop(*_):
    time.sleep(0.2)
    store = os.environ["REDIS_URL"].removeprefix("unix://").partition("?")[0]
    note("{name}:" + str(os.path.exists(store)))
    sys.exit(0)

signal.signal(signal.SIGTERM, stop)
note("{name}")
time.sleep(600)
"""
    return Role(name, (sys.executable, "-c", text), stage)


def diary_has(diary: Path, entries: int) -> None:
    assert eventually(lambda: diary.exists() and len(diary.read_text().split()) >= entries)


def kill_command(guard: int) -> None:
    (command,) = children(guard)
    os.kill(command, signal.SIGKILL)
