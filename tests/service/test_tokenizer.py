"""The tokenizer takes any text, counts it as OpenAI does, and never stands still."""

import sys
import threading
from time import sleep

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service import tokenizer
from service.messages import Turn

ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=200)


def test_known_texts_have_the_published_tokens() -> None:
    """The ids are those of OpenAI's o200k_base, so counts are those that OpenAI bills."""
    assert tokenizer.encode("hello world") == [24912, 2375]
    assert tokenizer.encode("tiktoken is great!") == [83, 8251, 2488, 382, 2212, 0]


def test_special_token_names_in_user_text_are_ordinary_text() -> None:
    for name in ("<|endoftext|>", "<|endofprompt|>", "<|im_start|>", "<|start|>"):
        assert tokenizer.count(name) > 1
        assert b"".join(tokenizer.pieces(tokenizer.encode(name))).decode() == name


@given(ANY_TEXT)
def test_any_text_counts_as_many_tokens_as_it_encodes_to(text: str) -> None:
    assert tokenizer.count(text) == len(tokenizer.encode(text))


@given(st.text(max_size=200))
def test_the_pieces_of_a_text_are_the_text(text: str) -> None:
    assert b"".join(tokenizer.pieces(tokenizer.encode(text))).decode() == text


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_lone_surrogate_counts_as_the_replacement_character(before: str, after: str) -> None:
    assert tokenizer.encode(f"{before}\ud800{after}") == tokenizer.encode(f"{before}\ufffd{after}")


def test_a_surrogate_pair_counts_as_the_character_it_stands_for() -> None:
    assert tokenizer.encode("\ud83d\ude00") == tokenizer.encode("😀")


@pytest.mark.parametrize(
    "unit", ["a", " ", "\n", "\0", "7", "!", "漢", "é", "😀", "e\u0301", "aB", "\ud800", "<|endoftext|>"]
)
def test_any_unit_repeated_without_end_is_counted(unit: str) -> None:
    """Nothing bounds the length of a word; what is quadratic in it would not come back from this."""
    text = unit * (1_000_000 // len(unit))
    assert tokenizer.count(text) == len(tokenizer.encode(text)) > 0


def test_counting_lets_other_threads_run() -> None:
    """While a thread counts, this one keeps its share of the interpreter, which a held GIL would take away."""
    text = "Counting releases the interpreter lock. " * 100_000
    tokenizer.load()
    before = sys.getswitchinterval()
    sys.setswitchinterval(10)  # a thread that does not let go of the lock keeps it for good
    try:
        counter = threading.Thread(target=tokenizer.count, args=(text,))
        counter.start()
        rounds = 0
        while counter.is_alive():
            sleep(0)
            rounds += 1
    finally:
        sys.setswitchinterval(before)
    assert rounds > 10


def test_a_conversation_counts_as_in_the_openai_cookbook() -> None:
    """The cookbook's example: gpt-4o is billed 124 prompt tokens, some of them for the names of four messages."""
    turns = [
        (
            "system",
            "You are a helpful, pattern-following assistant that translates corporate jargon into plain English.",
        ),
        ("system", "New synergies will help drive top-line growth."),
        ("system", "Things working well together will increase revenue."),
        (
            "system",
            "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage.",
        ),
        ("system", "Let's talk later when we're less busy about how to do better."),
        (
            "user",
            "This late pivot means we don't have time to boil the ocean for the client deliverable.",
        ),
    ]
    names = sum(1 + tokenizer.count(name) for name in ("example_user", "example_assistant") * 2)
    assert tokenizer.count_chat(Turn(role, text) for role, text in turns) + names == 124


def test_an_empty_conversation_still_primes_the_answer() -> None:
    assert tokenizer.count_chat([]) == 3
