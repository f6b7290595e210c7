"""The mistakes of a distilled tier: of the kind that is told, within what the API guarantees, and reproducible."""

import json
from collections import Counter
from typing import Any

import pytest
from test_content_calls import FLIGHT, SEARCH, TIME, WEATHER, calls, job, text

from service.messages import Call, Scripted, Tool, Turn, Wish
from workers import content
from workers.content import Script
from workers.content.instances import valid
from workers.content.mistakes import MISTAKES

QUESTION = "What's the weather in Paris?"
RIGHT = calls(content.compose(job(QUESTION), 0))[0]
SCHEMA = b'{"type":"object","properties":{"city":{"type":"string"},"n":{"type":"integer"}},"required":["city","n"]}'


def answer(kind: str, message: str = QUESTION, seed: int = 0, **wished: Any) -> Script:
    wish = Wish(**({"tools": (WEATHER, TIME, SEARCH), "mistakes": ((kind, 1.0),)} | wished))
    return content.compose(job(message, wish=wish, seed=seed), 0)


def told(script: Script) -> str:
    return script.parts[0][1].mistake


def call(script: Script) -> Call:
    (made,) = calls(script)
    return made


def parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return None


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_of_the_kind_that_is_told(kind: str) -> None:
    for seed in range(12):
        script = answer(kind, seed=seed)
        assert told(script) == kind
        if kind == "ignored_instruction":
            assert [part.kind for _, part in script.parts] == ["text"]
            continue
        made = call(script)
        arguments = parsed(made.arguments)
        names = {"get_weather", "get_time", "search_web"}
        match kind:
            case "wrong_tool":
                assert made.name in names - {"get_weather"}
                assert valid({"get_time": TIME, "search_web": SEARCH}[made.name].parameters, arguments)
            case "hallucinated_tool":
                assert made.name not in names
            case "invalid_json":
                assert arguments is None
            case "missing_argument":
                assert "location" not in arguments
            case "mistyped_argument":
                assert not valid(WEATHER.parameters, arguments)
            case "wrong_value":
                assert valid(WEATHER.parameters, arguments)
                assert arguments != json.loads(call(answer("none", seed=seed)).arguments)


@pytest.mark.parametrize("kind", MISTAKES)
def test_what_is_strict_keeps_its_form(kind: str) -> None:
    strict = tuple(Tool(each.name, each.parameters, each.description, strict=True) for each in (WEATHER, TIME))
    for seed in range(8):
        for made in calls(answer(kind, seed=seed, tools=strict)):
            (tool,) = (each for each in strict if each.name == made.name)
            assert valid(tool.parameters, json.loads(made.arguments))
        said = answer(kind, "Something", seed, tools=(), schema=SCHEMA, strict=True)
        assert valid(SCHEMA, json.loads(text(said)))
        assert told(said) in ("", "wrong_value")


def test_a_call_that_is_required_is_made_and_one_that_is_named_has_its_name() -> None:
    for kind in MISTAKES:
        for seed in range(5):
            made = calls(answer(kind, seed=seed, tools=(WEATHER,), tool_choice="required"))
            assert [each.name for each in made] == ["get_weather"]


def test_json_that_is_not_strict_can_be_broken_or_left_out() -> None:
    assert parsed(text(answer("invalid_json", tools=(), schema=SCHEMA))) is None
    assert parsed(text(answer("ignored_instruction", tools=(), schema=SCHEMA))) is None
    assert parsed(text(answer("ignored_instruction", "Reply in JSON with keys a and b", tools=()))) is None


def test_a_mistake_that_cannot_be_made_is_not_made_and_does_not_count() -> None:
    for kind in MISTAKES:
        assert told(answer(kind, "Hello there", tools=())) == ""
    script = answer("", mistakes=(("missing_argument", 0.0), ("unknown", 1.0), ("wrong_value", 1.0)))
    assert told(script) == "wrong_value"


def test_mistakes_come_at_their_rates_and_depend_on_the_seed() -> None:
    rates = (("wrong_tool", 0.2), ("wrong_value", 0.1), ("invalid_json", 0.1))
    seen = Counter(told(answer("", seed=seed, mistakes=rates)) for seed in range(400))
    assert 50 < seen["wrong_tool"] < 115
    assert 20 < seen["wrong_value"] < 65
    assert 20 < seen["invalid_json"] < 65
    assert sum(seen.values()) - seen[""] < 210
    assert told(answer("", seed=3, mistakes=rates)) == told(answer("", seed=3, mistakes=rates))


def test_choices_err_apart_from_each_other() -> None:
    wish = Wish(tools=(WEATHER, TIME), mistakes=(("wrong_tool", 0.5),))
    scripts = [content.compose(job(QUESTION, wish=wish, choices=40), choice) for choice in range(40)]
    assert 8 < sum(told(script) == "wrong_tool" for script in scripts) < 32


def test_the_full_model_makes_none_and_a_distilled_one_says_it_in_other_words() -> None:
    full, distilled = job("Hello"), job("Hello", wish=Wish(mistakes=(("wrong_value", 0.01),)))
    assert told(content.compose(full, 0)) == ""
    assert text(content.compose(full, 0)) != text(content.compose(distilled, 0))
    assert told(content.compose(distilled, 0)) == ""


def test_a_value_that_a_tool_has_returned_is_taken_up_wrongly() -> None:
    asked = job(QUESTION, Turn("tool", '{"temperature": 22}'), wish=Wish(mistakes=(("wrong_value", 1.0),)))
    script = content.compose(asked, 0)
    assert told(script) == "wrong_value"
    assert "temperature is 22" not in text(script)
    assert "temperature is" in text(script)


def test_a_scripted_reply_can_force_a_mistake_or_forbid_it() -> None:
    reply = (Call("get_weather", '{"location":"Paris"}', "call_1"),)
    forced = answer("wrong_value", scripted=Scripted(calls=reply, mistake="missing_argument"), mistakes=())
    assert (told(forced), call(forced)) == ("missing_argument", Call("get_weather", "{}", "call_1"))
    forbidden = answer("wrong_value", scripted=Scripted(calls=reply, mistake=""))
    assert (told(forbidden), call(forbidden)) == ("", reply[0])
    left = answer("invalid_json", scripted=Scripted(calls=reply))
    assert told(left) == "invalid_json"
    said = answer("", scripted=Scripted(text="The answer is 42.", mistake="wrong_value"))
    assert told(said) == "wrong_value"
    assert text(said).startswith("The answer is ")
    assert text(said) != "The answer is 42."


def test_a_rule_may_ask_for_nothing_but_a_mistake() -> None:
    script = answer("", scripted=Scripted(mistake="hallucinated_tool"), mistakes=())
    assert told(script) == "hallucinated_tool"
    assert call(script).arguments == call(answer("", mistakes=())).arguments


def test_the_mistake_is_told_with_the_first_part_even_before_reasoning() -> None:
    script = answer("wrong_value", reasoning=20, tools=(FLIGHT,), message="Book a flight from Oslo to Rome")
    assert [part.kind for _, part in script.parts] == ["reasoning", "tool_call"]
    assert [part.mistake for _, part in script.parts] == ["wrong_value", ""]
