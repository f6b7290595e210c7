"""Scenarios against endpoints that are not ours, and write their streams in other ways, or badly."""

import json
from dataclasses import replace

import pytest
from standin import Answer, Request, delta, event, standin, stream

from loadtests.drive import Driver, Run, Target
from loadtests.records import Record
from loadtests.scenario import Closed, Scenario, Talk
from loadtests.summary import summary
from loadtests.targets import probe, target
from planning.workload import lengths
from service.errors import ScenarioError

ONCE = Scenario(
    name="once",
    about="one request",
    model="theirs",
    dialect="openai",
    seconds=5.0,
    seed=1,
    load=Closed(levels=(1,)),
    work=Talk(input=lengths("20"), output=lengths("20"), turns=lengths("1")),
    mix={"fast": 1.0},
    most=1,
)


async def driven(where: Target, scenario: Scenario = ONCE) -> Run:
    return await Driver(scenario, where).drive()


async def asked(url: str, scenario: Scenario = ONCE) -> Record:
    return (await driven(target(url, scenario, "secret"), scenario)).records[0]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
async def test_json_with_spaces_and_lines_that_end_otherwise_are_read_alike(end: str) -> None:
    async with standin(lambda _: stream(20, tier="priority", end=end)) as server:
        record = await asked(server.url)
    assert (record.outcome, record.output, record.shown, record.prompt) == ("ok", 20, 20, 50)
    assert record.served == "priority"
    assert record.first < record.last
    assert server.requests[0].headers["authorization"] == "Bearer secret"


async def test_several_tokens_in_a_piece_count_by_usage() -> None:
    usage = {"prompt_tokens": 50, "completion_tokens": 60, "completion_tokens_details": {"reasoning_tokens": 20}}
    async with standin(lambda _: stream(20, usage=usage, gap=0.01)) as server:
        run = await driven(target(server.url, ONCE, None))
    (record,) = run.records
    assert (record.output, record.shown) == (60, 40)
    assert record.tpot == pytest.approx((record.last - record.first) / 39)
    (tier,) = summary(run.records, run.gaps, ONCE.objective, 5.0)
    assert tier.itl["p50"] == pytest.approx(0.005, rel=0.5), "two tokens in each ten milliseconds"


async def test_who_does_not_know_what_only_engines_know_is_asked_without() -> None:
    def answer(request: Request) -> Answer:
        if "ignore_eos" in request.body:
            return Answer(status=400, body=json.dumps({"error": {"code": "unknown_parameter"}}))
        return stream(2)

    async with standin(answer) as server:
        where = await probe(ONCE, target(server.url, ONCE, None))
        assert not where.exact
        await driven(where)
    assert "ignore_eos" not in server.requests[-1].body


BROKEN = {
    "no stream": (Answer(body="{}"), "failed", "no stream"),
    "refused": (Answer(status=429, body='{"error": {"code": "slow_down"}}'), "refused", "slow_down"),
    "overloaded": (Answer(status=529, body="busy"), "refused", "status 529"),
    "an error in the stream": (
        Answer(events=(event(delta(content="a")), event({"error": {"code": "broke"}}))),
        "failed",
        "broke",
    ),
    "cut off": (Answer(events=(event(delta(content="a")),)), "failed", "cut off"),
    "no JSON": (Answer(events=("data: {nothing\n\n",)), "failed", "Malformed"),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_what_goes_wrong_is_recorded_by_its_kind(what: str) -> None:
    answer, outcome, error = BROKEN[what]
    async with standin(lambda _: answer) as server:
        record = await asked(server.url)
    assert (record.outcome, record.error) == (outcome, error)


async def test_a_first_request_that_fails_ends_it_before_it_begins() -> None:
    async with standin(lambda _: Answer(status=401, body='{"error": {"code": "invalid_api_key"}}')) as server:
        with pytest.raises(ScenarioError, match=r"invalid_api_key \(status 401\)"):
            await probe(ONCE, target(server.url, ONCE, None))


async def test_what_is_under_way_when_the_patience_is_over_is_unfinished() -> None:
    scenario = replace(ONCE, seconds=0.2)
    async with standin(lambda _: stream(1000, gap=0.01)) as server:
        run = await driven(replace(target(server.url, scenario, None), patience=0.2), scenario)
    (record,) = run.records
    assert record.outcome == "unfinished"
    assert record.first == record.first, "its first token was seen"
    (tier,) = summary(run.records, run.gaps, scenario.objective, 0.2)
    assert (tier.ok, tier.errors) == (0, {"unfinished": 1})
