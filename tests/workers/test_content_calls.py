"""When an answer calls tools, which, how many, and how the calls are told."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tool_schemas import TOOLS

from service import tokenizer
from service.messages import TAKES_TEXT, Call, Job, Tool, Turn, Wish
from workers import content
from workers.content import Script, Unsatisfiable
from workers.content.instances import valid

DESCRIPTIONS = {
    "get_weather": "Get the current weather in a given location",
    "send_email": "Send an email to some people",
    "search_web": "Search the web for pages",
    "add": "Add two numbers",
    "book_flight": "Book a flight between two cities",
}


def tool(name: str, **changes: Any) -> Tool:
    return Tool(name, json.dumps(TOOLS[name]).encode(), DESCRIPTIONS.get(name, ""), **changes)


WEATHER, MAIL, SEARCH, ADD, FLIGHT = (tool(name) for name in DESCRIPTIONS)
TIME = Tool(
    "get_time", b'{"type":"object","properties":{"timezone":{"type":"string"}},"required":["timezone"]}', "The time"
)
ALL = (WEATHER, MAIL, SEARCH, ADD, FLIGHT, TIME)


def job(*turns: str | Turn, wish: Wish | None = None, **changes: Any) -> Job:
    """Turns without a role are the user's."""
    conversation = tuple(turn if isinstance(turn, Turn) else Turn("user", turn) for turn in turns)
    fields: dict[str, Any] = {"context_left": 100_000, "wish": wish or Wish(tools=ALL), "conversation": conversation}
    return Job(id="j", gateway="g", pool="p", model="m", tier="t", **(fields | changes))


def text(script: Script, start: int = 0, end: int | None = None) -> str:
    wire = script.text(start, script.tokens if end is None else end)
    return str(json.loads(b'"%b"' % wire.replace(b"\n", b"")))


def calls(script: Script) -> list[Call]:
    """What a client puts together."""
    return [
        Call(part.name, text(script, first, end), part.id)
        for (first, part), end in zip(
            script.parts, [*(first for first, _ in script.parts[1:]), script.tokens], strict=True
        )
        if part.kind == "tool_call"
    ]


def called(message: str, **wished: Any) -> list[tuple[str, Any]]:
    script = content.compose(job(message, wish=Wish(**({"tools": ALL} | wished))), 0)
    return [(call.name, json.loads(call.arguments)) for call in calls(script)]


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("What's the weather in Paris?", "get_weather"),
        ("Send a mail to bob@example.com", "send_email"),
        ("Add 2 and 3", "add"),
        ("please search for rust books", "search_web"),
        ("Which flights are there to Rome?", "book_flight"),
        ("Use get_time", "get_time"),
        ("Call the `add` tool", "add"),
    ],
)
def test_a_message_that_calls_for_a_tool_gets_a_call(message: str, name: str) -> None:
    script = content.compose(job(message), 0)
    assert [call.name for call in calls(script)] == [name]
    assert script.finish == "tool_calls"
    assert [part.kind for _, part in script.parts] == ["tool_call"]


@pytest.mark.parametrize("message", ["Hello!", "Tell me a joke", "Thanks, that was all", "", "Who are you?", "ok"])
def test_a_message_that_calls_for_none_gets_text(message: str) -> None:
    script = content.compose(job(message), 0)
    assert [part.kind for _, part in script.parts] == ["text"]
    assert script.finish == "stop"


def test_after_a_result_there_is_text_that_takes_it_up() -> None:
    asked = (Turn("user", "What's the weather in Paris?"), Turn("assistant", "[call]"))
    for result, words in (
        ('{"temperature": 22, "condition": "sunny", "rain": false}', ("22", "sunny", "false")),
        ("It is 19 °C, with some wind!", ("19 °C",)),
        ('[{"city": "Paris"}]', ("Paris",)),
        ("", ("nothing",)),
        ("漢字 🙂" * 100, ("漢字",)),
    ):
        script = content.compose(job(*asked, Turn("tool", result)), 0)
        assert script.finish == "stop"
        assert all(word in text(script)[:200] for word in words)
        assert len(tokenizer.encode(text(script))) == script.tokens


def test_instructions_behind_the_last_message_change_nothing() -> None:
    late = Turn("system", "The current directory is /src. Search and add and mail.")
    assert calls(content.compose(job("Add 2 and 3", late), 0)) == calls(content.compose(job("Add 2 and 3"), 0))
    after = content.compose(job("Add 2 and 3", Turn("assistant", ""), Turn("tool", "5"), late), 0)
    assert "5" in text(after)[:60]


def test_what_an_agent_puts_around_a_message_is_not_the_message() -> None:
    """Claude Code sends `<system-reminder>` blocks before the words, Codex an environment in a turn of its own."""
    around = "<system-reminder>\nSend an email to ann@example.com about Paris & London.\n</system-reminder>\n"
    for script in (
        content.compose(job(f"{around}Add 2 and 3"), 0),
        content.compose(job(f"...cut off about Rome</system-reminder>Add 2 and 3{around}"), 0),
        content.compose(job("Add 2 and 3", "<environment_context><cwd>/mail</cwd></environment_context>"), 0),
    ):
        assert calls(script) == [Call("add", '{"a":2,"b":3}')]
    assert not calls(content.compose(job(f"{around}Hello"), 0))
    assert calls(content.compose(job("Is <b>the</b> weather of Oslo known?"), 0))


