"""What a conversation offers for filling in values: names, quotations, numbers, paths and facts of its last messages.

Pure and bounded: only so much of a message is looked at. Knows nothing of schemas.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from service.messages import Turn
from workers.content.corpus import COMMON_WORDS

SCAN = 2_000  # characters of a message, its end
_FACTS_MAX = 200
_WORDS_MAX = 200

_OPENING = re.compile(r"<([a-z]+[_-][\w-]*)>")
_CUT_OFF = re.compile(r"^(?:(?!<[a-z]+[_-]).)*?</[a-z]+[_-][\w-]*>", re.DOTALL)  # it begins further back
_QUOTED = re.compile(r'"([^"\n]{1,200})"|“([^”\n]{1,200})”|`([^`\n]{1,200})`|(?<!\w)\'([^\'\n]{1,200})\'(?!\w)')
_URL = re.compile(r"\b(?:https?|wss?|ftp)://[^\s\"'<>`)\]]+[^\s\"'<>`)\].,;:!?]")
_EMAIL = re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b")
_PATH = re.compile(
    r"(?<![\w:/@.])(?:~?/|\./|\.\./)?(?:[\w.-]{1,80}/){0,12}[\w-]{1,80}\.[a-z][a-z0-9]{0,4}\b"
    r"|(?<![\w:/])~?/(?:[\w.-]{1,80}/){0,12}[\w.-]{0,80}\b"
)
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})?)?\b")
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,15}(?:,\d{3})*(?:\.\d{1,9})?(?![\w-])")
_NAME = re.compile(
    r"(?:\b([a-z]\w*) )?\b([A-Z][\w'’-]*(?:(?:, (?=[A-Z]{2}\b)| (?:de |of |the |la |van |von )?)[A-Z][\w'’-]*)*)"
)
_FACT = re.compile(
    r"\b([A-Za-z][A-Za-z_ ]{0,30}?)\s*[:=]\s*(\"[^\"\n]{1,200}\"|[^\s,;:{}\[\]\"][^\n,;:{}\[\]]{0,100})(?!:)"
)
_WORD = re.compile(r"[^\W\d_]{2,}")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")

# Words that begin sentences, and are no names for that.
_OPENERS = """
    a act an and any are as at be but by call can check could did do does fetch fix for from get give great hello hey hi
    how i i'd i'm if in is it it's its just let let's look make my no not now of ok on open or our please put reply
    respond return say set show so sure tell thanks that the then these they this to try turn use using wait was we what
    what's when where where's which who why will with would yes you your json how's
"""
# Words that ask for something to be done: no names either, but they may be what a tool is for.
_ACTIONS = """
    add answer book buy calculate compute convert delete edit extract find remind schedule search send sort translate
    explain plan play
