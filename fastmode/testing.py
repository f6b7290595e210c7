"""The service for tests of clients: what it shall say and what shall go wrong, and what was asked of it.

`serve` runs it on a free port of this machine for as long as a context lasts; the fixture of `fastmode.pytest_plugin`
does just that. A rule looks at what `match` names: model, tier, surface, turn, last_message, last_role, system, tools,
header; the README says what each means.
"""

import os
import socket
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from fastmode.stack import StackError
from fastmode.up import Service, prepare
from service.errors import RulesError

_NOT_OURS = ("REDIS_URL", "FASTMODE_RULES", "FASTMODE_METRICS_DIR", "FASTMODE_METRICS_PORT")
_ALWAYS = {"FASTMODE_HOST": "127.0.0.1", "FASTMODE_GRACE": "1", "FASTMODE_JOURNAL": "1000"}
_ATTEMPTS = 3  # somebody else may take the port that was free
_SETTLED_WITHIN = 2.0  # s; what a client has the end of is settled a moment later
_PATIENCE = 10.0  # s


class Call(msgspec.Struct, frozen=True):
    """`arguments` are what their JSON says, or the text itself if it is none."""

    name: str
    arguments: Any


class Usage(msgspec.Struct, frozen=True):
    """Tokens that were charged. `completion` includes reasoning and rejected ones."""

    prompt: int
    cached: int
    completion: int
    reasoning: int
    accepted: int
    rejected: int


class Choice(msgspec.Struct, frozen=True):
    finish: str | None
    text: str
    reasoning: str
    calls: list[Call]


class Entry(msgspec.Struct, frozen=True):
    """One request and what came of it. Text, reasoning, calls and finish are those of the first of `choices`.

    `time` is Unix time, `duration` in seconds. `outcome` is ok, cancelled, stalled, failed or rejected, and empty while
    the request is open. `status` is None where there was no answer. Names of headers are in lower case.
    """

    number: int
    time: float
    surface: str
    path: str
    headers: dict[str, str]
    body: Any
    id: str
    model: str
    tier_requested: str
    tier_served: str
    rule: str
    fault: str
    mistake: str
    status: int | None
    error: str
    outcome: str
    duration: float
    usage: Usage | None
    finish: str | None
    text: str
    reasoning: str
    calls: list[Call]
    choices: list[Choice]


class _Page(msgspec.Struct):
    notes: list[Entry]
    last: int


