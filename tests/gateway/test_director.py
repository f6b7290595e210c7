"""What is special about a request, decided beside the clock: settings, precedence, counting, a file that changes."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from starlette.requests import HTTPConnection

from gateway.admission import Admission, Ask
from gateway.meter import Meter
from gateway.scripted import Direction, Director
from service import profiles, tiers
from service.accounts import Account
from service.connection import connect
from service.errors import RulesError
from service.growth import Growth
from service.limits import Limits
from service.messages import Turn
from service.settings import Settings

NOWHERE = connect("redis://127.0.0.1:1", 1)  # a plan that is not counted asks nobody
PROFILE = profiles.load("2026-11", tiers.load())
ALWAYS_CUT = {"faults": {"fast": {"cut@9": 1}}}


class Stage:
    """A director, and requests for it. `now` is its clock."""

    def __init__(self, settings: Settings) -> None:
        self.now = 0.0
        self.director = Director(settings, PROFILE.catalog.tiers, lambda: self.now)
        self._admission = Admission(
            Settings(),
            PROFILE,
            "gateway",
            Meter(Limits(NOWHERE), Growth(NOWHERE), PROFILE.catalog.plans, "open"),
        )

    async def ask(self, *texts: str, headers: Mapping[str, str] = {}, account: str = "") -> Direction:
        roles = ("user", "assistant")
        turns = tuple(Turn(roles[number % 2], text) for number, text in enumerate(texts or ("Hello",)))
        ask = Ask(model="gpt-5.3-codex", service_tier="fast", turns=turns, account=Account(id=account))
        raw = [(name.encode(), text.encode()) for name, text in headers.items()]
        scope = {"type": "http", "path": "/v1/responses", "headers": raw}
        return self.director.direct(ask, await self._admission.admit(ask, "x-"), HTTPConnection(scope))

    async def said(self, *texts: str, account: str = "") -> str | None:
        scripted = (await self.ask(*texts, account=account)).scripted
        return scripted.text if scripted else None


async def test_a_demand_goes_before_a_rule_and_that_before_a_draw() -> None:
    stage = Stage(Settings())
    stage.director.replace(ALWAYS_CUT | {"rules": [{"match": {"last_message": "x"}, "reply": {"fault": "slow=1"}}]})
    demand = {"x-fastmode-fault": "corrupt@2"}
    faults = [await stage.ask("x", headers=demand), await stage.ask("x"), await stage.ask("y")]
    assert [direction.fault and direction.fault.words for direction in faults] == ["corrupt@2", "slow=1", "cut@9"]
    assert [direction.corrupts for direction in faults] == [2, None, None]


async def test_demands_can_be_turned_off_and_headers_that_tell_turned_on() -> None:
    stage = Stage(Settings(faults=False, debug_headers=True))
    direction = await stage.ask(headers={"x-fastmode-fault": "no such words"})
    assert (direction.fault, direction.reveals) == (None, True)
    assert not (await Stage(Settings()).ask()).reveals
    assert (await Stage(Settings()).ask(headers={"x-fastmode-debug": "1"})).reveals


async def test_a_delay_comes_before_whatever_else_goes_wrong() -> None:
    stage = Stage(Settings())
    stage.director.replace({"rules": [{"reply": {"text": "a", "delay_s": 2, "fault": "cut@0"}}]})
    assert [(step.at, step.does) for step in (await stage.ask()).steps] == [(0, "wait"), (0, "cut")]


async def test_a_conversation_is_known_by_its_beginning_and_by_whose_it_is() -> None:
    stage = Stage(Settings())
    stage.director.replace({"rules": [{"reply": ["1", "2", "3"], "per": "conversation"}]})
    assert await stage.said("Hello") == "1"
    assert await stage.said("Hello", "1", "And?") == "2"
    assert await stage.said("Hello", account="another") == "1"
    assert await stage.said("Good morning") == "1"
    assert await stage.said("Hello") == "3"


async def test_rules_that_stay_go_on_counting_and_changed_ones_begin_anew() -> None:
    stage = Stage(Settings())
    rule, other = {"reply": ["1", "2", "3"]}, {"reply": "other"}
    stage.director.replace({"rules": [rule]})
    assert await stage.said() == "1"
    stage.director.replace({"rules": [rule, other]})
    assert await stage.said() == "2"
    stage.director.replace({"rules": [other, rule]})
    stage.director.replace({"rules": [rule]})
    assert await stage.said() == "1"


async def test_a_file_is_looked_at_a_few_times_a_second_and_its_last_sound_rules_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('[[rules]]\nreply = "before"\n')
    stage = Stage(Settings(rules=path))
    path.write_text('[[rules]]\nreply = "after that"\n')
    assert await stage.said() == "before"
    stage.now += 0.3
    assert await stage.said() == "after that"
    path.unlink()
    stage.now += 0.3
    assert await stage.said() == "after that"
    assert "cannot be read" in stage.director.trouble
    path.write_text('[[rules]]\nreply = "back again"\n')
    stage.now += 0.3
    assert await stage.said() == "back again"
    assert not stage.director.trouble


def test_nothing_starts_with_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text("[[rules]]\n")
    with pytest.raises(RulesError, match=r"rules\.toml:1: rules\.1\.reply: is missing"):
        Stage(Settings(rules=path))
