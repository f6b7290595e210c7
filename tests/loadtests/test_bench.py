"""The benchmarks on a small scale, through the real service: what they count is right, however fast it was."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from loadtests import processes
from loadtests.bench import report, stand
from loadtests.bench.__main__ import SECTIONS, main
from loadtests.bench.report import Aim, Figure, Sheet
from loadtests.bench.throughput import measure
from loadtests.client import Connection, Wrong, chat, check, post
from loadtests.load import Plan, ask_repeatedly, sustain

PLAN = Plan(streams=8, tokens=1000, rate=1000, arrivals=0.3, patience=20)


@pytest.fixture(scope="module")
def service() -> Iterator[stand.Service]:
    with stand.service(stand.KNOWN_RATES, ["test-1000", "test-zero"]) as service:
        yield service


@pytest.fixture(scope="module")
def floor() -> Iterator[stand.Service]:
    with stand.floor() as floor:
        yield floor


async def test_every_token_of_every_stream_is_counted_once(service: stand.Service) -> None:
    run = await measure(service, "test-1000", PLAN)
    assert (len(run.complete), len(run.cut)) == (8, 0)
    assert [timing.response.content for timing in run.timings] == [1000] * 8
    assert run.reads <= run.tokens <= 8 * 1000
    if processes.KNOWN:
        assert set(run.cpu) == {"gateway", "worker test-1000", "worker test-zero", "valkey", "client"}


async def test_streams_that_take_too_long_are_cut_off_and_told_from_complete_ones(service: stand.Service) -> None:
    hasty = replace(PLAN, streams=2, arrivals=0, patience=0.5)
    run = await measure(service, "test-1000", hasty)
    assert (len(run.complete), len(run.cut)) == (0, 2)
    assert all(timing.response.content < 1000 for timing in run.cut)


async def test_an_answer_that_is_not_what_was_asked_for_ends_the_measurement(service: stand.Service) -> None:
    with pytest.raises(Wrong, match="999 tokens asked for, 1000 charged, 1000 came"):
        await sustain(service.address, chat("test-1000", 1000), replace(PLAN, streams=1, tokens=999), service.cpu)
    with pytest.raises(Wrong, match="status 404"):
        await measure(service, "no-such-model", replace(PLAN, streams=1))


@pytest.mark.parametrize("stream", [True, False])
async def test_clients_that_ask_again_and_again_are_all_answered(service: stand.Service, stream: bool) -> None:
    asked = await ask_repeatedly(
        service.address,
        chat("test-zero", 1, stream=stream),
        service.cpu,
        clients=4,
        seconds=0.2,
        tokens=1,
        stream=stream,
    )
    assert len(asked.timings) >= 4
    assert asked.per_second == pytest.approx(len(asked.timings) / asked.seconds)


@pytest.mark.parametrize("stream", [True, False])
async def test_the_floor_answers_what_the_service_answers(
    service: stand.Service, floor: stand.Service, stream: bool
) -> None:
    """The same status, the same events, the same fields: else the comparison would be with something else."""
    ours, bare = [await answer(target, chat("test-zero", 1, stream=stream)) for target in (service, floor)]
    assert [shape(text) for text in ours] == [shape(text) for text in bare]


async def test_the_floor_paces_streams_token_by_token(floor: stand.Service) -> None:
    plan = Plan(streams=3, tokens=20, rate=200, arrivals=0.02, patience=100)
    run = await sustain(floor.address, post(f"/paced?{plan.tokens}/{plan.rate:g}", {}), plan, floor.cpu)
    assert [timing.response.content for timing in run.complete] == [20] * 3


async def test_an_aborted_request_raises_where_it_was_made(service: stand.Service) -> None:
    connection = await Connection.connect(service.address)
    asking = asyncio.create_task(connection.ask(chat("test-1000", 100_000)))
    await asyncio.wait({asking}, timeout=0.1)  # of the 100 s that the stream takes
    connection.abort()
    with pytest.raises(ConnectionError):
        await asking
    with pytest.raises(Wrong):
        check(connection.timing(), 100_000)


def test_a_section_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "speed"])
    assert f"'speed' is none of {', '.join(SECTIONS)}" in capsys.readouterr().err


def test_figures_are_written_with_what_they_aim_at_and_where_they_come_from(tmp_path: Path) -> None:
    figures = [
        Figure("rate", 990.0, "tok/s", Aim(">=", 980)),
        Figure("delay", 5.0, "ms", Aim("<=", 3), floor=2.0),
        Figure("memory", 7.0, "MiB"),
    ]
    report.write(tmp_path / "figures.json", {"cores": 2}, [Sheet("idle", "Idle", "nobody asks", figures)])
    written = json.loads((tmp_path / "figures.json").read_text())
    assert written["machine"] == {"cores": 2}
    (sheet,) = written["sheets"]
    assert (sheet["section"], sheet["setting"]) == ("idle", "nobody asks")
    assert [(figure["aim"], figure["met"], figure["floor"]) for figure in sheet["figures"]] == [
        (">= 980", True, None),
        ("<= 3", False, 2.0),
        (None, None, None),
    ]


async def answer(target: stand.Service, request: bytes) -> list[str]:
    """The JSON texts of an answer, in order, read by a plain client."""
    reader, writer = await asyncio.open_connection(target.address.host, target.address.port)
    writer.write(request.replace(b"\r\nhost", b"\r\nconnection: close\r\nhost", 1))
    text = (await reader.read()).decode()
    writer.close()
    return [line.removeprefix("data: ") for line in text.split("\n") if line.startswith(("data: ", "{"))]


def shape(text: str) -> object:
    """A JSON text with its leaves replaced by what they are."""

    def reduce(value: object) -> object:
        if isinstance(value, dict):
            return {name: reduce(inner) for name, inner in value.items()}
        return [reduce(inner) for inner in value] if isinstance(value, list) else type(value).__name__

    return text if text == "[DONE]" else reduce(orjson.loads(text))
