"""Answers that are written beforehand, and which requests get them: of the rules, in order, the first that fits.

A rule looks at what every dialect has in common: model, tier, turns, tools. So it acts alike on all surfaces. Knows
neither files (`service.rules` reads them) nor how often a rule has answered.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import groupby
from typing import Any, Literal, get_args

import msgspec

from service.faults import Fault, Rates
from service.messages import Call, FinishReason, Scripted, Turn

Surface = Literal["chat", "completions", "messages", "responses", "embeddings"]
SURFACES: tuple[str, ...] = get_args(Surface)

_INSTRUCTIONS = ("system", "developer")
_LOOKED_AT = 100_000  # characters of a text that a pattern is searched in: it runs beside everybody's streams
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_json = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True)
class Seen:
    """What rules look at. `asked` is the request's word for the model; `tier` is what serves it.

    `tools` are the names of those that may be called; names of headers are in lower case.
    """

    model: str
    asked: str
    tier: str
    surface: str
    turns: Sequence[Turn]
    tools: frozenset[str]
    headers: Mapping[str, str]

    @cached_property
    def turn(self) -> int:
        """Which of the assistant's turns is asked for, from 1. What it says or calls in a row is one."""
        roles = [role for role, _ in groupby(turn.role for turn in self.spoken)]
        return roles[:-1].count("assistant") + 1  # a last one is what is to be continued

    def is_called(self, pattern: str) -> bool:
        """The model is, in the catalog or by the request."""
        return fnmatchcase(self.model, pattern) or fnmatchcase(self.asked, pattern)

    @cached_property
    def spoken(self) -> Sequence[Turn]:
        """Without instructions: some clients repeat those behind the user's words."""
        return [turn for turn in self.turns if turn.role not in _INSTRUCTIONS]

    @cached_property
    def last(self) -> Turn:
        return self.spoken[-1] if self.spoken else Turn("user", "")

    @cached_property
    def looked_at(self) -> str:
        """The last message, as far as patterns are searched in it."""
        return self.last.text[:_LOOKED_AT]

    @property
    def system(self) -> str:
        return "\n".join(turn.text for turn in self.turns if turn.role in _INSTRUCTIONS)

    @property
    def opening(self) -> Sequence[Turn]:
        """The turns by which a conversation is known: up to the first answer."""
        until = next((n for n, turn in enumerate(self.spoken) if turn.role == "assistant"), len(self.spoken))
        return self.spoken[:until]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What a request has to have; what is not named may be anything. Names of models may contain `*`."""

    models: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    surfaces: tuple[str, ...] = ()
    last_roles: tuple[str, ...] = ()
    tools: frozenset[str] = frozenset()
    turn: int | None = None
    last_message: re.Pattern[str] | None = None
    system: re.Pattern[str] | None = None
    headers: tuple[tuple[str, re.Pattern[str]], ...] = ()

    def facts(self, seen: Seen) -> dict[str, str] | None:
        """What a reply may quote of a request that fits, by name; None: it does not fit."""
        if not self._fits(seen):
            return None
        found = self.last_message.search(seen.looked_at) if self.last_message is not None else None
        if self.last_message is not None and found is None:
            return None
        facts = {"last_message": seen.last.text, "model": seen.model, "tier": seen.tier, "turn": str(seen.turn)}
        if found is None:
            return facts
        groups = {str(number): text or "" for number, text in enumerate(found.groups(), start=1)}
        return facts | groups | {name: text or "" for name, text in found.groupdict().items()}

    def _fits(self, seen: Seen) -> bool:
        """But for the last message."""
        return (
            (not self.models or any(map(seen.is_called, self.models)))
            and (not self.tiers or seen.tier in self.tiers)
            and (not self.surfaces or seen.surface in self.surfaces)
            and (not self.last_roles or seen.last.role in self.last_roles)
            and self.tools <= seen.tools
            and self.turn in (None, seen.turn)
            and (self.system is None or self.system.search(seen.system[:_LOOKED_AT]) is not None)
            and all(pattern.search(seen.headers.get(name, "")) for name, pattern in self.headers)
        )

    @property
    def quotable(self) -> set[str]:
        """Names of `facts`."""
        groups = self.last_message.groups if self.last_message else 0
        names = set(self.last_message.groupindex) if self.last_message else set()
        return {"last_message", "model", "tier", "turn", *map(str, range(1, groups + 1)), *names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What is said, and what goes wrong. One that has neither text nor calls leaves those to the model.

    `calls` are names and arguments: a table, or a text that is said as it is, JSON or not. Texts may quote facts of
    the request as `{{name}}`. `delay` is how much later the first token comes (s).
    """

    text: str | None = None
    reasoning: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    finish: FinishReason | None = None
    mistake: str | None = None
    delay: float = 0.0
    fault: Fault | None = None

    def scripted(self, facts: Mapping[str, str]) -> Scripted | None:
        """For a request with these facts; None: the model says what it likes.

        What is written is said as it is written, whatever mistakes the tier makes, unless one is asked for.
        """
        written = self.text is not None or self.calls or self.reasoning or self.finish
        if not written and self.mistake is None:
            return None
        return Scripted(
            text=None if self.text is None else quoted(self.text, facts),
            reasoning=quoted(self.reasoning, facts),
            calls=tuple(Call(name, _arguments(arguments, facts)) for name, arguments in self.calls),
            finish=self.finish,
            mistake=self.mistake if self.mistake is not None else "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`replies` come one after another, and the last again and again, until `times` requests have been answered.

    `per` says whether requests are counted for each conversation or all together.
    """

    name: str
    match: Match
    replies: tuple[Reply, ...]
    times: int | None = None
    per: Literal["all", "conversation"] = "all"

    def reply(self, before: int) -> Reply | None:
        """To a request that fits, when `before` others have been answered; None: the rule is used up."""
        if self.times is not None and before >= self.times:
            return None
        return self.replies[min(before, len(self.replies) - 1)]


@dataclass(frozen=True, slots=True)
class Rules:
    """What a file holds. `rates` are of faults, by tier."""

    rules: tuple[Rule, ...] = ()
    rates: Mapping[str, Rates] = field(default_factory=dict)


def quoted(text: str, facts: Mapping[str, str]) -> str:
    """The text with the facts it names."""
    return _PLACEHOLDER.sub(lambda found: facts[found[1]], text) if "{{" in text else text


def quotes(thing: Any) -> set[str]:
    """The facts that a text, or the texts within a table, name."""
    match thing:
        case str():
            return set(_PLACEHOLDER.findall(thing))
        case dict():
            return quotes(list(thing.values()))
        case list() | tuple():
            return {name for part in thing for name in quotes(part)}
    return set()


def _arguments(arguments: Any, facts: Mapping[str, str]) -> str:
    return quoted(arguments, facts) if isinstance(arguments, str) else _json.encode(_filled(arguments, facts)).decode()


def _filled(thing: Any, facts: Mapping[str, str]) -> Any:
    match thing:
        case str():
            return quoted(thing, facts)
        case dict():
            return {key: _filled(part, facts) for key, part in thing.items()}
        case list():
            return [_filled(part, facts) for part in thing]
    return thing
