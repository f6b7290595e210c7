"""A JSON object for a message that asks for one and says no more of it than, perhaps, its keys.

Knows nothing of tokens.
"""

import re
from dataclasses import replace
from random import Random
from typing import Any

import orjson

from workers.content import corpus, plausible
from workers.content.draws import Draws
from workers.content.hints import Hints, key

_KEYS_MAX = 20
_ITEM = r"(?:(?:an?|the)\s+)?[\"'`]?[A-Za-z]\w{0,39}[\"'`]?(?:\s*\([^)\n]{0,60}\))?"
_KEYS = re.compile(
    r"\b(?:keys?|fields?|propert(?:y|ies)|members?|attributes?|(?:json|object) (?:with|containing|of))\b"
    r"(?:[:\s]+(?:the|only|these|following|are|is|named|called|keys?|fields?|properties)\b)*[:\s]+"
    rf"({_ITEM}(?:\s*(?:,(?:\s*and\b)?|\band\b|&)\s*{_ITEM}){{0,20}})",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?:\(.*?\))|(?:^|,|\band\b|&)\s*(?:and\s+)?(?:(?:an?|the)\s+)?[\"'`]?([A-Za-z]\w{0,39})")
_LISTS = frozenset({"items", "tags", "list", "points", "steps", "examples", "keywords", "results", "ingredients"})
_ANYTHING = frozenset({"type", "$schema", "title", "description"})


def says_nothing(schema: bytes) -> bool:
    """Any object satisfies the schema."""
    if schema == b'{"type":"object"}':
        return True
    if len(schema) > 1000:
        return False
    try:
        document = orjson.loads(schema)
    except orjson.JSONDecodeError:
        return False
    return isinstance(document, dict) and document.get("type") == "object" and _ANYTHING.issuperset(document)


def plain_object(random: Random, hints: Hints) -> dict[str, Any]:
    """With the keys that the message names, or those of a short answer."""
    draws = Draws(random)
    names = _keys(hints.text)
    if not names:
        cores = draws.one(corpus.TOPICS)
        lines = draws.order(cores)[:3]
        return {"answer": _sentence(lines[0]), "details": [_sentence(line) for line in lines[1:]]}
    unused = list(hints.numbers)
    hints = replace(hints, quoted=tuple(each for each in hints.quoted if each not in names))
    return {name: _member(name, draws, hints, unused) for name in names}


def _keys(text: str) -> list[str]:
    match = _KEYS.search(text)
    if match is None:
        return []
    return list(dict.fromkeys(name for name in _NAME.findall(match[1]) if name and name != "and"))[:_KEYS_MAX]


def _member(name: str, draws: Draws, hints: Hints, unused: list[int | float]) -> Any:
    fact = hints.facts.get(key(name))
    if fact is not None:
        return fact
    if name.lower() in _LISTS:
        return [plausible.string(draws, name[:-1]) for _ in range(3)]
    bounds = plausible.bounds(name)
    if bounds is None:
        return next(iter(plausible.offers(name, hints)), None) or plausible.string(draws, name)
    if unused:
        return unused.pop(0)
    low, high = bounds
    return draws.between(int(low), int(high)) if high - low >= 1 else round(low + draws.share() * (high - low), 2)


def _sentence(line: str) -> str:
    return f"{line[0].upper()}{line[1:]}."
