"""Results are written and read alike, and bounds on them are kept or named."""

import json
from pathlib import Path

import jsonschema_rs
import pytest
from test_summary import record

from loadtests.gate import broken, parse
from loadtests.result import Result, differences, read, schema, write
from loadtests.scenario import Objective
from loadtests.summary import Lateness, summary
from service.errors import ScenarioError

REQUESTS = [record(ttft=0.1 + each / 1000, cost=5_000_000) for each in range(50)]
TIERS = summary([*REQUESTS, record(outcome="refused", error="queue_full")], {}, Objective(), 10.0)
PLANNED = summary([record(ttft=0.1) for _ in range(50)], {}, Objective(), 10.0)
RESULT = Result(
    scenario="plain",
    about="what tests need",
    model="m",
    dialect="openai",
    mix={"fast": 1.0},
    seed=1,
    made="2026-12-01T00:00:00+00:00",
    seconds=10.0,
    interrupted=False,
    client=Lateness(0.001, 0.002),
    tiers=TIERS,
    predicted=PLANNED,
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write(path, RESULT)
    assert "NaN" not in path.read_text()
    again = read(path)
    assert again.tiers[0].ttft == TIERS[0].ttft
    assert (again.scenario, again.client, again.tiers[0].errors) == ("plain", Lateness(0.001, 0.002), {"queue_full": 1})
    write(tmp_path / "again.json", again)
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_what_is_written_is_as_its_schema_says(tmp_path: Path) -> None:
    write(tmp_path / "run.json", RESULT)
    validator = jsonschema_rs.validator_for(schema())
    document = json.loads((tmp_path / "run.json").read_text())
    validator.validate(document)
    assert not validator.is_valid({**document, "seconds": "ten"})


@pytest.mark.parametrize("text", ["", "{}", '{"schema": "other/2"}', "[1]"])
def test_what_is_no_result_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=r"run\.json") as refused:
        read(path)
    assert "\n" not in str(refused.value)


def test_a_measurement_far_from_its_plan_is_flagged() -> None:
    found = {difference.figure: difference for difference in differences(RESULT)}
    assert found["ttft p50"].off == pytest.approx(0.245)
    assert found["ttft p50"].flagged
    assert not found["ttft p50"].chance
    assert not found["tpot p50"].flagged


@pytest.mark.parametrize(
    ("bound", "fails"),
    [
        ("fast.ttft.p99 > 0.5", False),
        ("fast.ttft.p50 > 0.1", True),
        ("met < 0.99", True),
        ("errors > 0", True),
        ("errors > 1", False),
        ("fast.cost > 0.004", True),
        ("throughput < 1e3", True),
        ("spark.met < 0.5", True),
        ("itl.p99 > 1", True),
    ],
)
def test_bounds_are_kept_or_named(bound: str, fails: bool) -> None:
    """What is not there, or not known, is not within a bound."""
    said = broken(RESULT, [parse(bound)])
    assert bool(said) == fails
    assert all(bound in line for line in said)


@pytest.mark.parametrize(
    "text", ["ttft > 1", "fast.ttft.p98 > 1", "speed.p50 > 1", "goodput = 3", "met < x", "other > 1"]
)
def test_what_is_no_bound_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(ScenarioError, match="goodput"):
        parse(text)
