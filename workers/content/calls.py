"""Which tools an answer calls, and with what: by the words that the user's message shares with them.

Whether a message calls for a tool is judged by its words' stems: those of a tool's name count most, then those of its
parameters, then those of the beginning of its description; a path, an address or a link counts for tools that take
one. A message that names several things gets several calls.
Knows nothing of tokens.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random

from service.messages import TAKES_TEXT, Call, Tool
from workers.content import forms, hints, plausible
from workers.content.hints import Hints
from workers.content.instances import dumped, instance, parameters, required

CALLS_MAX = 8  # in one answer
_DESCRIPTION = 200  # characters of it that tell what a tool is for
_NAME, _PARAMETER, _DESCRIBED = 4, 2, 2
_ENOUGH = 2

_THINGS: set[plausible.Kind | None] = {"path", "url", "email"}
_PROGRAMS = hints.stems("code python script sql javascript bash shell program")
_VAGUE = hints.stems(
    "tool function data information info value result type current given specific retrieve details input output user "
    "object string number item available request provide support based name"
)
_CLAUSES = re.compile(r"\s*(?:[;?\n]|\.\s|, and |, then | and then | and also | and | as well as | plus |,\s)\s*")


@dataclass(frozen=True, slots=True)
class Words:
    """Stems of a tool's words, which kinds of things it has to be given, and how many parameters it `needs`."""

    name: frozenset[str]
    parameters: frozenset[str]
    description: frozenset[str]
    kinds: frozenset[plausible.Kind | None]
    needs: int


def called(tools: Sequence[Tool], message: Hints, must: bool, parallel: bool) -> list[tuple[Tool, Hints]]:
    """The tools to call, in order, and what each call has to go by; empty if none is called for."""
    explicit = [tool for tool in tools if _named(tool, message.text)]
    among = explicit or tools
    scores = [_score(tool, message) for tool in among]
    best = max(range(len(among)), key=lambda at: (scores[at], -_words(among[at]).needs), default=None)
    if best is None or not (explicit or scores[best] >= _ENOUGH or must):
        return []
    if not parallel:
        return [(among[best], message)]
    return _parallel(among, among[best], message)[:CALLS_MAX]


def written(tool: Tool, message: Hints, random: Random) -> Call:
    """A call with arguments that are valid. Raises Unsatisfiable."""
    if tool.parameters == TAKES_TEXT:
        return Call(tool.name, _text(tool, message))
    return Call(tool.name, dumped(instance(tool.parameters, random, message)))


def _text(tool: Tool, message: Hints) -> str:
    """What the message quotes, or a program where the tool is for one, or the message itself."""
    if message.quoted:
        return message.quoted[0]
    own = _words(tool)
    if not _PROGRAMS.isdisjoint(own.name | own.description):
        return forms.program(f"{tool.name} {tool.description[:_DESCRIPTION]} {message.text}")
    return message.text or tool.name


def _parallel(tools: Sequence[Tool], best: Tool, message: Hints) -> list[tuple[Tool, Hints]]:
    """A call for each clause that calls for one, or that names a further thing for the tool of the one before."""
    found: list[tuple[Tool, Hints]] = []
    for clause in _CLAUSES.split(message.text)[: 4 * CALLS_MAX]:
        part = hints.said(clause) if clause else None
        if part is None:
            continue
        scores = [_score(tool, part) for tool in tools]
        top = max(range(len(tools)), key=scores.__getitem__)
        tool = tools[top] if scores[top] >= _NAME else None
        if found and (tool is None or tool.name == found[-1][0].name) and _takes_one(found[-1][0]) and _things(part):
            found.append((found[-1][0], part))
        elif tool is not None and all(tool.name != known.name for known, _ in found):
            found.append((tool, part))
    if len(found) < 2:
        return [(best, message)]
    return [(tool, _completed(part, message)) for tool, part in found]


def _completed(part: Hints, message: Hints) -> Hints:
    """What one clause says, and of the whole message what it says nothing of."""
    kept = {name: getattr(part, name) or getattr(message, name) for name in ("urls", "emails", "paths", "dates")}
    things = _things(part)
    return replace(
        part,
        names=part.names if things else message.names,
        quoted=part.quoted if things else message.quoted,
        facts=message.facts,
        **kept,
    )


def _things(part: Hints) -> bool:
    return bool(part.names or part.quoted or part.paths or part.urls or part.emails)


@lru_cache(maxsize=512)
def _takes_one(tool: Tool) -> bool:
    """One thing in a call: a second one needs a second call."""
    properties = parameters(tool.parameters)
    texts = [name for name, kind in properties.items() if kind == "string"]
    needed = [name for name in texts if plausible.kind(name) != "date"] or texts
    return len(needed) == 1 and "array" not in properties.values()


def _named(tool: Tool, text: str) -> bool:
    """By its very name, where that is no everyday word, or behind a word that asks for it."""
    if tool.name not in text:
        return False
    asked = rf"(?:\b(?:use|call|invoke|run)\b[^.\n]{{0,30}}\b|`){re.escape(tool.name)}\b"
    return bool(re.search("[_-]|[a-z][A-Z]", tool.name)) or re.search(asked, text, re.IGNORECASE) is not None


def _score(tool: Tool, message: Hints) -> int:
    own = _words(tool)
    weak = len(message.words & (own.name | own.description) & hints.WEAK)
    words = message.words - hints.WEAK
    things = {"path": message.paths, "url": message.urls, "email": message.emails}
    return (
        weak
        + _NAME * len(words & own.name)
        + _PARAMETER * len(words & own.parameters)
        + _PARAMETER * sum(bool(things[kind]) for kind in own.kinds if kind is not None)
        + (_DESCRIBED * len(words & own.description) if tool.parameters != TAKES_TEXT else 0)
    )


@lru_cache(maxsize=1024)
def _words(tool: Tool) -> Words:
    description, needed = tool.description[:_DESCRIPTION], required(tool.parameters)
    return Words(
        hints.stems(tool.name) - _VAGUE,
        hints.stems(" ".join(parameters(tool.parameters))) - _VAGUE,
        hints.stems(description) - _VAGUE,
        frozenset(_THINGS & {plausible.kind(name) for name in needed}),
        len(needed),
    )
