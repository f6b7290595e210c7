"""What is said on purpose and what goes wrong on purpose, on every surface alike; and the journal of it."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import StartService
from pools import NARROW, SWIFT, Pool, catalog
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from fastmode.testing import Entry, Fastmode
from fastmode.up import Service
from service.errors import RulesError

KEEPALIVE = 0.05  # s
LOST_AFTER = 2.0  # s
BURST = Pool(name="burst", rate=200_000)  # all of an answer comes at once
TOKENS = 16

Answer = tuple[int, httpx.Headers, str, bool]  # status, headers, body as far as it came, and whether all of it did


@pytest.fixture(scope="module")
def rules_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rules") / "rules.toml"
    path.write_text('[[rules]]\nreply = "from the file"\n')
    return path


@pytest.fixture(scope="module")
def service(module_stack: StartService, rules_file: Path) -> Service:
    pools = catalog(rules_file.parent, SWIFT, NARROW, BURST)
    silences = {"FASTMODE_KEEPALIVE_EVERY": str(KEEPALIVE), "FASTMODE_EVENT_WAIT_MAX": str(LOST_AFTER)}
    return module_stack(catalog=pools, FASTMODE_RULES=str(rules_file), FASTMODE_JOURNAL="50", **silences)


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.base_url, timeout=20, trust_env=False) as client:
        yield client


@pytest.fixture(autouse=True)
def told(service: Service, client: httpx.Client) -> Fastmode:
    """As the fixture `fastmode`."""
    handle = Fastmode(service.base_url, client)
    handle.forget()
    return handle


class Surface:
    """How one surface is asked, and what it says: `pieces` are the texts of a stream."""

    def __init__(
        self,
        path: str,
        piece: Callable[[dict[str, Any]], str | None],
        asked: Callable[[str], dict[str, Any]] = lambda prompt: {"messages": [{"role": "user", "content": prompt}]},
        limit: str = "max_tokens",
    ) -> None:
        self.path = path
        self._piece = piece
        self._asked = asked
        self._limit = limit

    def ask(
        self, client: httpx.Client, prompt: str = "Hello", *, stream: bool, fault: str = "", **fields: Any
    ) -> Answer:
        headers = {"x-fastmode-fault": fault} if fault else {}
        if self.path == "/v1/messages":
            headers["anthropic-version"] = "2023-06-01"
        body = {"model": "swift", "stream": stream, self._limit: TOKENS, **self._asked(prompt), **fields}
        received = ""
        with client.stream("POST", self.path, json=body, headers=headers) as answer:
            try:
                for part in answer.iter_text():
                    received += part
            except httpx.RemoteProtocolError:
                return answer.status_code, answer.headers, received, False
            return answer.status_code, answer.headers, received, True

    def pieces(self, received: str) -> list[str]:
        """Texts of the events that are JSON."""
        return [text for event in events(received) if isinstance(event, dict) and (text := self._piece(event))]


def events(received: str) -> list[Any]:
    """What the events of a stream say; text where one is not JSON."""
    found: list[Any] = []
    for block in received.split("\n\n"):
        for line in block.splitlines():
            if line.startswith("data: ") and line != "data: [DONE]":
                try:
                    found.append(json.loads(line.removeprefix("data: ")))
                except ValueError:
                    found.append(line)
    return found


def of_choice(get: Callable[[dict[str, Any]], str | None]) -> Callable[[dict[str, Any]], str | None]:
    return lambda event: get(event["choices"][0]) if event.get("choices") else None


CHAT = Surface("/v1/chat/completions", of_choice(lambda choice: choice["delta"].get("content")))
COMPLETIONS = Surface("/v1/completions", of_choice(lambda choice: choice["text"]), lambda prompt: {"prompt": prompt})
MESSAGES = Surface("/v1/messages", lambda event: event.get("delta", {}).get("text"))
RESPONSES = Surface(
    "/v1/responses",
    lambda event: event["delta"] if event["type"] == "response.output_text.delta" else None,
    lambda prompt: {"input": prompt},
    "max_output_tokens",
)
SURFACES = [CHAT, COMPLETIONS, MESSAGES, RESPONSES]

ENDS = ("[DONE]", 'finish_reason":"', "message_stop", "response.completed", '"error":{')

everywhere = pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.path)
both_ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


def only(told: Fastmode) -> Entry:
    (entry,) = told.journal()
    return entry


# ---- Faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["swift", "burst"])
@everywhere
def test_a_cut_stream_has_its_tokens_and_nothing_that_says_it_ended(
    client: httpx.Client, told: Fastmode, surface: Surface, model: str
) -> None:
    status, _, received, complete = surface.ask(client, stream=True, fault="cut@5", model=model)
    assert (status, complete) == (200, False)
    assert len(surface.pieces(received)) == 5
    assert not any(word in received for word in ENDS)
    entry = only(told)
    assert entry.outcome == "cancelled"
    assert entry.usage is not None
    assert 5 <= entry.usage.completion <= TOKENS


@everywhere
def test_a_cut_answer_breaks_off_before_its_body_is_complete(
    client: httpx.Client, told: Fastmode, surface: Surface
) -> None:
    status, headers, received, complete = surface.ask(client, stream=False, fault="cut@5")
    assert (status, complete) == (200, False)
    assert len(received) < int(headers["content-length"])
    assert only(told).outcome == "cancelled"


@both_ways
def test_what_was_cut_off_has_freed_its_slot(client: httpx.Client, told: Fastmode, stream: bool) -> None:
    CHAT.ask(client, stream=stream, fault="cut@5", model="narrow", max_tokens=50_000, ignore_eos=True)
    status, _, received, complete = CHAT.ask(client, stream=True, model="narrow")
    assert (status, complete, len(CHAT.pieces(received))) == (200, True, TOKENS)
    cut, whole = told.journal()
    assert cut.usage is not None
    assert cut.usage.completion < 25_000
    assert whole.outcome == "ok"


def test_what_was_cut_off_on_a_websocket_is_charged_and_over(service: Service, told: Fastmode) -> None:
    url = f"{service.base_url.replace('http', 'ws', 1)}/v1/responses"
    asked = {"type": "response.create", "model": "swift", "input": "Hello", "max_output_tokens": TOKENS}
    with connect(url, additional_headers={"x-fastmode-fault": "cut@5"}, proxy=None) as websocket:
        websocket.send(json.dumps(asked))
        with pytest.raises(ConnectionClosedError):
            list(websocket)
    entry = only(told)
    assert entry.outcome == "cancelled"
    assert entry.usage is not None
    assert 5 <= entry.usage.completion <= TOKENS


@everywhere
def test_one_event_is_not_json_and_the_others_are_as_ever(client: httpx.Client, surface: Surface) -> None:
    _, _, sound, _ = surface.ask(client, stream=True)
    _, _, received, complete = surface.ask(client, stream=True, fault="corrupt@5")
    assert complete
    assert [isinstance(event, str) for event in events(received)].count(True) == 1
    whole, rest = surface.pieces(sound), surface.pieces(received)
    assert rest == [*whole[:5], *whole[6:]]


@everywhere
def test_a_corrupt_answer_is_complete_and_no_json(client: httpx.Client, surface: Surface) -> None:
    status, _, received, complete = surface.ask(client, stream=False, fault="corrupt")
    assert (status, complete) == (200, True)
    with pytest.raises(json.JSONDecodeError):
        json.loads(received)


@pytest.mark.parametrize("model", ["swift", "burst"])
@everywhere
def test_an_error_in_the_middle_is_the_last_event(
    client: httpx.Client, told: Fastmode, surface: Surface, model: str
) -> None:
    status, _, received, complete = surface.ask(client, stream=True, fault="error=overloaded@5", model=model)
    assert (status, complete) == (200, True)
    assert len(surface.pieces(received)) == 5
    assert "overloaded" in json.dumps(events(received)[-1])
    assert not any(word in received for word in ("[DONE]", "message_stop", "response.completed"))
    entry = only(told)
    assert (entry.status, entry.outcome) == (200, "failed")
    assert entry.usage is not None
    assert entry.usage.completion >= 5, "what was generated by then is charged, as it is of what is cut off"


@everywhere
def test_an_error_in_the_middle_of_an_answer_that_is_not_streamed_is_a_status(
    client: httpx.Client, surface: Surface
) -> None:
    assert surface.ask(client, stream=False, fault="error@5")[0] == 500
    overloaded = surface.ask(client, stream=False, fault="error=overloaded@5")
    assert overloaded[0] == (529 if surface is MESSAGES else 503)


@both_ways
@everywhere
@pytest.mark.parametrize(
    ("words", "status", "types"),
    [
        ("status=400", 400, ("invalid_request_error", "invalid_request_error")),
        ("status=401", 401, ("invalid_request_error", "authentication_error")),
        ("status=429; retry_after=2", 429, ("requests", "rate_limit_error")),
        ("status=429; code=insufficient_quota", 429, ("insufficient_quota", "insufficient_quota")),
        ("status=500", 500, ("server_error", "api_error")),
        ("status=503", 503, ("service_unavailable_error", "api_error")),
        ("status=529", 529, ("server_error", "overloaded_error")),
        ("status=418; type=teapot; message=short and stout", 418, ("teapot", "teapot")),
    ],
)
def test_a_status_is_told_in_the_dialect_of_the_route(
    client: httpx.Client, surface: Surface, stream: bool, words: str, status: int, types: tuple[str, str]
) -> None:
    told_status, headers, received, _ = surface.ask(client, stream=stream, fault=words)
    assert told_status == status
    body = json.loads(received)
    assert body["error"]["type"] == types[surface is MESSAGES]
    assert headers["x-fastmode-reason"] == "fault"
    if surface is MESSAGES:
        assert body["request_id"] == headers["request-id"]
    if status == 429:
        quota = "quota" in words
        assert headers["retry-after"] == ("1" if quota else "2")
        assert headers["x-should-retry"] == ("false" if quota else "true")


@everywhere
@pytest.mark.parametrize("words", ["slow=0.2", "stall=0.2@5", "stall=0.2@99"])
def test_a_silence_is_bridged_and_nothing_is_missing_after_it(
    client: httpx.Client, surface: Surface, words: str
) -> None:
    _, _, sound, _ = surface.ask(client, stream=True)
    _, _, received, complete = surface.ask(client, stream=True, fault=words)
    assert complete
    assert surface.pieces(received) == surface.pieces(sound)
    assert received.count(": keep-alive" if surface is not MESSAGES else "event: ping") >= 2


def test_a_silence_on_purpose_may_be_longer_than_that_of_a_job_that_is_lost(client: httpx.Client) -> None:
    sound, late = (CHAT.ask(client, stream=False, fault=words) for words in ("", f"stall={LOST_AFTER * 1.2}@5"))
    assert late[0] == 200
    assert json.loads(late[2])["choices"] == json.loads(sound[2])["choices"]


@everywhere
def test_a_fault_in_unknown_words_is_explained(client: httpx.Client, surface: Surface) -> None:
    status, _, received, _ = surface.ask(client, stream=True, fault="explode@3")
    assert status == 400
    assert "'explode' is no fault" in json.loads(received)["error"]["message"]


def test_what_generates_nothing_can_be_refused_as_well(client: httpx.Client) -> None:
    headers = {"anthropic-version": "2023-06-01", "x-fastmode-fault": "status=429"}
    body = {"model": "swift", "messages": [{"role": "user", "content": "Hello"}]}
    answer = client.post("/v1/messages/count_tokens", json=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["type"]) == (429, "rate_limit_error")


def test_the_same_seed_lets_the_same_requests_fail(client: httpx.Client, told: Fastmode) -> None:
    def statuses(seed: int) -> list[int]:
        told.forget()
        told.fault_rates("standard", {"status=418": 0.3, "status=503": 0.3}, seed=seed)
        return [CHAT.ask(client, stream=False, max_tokens=1)[0] for _ in range(12)]

    first = statuses(3)
    assert set(first) == {200, 418, 503}
    assert statuses(3) == first
    assert statuses(4) != first


# ---- Rules ----------------------------------------------------------------------------------------------------------


@both_ways
@everywhere
def test_a_reply_is_said_alike_everywhere(client: httpx.Client, told: Fastmode, surface: Surface, stream: bool) -> None:
    told.reply("Your {{1}}, as you wish.", last_message=r"bring (\w+)", name="waiter")
    _, _, received, _ = surface.ask(client, "Please bring tea", stream=stream)
    entry = only(told)
    assert (entry.text, entry.finish, entry.rule) == ("Your tea, as you wish.", "stop", "waiter")
    if stream:
        assert "".join(surface.pieces(received)) == entry.text
    else:
        assert entry.text in received


def test_a_call_is_made_with_just_these_arguments(client: httpx.Client, told: Fastmode) -> None:
    told.call("read", {"path": "{{last_message}}"}, tools=["read"])
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    function = {"type": "function", "function": {"name": "read", "parameters": schema}}
    for surface, tool in ((CHAT, function), (MESSAGES, {"name": "read", "input_schema": schema})):
        _, _, received, _ = surface.ask(client, "a.txt", stream=False, tools=[tool], max_tokens=100)
        assert "a.txt" in received
    assert [entry.calls[0].arguments for entry in told.journal()] == [{"path": "a.txt"}] * 2
    assert [entry.finish for entry in told.journal()] == ["tool_calls"] * 2


def test_replies_follow_each_other_and_faults_happen_as_often_as_they_are_told(
    client: httpx.Client, told: Fastmode
) -> None:
    told.fault("status=429", times=2)
    told.reply("one", "two")
    statuses = [CHAT.ask(client, stream=False)[0] for _ in range(5)]
    assert statuses == [429, 429, 200, 200, 200]
    assert [entry.text for entry in told.journal()] == ["", "", "one", "two", "two"]


def test_conversations_are_counted_each_for_itself(client: httpx.Client, told: Fastmode) -> None:
    told.reply("first", "again", per="conversation")
    for prompt in ("A", "B", "A"):
        CHAT.ask(client, prompt, stream=False)
    assert [entry.text for entry in told.journal()] == ["first", "first", "again"]


def test_rules_that_cannot_be_are_explained_and_change_nothing(client: httpx.Client, told: Fastmode) -> None:
    told.reply("sound")
    with pytest.raises(RulesError, match=r"rules\.2\.match\.colour: unknown key"):
        told.reply("odd", colour="red")
    CHAT.ask(client, stream=False)
    assert only(told).text == "sound"


def test_a_file_is_read_again_and_one_that_cannot_be_used_changes_nothing(
    client: httpx.Client, told: Fastmode, rules_file: Path
) -> None:
    def says(text: str) -> Callable[[], bool]:
        return lambda: text in CHAT.ask(client, stream=False)[2]

    def reports(text: str) -> Callable[[], bool]:
        return lambda: text in client.get("/readyz").json()["rules"]

    rules_file.write_text('[[rules]]\nreply = "anew"\n')
    eventually(says("anew"))
    rules_file.write_text('[[rules]]\nreply = "broken\n')
    eventually(reports("cannot be read as TOML"))
    assert says("anew")()
    rules_file.write_text('[[rules]]\nreply = "mended"\n')
    eventually(reports("ok"))
    assert says("mended")()


def eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline


# ---- Headers that tell, and the journal -----------------------------------------------------------------------------


@both_ways
@everywhere
def test_an_answer_tells_how_it_was_served_to_those_who_ask(
    client: httpx.Client, told: Fastmode, surface: Surface, stream: bool
) -> None:
    told.reply("yes", name="r", fault="slow=0.01")
    assert not any(name.startswith("x-fastmode") for name in surface.ask(client, stream=stream)[1])
    client.headers["x-fastmode-debug"] = "1"
    try:
        served, refused = (surface.ask(client, stream=stream, fault=words)[1] for words in ("", "status=418"))
    finally:
        del client.headers["x-fastmode-debug"]
    for headers in (served, refused):
        assert headers["x-fastmode-tier-served"] == "standard"
        assert headers["x-fastmode-tier-requested"] == "auto"
        assert headers["x-fastmode-pool"] == "swift"
        assert headers["x-fastmode-rule"] == "r"
    assert float(served["x-fastmode-queue-wait-ms"]) >= 0
    assert (served["x-fastmode-fault"], refused["x-fastmode-fault"]) == ("slow=0.01", "status=418")


def test_a_mistake_that_is_asked_for_is_told_and_noted(client: httpx.Client, told: Fastmode) -> None:
    told.reply(mistake="invalid_json", tools=["read"])
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    body = {
        "model": "swift",
        "messages": [{"role": "user", "content": "read a.txt"}],
        "tools": [{"type": "function", "function": {"name": "read", "parameters": schema}}],
        "tool_choice": "required",
    }
    answer = client.post("/v1/chat/completions", json=body, headers={"x-fastmode-debug": "1"})
    assert answer.headers["x-fastmode-mistake"] == "invalid_json"
    entry = only(told)
    assert entry.mistake == "invalid_json"
    assert isinstance(entry.calls[0].arguments, str), "what is no JSON is shown as it is"


def test_what_waits_behind_a_silence_pauses_its_sequence_and_all_of_it_comes(
    client: httpx.Client, told: Fastmode
) -> None:
    status, _, received, complete = CHAT.ask(
        client, stream=True, fault="stall=0.5@5", model="burst", max_tokens=5000, ignore_eos=True
    )
    assert (status, complete, len(CHAT.pieces(received))) == (200, True, 5000)
    assert only(told).outcome == "ok"


def test_the_journal_keeps_what_came_and_no_keys(client: httpx.Client, told: Fastmode) -> None:
    body = {"model": "swift", "messages": [{"role": "user", "content": "Grüße"}], "max_tokens": 3}
    keys = {"authorization": "Bearer sk-secret", "x-api-key": "sk-secret", "cookie": "sk-secret", "x-my": "own"}
    client.post("/v1/chat/completions", json=body, headers=keys)
    entry = only(told)
    assert entry.body == body
    assert (entry.headers["x-my"], entry.headers["authorization"]) == ("own", "(redacted)")
    assert "sk-secret" not in client.get("/fastmode/journal").text
    assert (entry.surface, entry.model, entry.tier_served, entry.status, entry.finish) == (
        "chat",
        "swift",
        "standard",
        200,
        "length",
    )
    assert entry.usage is not None
    assert entry.usage.completion == 3


def test_the_journal_has_what_was_refused(client: httpx.Client, told: Fastmode) -> None:
    client.post("/v1/chat/completions", content=b"{", headers={"content-type": "application/json"})
    CHAT.ask(client, stream=False, model="unknown")
    broken, unknown = told.journal()
    assert (broken.status, broken.body, broken.outcome) == (400, "{", "rejected")
    assert (unknown.status, unknown.body["model"]) == (404, "unknown")


def test_the_journal_is_bounded_and_read_in_pages(client: httpx.Client, told: Fastmode) -> None:
    for _ in range(60):
        CHAT.ask(client, stream=False, model="unknown")
    numbers = [entry.number for entry in told.journal()]
    assert numbers == list(range(numbers[0], numbers[0] + 50))
    page = client.get("/fastmode/journal", params={"since": numbers[9], "limit": 5}).json()
    assert [note["number"] for note in page["notes"]] == numbers[10:15]
    assert page["last"] == numbers[14]
    assert client.get("/fastmode/journal", params={"since": "x"}).status_code == 400
    assert client.delete("/fastmode/journal").json() == {"notes": []}
    assert told.journal() == []


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"host": "evil.example"}])
def test_web_pages_from_elsewhere_see_no_journal(client: httpx.Client, headers: dict[str, str]) -> None:
    assert client.get("/fastmode/journal", headers=headers).status_code == 404
    assert client.put("/fastmode/rules", json={}, headers=headers).status_code == 404


def test_there_is_no_journal_unless_it_is_wanted(steady: Service) -> None:
    with httpx.Client(base_url=steady.base_url, trust_env=False) as client:
        assert client.get("/fastmode/journal").status_code == 404
        assert client.put("/fastmode/rules", json={}).status_code == 404
