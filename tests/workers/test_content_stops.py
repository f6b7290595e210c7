"""Stop sequences end an answer where an engine that looks after every token would end it."""

import json

from hypothesis import given
from hypothesis import strategies as st

from service.messages import Job
from workers import content
from workers.content.stops import Match, find

TOKENS = st.lists(st.text("ab\n", min_size=1, max_size=4), min_size=1, max_size=12)
STOPS = st.lists(st.text("ab\n", min_size=1, max_size=5), min_size=1, max_size=4)


def reference(texts: list[str], stops: list[str], min_tokens: int) -> Match | None:
    """Token by token, as the definition says."""
    text = ""
    for index, piece in enumerate(texts):
        before, text = len(text), text + piece
        if index < min_tokens:
            continue
        starts = [
            at for stop in stops for at in range(len(text)) if text.startswith(stop, at) and at + len(stop) > before
        ]
        if starts:
            kept, whole = text[: min(starts)], 0
            while len("".join(texts[: whole + 1])) <= len(kept):
                whole += 1
            found = [each for each in stops if text.startswith(each, min(starts)) and min(starts) + len(each) > before]
            stop = min(found, key=len)
            return Match(index + 1, whole, kept[len("".join(texts[:whole])) :], stop)
    return None


@given(TOKENS, STOPS, st.integers(0, 14))
def test_the_match_is_the_one_found_by_looking_after_every_token(
    texts: list[str], stops: list[str], min_tokens: int
) -> None:
    assert find(texts, stops, min_tokens) == reference(texts, stops, min_tokens)


def test_a_stop_sequence_is_found_across_token_borders() -> None:
    assert find(["one", " two", " three"], ["wo th"], 0) == Match(tokens=3, whole=1, part=" t", stop="wo th")


def answer(**changes: object) -> tuple[content.Script, str]:
    fields = {
        "id": "j",
        "gateway": "g",
        "pool": "p",
        "model": "m",
        "tier": "t",
        "context_left": 10_000,
        "max_tokens": 400,
    }
    script = content.compose(Job(**(fields | changes)), 0)  # type: ignore[arg-type]
    return script, json.loads(b'"%b"' % script.text(0, script.tokens).replace(b"\n", b""))


def test_an_answer_ends_right_before_the_stop_sequence_and_charges_the_tokens_that_completed_it() -> None:
    plain, text = answer()
    stop = text[len(text) // 2 - 3 : len(text) // 2 + 4]
    script, kept = answer(stop=("never said", stop))
    assert kept == text[: text.index(stop)]
    assert script.finish == "stop"
    through = text[: text.index(stop) + len(stop)]
    said = [json.loads(b'"%b"' % piece) for piece in plain.text(0, plain.tokens).split(b"\n")]
    assert len("".join(said[: script.tokens - 1])) < len(through) <= len("".join(said[: script.tokens]))


def test_the_tokens_of_the_stop_sequence_have_no_text() -> None:
    script, kept = answer(stop=(".\n\n",))
    assert not kept.endswith(".")
    assert script.text(0, script.tokens).count(b"\n") + 1 == script.tokens - 1
    assert script.text(script.tokens - 1, script.tokens) == b""


def test_a_stop_sequence_that_opens_the_answer_leaves_it_without_text() -> None:
    _, text = answer()
    script, kept = answer(stop=(text[:2],))
    assert (script.tokens, script.finish, kept) == (1, "stop", "")


def test_a_stop_sequence_before_the_minimum_does_not_count() -> None:
    script, kept = answer(stop=(" ",), min_tokens=100)
    assert script.finish == "stop"
    assert 100 < script.tokens < 110
    assert kept.count(" ") > 50


def test_an_answer_without_the_stop_sequence_is_left_alone() -> None:
    assert answer(stop=("\x00",)) == answer()
