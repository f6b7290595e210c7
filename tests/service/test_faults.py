"""Faults as words, the shares in which they are drawn, and what they do to the events of a job."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service import faults
from service.course import Course
from service.errors import Injected, Unavailable
from service.faults import Rates, Step
from service.messages import Delta, Event, Finished, FinishReason, Part, Started, Usage


def test_words_become_steps_in_the_order_in_which_they_happen() -> None:
    fault = faults.parse("cut@40; stall = 5 @ 20;slow=3.5")
    assert [(step.at, step.does, step.seconds) for step in fault.steps] == [
        (0, "wait", 3.5),
        (20, "wait", 5.0),
        (40, "cut", 0.0),
    ]


def test_a_status_says_what_the_real_apis_say_with_it() -> None:
    refusal = faults.parse("status=429; retry_after=2").refusal
    assert refusal is not None
    error = refusal.error()
    assert isinstance(error, Injected)
    assert (error.status, error.code, error.retry_after, error.should_retry) == (429, "rate_limit_exceeded", 2.0, True)
    assert "try again in 2s" in error.message


def test_nobody_is_told_to_try_again_when_the_quota_is_used_up() -> None:
    refusal = faults.parse("status=429; code=insufficient_quota").refusal
    assert refusal is not None
    error = refusal.error()
    assert (error.type, error.should_retry) == ("insufficient_quota", False)


def test_overloaded_is_left_to_the_dialect() -> None:
    (step,) = faults.parse("error=overloaded@7; message=busy, come back").steps
    assert step.refusal is not None
    error = step.refusal.error()
    assert isinstance(error, Unavailable)
    assert error.message == "busy, come back"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("", "names no fault"),
        ("explode@3", "'explode' is no fault"),
        ("status=200", "from 400 to 599"),
        ("status", "from 400 to 599"),
        ("status=429@3", "before all tokens"),
        ("status=429; cut@3", "no answer"),
        ("slow", "number of seconds"),
        ("slow=nan", "number of seconds"),
        ("slow=-1", "number of seconds"),
        ("slow=99999", "at most 3600"),
        ("slow=1@4", "first token"),
        ("stall=1@x", "number of tokens"),
        ("cut=5", "takes no value"),
        ("cut@5; error@9", "once"),
        ("cut@5; code=x", "belongs to a status"),
        ("status=429; should_retry=maybe", "true or false"),
        ("status=429; retry_after=soon", "number of seconds"),
        ("x" * 2000, "at most 1000 characters"),
    ],
)
def test_words_that_mean_nothing_are_explained(words: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        faults.parse(words)


@given(st.text(max_size=60))
def test_any_text_is_a_fault_or_explained(words: str) -> None:
    with suppress(ValueError):
        fault = faults.parse(words)
        assert fault.refusal is not None or fault.steps


def test_draws_depend_on_seed_tier_and_number_alone() -> None:
    cut, slow = faults.parse("cut@3"), faults.parse("slow=1")
    rates = Rates("fast", 7, ((cut, 0.2), (slow, 0.1)))
    drawn = [rates.draw(n) for n in range(4000)]
    assert drawn == [rates.draw(n) for n in range(4000)]
    assert drawn != [Rates("fast", 8, rates.shares).draw(n) for n in range(4000)]
    assert drawn.count(cut) / 4000 == pytest.approx(0.2, abs=0.03)
    assert drawn.count(slow) / 4000 == pytest.approx(0.1, abs=0.03)


def test_shares_that_add_up_to_one_spare_nobody() -> None:
    rates = Rates("fast", 1, tuple((faults.parse(f"cut@{n}"), 0.1) for n in range(10)))
    assert None not in [rates.draw(n) for n in range(1000)]


def answer(*counts: int, choice: int = 0) -> list[Event]:
    """Deltas of so many tokens; the last ends the choice."""
    events: list[Event] = []
    offset = 0
    for number, count in enumerate(counts):
        text = b"\n".join(b"t%d" % token for token in range(offset, offset + count))
        finish: FinishReason | None = "length" if number == len(counts) - 1 else None
        part = Part() if offset == 0 else None
        events.append(Delta("job", 1, choice, offset, count, text, finish, part, logprobs=text.replace(b"t", b"p")))
        offset += count
    return events


FINISHED = Finished("job", 1, Usage(prompt=1))


def tokens(events: list[Event]) -> int:
    return sum(event.count for event in events if isinstance(event, Delta))


def test_a_cut_lets_out_just_the_tokens_before_it_and_tells_the_others_for_the_bill() -> None:
    course = Course(faults.parse("cut@4").steps, choices=1)
    gone = course.take([Started("job", 1, 0.0), *answer(3, 3), FINISHED], now=0)
    assert tokens(gone) == 4
    assert course.cut
    assert not course.take([], now=99)
    assert tokens(course.rest()) == 2


def test_an_error_comes_instead_of_the_rest() -> None:
    course = Course(faults.parse("error@4").steps, choices=1)
    assert tokens(course.take([*answer(3, 3), FINISHED], now=0)) == 4
    assert course.error is not None
    assert not course.take([FINISHED], now=99)


def test_a_stall_holds_what_comes_after_it_for_as_long_as_it_lasts() -> None:
    course = Course(faults.parse("stall=5@4").steps, choices=1)
    assert tokens(course.take(answer(3, 3), now=10)) == 4
    assert course.due == 15
    assert not course.take([FINISHED], now=14.9)
    assert course.holding
    assert course.take([], now=15)[-1] is FINISHED
    assert not course.holding


def test_a_slow_answer_still_says_at_once_that_it_has_started() -> None:
    course = Course((faults.slowed(2),), choices=1)
    assert course.take([Started("job", 1, 0.0), *answer(2)], now=1) == [Started("job", 1, 0.0)]
    assert tokens(course.take([], now=3)) == 2


@pytest.mark.parametrize("words", ["cut@50", "error@50", "stall=1@50"])
def test_an_answer_too_short_for_its_fault_has_it_before_its_end(words: str) -> None:
    course = Course(faults.parse(words).steps, choices=2)
    gone = course.take([*answer(2), *answer(1, 2, choice=1), FINISHED], now=0)
    assert tokens(gone) == 5
    assert sum(isinstance(event, Delta) and event.finish is not None for event in gone) == 1
    assert FINISHED not in gone


COUNTS = st.lists(st.integers(1, 5), min_size=1, max_size=8)
STEPS = st.lists(st.builds(Step, st.integers(0, 30), st.just("wait"), st.floats(0, 2)), max_size=3)


@given(st.lists(COUNTS, min_size=1, max_size=3), STEPS, st.lists(st.floats(0, 3), max_size=5))
def test_whatever_waits_no_token_is_lost_doubled_or_out_of_order(
    choices: list[list[int]], steps: list[Step], pauses: list[float]
) -> None:
    course = Course(faults.ordered(steps), choices=len(choices))
    events: list[Event] = [Started("job", 1, 0.0)]
    for number, counts in enumerate(choices):
        events += answer(*counts, choice=number)
    now, gone = 0.0, course.take([*events, FINISHED], 0.0)
    for pause in [*pauses, *[3.0] * 4]:
        now += pause
        gone += course.take([], now)
    assert gone[0] == events[0]
    assert gone[-1] == FINISHED
    for number, counts in enumerate(choices):
        deltas = [event for event in gone if isinstance(event, Delta) and event.choice == number]
        assert all(before.offset + before.count == after.offset for before, after in pairwise(deltas))
        pieces = [piece for delta in deltas if delta.count for piece in delta.text.split(b"\n")]
        assert pieces == [b"t%d" % token for token in range(sum(counts))]
        assert [delta.finish for delta in deltas if delta.finish] == ["length"]
        assert deltas[-1].finish == "length"
        assert [delta.part is not None for delta in deltas] == [True, *[False] * (len(deltas) - 1)]
