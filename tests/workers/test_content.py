"""The emulated answer: plausible text whose tokens are exactly those that are charged."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service import tokenizer
from service.messages import Job, Tool, Turn, Wish
from workers import content
from workers.content import Script, hints
from workers.content.mistakes import MISTAKES

ROOT = Path(__file__).parents[2]
QUESTION = (Turn("system", "Be brief."), Turn("user", "How does congestion control work?"))
SEEDS = st.integers(0, 2**63)


def job(**changes: Any) -> Job:
    base: dict[str, Any] = {
        "id": "job",
        "gateway": "gateway",
        "pool": "fast",
        "model": "model",
        "tier": "fast",
        "conversation": QUESTION,
        "context_left": 200_000,
    }
    return Job(**(base | changes))


def pieces(script: Script) -> list[str]:
    """The text of each token that has one, decoded from the wire form."""
    wire = script.text(0, script.tokens)
    return [json.loads(b'"%b"' % piece) for piece in wire.split(b"\n")] if wire else []


def text(script: Script) -> str:
    return "".join(pieces(script))


@given(SEEDS, st.integers(1, 3000))
@settings(max_examples=60, deadline=None)
def test_an_answer_encodes_to_exactly_the_tokens_it_is_charged_for(seed: int, length: int) -> None:
    script = content.compose(job(seed=seed, max_tokens=length), 0)
    said = pieces(script)
    assert (script.tokens, script.finish) == (length, "length")
    assert [piece.encode() for piece in said] == tokenizer.pieces(tokenizer.encode("".join(said)))
    assert len(said) == length


@given(SEEDS, st.text(max_size=80))
@settings(max_examples=40, deadline=None)
def test_every_prefix_of_an_answer_encodes_to_its_own_tokens(seed: int, question: str) -> None:
    """Wherever a limit or a disconnect cuts a stream, whoever counts what arrived finds the tokens that were sent."""
    said = pieces(content.compose(job(seed=seed, max_tokens=150, conversation=(Turn("user", question),)), 0))
    tokens = tokenizer.encode("".join(said))
    for end in range(1, len(said) + 1):
        assert tokenizer.encode("".join(said[:end])) == tokens[:end]


@given(st.from_regex(r"[A-Za-z][a-z]{3,15}", fullmatch=True), SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_word_of_the_question_never_spoils_the_count(word: str, seed: int) -> None:
    said = pieces(content.compose(job(seed=seed, max_tokens=40, conversation=(Turn("user", word),)), 0))
    tokens = tokenizer.encode("".join(said))
    assert all(tokenizer.encode("".join(said[:end])) == tokens[:end] for end in range(1, 41))


def test_a_hundred_thousand_tokens_are_exact_and_do_not_repeat_themselves() -> None:
    script = content.compose(job(max_tokens=100_000), 0)
    said = text(script)
    assert len(tokenizer.encode(said)) == script.tokens == 100_000
    paragraphs = said.split("\n\n")
    assert len(set(paragraphs)) > 0.99 * len(paragraphs)


def test_the_text_of_tokens_can_be_taken_in_any_portions() -> None:
    script = content.compose(job(max_tokens=50), 0)
    portions = [script.text(start, min(start + 7, 50)) for start in range(0, 50, 7)]
    assert b"\n".join(portions) == script.text(0, 50)
    assert portions[0].count(b"\n") == 6
    assert script.text(50, 60) == b""


def test_the_answer_depends_on_conversation_seed_and_choice_alone() -> None:
    """Tiers of one model agree, and so does a worker that takes over a job that another gateway has sent."""
    same = content.compose(job(seed=1), 0)
    assert content.compose(job(seed=1, id="x", gateway="y", pool="spark", tier="spark", tenant="z"), 0) == same
    others = [
        content.compose(job(seed=2), 0),
        content.compose(job(seed=1), 1),
        content.compose(job(seed=1, conversation=QUESTION[1:]), 0),
    ]
    assert len({text(script) for script in [same, *others]}) == 4


def various() -> list[str]:
    """Answers of several kinds."""
    tool = Tool("book", b'{"type":"object","properties":{"a":{},"b":{}},"minProperties":4}', "Book a flight")
    rates = tuple((kind, 0.1) for kind in MISTAKES)
    jobs = [
        job(seed=5, max_tokens=300),
        job(seed=5, conversation=(Turn("user", "Book flights from Oslo to Rome"),), wish=Wish(tools=(tool,))),
        job(seed=5, wish=Wish(schema=b'{"type":"object","additionalProperties":{"type":"number"},"minProperties":3}')),
        *(job(seed=seed, wish=Wish(tools=(tool,), tool_choice="required", mistakes=rates)) for seed in range(9)),
    ]
    return [ascii((script.parts, text(script))) for script in (content.compose(each, 2) for each in jobs)]


def test_another_process_composes_the_same_answers() -> None:
    program = "from tests.workers.test_content import various\nprint('\\n'.join(various()))"
    command, places = [sys.executable, "-c", program], os.pathsep.join(["tests", "."])
    environ = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": places}
    other = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=environ)
    assert other.stdout.splitlines() == various()


@pytest.mark.parametrize("text", ["/" + "-" * 2_000, "~/" + "a." * 1_000 + "-", "/-" * 1_000])
def test_what_looks_like_a_path_for_long_is_read_once(text: str) -> None:
    assert hints.said(text).paths == ()


@given(SEEDS, st.integers(1, 500), st.integers(1, 500))
@settings(max_examples=30, deadline=None)
def test_a_limit_only_cuts_the_answer_off(seed: int, one: int, other: int) -> None:
    short, long = sorted((one, other))
    whole = pieces(content.compose(job(seed=seed, max_tokens=long), 0))
    assert pieces(content.compose(job(seed=seed, max_tokens=short), 0)) == whole[:short]


def test_the_window_bounds_a_limit() -> None:
    script = content.compose(job(max_tokens=500, context_left=37), 0)
    assert (script.tokens, script.finish, len(pieces(script))) == (37, "length", 37)


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_without_a_limit_an_answer_ends_with_a_sentence(seed: int) -> None:
    script = content.compose(job(seed=seed), 0)
    assert script.finish == "stop"
    assert text(script).endswith((".", "?", "!"))
    assert len(tokenizer.encode(text(script))) == script.tokens


def test_natural_lengths_scatter_around_their_median() -> None:
    lengths = sorted(content.compose(job(seed=seed), 0).tokens for seed in range(400))
    assert 0.8 * Wish().length[0] < lengths[200] < 1.25 * Wish().length[0]
    assert lengths[40] < 0.6 * lengths[200] < 1.7 * lengths[200] < lengths[360]


@given(SEEDS, st.integers(1, 400), st.integers(0, 2000))
@settings(max_examples=60, deadline=None)
def test_a_natural_answer_keeps_the_window_and_the_minimum(seed: int, window: int, minimum: int) -> None:
    script = content.compose(job(seed=seed, context_left=window, min_tokens=minimum), 0)
    assert min(window, minimum) <= script.tokens <= window
    assert len(tokenizer.encode(text(script))) == script.tokens
    if script.finish == "stop":
        assert text(script).endswith(".")
    else:
        assert script.tokens == window


def test_an_answer_that_ignores_its_end_fills_the_window_up_to_a_cap() -> None:
    assert content.compose(job(ignore_eos=True, context_left=5_000), 0).tokens == 5_000
    capped = content.compose(job(ignore_eos=True, context_left=content.RUN_MAX + 1), 0)
    assert (capped.tokens, capped.finish) == (content.RUN_MAX, "length")
    assert content.compose(job(ignore_eos=True, max_tokens=10), 0).tokens == 10


def test_the_opening_takes_up_the_subject_of_the_last_question() -> None:
    conversation = (
        Turn("user", "What is entropy?"),
        Turn("assistant", "..."),
        Turn("user", "And what about photosynthesis?"),
    )
    openings = {text(content.compose(job(seed=seed, conversation=conversation, max_tokens=30), 0)) for seed in range(5)}
    assert all('"photosynthesis"' in opening for opening in openings)


@pytest.mark.parametrize(
    "conversation", [(), (Turn("user", ""),), (Turn("user", "\ud800 漢字 <|endoftext|>"),), (Turn("tool", "x"),)]
)
def test_any_conversation_gets_an_answer(conversation: tuple[Turn, ...]) -> None:
    assert content.compose(job(conversation=conversation, max_tokens=5), 0).tokens == 5


def test_words_and_paragraphs_are_set_apart_once() -> None:
    said = text(content.compose(job(max_tokens=20_000), 0))
    assert "\n\n" in said
    assert not {"  ", "\n ", " \n", "\n\n\n", "..", " ."} & {
        said[at : at + width] for at in range(len(said)) for width in (2, 3)
    }


def test_long_answers_hold_characters_beyond_ascii() -> None:
    said = text(content.compose(job(max_tokens=60_000), 0))
    assert {"→", "≤", "×", "µ", "ï", "✅", "🙂"} <= set(said)