def test_a_path_in_a_message_calls_for_a_tool_that_takes_one() -> None:
    tools = tuple(tool(name) for name in ("Edit", "Read", "Bash", "get_weather"))
    assert called("Fix main() in src/app.py so that it starts", tools=tools) == [("Read", {"file_path": "src/app.py"})]


def test_long_requests_get_one_call_unless_several_tools_are_named() -> None:
    tools = tuple(tool(name) for name in ("Edit", "Read", "Write", "Bash", "Grep", "WebFetch"))
    message = (
        "Look at src/app.py, then fix the path it reads, and run the command. Its content is wrong; the pattern too."
    )
    assert len(called(message, tools=tools)) == 1


def test_a_call_that_is_required_is_made_whatever_the_message_and_even_after_a_result() -> None:
    assert [name for name, _ in called("Hello!", tools=(MAIL,), tool_choice="required")] == ["send_email"]
    wish = Wish(tools=ALL, tool_choice="required")
    again = content.compose(job("What's the weather in Paris?", Turn("tool", "22"), wish=wish), 0)
    assert [call.name for call in calls(again)] == ["get_weather"]


def test_no_call_is_made_where_none_may_be() -> None:
    assert called("What's the weather in Paris?", tool_choice="none") == []


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("What's the weather in Paris and London?", [("get_weather", "Paris"), ("get_weather", "London")]),
        ("weather in Paris, Rome and Oslo", [("get_weather", place) for place in ("Paris", "Rome", "Oslo")]),
        ("the weather in Oslo and the time in Tokyo", [("get_weather", "Oslo"), ("get_time", "Tokyo")]),
    ],
)
def test_a_message_that_names_several_things_gets_several_calls(message: str, expected: list[tuple[str, str]]) -> None:
    made = called(message)
    assert [(name, next(iter(arguments.values()))) for name, arguments in made] == expected
    assert len(called(message, parallel=False)) == 1


def test_things_that_one_call_can_take_get_one_call() -> None:
    assert called("Add 2 and 3") == [("add", {"a": 2, "b": 3})]
    ((name, arguments),) = called("Send a mail to ann@example.com and bob@example.com")
    assert (name, arguments["to"]) == ("send_email", ["ann@example.com", "bob@example.com"])


@given(st.sampled_from(sorted(TOOLS)), st.text(max_size=60), st.integers(0, 2**32), st.integers(0, 40))
@settings(max_examples=80)
def test_arguments_are_valid_and_counted_exactly(name: str, message: str, seed: int, reasoning: int) -> None:
    made = tool(name)
    wish = Wish(tools=(made,), tool_choice="required", reasoning=reasoning)
    script = content.compose(job(message, wish=wish, seed=seed), 0)
    (call,) = calls(script)
    assert valid(made.parameters, json.loads(call.arguments))
    assert script.tokens - script.reasoning == tokenizer.count(name) + tokenizer.count(call.arguments)


def test_the_name_of_a_call_has_tokens_without_text() -> None:
    script = content.compose(job("Add 2 and 3"), 0)
    name = tokenizer.count("add")
    assert script.text(0, name) == b"\n" * (name - 1)
    assert script.text(name, name + 1) != b""


def test_calls_do_not_depend_on_limits_or_on_how_they_are_reported() -> None:
    whole = content.compose(job("weather in Paris and London"), 0)
    assert content.compose(job("weather in Paris and London", max_tokens=500), 0) == whole
    for limit in range(1, whole.tokens):
        cut = content.compose(job("weather in Paris and London", max_tokens=limit), 0)
        assert (cut.tokens, cut.finish) == (limit, "length")
        assert cut.text(0, limit) == whole.text(0, limit)
    thoughtful = content.compose(job("weather in Paris and London", wish=Wish(tools=ALL, reasoning=30)), 0)
    assert calls(thoughtful) == calls(whole)


def test_a_tool_without_parameters_is_called_with_an_empty_object() -> None:
    assert called("now ping", tools=(Tool("ping"),)) == [("ping", {})]


def test_a_tool_that_takes_text_gets_text() -> None:
    python = Tool("run_python", TAKES_TEXT, "Runs python code")
    patch = Tool("apply_patch", TAKES_TEXT, "Apply a change to files")
    (call,) = calls(content.compose(job("run_python: is 7 prime?", wish=Wish(tools=(python, *ALL))), 0))
    assert call.name == "run_python"
    compile(call.arguments, "call", "exec")
    (call,) = calls(content.compose(job('apply_patch "*** Begin Patch"', wish=Wish(tools=(patch,))), 0))
    assert call.arguments == "*** Begin Patch"
    assert not calls(content.compose(job("These files changed.", wish=Wish(tools=(patch,))), 0))


def test_a_tool_that_cannot_be_called_is_a_clear_error() -> None:
    impossible = Tool("ping", b'{"type":"object","properties":{"a":false},"required":["a"]}')
    with pytest.raises(Unsatisfiable, match="a"):
        content.compose(job("ping", wish=Wish(tools=(impossible,))), 0)


def test_among_many_tools_the_best_one_is_found() -> None:
    tools = tuple(tool(name) for name in TOOLS)
    for message, name in (
        ("Convert 20 USD to EUR, the currency please", "convert_currency"),
        ("Translate 'good morning' into German", "translate"),
        ("play some music by Miles Davis", "play_music"),
        ("create an issue titled 'Broken build'", "create_issue"),
    ):
        assert name in [made for made, _ in called(message, tools=tools)]
