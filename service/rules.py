"""Reads a file of rules: what is answered to whom, and the rates of faults. A mistake is named with its key and line.

    [[rules]]
    name = "greeting"
    match = { last_message = "hello (\\\\w+)", tier = "fast" }
    reply = "Hello yourself, {{1}}."             # or a table, or a list of both, used one after another

    [faults.fast]
    seed = 7
    "status=429; retry_after=2" = 0.05           # the share of the tier's requests that meet it
    "cut@20" = 0.01

Knows the keys; what rules mean is `service.scripts`', and the words of faults are `service.faults`'.
"""

import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, cast, get_args

from service import faults
from service.errors import CatalogError, RulesError
from service.faults import Fault, Rates
from service.messages import FinishReason
from service.offers import Mistake
from service.scripts import SURFACES, Match, Reply, Rule, Rules, quotes
from service.toml_table import Document, Table

ROLES = ("user", "assistant", "tool")
_NAME = re.compile(r"[\x20-\x7e]{1,100}")  # it goes into a header


def load(path: Path, tiers: Collection[str]) -> Rules:
    """The rules of a file, for a catalog with these tiers. Raises RulesError."""
    return _translated(lambda: _rules(Document.read(path), tiers))


def parse(text: str, tiers: Collection[str]) -> Rules:
    """As `load`, of TOML that is in no file."""
    return _translated(lambda: _rules(Document.of("rules", text), tiers))


def of(values: dict[str, Any], tiers: Collection[str]) -> Rules:
    """As `load`, of what a file holds, in the types of JSON."""
    return _translated(lambda: _rules(Document("rules", values, {}, frozenset()), tiers))


def _translated(read: Callable[[], Rules]) -> Rules:
    try:
        return read()
    except CatalogError as error:
        raise RulesError(str(error)) from error


def _rules(document: Document, tiers: Collection[str]) -> Rules:
    root = document.root()
    root.only("rules", "faults")
    rules = tuple(_rule(table, number, tiers) for number, table in enumerate(root.items("rules"), start=1))
    rates = {tier: _rates(root, tier, table, tiers) for tier, table in root.tables("faults").items()}
    return Rules(rules, rates)


def _rule(table: Table, number: int, tiers: Collection[str]) -> Rule:
    table.only("name", "match", "reply", "times", "per")
    name = table.text("name", f"rule {number}")
    if not _NAME.fullmatch(name):
        raise table.error("name", "must be at most 100 characters of ASCII, since it goes into a header")
    match = _match(table.table("match"), tiers) if "match" in table else Match()
    replies = _replies(table)
    for reply in replies:
        named = quotes((reply.text, reply.reasoning, [arguments for _, arguments in reply.calls]))
        if unknown := sorted(named - match.quotable):
            known = ", ".join(sorted(match.quotable))
            raise table.error("reply", f"quotes {unknown[0]!r}; what can be quoted here is {known}")
    times = table.integer("times", at_least=1) if "times" in table else None
    per = table.one_of("per", ("all", "conversation"), "all")
    return Rule(name=name, match=match, replies=replies, times=times, per=cast(Any, per))


def _match(table: Table, tiers: Collection[str]) -> Match:
    table.only("model", "tier", "surface", "last_role", "tools", "turn", "last_message", "system", "header")
    headers = table.table("header") if "header" in table else None
    return Match(
        models=_texts(table, "model"),
        tiers=_texts(table, "tier", tiers),
        surfaces=_texts(table, "surface", SURFACES),
        last_roles=_texts(table, "last_role", ROLES),
        tools=frozenset(_texts(table, "tools")),
        turn=table.integer("turn", at_least=1) if "turn" in table else None,
        last_message=_pattern(table, "last_message") if "last_message" in table else None,
        system=_pattern(table, "system") if "system" in table else None,
        headers=tuple((name.lower(), _pattern(headers, name)) for name in headers.values) if headers else (),
    )


def _replies(table: Table) -> tuple[Reply, ...]:
    """A text, a table, or a list of texts and tables."""
    given = table.any("reply")
    if isinstance(given, list) and given:
        path = (*table.path, "reply")
        return tuple(_reply(Table(table.document, path, {str(n): one}), str(n)) for n, one in enumerate(given, start=1))
    return (_reply(table, "reply"),)


def _reply(table: Table, key: str) -> Reply:
    given = table.any(key)
    if isinstance(given, str):
        return Reply(text=given)
    if not isinstance(given, dict):
        raise table.error(key, f"is {given!r}; it must be a text, a table, or a list of those")
    reply = table.table(key)
    reply.only("text", "reasoning", "calls", "finish", "delay_s", "mistake", "fault")
    mistake = _one_of(reply, "mistake", ("none", *get_args(Mistake)))
    return Reply(
        text=_string(reply, "text", None),
        reasoning=_string(reply, "reasoning", ""),
        calls=tuple(_call(call) for call in reply.items("calls")),
        finish=cast("FinishReason | None", _one_of(reply, "finish", get_args(FinishReason))),
        mistake="" if mistake == "none" else mistake,
        delay=reply.number("delay_s", 0, at_least=0, at_most=faults.SECONDS_MAX),
        fault=_fault(reply, "fault", reply.text("fault")) if "fault" in reply else None,
    )


def _call(table: Table) -> tuple[str, Any]:
    table.only("name", "arguments")
    arguments = table.any("arguments", {})
    if not isinstance(arguments, str | dict):
        raise table.error("arguments", f"is {arguments!r}; it must be a table, or a text that is said as it is")
    return table.text("name"), arguments


def _rates(root: Table, tier: str, table: Table, tiers: Collection[str]) -> Rates:
    if tier not in tiers:
        raise root.document.error(("faults", tier), f"is no tier; known are {', '.join(tiers)}")
    seed = table.integer("seed", 0)
    kinds = [words for words in table.values if words != "seed"]
    shares = tuple((_fault(table, words, words), table.number(words, at_least=0, at_most=1)) for words in kinds)
    if sum(share for _, share in shares) > 1 + 1e-9:
        raise root.document.error(("faults", tier), "its shares add up to more than 1")
    return Rates(tier, seed, shares)


def _fault(table: Table, key: str, words: str) -> Fault:
    try:
        return faults.parse(words)
    except ValueError as error:
        raise table.error(key, str(error)) from None


def _texts(table: Table, key: str, known: Collection[str] = ()) -> tuple[str, ...]:
    """A text or a list of texts; none if the key is absent. Not all must be among those known if none are."""
    if key not in table:
        return ()
    texts = table.texts(key) if isinstance(table.any(key), list) else (table.text(key),)
    if unknown := [text for text in texts if known and text not in known]:
        raise table.error(key, f"names {unknown[0]!r}; known are {', '.join(known)}")
    return texts


def _pattern(table: Table, key: str) -> re.Pattern[str]:
    try:
        return re.compile(table.text(key), re.DOTALL)
    except re.error as error:
        raise table.error(key, f"is no regular expression: {error}") from None


def _string(table: Table, key: str, default: Any) -> Any:
    value = table.any(key, default)
    if value is not default and not isinstance(value, str):
        raise table.error(key, f"is {value!r}; it must be a text")
    return value


def _one_of(table: Table, key: str, known: Collection[str]) -> str | None:
    return table.one_of(key, tuple(known)) if key in table else None
