"""Values that read like what the name of a property promises. Tables, and how a name is looked up in them.

Knows nothing of schemas: whether a value is allowed is for its user to check.
"""

import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Literal

from workers.content.draws import Draws
from workers.content.hints import Hints, key

Kind = Literal["place", "person", "text", "path", "url", "email", "date", "name", "command", "id"]

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")

# The last word of a name that is listed decides.
_KIND_WORDS: dict[Kind, str] = {
    "place": "city location place country region state town destination origin address area venue from source "
    "to target neighborhood airport station",
    "person": "name author person user username owner assignee recipient contact customer sender attendee "
    "participant employee reviewer member guest first last",
    "text": "query search q prompt question text message input keyword keywords topic subject title content body "
    "description summary pattern term note comment instruction instructions reason explanation answer thought "
    "task phrase sentence caption expression",
    "path": "path file filename filepath directory dir folder cwd workdir root notebook",
    "url": "url uri link href website homepage endpoint webhook",
    "email": "email mail",
    "date": "date day time datetime timestamp start end at since until deadline birthday due created updated",
    "command": "command cmd script shell",
    "id": "id uuid key token hash ref sha identifier",
}
_KINDS = {word: kind for kind, words in _KIND_WORDS.items() for word in words.split()}

_SAMPLES: dict[str, tuple[str, ...]] = {
    "place": ("Berlin", "Toronto", "Lisbon", "Osaka", "Nairobi", "Denver"),
    "country": ("Canada", "Japan", "Portugal", "Kenya", "Chile", "Norway"),
    "state": ("active", "open", "pending", "ready"),
    "address": ("12 Mill Lane", "480 Harbor Street", "7 Station Road"),
    "person": ("Alice Meyer", "Jonas Lind", "Priya Nair", "Tom Okafor"),
    "first": ("Alice", "Jonas", "Priya", "Tom"),
    "last": ("Meyer", "Lind", "Nair", "Okafor"),
    "username": ("ameyer", "jlind", "pnair", "tokafor"),
    "text": ("release notes", "weekly summary", "open questions", "next steps", "system overview"),
    "title": ("Weekly summary", "Release checklist", "Open questions", "Capacity plan"),
    "message": ("The job has finished.", "Please have a look at this.", "All checks have passed."),
    "summary": ("The main points are covered.", "Everything works as intended.", "Two items are still open."),
    "description": ("A short description of the item.", "Covers the usual cases.", "Replaces the earlier version."),
    "content": ("A first draft of the text.", "See the notes below.", "Nothing to add."),
    "explanation": ("It follows from the two steps above.", "Both sides are divided by the same number."),
    "answer": ("It depends on the load.", "Yes, within the given limits.", "The second option."),
    "question": ("Which option fits best?", "What should happen next?"),
    "reason": ("It is needed for the next step.", "The user asked for it."),
    "pattern": ("TODO", "def main", "import"),
    "expression": ("2 * 3", "10 / 4", "7 + 5"),
    "path": ("src/main.py", "README.md", "docs/index.md", "app/config.json"),
    "directory": ("src", "docs", "tests"),
    "url": ("https://example.com/docs", "https://example.org/status", "https://example.com/"),
    "email": ("alice@example.com", "jonas@example.org", "priya@example.net"),
    "command": ("ls -la", "git status", "pwd"),
    "phone": ("+1-555-0134", "+1-555-0178"),
    "currency": ("USD", "EUR", "JPY"),
    "language": ("en", "de", "fr", "es"),
    "timezone": ("UTC", "Europe/Berlin", "America/New_York"),
    "color": ("blue", "green", "red", "gray"),
    "status": ("active", "done", "open", "pending"),
    "category": ("general", "technical", "billing"),
    "priority": ("medium", "high", "low"),
    "severity": ("minor", "major"),
    "unit": ("celsius", "metric"),
    "type": ("standard", "basic", "default"),
    "format": ("json", "text"),
    "method": ("GET", "POST"),
    "branch": ("main", "develop"),
    "version": ("1.0.0", "2.3.1"),
    "symbol": ("ACME", "INIT"),
    "ticker": ("ACME", "INIT"),
    "company": ("Acme Corp", "Northwind", "Initech"),
    "product": ("desk lamp", "notebook", "headphones"),
    "sentiment": ("positive", "neutral", "negative"),
    "tag": ("draft", "review", "urgent", "backend"),
    "zip": ("10115", "94107"),
    "code": ("print(1 + 1)", "return total"),
    "sql": ("SELECT 1", "SELECT count(*) FROM orders"),
    "model": ("standard", "compact"),
    "role": ("editor", "viewer", "admin"),
}
_SAME = {
    "town": "place", "city": "place", "location": "place", "postal": "zip", "postcode": "zip", "zipcode": "zip",
    "colour": "color", "folder": "directory", "dir": "directory", "cwd": "directory", "workdir": "directory",
    "lang": "language", "locale": "language", "label": "tag", "tags": "tag", "labels": "tag", "categories": "category",
    "telephone": "phone", "mobile": "phone", "body": "content", "note": "content", "comment": "content",
    "units": "unit", "kind": "type", "repo": "product", "item": "product", "steps": "explanation", "thought": "reason",
    "output": "answer", "result": "answer", "response": "answer", "timezone": "timezone", "tz": "timezone",
    "mode": "type", "level": "priority", "organization": "company", "regex": "pattern", "justification": "reason",
}  # fmt: skip
_FOLDERS = frozenset({"directory", "dir", "folder", "cwd", "workdir", "root"})
_WORDS_OF_NOTHING = ("alpha", "beta", "gamma", "delta", "sample", "basic", "north", "river", "amber", "cedar")