class Fastmode:
    """A running service. Rules are in force at once, in the order in which they were added; the first that fits holds.

    `times`: so many requests are answered by the rule, then it is used up; None: all. `per`: these are counted for each
    "conversation", or "all" together.
    """

    def __init__(self, base_url: str, client: httpx.Client) -> None:
        self.base_url = base_url
        self.openai_url = f"{base_url}/v1"
        self._client = client
        self._rules: list[dict[str, Any]] = []
        self._faults: dict[str, dict[str, Any]] = {}

    @property
    def env(self) -> dict[str, str]:
        """The variables by which official SDKs and agents find the service, with keys that it accepts."""
        return {
            "OPENAI_BASE_URL": self.openai_url,
            "OPENAI_API_KEY": "sk-fastmode",
            "ANTHROPIC_BASE_URL": self.base_url,
            "ANTHROPIC_API_KEY": "sk-ant-fastmode",
        }

    def reply(
        self,
        *texts: str,
        times: int | None = None,
        per: str = "all",
        name: str = "",
        reasoning: str = "",
        finish: str | None = None,
        mistake: str | None = None,
        delay_s: float = 0,
        fault: str = "",
        **match: Any,
    ) -> None:
        """Say these texts, one after another, and the last again and again. Raises RulesError, as all of these do."""
        said = {"reasoning": reasoning, "finish": finish, "mistake": mistake, "delay_s": delay_s, "fault": fault}
        replies = [_told({"text": text, **said}) for text in texts] or [_told(said)]
        self._add(replies, times, per, name, match)

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | str = "{}",
        *,
        times: int | None = None,
        per: str = "all",
        name: str = "",
        text: str | None = None,
        delay_s: float = 0,
        fault: str = "",
        **match: Any,
    ) -> None:
        """Call a tool. Arguments that are a text are said as they are, JSON or not."""
        calls = [{"name": tool, "arguments": arguments}]
        said = _told({"text": text, "calls": calls, "delay_s": delay_s, "fault": fault})
        self._add([said], times, per, name, match)

    def fault(self, words: str, *, times: int | None = None, per: str = "all", name: str = "", **match: Any) -> None:
        """Let this go wrong: `status=429; retry_after=2`, `slow=3.5`, `stall=5@20`, `cut@9`, `corrupt@9`, `error@9`."""
        self._add([{"fault": words}], times, per, name, match)

    def fault_rates(self, tier: str, rates: Mapping[str, float], seed: int = 0) -> None:
        """Let these faults meet these shares of a tier's requests: the same ones for the same seed."""
        self._put(self._rules, {**self._faults, tier: {"seed": seed, **rates}})

    def rules(self, rules: str | Path | Mapping[str, Any]) -> None:
        """Add what a file of rules holds: its path, its text, or its tables."""
        if isinstance(rules, Path):
            rules = rules.read_text(encoding="utf-8")
        try:
            tables = tomllib.loads(rules) if isinstance(rules, str) else rules
        except tomllib.TOMLDecodeError as error:
            raise RulesError(f"the rules cannot be read as TOML: {error}") from error
        self._put([*self._rules, *tables.get("rules", [])], {**self._faults, **tables.get("faults", {})})

    def journal(self, settled_within: float = _SETTLED_WITHIN) -> list[Entry]:
        """The requests of this test, in order; waits so many seconds for those that are still open."""
        deadline = time.monotonic() + settled_within
        while True:
            entries = self._entries()
            if all(entry.outcome for entry in entries) or time.monotonic() > deadline:
                return entries
            time.sleep(0.01)

    def forget(self) -> None:
        """No rules, no faults, an empty journal."""
        self._put([], {})
        self._client.delete("/fastmode/journal").raise_for_status()

    def _add(
        self, replies: list[dict[str, Any]], times: int | None, per: str, name: str, match: Mapping[str, Any]
    ) -> None:
        rule = _told({"name": name, "match": dict(match), "reply": replies, "times": times, "per": per})
        self._put([*self._rules, rule], self._faults)

    def _put(self, rules: list[dict[str, Any]], faults: dict[str, dict[str, Any]]) -> None:
        body = msgspec.json.encode({"rules": rules, "faults": faults})
        answer = self._client.put("/fastmode/rules", content=body, headers={"content-type": "application/json"})
        if answer.status_code == httpx.codes.BAD_REQUEST:
            raise RulesError(answer.json()["error"]["message"])
        answer.raise_for_status()
        self._rules, self._faults = rules, faults

    def _entries(self) -> list[Entry]:
        entries: list[Entry] = []
        since = 0
        while True:
            answer = self._client.get("/fastmode/journal", params={"since": since}).raise_for_status()
            page = msgspec.json.decode(answer.content, type=_Page)
            if not page.notes:
                return entries
            entries += page.notes
            since = page.last


@contextmanager
def serve(settings: Mapping[str, str]) -> Iterator[Fastmode]:
    """The service on a free port, with a store of its own, until the context ends.

    `settings` are variables as the README has them. Raises SettingsError, CatalogError, StackError, EmbeddedError.
    """
    with (
        _started(settings) as service,
        httpx.Client(base_url=service.base_url, timeout=_PATIENCE, trust_env=False) as client,
    ):
        yield Fastmode(service.base_url, client)


@contextmanager
def _started(settings: Mapping[str, str]) -> Iterator[Service]:
    with ExitStack() as running:
        for attempt in range(1, _ATTEMPTS + 1):
            service = prepare(_environ(settings), together=True)  # which starts sooner
            running.enter_context(service.stack)
            try:
                service.start()
            except StackError:
                running.close()
                if attempt == _ATTEMPTS:
                    raise
            else:
                break
        yield service


def _environ(settings: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: text for name, text in os.environ.items() if name not in _NOT_OURS}
    return {**inherited, **_ALWAYS, "FASTMODE_PORT": str(_free_port()), **settings}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _told(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those that say something; a text may be empty."""
    return {key: value for key, value in values.items() if value or (key == "text" and value is not None)}
