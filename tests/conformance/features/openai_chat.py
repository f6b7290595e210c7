"""Chat completions that are answered at once."""

import re
import uuid
from typing import Any

from features import feature
from features.openai_door import MODEL, PNG, SIGHTED, SPARK, Door
from features.raising import raises

_IMAGE = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": PNG}}]


@feature
def answers_have_the_documented_shape(door: Door) -> None:
    """An answer has an id, the model, one choice of the assistant, and a finish reason"""
    answer = door.chat()
    assert re.fullmatch(r"chatcmpl-[A-Za-z0-9]{29}", answer.id), answer.id
    assert (answer.object, answer.model) == ("chat.completion", MODEL)
    (choice,) = answer.choices
    assert (choice.index, choice.message.role, choice.logprobs) == (0, "assistant", None)
    assert choice.message.content
    assert choice.message.refusal is None
    assert choice.message.tool_calls is None
    assert choice.finish_reason == "length"
    assert answer.created > 1_700_000_000


@feature
def usage_adds_up_and_has_its_details(door: Door) -> None:
    """Usage adds up, and its details are there, as zeros if need be"""
    usage = door.chat(max_tokens=12).usage
    assert usage.completion_tokens == 12
    assert usage.prompt_tokens > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert (usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens_details.audio_tokens) == (0, 0)
    details = usage.completion_tokens_details
    assert (details.reasoning_tokens, details.audio_tokens) == (0, 0)
    assert (details.accepted_prediction_tokens, details.rejected_prediction_tokens) == (0, 0)


@feature
def max_tokens_is_kept_and_finishes_with_length(door: Door) -> None:
    """max_tokens and max_completion_tokens are kept to, and finish with `length`"""
    for limit in ("max_tokens", "max_completion_tokens"):
        answer = door.chat(**{limit: 7})
        assert (answer.usage.completion_tokens, answer.choices[0].finish_reason) == (7, "length")


@feature
def answers_end_by_themselves(door: Door) -> None:
    """Without a limit, an answer ends by itself with `stop`"""
    assert door.chat(max_tokens=None).choices[0].finish_reason == "stop"


@feature
def several_choices_are_numbered(door: Door) -> None:
    """n=3 gives three choices, numbered, that differ, and usage counts them all"""
    answer = door.chat(n=3, max_tokens=20)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in answer.choices}) == 3
    assert answer.usage.completion_tokens == 60


@feature
def stop_sequences_end_the_answer(door: Door) -> None:
    """A stop sequence, alone or in a list, ends the answer and is left out of it"""
    whole = door.chat(max_tokens=60, seed=5).choices[0].message.content
    stop = whole[len(whole) // 2 :][:4]
    for asked in (stop, ["\x00 never", stop]):
        choice = door.chat(max_tokens=60, seed=5, stop=asked).choices[0]
        assert choice.message.content == whole[: whole.index(stop)]
        assert choice.finish_reason == "stop"


@feature
def the_same_seed_gives_the_same_answer(door: Door) -> None:
    """The same seed gives the same answer and fingerprint, another seed another answer"""
    first, again, other = (door.chat(seed=seed, max_tokens=40) for seed in (1, 1, 2))
    assert first.choices[0].message.content == again.choices[0].message.content
    assert first.choices[0].message.content != other.choices[0].message.content
    assert first.system_fingerprint == again.system_fingerprint
    assert re.fullmatch(r"fp_\w+", first.system_fingerprint)
    assert first.id != again.id


@feature
def logprobs_belong_to_the_tokens(door: Door) -> None:
    """logprobs has an entry for each token, whose bytes join to the content, with as many alternatives as asked"""
    choice = door.chat(logprobs=True, top_logprobs=3, max_tokens=15).choices[0]
    tokens = choice.logprobs.content
    assert len(tokens) == 15
    assert bytes(byte for token in tokens for byte in token.bytes).decode() == choice.message.content
    for token in tokens:
        assert token.logprob <= 0
        assert len(token.top_logprobs) == 3
        assert [top.logprob for top in token.top_logprobs] == sorted(
            (t.logprob for t in token.top_logprobs), reverse=True
        )
        assert any(top.token == token.token for top in token.top_logprobs)


@feature
def logprobs_without_alternatives(door: Door) -> None:
    """logprobs without top_logprobs has no alternatives"""
    choice = door.chat(logprobs=True).choices[0]
    assert choice.logprobs.refusal is None
    assert all(token.top_logprobs == [] for token in choice.logprobs.content)


@feature
def all_roles_are_taken(door: Door) -> None:
    """system, developer, user and assistant messages, as strings or parts, with names, are taken and counted"""
    parts: Any = [{"type": "text", "text": "And in Spanish?"}]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Use Markdown."},
        {"role": "user", "content": "How is hello in French?", "name": "ann"},
        {"role": "assistant", "content": "Bonjour."},
        {"role": "user", "content": parts},
    ]
    many, few = door.chat(messages=messages), door.chat(messages=messages[2:3])
    assert many.usage.prompt_tokens > few.usage.prompt_tokens > 0


