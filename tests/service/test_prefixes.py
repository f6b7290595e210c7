"""Prompts that begin alike share their leading blocks, and nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service import prefixes, tokenizer
from service.messages import Turn

SIZE = 4

texts = st.text(st.characters(exclude_categories=()), max_size=60) | st.sampled_from(["<|endoftext|>", "\ud83d\ude00"])
turns = st.lists(st.builds(Turn, st.sampled_from(["system", "user", "assistant", "tool"]), texts), max_size=5)


def found(before: bytes, prompt: bytes) -> int:
    """How many leading blocks of a prompt are among those of one that was sent before."""
    known = set(prefixes.unpack(before))
    blocks = prefixes.unpack(prompt)
    return next((number for number, block in enumerate(blocks) if block not in known), len(blocks))


def blocks(turns: list[Turn], tools: str = "", salt: str = "") -> bytes:
    return prefixes.blocks(prefixes.prompt(turns, tools), SIZE, salt)


@given(turns, texts)
def test_a_prompt_has_as_many_tokens_as_are_counted(turns: list[Turn], tools: str) -> None:
    counted = tokenizer.count_chat(turns) + tokenizer.count(tools)
    assert prefixes.length(prefixes.prompt(turns, tools)) == counted
    assert len(prefixes.unpack(blocks(turns, tools))) == counted // SIZE


@given(texts)
def test_packed_tokens_are_the_tokens(text: str) -> None:
    packed = tokenizer.packed(text)
    assert [int.from_bytes(packed[at : at + 4], "little") for at in range(0, len(packed), 4)] == tokenizer.encode(text)


@given(turns, turns, turns, texts)
def test_what_two_prompts_have_in_common_from_their_beginning_is_found(
    shared: list[Turn], one: list[Turn], other: list[Turn], tools: str
) -> None:
    first, second = (prefixes.prompt([*shared, *rest], tools) for rest in (one, other))
    alike = 0
    while alike < min(len(first), len(second)) and first[alike] == second[alike]:
        alike += 1
    in_common = alike // 4 // SIZE
    assert found(*(prefixes.blocks(prompt, SIZE, "salt") for prompt in (first, second))) == in_common


@given(turns, texts, st.sampled_from([("key/model/fast", "key/model/standard"), ("", "\ud800"), ("a", "a\0")]))
def test_with_another_salt_nothing_is_found(turns: list[Turn], tools: str, salts: tuple[str, str]) -> None:
    assert found(blocks(turns, tools, salts[0]), blocks(turns, tools, salts[1])) == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([Turn("user", "a b"), Turn("user", "c")], [Turn("user", "a"), Turn("user", " b c")]),
        ([Turn("user", "system")], [Turn("system", "user")]),
        ([Turn("user", "x")], [Turn("user", "x"), Turn("user", "")]),
    ],
)
def test_who_said_what_makes_a_difference(one: list[Turn], other: list[Turn]) -> None:
    assert prefixes.prompt(one, "") != prefixes.prompt(other, "")


def test_images_are_told_apart_and_count_what_they_cost() -> None:
    turn = [Turn("user", "look")]

    def prompt(*images: bytes) -> bytes:
        return prefixes.prompt(turn, "", [images], image_tokens=85)

    assert prompt(b"0123456789abcdef") == prompt(b"0123456789abcdef")
    assert prompt(b"0123456789abcdef") != prompt(b"0123456789abcdeg")
    assert prefixes.length(prompt(b"1", b"2")) == tokenizer.count_chat(turn) + 2 * 85
    assert prefixes.prompt(turn, "", [()], 85) == prefixes.prompt(turn, "")
