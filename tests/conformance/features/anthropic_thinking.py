"""Thinking."""

from typing import Any

from features import feature
from features.anthropic_door import HELLO, Door
from features.raising import raises

OLDER = "claude-haiku-4-5"  # takes a budget
ASK: dict[str, Any] = {"model": OLDER, "max_tokens": 6000, "thinking": {"type": "enabled", "budget_tokens": 1024}}


@feature
def thinking_comes_first_and_is_signed(door: Door) -> None:
    """Thinking comes before the text, has a signature, and counts as output"""
    message = door.say(**ASK)
    thinking, text = message.content
    assert (thinking.type, text.type) == ("thinking", "text")
    assert thinking.thinking
    assert thinking.signature
    assert message.usage.output_tokens > len(text.text.split())


@feature
def adaptive_thinking_is_understood(door: Door) -> None:
    """Adaptive thinking is understood by models that take it"""
    message = door.say(max_tokens=6000, thinking={"type": "adaptive"})
    assert message.content[-1].type == "text"


@feature
def thinking_is_streamed_and_signed(door: Door) -> None:
    """Streamed thinking is one block of thinking_deltas with a signature_delta at its end"""
    events = door.events(**ASK)
    deltas = [event.delta.type for event in events if event.type == "content_block_delta" and event.index == 0]
    assert set(deltas[:-1]) == {"thinking_delta"}
    assert deltas[-1] == "signature_delta"
    with door.client.messages.stream(messages=HELLO, **ASK) as stream:
        final = stream.get_final_message()
    whole = door.say(**ASK)
    assert final.content[0].thinking == whole.content[0].thinking
    assert final.content[0].signature == whole.content[0].signature
    assert final.content[1].text == whole.content[1].text


@feature
def thinking_can_be_sent_back(door: Door) -> None:
    """A message is taken back, with its thinking, as part of the conversation"""
    said = [block.model_dump(exclude_none=True) for block in door.say(**ASK).content]
    turns = [*HELLO, {"role": "assistant", "content": said}, {"role": "user", "content": "Go on"}]
    assert door.say(**ASK, messages=turns).content[-1].type == "text"


@feature
def budgets_have_bounds(door: Door) -> None:
    """A budget below 1024, or not below max_tokens, is 400"""
    for budget, limit in ((1000, 4000), (2000, 2000)):
        with raises(door.library.BadRequestError):
            door.say(model=OLDER, max_tokens=limit, thinking={"type": "enabled", "budget_tokens": budget})


@feature
def no_thinking_unless_asked(door: Door) -> None:
    """Without thinking, or with it disabled, there is none"""
    for beside in ({}, {"thinking": {"type": "disabled"}}):
        assert [block.type for block in door.say(model=OLDER, **beside).content] == ["text"]