_NUMBERS: dict[str, tuple[float, float]] = {
    "age": (18, 75), "year": (2020, 2026), "month": (1, 12), "day": (1, 28), "hour": (0, 23), "minute": (0, 59),
    "count": (1, 10), "limit": (5, 20), "page": (1, 3), "offset": (0, 20), "size": (1, 50), "quantity": (1, 5),
    "amount": (10, 500), "price": (5, 200), "cost": (5, 200), "total": (10, 500), "temperature": (5, 30),
    "humidity": (30, 90), "latitude": (-60, 60), "lat": (-60, 60), "longitude": (-170, 170), "lon": (-170, 170),
    "lng": (-170, 170), "percentage": (1, 99), "percent": (1, 99), "confidence": (0.6, 0.99), "score": (0.5, 0.99),
    "probability": (0.05, 0.95), "rating": (1, 5), "port": (8000, 9000), "timeout": (10, 120), "duration": (10, 90),
    "width": (100, 1000), "height": (100, 1000), "weight": (1, 80), "id": (100, 9999), "line": (1, 200),
    "priority": (1, 3), "index": (0, 5), "days": (1, 7), "hours": (1, 24), "minutes": (5, 60), "seconds": (1, 60),
    "population": (1000, 90000), "ms": (1000, 60000), "k": (3, 10), "n": (2, 10),
}  # fmt: skip


def words(name: str) -> list[str]:
    """Of a name in camel, snake or kebab case, in lower case."""
    return [word.lower() for word in _WORDS.findall(name)]


def kind(name: str) -> Kind | None:
    parts = words(name)
    return next((_KINDS[word] for word in reversed(parts) if word in _KINDS), None)


def string(draws: Draws, name: str) -> str:
    """A value for a property of that name."""
    parts = words(name)
    for word in reversed(parts):
        word = _SAME.get(word, word)
        if word in _SAMPLES:
            return draws.one(_SAMPLES[word])
    what = kind(name)
    if what == "date":
        return day(draws).isoformat()
    if what == "id":
        return f"{parts[0][:4] if len(parts) > 1 else 'id'}_{draws.between(1000, 9999)}"
    return draws.one(_SAMPLES[what]) if what in _SAMPLES else draws.one(_WORDS_OF_NOTHING)


def bounds(name: str) -> tuple[float, float] | None:
    """Between which a number of that name usually lies."""
    return next((_NUMBERS[word] for word in reversed(words(name)) if word in _NUMBERS), None)


def day(draws: Draws) -> date:
    return date(2026, 1, 1) + timedelta(days=draws.below(365))


def offers(name: str, hints: Hints) -> Sequence[str]:
    """What the conversation offers for a string of that name, the likeliest first."""
    fact = hints.facts.get(key(name))
    facts = (fact,) if isinstance(fact, str) else ()
    what = kind(name)
    names = _names(name, hints)
    if what == "url":
        return (*facts, *hints.urls)
    if what == "email":
        return (*facts, *hints.emails)
    if what == "path":
        folder = not _FOLDERS.isdisjoint(words(name))
        paths = [path for path in hints.paths if not folder or "." not in path.rpartition("/")[2]]
        return (*facts, *paths, *hints.quoted)
    if what == "date":
        return (*facts, *hints.dates)
    if what == "command":
        return (*facts, *hints.quoted)
    if what == "text":
        return (*facts, *hints.quoted, *_subject(hints, bool(hints.quoted)), *names)
    if what in ("place", "person"):
        return (*facts, *(hints.emails if words(name)[-1] in ("to", "recipient") else ()), *names, *hints.quoted)
    return (*facts, *hints.quoted, *names)


def _names(name: str, hints: Hints) -> list[str]:
    """Those that stand behind a word that means the same as the property's name go first."""
    parts = set(words(name))
    before = {"from"} if parts & {"from", "origin", "source", "start", "departure"} else set()
    before |= {"to", "into"} if parts & {"to", "destination", "target", "end", "arrival"} else set()
    return [found.text for found in sorted(hints.names, key=lambda found: found.before not in before | parts)]


_ASKING = re.compile(
    r"^(?:please\s+|can you\s+|could you\s+)?(?:search|look|google|find|query|ask|tell me|show me|give me)\b"
    r"(?:\s+(?:up|the web|online|the internet|out))?(?:\s+(?:for|about|on))?\s+(.{2,120})",
    re.IGNORECASE | re.DOTALL,
)


def _subject(hints: Hints, quoted: bool) -> tuple[str, ...]:
    """What the message is about, in its own words: behind a verb of searching, or all of a short one."""
    text = " ".join(hints.text.split())
    asked = _ASKING.match(text)
    if asked:
        return (asked[1].rstrip(" ?.!"),)
    return (text.rstrip(" ?.!"),) if not quoted and 2 < len(text) <= 60 else ()
