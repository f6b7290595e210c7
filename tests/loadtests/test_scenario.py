"""Scenarios and the work they stand for: what ships can be read, what is wrong is said, equal seeds are equal work."""

from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests import prompts
from loadtests.scenario import SHIPPED, Agent, Closed, Open, Scenario, Talk, load, shares
from loadtests.work import Turn, clients, sessions
from planning.workload import lengths
from service import tokenizer
from service.errors import ScenarioError

TALK = Talk(input=lengths("100:0.8"), output=lengths("50-90"), turns=lengths("1-4"), think=2.0)
PLAIN = Scenario(
    name="plain",
    about="what tests need",
    model="m",
    dialect="openai",
    seconds=1000.0,
    seed=7,
    load=Open(rate=5.0, to=5.0),
    work=TALK,
    mix={"standard": 0.7, "fast": 0.3},
)
WRONG = {
    "an unknown key": ("[mix]\nfast = 1", "clients = 2\ncleints = 3", "cleints"),
    "no load": ("[mix]\nfast = 1", 'kinds = "closed"', "kind"),
    "shares that are not a whole": ("[mix]\nfast = 0.5", "clients = 2", "sum to 0.5"),
    "lengths of nothing": ("[mix]\nfast = 1", "clients = 2", "no distribution"),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_what_ships_can_be_read(name: str) -> None:
    scenario = load(name)
    assert scenario.about
    assert next(sessions(scenario)).turns


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_in_one_line_that_names_it(tmp_path: Path, what: str) -> None:
    mix, load_, named = WRONG[what]
    length = "many" if "lengths" in what else "100"
    kind = 'kind = "closed"\n' if "no load" not in what else ""
    path = tmp_path / "mine.toml"
    head, session = 'about = "x"\nmodel = "m"\nseconds = 5\n[load]\n', f'[session]\ninput = "{length}"\noutput = "5"\n'
    path.write_text(f"{head}{kind}{load_}\n{session}{mix}\n")
    with pytest.raises(ScenarioError, match=named) as refused:
        load(str(path))
    assert "\n" not in str(refused.value)


def test_what_is_no_scenario_is_told_which_there_are() -> None:
    with pytest.raises(ScenarioError, match="coding-agent"):
        load("caht")


def test_a_trace_with_a_broken_row_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\nx,y,z\n"
    )
    path = tmp_path / "mine.toml"
    path.write_text(
        'about = "x"\nmodel = "m"\nseconds = 5\n[load]\nkind = "trace"\nfile = "trace.csv"\n'
        '[session]\ninput = "1"\noutput = "1"\n[mix]\nfast = 1\n'
    )
    with pytest.raises(ScenarioError, match="3"):
        list(sessions(load(str(path))))


def test_the_requests_of_a_trace_come_when_and_as_they_did(tmp_path: Path) -> None:
    rows = ["TIMESTAMP,ContextTokens,GeneratedTokens", "2023-11-16 18:15:46.0,374,44", "2023-11-16 18:15:48.0,396,109"]
    (tmp_path / "trace.csv").write_text("\n".join(rows) + "\n")
    path = tmp_path / "mine.toml"
    path.write_text(
        'about = "x"\nmodel = "m"\nseconds = 5\n[load]\nkind = "trace"\nfile = "trace.csv"\ntime_scale = 0.5\n'
        '[session]\ninput = "1"\noutput = "1"\n[mix]\nfast = 1\n'
    )
    assert [(s.start, s.turns[0].fresh, s.turns[0].output) for s in sessions(load(str(path)))] == [
        (0.0, 374, 44),
        (1.0, 396, 109),
    ]


def test_prompts_of_a_trace_that_names_blocks_begin_alike_where_those_do() -> None:
    one, other = Turn(1300, 5, 0.0, (7, 8, 9), 512), Turn(1100, 5, 0.0, (7, 8), 512)
    assert list(one.parts()) == [(512, 7), (512, 8), (276, 9)]
    assert list(other.parts()) == [(512, 7), (512, 8), (76, None)]


@pytest.mark.parametrize("text", ["fast=0.5", "fast=a", "fast=1,standard=0.5", "=1,"])
def test_no_mix_of_tiers_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError):
        shares(text)


def test_sessions_of_a_rate_come_at_that_rate_and_with_that_spread() -> None:
    plain = replace(PLAIN, work=replace(TALK, turns=lengths("1")))
    for gaps, cv, spread in (("poisson", 1.0, 1.0), ("constant", 1.0, 0.0), ("gamma", 3.0, 3.0)):
        starts = [s.start for s in sessions(replace(plain, load=Open(rate=5.0, to=5.0, gaps=gaps, cv=cv)))]  # type: ignore[arg-type]
        assert None not in starts
        between = [b - a for a, b in pairwise(starts)]  # type: ignore[operator]
        assert len(starts) == pytest.approx(5000, rel=0.02 + 0.05 * spread)
        assert stdev(between) / mean(between) == pytest.approx(spread, abs=0.15 * max(1, spread))


@pytest.mark.parametrize(("first", "last"), [(1.0, 9.0), (9.0, 1.0)])
def test_a_rate_that_changes_changes_evenly(first: float, last: float) -> None:
    starts = [s.start or 0.0 for s in sessions(replace(PLAIN, load=Open(rate=first, to=last, gaps="constant")))]
    assert len(starts) == pytest.approx(5000, abs=2)
    for begin in (0, 250, 500, 750):
        expected = 250 * (first + (last - first) * (begin + 125) / 1000)
        assert sum(begin <= start < begin + 250 for start in starts) == pytest.approx(expected, abs=2)


def test_equal_seeds_are_equal_work_at_any_tier_and_rate() -> None:
    some = list(islice(sessions(PLAIN), 50))
    others = list(islice(sessions(replace(PLAIN.at("spark"), load=Closed(levels=(3,)))), 50))
    assert [each.turns for each in some] == [each.turns for each in others]
    assert {each.tier for each in others} == {"spark"}
    assert [each.turns for each in islice(sessions(replace(PLAIN, seed=8)), 50)] != [each.turns for each in some]


def test_shares_of_the_mix_are_those_of_sessions() -> None:
    tiers = [session.tier for session in sessions(PLAIN)]
    assert tiers.count("standard") / len(tiers) == pytest.approx(0.7, abs=0.03)


def test_an_agent_has_its_steps_and_waits_for_its_tool_before_all_but_the_first() -> None:
    agent = Agent(input=lengths("1000"), result=lengths("50"), steps=4, tool=1.5)
    session = next(sessions(replace(PLAIN, work=agent)))
    assert [(turn.fresh, turn.pause) for turn in session.turns] == [(1000, 0.0), (50, 1.5), (50, 1.5), (50, 1.5)]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_at_any_time_as_many_clients_are_there_as_the_level_says(levels: list[int]) -> None:
    there = list(clients(Closed(levels=tuple(levels)), float(len(levels))))
    for number, level in enumerate(levels):
        assert sum(begin <= number + 0.5 < end for begin, end in there) == level


@given(st.integers(1, 3000), st.integers())
def test_a_prompt_has_exactly_so_many_tokens(tokens: int, seed: int) -> None:
    assert tokenizer.count(prompts.text(tokens, seed)) == tokens
