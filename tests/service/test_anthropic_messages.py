"""What the Messages API takes, what it refuses and in which words, and what of a request a model reads."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service import tokenizer
from service.errors import InvalidRequest
from service.messages import Turn
from service.profiles import AnthropicRules
from service.wire import anthropic_prompt, anthropic_rules, anthropic_thinking, anthropic_tools
from service.wire.anthropic_blocks import IMAGE_TOKENS
from service.wire.anthropic_messages import MessagesRequest, parse, parse_count
from service.wire.anthropic_prompt import Prompt

EVERYTHING = AnthropicRules("any", True, frozenset({"enabled", "adaptive", "disabled"}), 1024, 1000)
MODERN = AnthropicRules("default", False, frozenset({"adaptive", "disabled"}), 1024, 1000)
OLD, NEW = "2023-06-01", "2026-10-21"

USER = {"role": "user", "content": "Hello"}
TOOL = {"name": "look", "input_schema": {"type": "object"}}
EPHEMERAL = {"type": "ephemeral"}


def body(**fields: Any) -> dict[str, Any]:
    """A request; a field that is `...` is left out."""
    whole = {"model": "m", "max_tokens": 10, "messages": [USER], **fields}
    return {name: value for name, value in whole.items() if value is not ...}


def read(**fields: Any) -> MessagesRequest:
    """A request that is fine. `lenient`, `rules` and `version` are about how it is read."""
    lenient, rules, version = (
        fields.pop(n, d) for n, d in (("lenient", False), ("rules", EVERYTHING), ("version", OLD))
    )
    request = parse(json.dumps(body(**fields)).encode(), lenient)
    anthropic_rules.check(request, rules, version)
    return request


def refusal(**fields: Any) -> str:
    with pytest.raises(InvalidRequest) as refused:
        read(**fields)
    return refused.value.message


def prompt(**fields: Any) -> Prompt:
    return anthropic_prompt.read(read(**fields))


def says(*content: dict[str, Any] | str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": [text(each) if isinstance(each, str) else each for each in content]}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def call(name: str = "t1") -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "look", "input": {}}


def result(name: str = "t1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": "seen", **more}


def image(data: str = "AAAA") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


# ---- Fields ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": ...}, "model: Field required"),
        ({"model": ""}, "model: String should have at least 1 character"),
        ({"model": None}, "model: Input should be a valid string"),
        ({"max_tokens": ...}, "max_tokens: Field required"),
        ({"max_tokens": "10"}, "max_tokens: Input should be a valid integer"),
        ({"max_tokens": True}, "max_tokens: Input should be a valid integer"),
        ({"max_tokens": -1}, "max_tokens: must be greater than or equal to 0"),
        ({"messages": ...}, "messages: Field required"),
        ({"messages": "Hi"}, "messages: Input should be a valid array"),
        ({"messages": []}, "messages: at least one message is required"),
        ({"messages": ["Hi"]}, "messages.0: Input should be an object"),
        ({"messages": [{"content": "Hi"}]}, "messages.0.role: Field required"),
        ({"messages": [{"role": "user"}]}, "messages.0.content: Field required"),
        ({"messages": [{"role": "user", "content": None}]}, "messages.0.content: Input should be a valid array"),
        ({"messages": [{**USER, "name": "me"}]}, "messages.0.name: Extra inputs are not permitted"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages.0.content.0.type: Field required"),
        ({"messages": [says({"type": "text"})]}, "messages.0.content.0.text.text: Field required"),
        ({"messages": [USER, says(text("a", b=1))]}, "messages.1.content.0.text.b: Extra inputs are not permitted"),
        ({"temperature": 1.1}, "temperature: range: 0..1"),
        ({"temperature": "hot"}, "temperature: Input should be a valid number"),
        ({"top_p": -0.1}, "top_p: range: 0..1"),
        ({"stop_sequences": "x"}, "stop_sequences: Input should be a valid array"),
        ({"stop_sequences": ["a", 1]}, "stop_sequences.1: Input should be a valid string"),
        ({"stop_sequences": [" "]}, "stop_sequences.0: each stop sequence must contain non-whitespace"),
        ({"stream": "yes"}, "stream: Input should be a valid boolean"),
        ({"stream": True, "max_tokens": 0}, "max_tokens: 0 is not allowed with stream: true"),
        ({"metadata": {"user": "x"}}, "metadata.user: Extra inputs are not permitted"),
        (
            {"output_config": {"effort": "huge"}},
            "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh'",
        ),
        ({"system": 7}, "system: Input should be a valid array"),
        ({"system": [image()]}, "system.0.type: Input should be 'text'"),
        ({"cache_control": {"type": "forever"}}, "cache_control.type: Input should be 'ephemeral'"),
        ({"surprise": 1}, "surprise: Extra inputs are not permitted"),
        ({"surprise": 1, "temperature": 2}, "temperature: range: 0..1"),
    ],
)
def test_a_fault_is_told_with_its_path(fields: dict[str, Any], words: str) -> None:
    assert refusal(**fields).startswith(words)


@pytest.mark.parametrize("bad", [b"", b"{", b'{"a": NaN}', b"\xff", b'"\\ud800"', b"[" * 2000])
def test_what_is_no_json_is_refused(bad: bytes) -> None:
    with pytest.raises(InvalidRequest, match="The request body is not valid JSON"):
        parse(bad, lenient=False)


@pytest.mark.parametrize("other", [b"[]", b"null", b"7", b'"Hi"'])
def test_a_body_is_an_object(other: bytes) -> None:
    with pytest.raises(InvalidRequest, match="Input should be an object"):
        parse(other, lenient=False)


def test_what_cannot_be_written_back_is_refused_and_no_error() -> None:
    deep: Any = {}
    for _ in range(400):
        deep = {"a": deep}
    with pytest.raises(InvalidRequest, match="nested too deeply"):
        prompt(messages=[USER, says({**call(), "input": deep}, role="assistant"), says(result())])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["type", "text", "role", "content", "source", "name", "ttl"]), inner)
        ),
        max_leaves=8,
    ),
    st.sampled_from(sorted(MessagesRequest.model_fields)),
    st.booleans(),
)
def test_any_value_anywhere_is_taken_or_refused(value: Any, field: str, lenient: bool) -> None:
    with suppress(InvalidRequest):
        prompt(lenient=lenient, **{field: value})


# ---- Blocks ----------------------------------------------------------------------------------------------------------


def test_blocks_of_an_unknown_type_need_a_beta() -> None:
    strange = {"type": "hologram", "beam": 1}
    assert refusal(messages=[says(strange)]).startswith(
        "messages.0.content.0: Input tag 'hologram' found using 'type' does not match any of the expected tags: 'text'"
    )
    assert prompt(lenient=True, messages=[says(strange)]).turns == (Turn("user", '{"type":"hologram","beam":1}'),)


def test_with_a_beta_unknown_fields_are_tolerated() -> None:
    assert read(lenient=True, surprise=1, messages=[{**USER, "id": "x"}]).max_tokens == 10


def test_tools_at_the_provider_may_have_been_used_before() -> None:
    searched = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    assert "web_search" in prompt(messages=[USER, says(searched, found, "So.", role="assistant"), USER]).turns[1].text


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"type": "base64", "media_type": "image/png", "data": "AAAA"}, None),
        ({"type": "url", "url": "https://example.com/a.png"}, None),
        ({"type": "file", "file_id": "file_1"}, None),
        (
            {"type": "base64", "media_type": "image/tiff", "data": "AAAA"},
            "messages.0.content.0.image.source.base64.media_type: Input should be 'image/jpeg'",
        ),
        ({"type": "smell"}, "messages.0.content.0.image.source: Input tag 'smell' found using 'type' does not match"),
    ],
)
def test_images_come_in_three_ways(source: dict[str, Any], words: str | None) -> None:
    message = says({"type": "image", "source": source})
    if words is None:
        assert len(prompt(messages=[message]).images[0]) == 1
    else:
        assert refusal(messages=[message]).startswith(words)


def test_images_are_told_apart_by_what_they_are() -> None:
    (seen,) = prompt(messages=[says(image("AAAA"), image("AAAA"), image("BBBB"))]).images
    assert seen[0] == seen[1] != seen[2]


def test_documents_are_read_if_they_are_text_and_seen_otherwise() -> None:
    plain = {
        "type": "document",
        "title": "Title",
        "source": {"type": "text", "media_type": "text/plain", "data": "It."},
    }
    pages = {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}
    read_one = prompt(messages=[says(plain, pages)])
    assert read_one.turns == (Turn("user", "Title\nIt."),)
    assert len(read_one.images[0]) == 1


# ---- Conversations ---------------------------------------------------------------------------------------------------


def test_a_string_is_short_for_a_block_of_text() -> None:
    assert prompt(system="Be brief.") == prompt(system=[text("Be brief.")])
    assert prompt(messages=[USER]) == prompt(messages=[says("Hello")])


def test_results_of_tools_are_turns_of_their_own_and_remarks_beside_them_come_before() -> None:
    asked = says("Look.", role="user")
    turns = prompt(messages=[asked, says("So.", call(), role="assistant"), says(result(), "By the way.")]).turns
    assert [turn.role for turn in turns] == ["user", "assistant", "user", "tool"]
    assert [turn.text for turn in turns[2:]] == ["By the way.", "seen"]
    assert '"name":"look"' in turns[1].text


def test_instructions_in_the_middle_come_before_the_question_they_follow() -> None:
    later = {"role": "system", "content": "Be brief."}
    answer = {"role": "assistant", "content": "Yes."}
    first, second = prompt(messages=[USER, later]), prompt(messages=[USER, later, answer, USER])
    assert [turn.role for turn in first.turns] == ["system", "user"]
    assert second.turns[:2] == first.turns, "what was cached is found again"


def test_a_question_behind_results_is_the_last_turn() -> None:
    turns = prompt(messages=[USER, says(call(), role="assistant"), says(result()), says("And now?")]).turns
    assert [turn.role for turn in turns] == ["user", "assistant", "tool", "user"]


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        (
            [{"role": "tool", "content": "x"}],
            'messages: Unexpected role "tool". Allowed roles are "user" or "assistant"',
        ),
        ([{"role": "system", "content": "x"}, USER], "messages.0: use the top-level 'system' parameter"),
        ([USER, {"role": "system", "content": "x"}, USER], "messages.1: role 'system' must precede an 'assistant'"),
        ([{"role": "user", "content": ""}], "messages.0: user messages must have non-empty content"),
        ([USER, says(role="assistant"), says()], "messages.2: user messages must have non-empty content"),
        ([says("")], "messages: text content blocks must be non-empty"),
        ([says(" \n")], "messages: text content blocks must contain non-whitespace text"),
        ([says(text("", cache_control=EPHEMERAL))], "messages.0.content.0.text: cache_control cannot be set for empty"),
        ([says(call())], "messages.0: `tool_use` blocks can only be in `assistant` messages"),
        ([USER, says(result(), role="assistant")], "messages.1: `tool_result` blocks can only be in `user` messages"),
        (
            [USER, says(call("t1"), call("t2"), role="assistant"), USER],
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1, t2. Each "
            "`tool_use` block must have a corresponding `tool_result` block in the next message.",
        ),
        ([USER, says(call("t1"), role="assistant")], "messages.1: `tool_use` ids were found without `tool_result`"),
        (
            [USER, says(call("t1"), call("t2"), role="assistant"), says(result("t2"))],
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1. Each",
        ),
        (
            [USER, says(result("t9"))],
            "messages.1.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t9. Each `tool_result` "
            "block must have a corresponding `tool_use` block in the previous message.",
        ),
        (
            [USER, says(call(), role="assistant"), says(result()), USER, says("a", role="assistant"), says(result())],
            "messages.5.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t1.",
        ),
        (
            [USER, says(call(), role="assistant"), says(result(), result())],
            "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks",
        ),
        (
            [USER, says(call(), call(), role="assistant"), says(result())],
            "messages.1: `tool_use` ids must be unique",
        ),
        (
            [USER, says("And ", role="assistant")],
            "messages: final assistant content cannot end with trailing whitespace",
        ),
    ],
)
def test_a_conversation_has_to_make_sense(messages: list[dict[str, Any]], words: str) -> None:
    assert refusal(messages=messages).startswith(words)


@pytest.mark.parametrize(
    "messages",
    [
        [USER, USER],
        [says("a", role="assistant"), USER],
        [USER, says(role="assistant"), USER],
        [says(), USER],
        [USER, {"role": "system", "content": "x"}],
        [
            USER,
            says(call("t1"), role="assistant"),
            says(call("t2"), role="assistant"),
            says(result("t1")),
            says(result("t2")),
        ],
        [USER, says(call(), role="assistant"), says(result(content=None)), says("Go on.", role="assistant")],
        [USER, says(call(), role="assistant"), says(result(content=[text("a"), image()], is_error=True))],
        [USER, says({"type": "redacted_thinking", "data": "x"}, "a", role="assistant"), USER],
    ],
)
def test_turns_of_one_role_are_one_turn_and_other_things_that_are_allowed(messages: list[dict[str, Any]]) -> None:
    read(messages=messages)


def test_a_model_may_not_know_prefill() -> None:
    ends = [USER, says("The answer is", role="assistant")]
    assert prompt(messages=ends).turns[-1] == Turn("assistant", "The answer is")
    assert refusal(rules=MODERN, messages=ends) == (
        "This model does not support assistant message prefill. The conversation must end with a user message."
    )


# ---- Versions and models ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k"])
def test_sampling_depends_on_version_and_model(name: str) -> None:
    assert read(**{name: 1})
    assert refusal(version=NEW, **{name: 1}) == f"{name}: Extra inputs are not permitted"
    other: float = 5 if name == "top_k" else 0.5
    assert refusal(rules=MODERN, **{name: other}) == f"`{name}` is deprecated for this model."


def test_the_default_is_no_choice_of_a_temperature() -> None:
    assert read(rules=MODERN, temperature=1).temperature == 1


def test_the_new_version_has_places_for_some_blocks() -> None:
    document = {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}
    said = [USER, says(document, role="assistant"), USER]
    cited = [says(text("a", citations=[{"type": "char_location"}]))]
    assert read(messages=said)
    assert read(messages=cited)
    assert "`document` blocks are not permitted" in refusal(version=NEW, messages=said)
    assert "citations are not permitted" in refusal(version=NEW, messages=cited)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({}, "anthropic-version: header is required"),
        ({"anthropic-version": "2020-01-01"}, 'anthropic-version: "2020-01-01" is not a valid version'),
        ({"anthropic-version": ""}, 'anthropic-version: "" is not a valid version'),
    ],
)
def test_a_version_has_to_be_named(headers: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        anthropic_rules.version(headers, (OLD, NEW))
    assert refused.value.message == words
    assert anthropic_rules.version({"anthropic-version": NEW}, (OLD, NEW)) == NEW


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"thinking": {"type": "enabled"}}, "thinking.enabled.budget_tokens: Field required"),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 1023}},
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 1024},
            "`max_tokens` must be greater than `thinking.budget_tokens`",
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000, "rules": MODERN},
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
            '"output_config.effort" to control thinking behavior.',
        ),
        (
            {
                "thinking": {"type": "adaptive"},
                "rules": AnthropicRules("any", True, frozenset({"enabled", "disabled"}), 1024, 1000),
            },
            "adaptive thinking is not supported on this model",
        ),
        ({"thinking": {"type": "always"}}, "thinking: Input tag 'always' found using 'type' does not match any of"),
        ({"thinking": {"type": "adaptive"}, "temperature": 0.5}, "`temperature` may only be set to 1 when thinking"),
        ({"thinking": {"type": "adaptive"}, "top_k": 5}, "`top_k` must be unset when thinking is enabled"),
        (
            {"thinking": {"type": "adaptive"}, "tools": [TOOL], "tool_choice": {"type": "any"}},
            "Thinking may not be enabled when tool_choice forces tool use.",
        ),
    ],
)
def test_thinking_has_rules(fields: dict[str, Any], words: str) -> None:
    assert refusal(**fields).startswith(words)


def test_thinking_leaves_room_for_an_answer() -> None:
    enabled = read(thinking={"type": "enabled", "budget_tokens": 4000}, max_tokens=8000).thinking
    adaptive = read(thinking={"type": "adaptive"}).thinking
    assert anthropic_thinking.expected(enabled, None, 8000) == 1000
    assert [anthropic_thinking.expected(adaptive, effort, 10_000) for effort in ("low", "max")] == [60, 1200]
    assert anthropic_thinking.expected(adaptive, "max", 40) == 10
    assert anthropic_thinking.expected(read(thinking={"type": "disabled"}).thinking, "max", 40) == 0


def test_thinking_that_was_changed_is_refused() -> None:
    signed = anthropic_thinking.signature(b"Hm.").decode()
    for said, fine in (("Hm.", True), ("", True), ("Ha.", False)):
        thought = {"type": "thinking", "thinking": said, "signature": signed}
        messages = [USER, says(thought, "Yes.", role="assistant"), USER]
        if fine:
            read(messages=messages)
        else:
            assert refusal(messages=messages) == "messages.1.content.0: Invalid `signature` in `thinking` block"


# ---- Tools -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tools": [{"name": "a"}]}, "tools.0.custom.input_schema: Field required"),
        ({"tools": [{**TOOL, "name": "a b"}]}, "tools.0.custom.name: String should match pattern"),
        ({"tools": [{**TOOL, "color": 1}]}, "tools.0.custom.color: Extra inputs are not permitted"),
        ({"tools": [{"name": "a", "input_schema": {}}]}, "tools.0.custom.input_schema.type: Field required"),
        (
            {"tools": [{"name": "a", "input_schema": {"type": "array"}}]},
            "tools.0.custom.input_schema.type: Input should be 'object'",
        ),
        (
            {"tools": [{"name": "a", "input_schema": {"type": "object", "oneOf": []}}]},
            "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
        ),
        (
            {"tools": [{"type": "hammer_20260101", "name": "h"}]},
            "tools.0: Input tag 'hammer_20260101' found using 'type'",
        ),
        ({"tools": [TOOL, TOOL]}, "tools: Tool names must be unique."),
        (
            {"tools": [{"name": "a", "input_schema": {"type": "object", "properties": {"b": {"type": "many"}}}}]},
            "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
        ),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "many"}}}},
            "output_config.format.schema: JSON schema is invalid",
        ),
        ({"tool_choice": {"type": "any"}}, "tool_choice may only be specified while providing tools."),
        (
            {"tool_choice": {"type": "some"}},
            "tool_choice: Input tag 'some' found using 'type' does not match any of the",
        ),
        ({"tool_choice": {}}, "tool_choice.type: Field required"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "x"}}, "Tool 'x' not found in provided tools"),
    ],
)
def test_tools_have_rules(fields: dict[str, Any], words: str) -> None:
    assert refusal(**fields).startswith(words)


@pytest.mark.parametrize(
    ("choice", "names", "mode", "parallel"),
    [
        (None, ["look", "bash"], "auto", True),
        ({"type": "auto", "disable_parallel_tool_use": True}, ["look", "bash"], "auto", False),
        ({"type": "any"}, ["look", "bash"], "required", True),
        ({"type": "tool", "name": "bash"}, ["bash"], "required", True),
        ({"type": "tool", "name": "web_search"}, [], "auto", True),
        ({"type": "none"}, [], "none", True),
    ],
)
def test_a_choice_says_which_tools_may_be_called(
    choice: dict[str, Any] | None, names: list[str], mode: str, parallel: bool
) -> None:
    beside = [{"type": "bash_20250124", "name": "bash"}, {"type": "web_search_20250305", "name": "web_search"}]
    request = read(tools=[TOOL, *beside], **({"tool_choice": choice} if choice else {}))
    tools = anthropic_tools.callable_tools(request.tools or (), request.tool_choice)
    assert [tool.name for tool in tools] == names
    assert anthropic_tools.mode(tools, request.tool_choice) == mode
    assert anthropic_tools.parallel(request.tool_choice) == parallel


def test_a_tool_is_passed_on_with_its_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "integer"}}}
    strict = {
        "name": "look",
        "description": "Looks.",
        "input_schema": schema,
        "strict": True,
        "cache_control": EPHEMERAL,
    }
    (tool,) = anthropic_tools.callable_tools(read(tools=[strict]).tools or (), None)
    assert (tool.name, tool.description, tool.strict, json.loads(tool.parameters)) == ("look", "Looks.", True, schema)


# ---- Caching ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("controls", "words"),
    [
        (["5m"] * 5, "A maximum of 4 blocks with cache_control may be provided. Found 5."),
        (["5m", "1h"], "messages.0.content.1.cache_control.ttl: a ttl='1h' cache_control block must not come after a"),
        (["2h"], "messages.0.content.0.text.cache_control.ttl: Input should be '5m' or '1h'"),
    ],
)
def test_marks_for_the_cache_have_rules(controls: list[str], words: str) -> None:
    blocks = [text(f"{place}", cache_control={**EPHEMERAL, "ttl": ttl}) for place, ttl in enumerate(controls)]
    assert refusal(messages=[says(*blocks)]).startswith(words)


def test_marks_stand_where_their_blocks_end() -> None:
    marked = {"cache_control": EPHEMERAL}
    found = prompt(
        tools=[TOOL, {**TOOL, "name": "see", "cache_control": {**EPHEMERAL, "ttl": "1h"}}],
        system=[text("One.", **marked), text("Two.")],
        messages=[says("Look.", image()), says(call(), role="assistant"), says({**result(), **marked}, "By the way.")],
        cache_control=EPHEMERAL,
    )
    tools = tokenizer.count(found.tools)
    whole = tools + tokenizer.count_chat(found.turns) - tokenizer.PER_ANSWER + IMAGE_TOKENS
    assert found.marks[0].tokens == tools
    assert [mark.ttl for mark in found.marks] == ["1h", "5m", "5m", "5m"]
    assert found.marks[1].tokens == tools + 2 + tokenizer.count("system") + tokenizer.count("One.")
    assert found.marks[2].tokens == found.marks[3].tokens == whole
    assert prompt(messages=[USER]).marks == ()


def test_what_is_said_to_the_cache_is_not_read() -> None:
    plain, marked = ([{**TOOL, **more}] for more in ({}, {"cache_control": EPHEMERAL}))
    assert prompt(tools=plain).tools == prompt(tools=marked).tools


def test_a_body_to_be_counted_may_have_all_that_a_request_has() -> None:
    whole = body(system="Be brief.", tools=[TOOL], stream=True, stop_sequences=["x"], metadata={"user_id": "u"})
    counted = parse_count(json.dumps(whole).encode(), lenient=False)
    assert anthropic_prompt.read(counted) == prompt(system="Be brief.", tools=[TOOL])
    del whole["max_tokens"]
    assert parse_count(json.dumps(whole).encode(), lenient=False).model == "m"
