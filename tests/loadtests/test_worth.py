"""Which tier is worth it: the closed forms against the points of reference, and against tries that are drawn."""

from math import isnan
from random import Random

import pytest

from loadtests.records import Record
from loadtests.worth import Task, break_even, compare, tasks, worth

FAST, SPARK = 1.5 + 500 / 170 + 2, 0.4 + 500 / 1000 + 2  # s of a step: TTFT, 500 tokens, a tool of 2 s
CHECK = 30.0  # s


@pytest.mark.parametrize(
    ("steps", "check", "expected"), [(1, 0, 55), (5, CHECK, 7.4), (20, CHECK, 3.9), (50, CHECK, 2.4)]
)
def test_spark_breaks_even_with_fast_at_the_known_rates_of_error(steps: int, check: float, expected: float) -> None:
    assert 100 * break_even(steps, SPARK, FAST, 0.01, check) == pytest.approx(expected, abs=0.5)


@pytest.mark.parametrize(("times", "least", "most"), [(6, 47, 104), (2, 9, 21)])
def test_fast_pays_over_standard_from_the_known_price_of_waiting(times: float, least: float, most: float) -> None:
    """$25 a million tokens at standard, 65 against 170 tok/s, for answers of 500 tokens."""
    slow = [task(1.5 + 500 / 65, 500 * 25e-6)]
    quick = [task(1.5 + 500 / 170, 500 * 25e-6 * times)]
    (pair,) = compare({"standard": slow, "fast": quick}, 0.0, 0.0).pairs
    assert least <= pair.hour.value <= most


def task(seconds: float, dollars: float, *mistakes: str, seen: bool = False) -> Task:
    """One request for each of `mistakes`, or one without any."""
    made = []
    for turn, mistake in enumerate(mistakes or ("",)):
        record = Record(session=0, turn=turn, attempt=0, tier="t", due=turn * seconds, sent=0.0, outcome="ok")
        record.ended, record.cost, record.mistake, record.seen = (
            (turn + 1) * seconds,
            round(dollars * 1e9),
            mistake,
            seen,
        )
        made.append(record)
    return made


def test_a_success_takes_as_many_tries_as_the_closed_form_says() -> None:
    random, steps, error, seconds = Random(3), 8, 0.04, 2.0
    tried = [
        task(seconds, 0.01, *("wrong_value" if random.random() < error else "" for _ in range(steps)))
        for _ in range(3000)
    ]
    found = worth("t", tried, 0.0, 0.0)
    assert found.unseen == pytest.approx(error, abs=0.005)
    assert found.success_seconds.value == pytest.approx(steps * seconds / (1 - error) ** steps, rel=0.03)
    assert found.success_seconds.low <= steps * seconds / (1 - error) ** steps <= found.success_seconds.high
    assert found.success_dollars.value == pytest.approx(steps * 0.01 / (1 - error) ** steps, rel=0.03)
    spread = [worth("t", [task(each, 1.0) for _ in range(5)], 0.0, 0.0) for each in (2.0, 6.0)]
    assert break_even(1, 2.0, 6.0, 0.0) == pytest.approx(1 - spread[0].step_seconds / spread[1].step_seconds)


def test_what_whoever_runs_the_tool_saw_is_asked_for_again_and_spoils_nothing() -> None:
    first, again = task(1.0, 0.01, "invalid_json", seen=True)[0], task(1.0, 0.01)[0]
    again.attempt, again.due, again.ended = 1, 1.0, 2.0
    found = worth("t", [[first, again]], 0.0, 0.0)
    assert (found.successes, found.unseen, found.seen) == (1, 0.0, 0.5)
    assert (found.success_seconds.value, found.success_dollars.value) == (2.0, 0.02)


def test_a_session_that_did_not_come_to_its_end_is_no_task() -> None:
    records = [record for number in range(3) for record in task(1.0, 0.0)]
    for number, record in enumerate(records):
        record.session = number
    assert [each[0].session for each in tasks(records, {0, 2})] == [0, 2]


def test_a_verdict_has_two_sentences_and_names_who_is_best_at_what() -> None:
    made = compare({"standard": [task(10.0, 0.01)] * 4, "fast": [task(4.0, 0.06)] * 4}, 0.0, 0.0)
    assert made.verdict.startswith(
        "A successful task is quickest at fast (4.0 s) and cheapest at standard ($0.0100). Fast pays"
    )
    assert "$30.00 an hour" in made.verdict
    nothing = compare({"standard": [task(1.0, 0.01, "wrong_value")]}, 0.0, 0.0)
    assert "No task succeeded" in nothing.verdict
    assert not nothing.pairs


def test_without_prices_only_time_is_compared() -> None:
    free = task(1.0, 0.0)
    free[0].cost = None
    found = worth("t", [free], 0.0, 0.0)
    assert not found.success_dollars.known
    assert isnan(found.step_dollars)