@feature
def predictions_are_accounted_for(door: Door) -> None:
    """Of a predicted output most is accepted, and what is not is counted as rejected, and billed"""
    code = "def area(x):\n    return x * x\n\n\ndef volume(x):\n    return x * x * x\n"
    asked = {"messages": [{"role": "user", "content": f"Write y for x:\n{code}"}], "max_tokens": None, "seed": 1}
    usage = door.chat(**asked, prediction={"type": "content", "content": code}).usage
    details = usage.completion_tokens_details
    assert details.accepted_prediction_tokens > details.rejected_prediction_tokens
    assert details.accepted_prediction_tokens + details.rejected_prediction_tokens <= usage.completion_tokens


@feature
def reasoning_is_counted(door: Door) -> None:
    """More reasoning_effort gives more reasoning_tokens, which are part of completion_tokens and not of the content"""
    low, high = (door.chat(reasoning_effort=effort, max_tokens=None, seed=3).usage for effort in ("low", "high"))
    assert 0 < low.completion_tokens_details.reasoning_tokens < high.completion_tokens_details.reasoning_tokens
    assert high.completion_tokens_details.reasoning_tokens < high.completion_tokens


@feature
def images_are_counted_where_they_are_taken(door: Door) -> None:
    """Image parts are taken by models that see, and counted"""
    messages = [{"role": "user", "content": _IMAGE}]
    seen = door.chat(model=SIGHTED, messages=messages)
    unseen = door.chat(model=SIGHTED, messages=[{"role": "user", "content": _IMAGE[:1]}])
    assert seen.usage.prompt_tokens > unseen.usage.prompt_tokens + 50


@feature
def images_are_refused_where_they_are_not(door: Door) -> None:
    """Image parts are 400 for a model that takes text only"""
    with raises(door.library.BadRequestError) as raised:
        door.chat(model=SPARK, messages=[{"role": "user", "content": _IMAGE}])
    assert raised.error.type == "invalid_request_error"


@feature
def prompts_are_cached(door: Door) -> None:
    """A long prompt that was asked before is reported as cached, at the same tier only"""
    words = f"{uuid.uuid4()} All work and no play makes Jack a dull boy. " * 100
    messages = [{"role": "user", "content": words}]
    first, again = (door.chat(messages=messages) for _ in range(2))
    fast = door.chat(messages=messages, service_tier="priority")
    cached = [answer.usage.prompt_tokens_details.cached_tokens for answer in (first, again, fast)]
    assert cached[1] >= 1024
    assert cached[1] % 128 == 0
    assert cached[2] == 0


@feature
def customary_parameters_are_accepted(door: Door) -> None:
    """Sampling, metadata, store, user, cache and verbosity parameters are accepted"""
    door.chat(
        temperature=0.7, top_p=0.9, presence_penalty=0.1, frequency_penalty=0.1, logit_bias={"50256": -100},
        metadata={"a": "b"}, store=False, user="u", safety_identifier="s", prompt_cache_key="k", verbosity="low",
        modalities=["text"],
    )  # fmt: skip


@feature
def unicode_survives(door: Door) -> None:
    """Unicode of any kind in a prompt is counted and answered"""
    text = "Grüße 你好 🤖👩‍👩‍👧 \u202e \x00 \\u0041"
    assert door.chat(messages=[{"role": "user", "content": text}]).usage.prompt_tokens > 10
