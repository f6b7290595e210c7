"""Messages that are answered at once."""

import json
import re

from pydantic import BaseModel

from features import Lacking, feature
from features.anthropic_door import HELLO, MODEL, Door
from features.raising import raises

_LONG = 4000  # tokens; answers end by themselves before


class Trip(BaseModel):
    place: str
    days: int


@feature
def messages_have_the_documented_shape(door: Door) -> None:
    """A message has an id, a role, blocks, a stop reason and usage"""
    message = door.say(max_tokens=_LONG)
    assert re.fullmatch(r"msg_[A-Za-z0-9]{20,}", message.id), message.id
    assert (message.type, message.role, message.model) == ("message", "assistant", MODEL)
    (block,) = message.content
    assert block.type == "text"
    assert block.text
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)


@feature
def message_usage_has_its_details(door: Door) -> None:
    """Usage counts input and output, says that nothing was cached, and names the service tier"""
    usage = door.say().usage
    assert usage.input_tokens > 0
    assert 0 < usage.output_tokens <= 60
    assert (usage.cache_creation_input_tokens, usage.cache_read_input_tokens) == (0, 0)
    assert usage.cache_creation.ephemeral_5m_input_tokens == usage.cache_creation.ephemeral_1h_input_tokens == 0
    assert usage.service_tier == "standard"


@feature
def max_tokens_bounds_the_message(door: Door) -> None:
    """max_tokens bounds a message, which then ends with max_tokens"""
    message = door.say(max_tokens=3)
    assert (message.usage.output_tokens, message.stop_reason) == (3, "max_tokens")


@feature
def a_stop_sequence_is_reported(door: Door) -> None:
    """A stop sequence ends a message, is left out of it, and is reported"""
    whole = door.say(max_tokens=_LONG).content[0].text
    stop = whole[10:14]
    message = door.say(max_tokens=_LONG, stop_sequences=["\x00 never", stop])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
    assert message.content[0].text == whole[: whole.index(stop)]


@feature
def the_system_prompt_is_text_or_blocks(door: Door) -> None:
    """system is a string or blocks, and counts the same"""
    text, blocks, without = (
        door.say(**asked).usage.input_tokens
        for asked in ({"system": "Be brief."}, {"system": [{"type": "text", "text": "Be brief."}]}, {})
    )
    assert text == blocks > without


@feature
def content_is_text_or_blocks(door: Door) -> None:
    """Content is a string or blocks of text and images"""
    blocks = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    assert door.say(messages=blocks).usage.input_tokens == door.say().usage.input_tokens
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": pixel}}
    seen = door.say(messages=[{"role": "user", "content": [*blocks[0]["content"], image]}])
    assert seen.usage.input_tokens > door.say().usage.input_tokens


@feature
def conversations_go_on(door: Door) -> None:
    """A conversation of several turns is taken and counted"""
    turns = [*HELLO, {"role": "assistant", "content": "Hi!"}, {"role": "user", "content": "How are you?"}]
    assert door.say(messages=turns).usage.input_tokens > door.say().usage.input_tokens


@feature
def counting_agrees_with_usage(door: Door) -> None:
    """count_tokens says what the usage of the same request says: with system, tools, thinking and images"""
    tool = {"name": "look", "description": "Looks", "input_schema": {"type": "object", "properties": {}}}
    for beside in ({}, {"system": "Be brief."}, {"tools": [tool]}, {"tools": [tool], "tool_choice": {"type": "any"}}):
        counted = door.client.messages.count_tokens(model=MODEL, messages=HELLO, **beside)
        assert counted.input_tokens == door.say(**beside).usage.input_tokens


@feature
def metadata_and_tiers_are_accepted(door: Door) -> None:
    """metadata and service_tier are accepted"""
    for tier in ("auto", "standard_only"):
        assert door.say(metadata={"user_id": "u"}, service_tier=tier).usage.service_tier == "standard"


@feature
def structured_output_is_valid(door: Door) -> None:
    """output_config with a JSON schema gives JSON that it describes"""
    schema = {
        "type": "object", "properties": {"n": {"type": "integer"}, "kind": {"enum": ["a", "b"]}},
        "required": ["n", "kind"], "additionalProperties": False,
    }  # fmt: skip
    config = {"format": {"type": "json_schema", "schema": schema}}
    found = json.loads(door.say(max_tokens=_LONG, extra_body={"output_config": config}).content[0].text)
    assert isinstance(found["n"], int)
    assert found["kind"] in ("a", "b")


@feature
def parse_gives_the_model(door: Door) -> None:
    """The parse helper gives an instance of a pydantic model"""
    if not hasattr(door.client.messages, "parse"):
        raise Lacking("this generation has no such helper")
    message = door.client.messages.parse(model=MODEL, messages=HELLO, max_tokens=_LONG, output_format=Trip)
    assert isinstance(message.parsed_output, Trip)


@feature
def a_prefill_is_gone_on_with(door: Door) -> None:
    """Models that take a prefill go on from it, and do not say it again"""
    turns = [*HELLO, {"role": "assistant", "content": "Once upon a"}]
    message = door.say(model="claude-haiku-4-5", messages=turns)
    assert message.content[0].text
    assert not message.content[0].text.startswith("Once upon a")
    with raises(door.library.BadRequestError):
        door.say(messages=turns)


@feature
def documents_and_results_are_read(door: Door) -> None:
    """Documents and search results are taken and counted"""
    source = {"type": "text", "media_type": "text/plain", "data": "The sky is green."}
    document = {"type": "document", "source": source, "title": "Skies", "citations": {"enabled": True}}
    asked = [{"role": "user", "content": [document, {"type": "text", "text": "Hello"}]}]
    assert door.say(messages=asked).usage.input_tokens > door.say().usage.input_tokens
