"""Strings after what is needed of them: format, pattern, length, and otherwise a plausible one.

Knows nothing of schemas' documents.
"""

import re
from collections.abc import Sequence

from service.schemas import matches
from workers.content import plausible
from workers.content.draws import Draws
from workers.content.hints import Hints
from workers.content.instances.formats import formatted
from workers.content.instances.needs import Dead, Need
from workers.content.instances.patterns import LENGTH_MAX, Unsupported, matching

_FILLING = "and some more words to fill the rest of it "
_SAMPLE = re.compile(r"\b(?:e\.g\.?|eg|for example|such as|like|i\.e\.)[:,]?\s+([^\n]{1,80})", re.IGNORECASE)
_QUOTED = re.compile(r"^['\"`“]([^'\"`”]{1,80})['\"`”]")
_SENTENCE = 40  # characters of a sample that is not quoted


def offers(need: Need, name: str, hints: Hints) -> Sequence[str]:
    """What the conversation offers, the likeliest first."""
    match need.format:
        case "email" | "idn-email":
            return hints.emails
        case "uri" | "url" | "iri":
            return hints.urls
        case "date" | "date-time":
            return hints.dates
        case None:
            return plausible.offers(name, hints)
    return ()


def fits(text: str, need: Need) -> bool:
    """In length and pattern. A format is for a validator."""
    return (
        need.shortest <= len(text)
        and (need.longest is None or len(text) <= need.longest)
        and all(matches(pattern, text) for pattern in need.patterns)
    )


def drawn(draws: Draws, need: Need, name: str, attempt: int) -> str:
    """`attempt`: how many were in vain before. Raises Dead."""
    if need.shortest > LENGTH_MAX:
        raise Dead(f"it asks for a string of more than {LENGTH_MAX} characters")
    if need.longest is not None and need.longest < need.shortest:
        raise Dead("its lengths contradict each other")
    text = formatted(need.format, draws) if need.format else None
    if text is None:
        text = _sample(draws, need) if attempt < 2 else None
    if text is None:
        text = plausible.string(draws, name)
        text = text if attempt < 2 else f"{text} {draws.between(1, 10 ** min(attempt, 9))}"
    for each in (text, text.upper() if need.patterns else text):
        if fits(each, need):
            return each
    if need.patterns:
        return drawn_from(draws, need.patterns[attempt % len(need.patterns)], need.shortest, need.longest)
    return _sized(text, need.shortest, need.longest)


def drawn_from(draws: Draws, pattern: str, shortest: int = 0, longest: int | None = None) -> str:
    """A string that the pattern matches. Raises Dead."""
    try:
        text = matching(pattern, draws, shortest, longest)
    except Unsupported as error:
        raise Dead(str(error)) from None
    if text is None:
        raise Dead("its pattern and its lengths contradict each other")
    return text


def _sample(draws: Draws, need: Need) -> str | None:
    """What a description gives as an example: "The city and state, e.g. San Francisco, CA"."""
    for node in need.nodes:
        found = _SAMPLE.search(node["description"]) if isinstance(node.get("description"), str) else None
        if found and draws.chance(0.7):
            quoted = _QUOTED.match(found[1])
            text = quoted[1] if quoted else re.split(r"[);]|\. |\.$| or |, e", found[1])[0].strip(" .'\"`")
            if text and (quoted or len(text) <= _SENTENCE):
                return text
    return None


def _sized(text: str, shortest: int, longest: int | None) -> str:
    if longest is not None and len(text) > longest:
        text = text[:longest]
        text = text.rstrip() if len(text.rstrip()) >= shortest else text.replace(" ", "x")
    while len(text) < shortest:
        text = f"{text.rstrip()} {_FILLING}"[: max(shortest, 1)]
    return text[:-1] + "." if text.endswith(" ") else text
