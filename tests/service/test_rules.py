"""Rules as a file says them: which request they fit, what they answer, and what is said of a file that is wrong."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from service import rules
from service.errors import RulesError
from service.messages import Call, Turn
from service.scripts import Rule, Seen

TIERS = ("standard", "fast", "spark")


def seen(*turns: tuple[str, str], **facts: Any) -> Seen:
    given: dict[str, Any] = {
        "model": "gpt-5.3-codex",
        "asked": "codex",
        "tier": "fast",
        "surface": "chat",
        "tools": (),
        "headers": {},
    }
    given |= facts
    tools = frozenset(given.pop("tools"))
    return Seen(turns=[Turn(role, text) for role, text in turns or [("user", "hello")]], tools=tools, **given)


def rule(text: str) -> Rule:
    (only,) = rules.parse(f"[[rules]]\n{text}", TIERS).rules
    return only


def fits(match: str, request: Seen) -> bool:
    return rule(f'match = {{ {match} }}\nreply = "yes"').match.facts(request) is not None


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ("", True),
        ('model = "gpt-5.3-codex"', True),
        ('model = "codex"', True),
        ('model = "gpt-*"', True),
        ('model = ["claude-*", "gpt-4"]', False),
        ('tier = ["fast", "spark"]', True),
        ('tier = "standard"', False),
        ('surface = "chat"', True),
        ('surface = ["messages", "responses"]', False),
        ('last_message = "ell"', True),
        ('last_message = "^ell"', False),
        ('system = "concise"', True),
        ('system = "verbose"', False),
        ('tools = ["read"]', True),
        ('tools = ["read", "write"]', False),
        ('last_role = "user"', True),
        ('last_role = "tool"', False),
        ("turn = 1", True),
        ("turn = 2", False),
        ('header = { X-Test = "^a" }', True),
        ('header = { x-test = "z" }', False),
        ('header = { x-other = "." }', False),
        ('tier = "fast", turn = 1, last_message = "hello", tools = ["read"]', True),
    ],
)
def test_a_rule_fits_a_request_that_has_all_it_names(match: str, expected: bool) -> None:
    request = seen(("system", "Be concise."), ("user", "hello"), tools=["read", "list"], headers={"x-test": "abc"})
    assert fits(match, request) is expected


def test_what_an_assistant_says_and_calls_in_a_row_is_one_turn() -> None:
    once = seen(("user", "a"), ("assistant", "b"), ("assistant", "call"), ("tool", "c"))
    assert once.turn == 2
    assert seen(("user", "a"), ("assistant", "to be continued")).turn == 1


def test_instructions_behind_the_users_words_are_not_the_last_message() -> None:
    asked = seen(("user", "fix it"), ("assistant", "how?"), ("system", "x"), ("assistant", "so"), ("developer", "env"))
    assert (asked.last.text, asked.turn) == ("so", 1)
    assert seen(("user", "fix it"), ("system", "env")).last == Turn("user", "fix it")
    assert seen(("system", "env")).last == Turn("user", "")


def test_replies_quote_the_request_and_stay_json_within_arguments() -> None:
    written = rule(
        """
        match = { last_message = '(?P<verb>read) (\\S+)' }
        reply = { text = "{{verb}}ing {{2}} on {{tier}}", calls = [
            { name = "read", arguments = { path = "{{ 2 }}", deep = [{ whole = "{{last_message}}" }], n = 1.5 } },
            { name = "raw", arguments = '{"path": ' },
        ] }
        """
    )
    request = seen(("user", 'read "a"'))
    facts = written.match.facts(request)
    assert facts is not None
    reply = written.reply(0)
    assert reply is not None
    said = reply.scripted(facts)
    assert said is not None
    assert said.text == 'reading "a" on fast'
    assert msgspec.json.decode(said.calls[0].arguments) == {
        "path": '"a"',
        "deep": [{"whole": 'read "a"'}],
        "n": 1.5,
    }
    assert said.calls[1] == Call("raw", '{"path": ')
    assert said.mistake == ""


def test_a_reply_that_only_goes_wrong_leaves_its_words_to_the_model() -> None:
    reply = rule('reply = { fault = "cut@3", delay_s = 2 }').replies[0]
    assert reply.scripted({}) is None
    assert (reply.delay, reply.fault is not None) == (2.0, True)
    asked = rule('reply = { mistake = "wrong_tool" }').replies[0].scripted({})
    assert asked is not None
    assert (asked.text, asked.mistake) == (None, "wrong_tool")


def test_replies_come_one_after_another_and_the_last_again_and_again() -> None:
    several = rule('reply = ["one", { text = "two" }]')
    assert [several.reply(n).text for n in range(4)] == ["one", "two", "two", "two"]  # type: ignore[union-attr]


def test_a_rule_is_used_up_after_so_many_times() -> None:
    twice = rule('reply = "yes"\ntimes = 2')
    assert [twice.reply(n) is not None for n in range(3)] == [True, True, False]


def test_what_a_file_says_can_be_said_in_json() -> None:
    values = {
        "rules": [{"match": {"turn": 1}, "reply": {"text": "hi", "delay_s": 0.5}}],
        "faults": {"fast": {"cut": 1}},
    }
    text = '[[rules]]\nmatch = { turn = 1 }\nreply = { text = "hi", delay_s = 0.5 }\n[faults.fast]\n"cut" = 1'
    assert rules.of(values, TIERS) == rules.parse(text, TIERS)


def test_the_readmes_file_is_sound() -> None:
    readme = Path(__file__).parent.parent.parent / "README.md"
    (example,) = re.findall(r"```toml\n(\[\[rules\]\].*?)```", readme.read_text(), re.DOTALL)
    read = rules.parse(example, TIERS)
    assert (len(read.rules), list(read.rates)) == (2, ["fast"])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rules = 3", r"rules:1: rules: is 3; it must be a list of tables"),
        ("[[rules]]\nreply = 3", r"rules:2: rules.1.reply: is 3"),
        ("[[rules]]\nmatch = {}", r"rules:1: rules.1.reply: is missing"),
        ('[[rules]]\nreply = "a"\n\n[[rules]]\nreplay = "a"', r"rules:5: rules.2.replay: unknown key"),
        ('[[rules]]\nreply = "a"\n[rules.match]\nturn = 0', r"rules:4: rules.1.match.turn: is 0"),
        ('[[rules]]\nreply = "a"\nmatch = { tier = "warp" }', r"rules:3: .*names 'warp'; known are standard, fast"),
        ('[[rules]]\nreply = "a"\nmatch = { last_message = "(" }', r"rules:3: .*no regular expression"),
        ('[[rules]]\nreply = "{{name}}"', r"rules:2: rules.1.reply: quotes 'name'"),
        ('[[rules]]\nreply = ["a", 3]', r"rules:2: rules.1.reply.2: is 3"),
        ('[[rules]]\nreply = { text = "a", fault = "explode" }', r"rules:2: .*'explode' is no fault"),
        ('[[rules]]\nreply = { mistake = "typo" }', r"rules:2: .*known are none, wrong_tool"),
        ('[[rules]]\nreply = { finish = "bored" }', r"rules:2: .*known are stop, length"),
        ('[[rules]]\nreply = { calls = [{ name = "a", arguments = 3 }] }', r"rules:2: .*it must be a table, or a text"),
        ('[[rules]]\nname = "é"\nreply = "a"', r"rules:2: rules.1.name: must be at most 100 characters of ASCII"),
        ('[[rules]]\nreply = "a"\ntimes = 0', r"rules:3: rules.1.times: is 0"),
        ('[faults.warp]\n"cut@2" = 0.1', r"rules:1: faults.warp: is no tier"),
        ('[faults.fast]\n"cut@2" = 2', r"rules:2: .*it must be at most 1"),
        ('[faults.fast]\n"cut@2" = 0.6\n"slow=1" = 0.6', r"rules:1: faults.fast: its shares add up to more than 1"),
        ('[faults.fast]\n"cat@2" = 0.6', r"rules:2: .*'cat' is no fault"),
        ("[[rules", r"rules: cannot be read as TOML"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_line(text: str, why: str) -> None:
    with pytest.raises(RulesError, match=why):
        rules.parse(text, TIERS)