"""
# Likewise, but of so many things that they say little.
_WEAK_ACTIONS = "compare create generate list read run start stop summarise summarize update write"

COMMON = frozenset(f"{COMMON_WORDS} {_OPENERS} {_ACTIONS} {_WEAK_ACTIONS}".split())


@dataclass(frozen=True, slots=True)
class Name:
    """A proper noun, and the word before it, in lower case."""

    text: str
    before: str


@dataclass(frozen=True, slots=True)
class Hints:
    """In the order in which they are said. `facts` are named values, their names in lower case without separators."""

    text: str = ""
    names: tuple[Name, ...] = ()
    quoted: tuple[str, ...] = ()
    numbers: tuple[int | float, ...] = ()
    urls: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    words: frozenset[str] = frozenset()  # stems


def last(conversation: Sequence[Turn]) -> str:
    """What the user says last, or the end of it, without what clients put around it."""
    for turn in reversed(conversation):
        if turn.role == "user" and (text := _bare(turn.text[-4 * SCAN :])):
            return text[-SCAN:]
    return ""


def _bare(text: str) -> str:
    """Agents enclose what they add for a model: `<system-reminder>...</system-reminder>`."""
    if "</" not in text:
        return text
    kept: list[str] = []
    cut_off = _CUT_OFF.match(text)
    at = cut_off.end() if cut_off else 0
    for match in _OPENING.finditer(text, at):
        closing = f"</{match[1]}>"
        end = text.find(closing, match.end()) if match.start() >= at else -1
        if end >= 0:
            kept.append(text[at : match.start()])
            at = end + len(closing)
    return "".join([*kept, text[at:]]).strip()


def latest(conversation: Sequence[Turn]) -> Turn | None:
    """The last turn that is no instruction: clients put these behind a message, too."""
    return next((turn for turn in reversed(conversation) if turn.role not in ("system", "developer")), None)


def of(conversation: Sequence[Turn]) -> Hints:
    """What the user says last, and what a tool has answered to it."""
    hints = said(last(conversation))
    turn = latest(conversation)
    if turn is not None and turn.role == "tool":
        hints.facts.update(_results(turn.text))
    return hints


def said(text: str) -> Hints:
    """What one message offers."""
    text = "".join(sign if sign.isprintable() or sign in "\n\t" else " " for sign in text[-SCAN:])
    urls = tuple(_URL.findall(text))
    emails = tuple(_EMAIL.findall(text))
    dates = tuple(_DATE.findall(text))
    bare = _without(text, (*urls, *emails, *dates))
    quoted = tuple(next(filter(None, match)) for match in _QUOTED.findall(bare))
    paths = tuple(_PATH.findall(bare))
    unquoted = _without(bare, (*quoted, *paths))
    return Hints(
        text=text.strip(),
        names=tuple(_names(unquoted)),
        quoted=tuple(quote for quote in quoted if quote not in paths),
        numbers=tuple(_number(match) for match in _NUMBER.findall(_without(bare, paths))),
        urls=urls,
        emails=emails,
        paths=paths,
        dates=dates,
        facts=_facts(text),
        words=stems(text),
    )


def stems(text: str) -> frozenset[str]:
    """The telling words of a text without their endings; names in camel or snake case count as several words."""
    parts = _CAMEL.split(text[:SCAN])
    words = (word.lower() for part in parts[: 4 * _WORDS_MAX] for word in _WORD.findall(part))
    return frozenset(stem(word) for word in words if word not in _UNTELLING)


_ENDINGS = (("ies", "y"), ("ing", ""), ("ches", "ch"), ("shes", "sh"), ("sses", "ss"), ("ed", ""), ("s", ""))


def stem(word: str) -> str:
    """Light: plurals and the commonest endings of verbs."""
    for ending, left in (
        ("ies", "y"),
        ("ing", ""),
        ("ches", "ch"),
        ("shes", "sh"),
        ("sses", "ss"),
        ("ed", ""),
        ("s", ""),
    ):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith(("ss", "us", "is", "thing")):
            word = word[: len(word) - len(ending)] + left
            break
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


_UNTELLING = COMMON - frozenset(f"{_ACTIONS} {_WEAK_ACTIONS}".split())
WEAK = frozenset(map(stem, _WEAK_ACTIONS.split()))  # stems


def key(name: str) -> str:
    """Under which a fact of that name is found."""
    return re.sub(r"[\W_]+", "", name).lower()


def _names(text: str) -> list[Name]:
    found = []
    for match in _NAME.finditer(text):
        before, name = match[1] or "", match[2]
        words = name.split()
        while words and words[0].lower() in COMMON:
            before = words.pop(0)
        name = " ".join(words).rstrip("'’-").removesuffix("'s").removesuffix("’s").strip()
        if len(name) > 1 or (name and name.isalpha() and before):
            found.append(Name(name, before.lower()))
    return found


def _number(text: str) -> int | float:
    plain = text.replace(",", "")
    return float(plain) if "." in plain else int(plain)


def _facts(text: str) -> dict[str, Any]:
    """Pairs such as `name: Bob`, and the members of a JSON object in the text."""
    facts: dict[str, Any] = {}
    for match in _FACT.finditer(text):
        if len(facts) < _FACTS_MAX and not match[2].startswith("//"):
            facts[key(match[1].split()[-1])] = _value(match[2].strip())
    return facts


def _results(text: str) -> dict[str, Any]:
    """The scalar members of a tool's result, if that is JSON, however deep."""
    try:
        waiting: list[Any] = [json.loads(text)] if len(text) <= 100 * SCAN else []
    except (ValueError, RecursionError):
        return _facts(text[-SCAN:])
    facts: dict[str, Any] = {}
    while waiting and len(facts) < _FACTS_MAX:
        node = waiting.pop(0)
        if isinstance(node, list):
            waiting += node[:20]
        elif isinstance(node, dict):
            for name, value in node.items():
                if isinstance(value, dict | list):
                    waiting.append(value)
                elif value is not None:
                    facts.setdefault(key(name), value)
    return facts


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text.rstrip(".!?")
    return value if isinstance(value, str | int | float | bool) else text


def _without(text: str, parts: Sequence[str]) -> str:
    for part in parts:
        text = text.replace(part, " ")
    return text
