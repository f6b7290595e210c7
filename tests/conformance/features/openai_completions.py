"""Legacy completions."""

from typing import Any

from features import feature
from features.openai_door import MODEL, Door
from features.raising import raises


def _complete(door: Door, **fields: Any) -> Any:
    return door.client.completions.create(**{"model": MODEL, "prompt": "Once upon a time", "max_tokens": 10, **fields})


@feature
def completions_have_the_documented_shape(door: Door) -> None:
    """A completion has its id, text, finish reason and usage"""
    answer = _complete(door)
    assert answer.id.startswith("cmpl-")
    assert answer.object == "text_completion"
    (choice,) = answer.choices
    assert choice.text
    assert (choice.index, choice.finish_reason, choice.logprobs) == (0, "length", None)
    assert answer.usage.completion_tokens == 10
    assert answer.usage.total_tokens == 10 + answer.usage.prompt_tokens


@feature
def sixteen_tokens_are_the_default(door: Door) -> None:
    """Without max_tokens there are at most 16 tokens"""
    answer = door.client.completions.create(model=MODEL, prompt="Once upon a time")
    assert 0 < answer.usage.completion_tokens <= 16


@feature
def lists_of_prompts_are_answered_in_order(door: Door) -> None:
    """A list of prompts with n=2 gives two choices of each, in order"""
    answer = _complete(door, prompt=["One fish", "Two fish", "Red fish"], n=2, echo=True)
    assert [choice.index for choice in answer.choices] == list(range(6))
    for choice, prompt in zip(answer.choices, ("One", "One", "Two", "Two", "Red", "Red"), strict=True):
        assert choice.text.startswith(prompt)
    assert answer.usage.completion_tokens == 60


@feature
def token_ids_are_prompts(door: Door) -> None:
    """Lists of token ids are prompts, and are counted as such"""
    assert _complete(door, prompt=[13225, 2375]).usage.prompt_tokens == 2
    answer = _complete(door, prompt=[[13225, 2375], [13225]], echo=True)
    assert answer.usage.prompt_tokens == 3
    assert answer.choices[0].text.startswith("Hello")


@feature
def echo_repeats_the_prompt(door: Door) -> None:
    """echo puts the prompt before the completion"""
    plain, echoed = (_complete(door, seed=4, echo=echo).choices[0].text for echo in (False, True))
    assert echoed == "Once upon a time" + plain


@feature
def a_suffix_is_taken(door: Door) -> None:
    """A suffix is taken and counted"""
    with_suffix = _complete(door, suffix=" and they lived happily ever after.")
    assert with_suffix.usage.prompt_tokens > _complete(door).usage.prompt_tokens


@feature
def completion_logprobs_are_aligned(door: Door) -> None:
    """logprobs are lists of equal length, whose tokens join to the text"""
    choice = _complete(door, logprobs=3).choices[0]
    logprobs = choice.logprobs
    assert "".join(logprobs.tokens) == choice.text
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset) == 10
    assert all(len(top) in (3, 4) for top in logprobs.top_logprobs)
    assert all(
        choice.text[offset:].startswith(t) for offset, t in zip(logprobs.text_offset, logprobs.tokens, strict=True)
    )
    echoed = _complete(door, logprobs=1, echo=True).choices[0].logprobs
    assert echoed.token_logprobs[0] is None


@feature
def completions_are_streamed(door: Door) -> None:
    """A streamed completion joins to the whole one, and has one finish reason"""
    for fields in ({"seed": 1}, {"seed": 2, "echo": True}, {"seed": 3, "prompt": ["a b", "c d"], "n": 2}):
        whole, chunks = _complete(door, **fields), list(_complete(door, **fields, stream=True))
        for choice in whole.choices:
            mine = [c.choices[0] for c in chunks if c.choices[0].index == choice.index]
            assert "".join(piece.text for piece in mine) == choice.text
            assert [piece.finish_reason for piece in mine if piece.finish_reason] == [choice.finish_reason]
        assert {c.object for c in chunks} == {"text_completion"}
    *_, last = _complete(door, stream=True, stream_options={"include_usage": True})
    assert (last.choices, last.usage.completion_tokens) == ([], 10)


@feature
def completion_stops_and_limits(door: Door) -> None:
    """Stop sequences end a completion, best_of must not be less than n, logprobs not above 5"""
    text = _complete(door, seed=6, max_tokens=40).choices[0].text
    stopped = _complete(door, seed=6, max_tokens=40, stop=text[20:24]).choices[0]
    assert (stopped.text, stopped.finish_reason) == (text[: text.index(text[20:24])], "stop")
    wrongs: list[dict[str, Any]] = [{"n": 3, "best_of": 2}, {"logprobs": 6}, {"prompt": [[]]}, {"model": "nothing"}]
    for wrong in wrongs:
        with raises(door.library.APIStatusError) as raised:
            _complete(door, **wrong)
        assert raised.error.status_code in (400, 404)
