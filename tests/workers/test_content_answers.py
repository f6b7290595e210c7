"""Answers of more than prose: reasoning, structured text, predictions, log probabilities, what rules have written."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_content_calls import WEATHER, calls, job, text
from tool_schemas import TOOLS

from service import tokenizer
from service.messages import Call, Scripted, Turn, Wish
from workers import content
from workers.content import Script, samples
from workers.content.instances import valid
from workers.content.spelling import spell

SCHEMA = json.dumps(TOOLS["pydantic_references"]).encode()
SEEDS = st.integers(0, 2**32)


def answer(message: str = "How do queues work?", choice: int = 0, wish: Wish | None = None, **changes: Any) -> Script:
    return content.compose(job(message, wish=wish or Wish(), **changes), choice)


def parts(script: Script) -> list[tuple[str, str]]:
    """Kind and text of each."""
    ends = [*(first for first, _ in script.parts[1:]), script.tokens]
    return [(part.kind, text(script, first, end)) for (first, part), end in zip(script.parts, ends, strict=True)]


# Structured text


@given(st.sampled_from(sorted(TOOLS)), SEEDS, st.text(max_size=50))
@settings(max_examples=60)
def test_structured_text_is_complete_and_valid_without_a_limit(name: str, seed: int, message: str) -> None:
    """Even where answers are short by nature."""
    schema = json.dumps(TOOLS[name]).encode()
    script = answer(message, wish=Wish(schema=schema, strict=True, length=(1.0, 0.1)), seed=seed)
    assert valid(schema, json.loads(text(script)))
    assert script.finish == "stop"
    assert tokenizer.count(text(script)) == script.tokens


def test_structured_text_that_a_limit_cuts_says_so() -> None:
    whole = answer(wish=Wish(schema=SCHEMA))
    assert answer(wish=Wish(schema=SCHEMA), max_tokens=whole.tokens) == whole
    cut = answer(wish=Wish(schema=SCHEMA), max_tokens=whole.tokens - 1)
    assert (cut.finish, text(cut)) == ("length", text(whole, 0, whole.tokens - 1))
    assert answer(wish=Wish(schema=SCHEMA), context_left=3).finish == "length"


def test_any_object_is_one_with_the_keys_that_are_asked_for() -> None:
    wish = Wish(schema=b'{"type":"object"}')
    asked = json.loads(
        text(answer("Give me JSON with the keys name, age and city for Ann Lee, 41, of Oslo", wish=wish))
    )
    assert list(asked) == ["name", "age", "city"]
    assert asked["age"] == 41
    assert json.loads(text(answer("some json", wish=wish)))


def test_a_result_fills_the_members_of_its_names() -> None:
    schema = b'{"type":"object","properties":{"temperature":{"type":"number"}},"required":["temperature"]}'
    turns = (Turn("user", "The weather in Paris?"), Turn("tool", '{"now": {"temperature": 22.5}}'))
    script = content.compose(job(*turns, wish=Wish(schema=schema, tools=(WEATHER,))), 0)
    assert json.loads(text(script)) == {"temperature": 22.5}


def test_a_schema_with_characters_of_several_tokens_is_told_in_whole_characters() -> None:
    script = answer(wish=Wish(schema=json.dumps({"const": {"漢字": "🙂🙃 ẞ"}}).encode()))
    pieces = [json.loads(b'"%b"' % piece) for piece in script.text(0, script.tokens).split(b"\n")]
    assert json.loads("".join(pieces)) == {"漢字": "🙂🙃 ẞ"}
    assert "" in pieces, "a token of a split character has no text"
    assert len(pieces) == script.tokens == tokenizer.count("".join(pieces))


# Form


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_code_is_fenced_and_every_prefix_counts_as_its_tokens(name: str) -> None:
    sample = samples.SAMPLES[name]
    message = f"Write a {sample.language} function, {' '.join(sorted(sample.words))}"
    script = answer(message, wish=Wish(length=(1.0, 0.1)))
    said = text(script)
    assert said.split("```")[1] == f"{sample.language}\n{sample.code.strip()}\n"
    assert said.endswith("```")
    assert script.finish == "stop"
    tokens = tokenizer.encode(said)
    assert all(tokenizer.encode(text(script, 0, end)) == tokens[:end] for end in range(1, script.tokens + 1))
    assert answer(message, max_tokens=300).tokens == 300


def test_python_that_is_written_runs() -> None:
    for sample in samples.SAMPLES.values():
        if sample.language == "python":
            compile(sample.code, "sample", "exec")


def test_lists_are_lists_and_json_is_json() -> None:
    items = text(answer("Give me a list of things to watch", wish=Wish(length=(1.0, 0.1)))).split("\n\n")[1].split("\n")
    assert len(items) >= 3
    assert all(item.startswith(("- ", f"{index}. ")) for index, item in enumerate(items, 1))
    assert set(json.loads(text(answer("Reply only in JSON with keys title and tags")))) == {"title", "tags"}


# Reasoning


@given(SEEDS, st.integers(1, 400), st.integers(1, 300))
@settings(max_examples=60)
def test_reasoning_comes_first_and_takes_half_of_the_room_at_most(seed: int, limit: int, wanted: int) -> None:
    script = answer(wish=Wish(reasoning=wanted), max_tokens=limit, seed=seed)
    kinds = [kind for kind, _ in parts(script)]
    assert kinds == (["reasoning", "text"] if script.reasoning else ["text"])
    assert script.reasoning <= limit // 2
    assert script.tokens == limit
    assert all(tokenizer.count(said) > 0 for _, said in parts(script))


def test_reasoning_is_about_as_long_as_expected_and_leaves_the_answer_alone() -> None:
    lengths = sorted(answer(wish=Wish(reasoning=200), seed=seed).reasoning for seed in range(60))
    assert 140 < lengths[30] < 290
    plain, thought = answer(), answer(wish=Wish(reasoning=200))
    assert parts(thought)[1] == parts(plain)[0]
    assert tokenizer.count(parts(thought)[0][1]) == thought.reasoning


def test_stop_sequences_are_not_looked_for_in_reasoning() -> None:
    script = answer(wish=Wish(reasoning=60), stop=(".",))
    assert "." in parts(script)[0][1]
    assert "." not in parts(script)[1][1]
    assert (script.finish, script.stopped) == ("stop", ".")


# Length


def test_a_cap_bounds_a_natural_length_and_a_limit_is_one() -> None:
    natural = answer()
    assert answer(max_tokens=5_000, wish=Wish(capped=True)) == natural
    assert answer(max_tokens=5_000).tokens == 5_000
    for cap in (1, natural.tokens - 1):
        cut = answer(max_tokens=cap, wish=Wish(capped=True))
        assert (cut.tokens, cut.finish, cut.text(0, cap)) == (cap, "length", natural.text(0, cap))


def test_natural_lengths_are_those_that_are_wished_for() -> None:
    lengths = sorted(answer(wish=Wish(length=(40.0, 0.3)), seed=seed).tokens for seed in range(100))
    assert 35 < lengths[50] < 60
    assert lengths[99] < 150


def test_each_of_several_prompts_is_answered_by_its_own_choices() -> None:
    turns = (Turn("user", "About entropy"), Turn("user", "About photosynthesis"))
    listed = job(*turns, prompts=(3, 4), choices=4, prompt_tokens=7, wish=Wish(), max_tokens=30)
    said = [text(content.compose(listed, choice)) for choice in range(4)]
    assert ["entropy" in each for each in said] == [True, True, False, False]
    assert ["photosynthesis" in each for each in said] == [False, False, True, True]
    assert len(set(said)) == 4


# Log probabilities


@given(SEEDS, st.integers(0, 20))
@settings(max_examples=25)
def test_each_token_has_its_log_probability_and_alternatives(seed: int, top: int) -> None:
    script = answer(wish=Wish(logprobs=top), max_tokens=40, seed=seed)
    pieces = [json.loads(b'"%b"' % piece) for piece in script.text(0, 40).split(b"\n")]
    lines = [json.loads(line) for line in script.logprob(0, 40).split(b"\n")]
    assert [line["token"] for line in lines] == pieces
    for line in lines:
        assert bytes(line["bytes"]).decode() == line["token"]
        assert line["logprob"] <= 0
        alternatives = line["top_logprobs"]
        shares = [math.exp(each["logprob"]) for each in alternatives]
        assert len(alternatives) == len({each["token"] for each in alternatives}) == top
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) <= 1.001
        own = [each for each in alternatives if each["token"] == line["token"]]
        assert all(each["logprob"] == line["logprob"] and each["bytes"] == line["bytes"] for each in own)
        assert own or not alternatives or line["logprob"] <= alternatives[-1]["logprob"]


def test_log_probabilities_are_the_same_in_any_portions_and_change_nothing_else() -> None:
    script = answer(wish=Wish(logprobs=2, reasoning=20), max_tokens=60)
    portions = [script.logprob(start, start + 7) for start in range(0, 60, 7)]
    assert b"\n".join(filter(None, portions)) == script.logprob(0, 60)
    assert script.logprob(0, script.reasoning) == b""
    assert script.text(0, 60) == answer(wish=Wish(reasoning=20), max_tokens=60).text(0, 60)
    assert answer(max_tokens=60).logprob(0, 60) == b""


def test_tokens_of_calls_have_no_log_probabilities() -> None:
    script = answer("weather in Paris", wish=Wish(tools=(WEATHER,), logprobs=3))
    assert calls(script)
    assert script.logprob(0, script.tokens) == b""


# Predicted output

CODE = (
    3
    * """class User:
    def __init__(self, username):
        self.username = username
        self.email = None
"""
)


def test_an_answer_follows_its_prediction_but_for_what_is_asked_to_change() -> None:
    script = answer("Replace the username property with an email property", wish=Wish(prediction=CODE))
    assert text(script) == CODE.replace("username", "email")
    assert script.accepted + script.rejected == tokenizer.count(CODE)
    assert 0 < script.rejected < script.accepted


@given(SEEDS, st.integers(1, 120))
@settings(max_examples=40)
def test_what_a_limit_cuts_off_of_a_prediction_is_neither_accepted_nor_rejected(seed: int, limit: int) -> None:
    whole = answer("Improve this", wish=Wish(prediction=CODE), seed=seed)
    cut = answer("Improve this", wish=Wish(prediction=CODE), seed=seed, max_tokens=limit)
    assert cut.accepted <= min(limit, whole.accepted)
    assert cut.rejected <= whole.rejected
    assert cut.accepted + cut.rejected <= tokenizer.count(CODE)
    assert text(whole).startswith(text(cut))


def test_a_prediction_of_something_else_is_rejected() -> None:
    script = answer(wish=Wish(prediction="zzz " * 20, scripted=Scripted(text="A quite different answer than that.")))
    assert (script.accepted, script.rejected > 0) == (0, True)
    exact = answer(wish=Wish(prediction="The same.", scripted=Scripted(text="The same.")))
    assert (exact.accepted, exact.rejected) == (tokenizer.count("The same."), 0)


def test_a_prediction_that_its_schema_allows_is_followed_as_it_is() -> None:
    said = '{"items": [], "owner": {"id": "00000000-0000-4000-8000-000000000000"}}'
    script = answer(wish=Wish(prediction=said, schema=SCHEMA))
    assert text(script) == said
    other = answer(wish=Wish(prediction="no JSON", schema=SCHEMA))
    assert valid(SCHEMA, json.loads(text(other)))
    assert other.rejected == tokenizer.count("no JSON")


# Written by rules


def test_a_scripted_reply_is_told_word_for_word() -> None:
    reply = Scripted(text="Schön 🙂\n\n\ttext", reasoning="Hm …", calls=(Call("f", '{"a": [1', "id1"), Call("g", "")))
    script = answer(wish=Wish(scripted=reply, reasoning=500))
    assert parts(script) == [
        ("reasoning", "Hm …"),
        ("text", "Schön 🙂\n\n\ttext"),
        ("tool_call", '{"a": [1'),
        ("tool_call", ""),
    ]
    assert calls(script) == list(reply.calls)
    assert script.finish == "tool_calls"
    assert script.reasoning == tokenizer.count("Hm …")


def test_limits_stops_and_a_finish_hold_for_scripted_replies() -> None:
    def said(limit: int | None = None, stop: tuple[str, ...] = (), **reply: Any) -> Script:
        return answer(wish=Wish(scripted=Scripted(**reply)), max_tokens=limit, stop=stop)

    assert said(text="one two three").finish == "stop"
    assert said(text="one two three", finish="content_filter").finish == "content_filter"
    cut = said(2, text="one two three", finish="content_filter")
    assert (text(cut), cut.finish) == ("one two", "length")
    stopped = said(stop=("two",), text="one two three", calls=(Call("f", "{}"),))
    assert (text(stopped), stopped.finish, stopped.stopped) == ("one ", "stop", "two")
    thought = said(1, text="one", reasoning="a long thought")
    assert (thought.tokens, thought.finish, [part.kind for _, part in thought.parts]) == (1, "length", ["reasoning"])
    assert said(1, calls=(Call("f", "{}"),)).finish == "length"


def test_an_empty_reply_is_one_token_without_text() -> None:
    script = answer(wish=Wish(scripted=Scripted(text="")))
    assert (script.tokens, text(script), script.finish) == (1, "", "stop")


def test_a_rule_that_writes_nothing_leaves_the_answer_to_the_model() -> None:
    assert text(answer(wish=Wish(scripted=Scripted(finish="content_filter")))) == text(answer())
    assert answer(wish=Wish(scripted=Scripted(finish="content_filter"))).finish == "content_filter"


# Tokens


@given(st.text(max_size=60))
def test_any_text_is_spelled_in_valid_pieces_as_many_as_its_tokens(said: str) -> None:
    phrase = spell(said)
    assert "".join(phrase.texts).encode("utf-8", "replace") == said.encode("utf-8", "replace")
    assert len(phrase.texts) == len(phrase.wire) == tokenizer.count(said)


def test_parts_can_be_cut_anywhere() -> None:
    reply = Scripted(text="one two", reasoning="three four", calls=(Call("f", '{"a":1}'),))
    script = answer(wish=Wish(scripted=reply))
    starts = {first for first, _ in script.parts}
    for start in range(script.tokens):
        for end in range(start + 1, script.tokens + 1):
            portions = script.cut(start, end)
            assert portions[0][0] == start
            assert portions[-1][1] == end
            assert {first for first, _, part in portions if part} == starts & set(range(start, end))
