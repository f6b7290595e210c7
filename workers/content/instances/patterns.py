"""Strings that match a regular expression of ECMA-262, as JSON Schema uses them: a parser, and draws from its tree.

What has to lie ahead is written into the match somewhere; other things around it (what must not, word boundaries) are
read and not followed: whoever needs a match checks what was drawn and draws again. Time and length are bounded
whatever the expression.
Knows nothing of schemas.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from workers.content.draws import Draws

LENGTH_MAX = 20_000  # characters of a drawn string
_PATTERN_MAX = 4_000  # characters of an expression
_EXTRA = 3  # repetitions beyond the least number, where nothing bounds them

# What a class is drawn from, as long as it holds any of these: characters that read well come first.
_READABLE = (
    "abcdefghijklmnopqrstuvwxyz",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "0123456789",
    "-_.,:;/@#%&+=~!?()[]{}<>'\"*^$|\\ \t",
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_DIGITS = ((48, 57),)
_WORD = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE = ((32, 32), (9, 13), (160, 160))
_ALL = ((0, 0x10FFFF),)
_LINE = ((0, 9), (11, 12), (14, 0x2027), (0x202A, 0x10FFFF))

Ranges = tuple[tuple[int, int], ...]


class Unsupported(ValueError):
    """An expression that cannot be read."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of these."""

    ranges: Ranges

    def draw(self, draws: Draws, _: "State") -> str:
        groups = _drawable(self.ranges)
        if not groups:
            raise Unsupported("an empty class matches nothing")
        return draws.one(groups[0])


@dataclass(frozen=True, slots=True)
class Repeat:
    what: "Term"
    least: int
    most: int | None

    def draw(self, draws: Draws, state: "State") -> str:
        most = self.least + state.extra if self.most is None else min(self.most, self.least + state.extra)
        count = draws.between(self.least, max(self.least, most)) if not state.full else max(self.least, most)
        said = []
        for _ in range(count):
            said.append(self.what.draw(draws, state))
            state.spend(len(said[-1]) + 1)
        return "".join(said)


@dataclass(frozen=True, slots=True)
class Sequence:
    terms: tuple["Term", ...]

    def draw(self, draws: Draws, state: "State") -> str:
        state.spend(1)
        return "".join(term.draw(draws, state) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Either:
    options: tuple["Term", ...]

    def draw(self, draws: Draws, state: "State") -> str:
        return draws.one(self.options).draw(draws, state)


@dataclass(frozen=True, slots=True)
class Group:
    number: int
    name: str
    what: "Term"

    def draw(self, draws: Draws, state: "State") -> str:
        said = self.what.draw(draws, state)
        state.groups[str(self.number)] = state.groups[self.name or str(self.number)] = said
        return said


@dataclass(frozen=True, slots=True)
class Back:
    """What a group has matched."""

    group: str

    def draw(self, _: Draws, state: "State") -> str:
        return state.groups.get(self.group, "")


@dataclass(frozen=True, slots=True)
class Ahead:
    """What lies ahead, as `(?=.*[0-9])` has it: kept for when all else is drawn."""

    what: "Term"

    def draw(self, draws: Draws, state: "State") -> str:
        state.ahead.append(self.what.draw(draws, State(0, full=False, groups=state.groups, ahead=[])))
        return ""


Term = Ahead | Chars | Repeat | Sequence | Either | Group | Back


@dataclass(slots=True)
class State:
    """Of one draw: how far repetitions go beyond their least number, and what is left of the length."""

    extra: int
    full: bool
    groups: dict[str, str]
    ahead: list[str]
    left: int = LENGTH_MAX

    def spend(self, characters: int) -> None:
        self.left -= characters
        if self.left < 0:
            raise Unsupported("its matches are too long")


def matching(pattern: str, draws: Draws, shortest: int = 0, longest: int | None = None) -> str | None:
    """A string that very likely matches and whose length fits, if a few attempts find one. Raises Unsupported."""
    term, open_start, open_end = parse(pattern)
    found = None
    for extra in (_EXTRA, _EXTRA, 0, 1, 8, 24, 80, 300, shortest):
        state = State(extra, full=extra > _EXTRA and len(found or "") < shortest, groups={}, ahead=[])
        found = _with_ahead(term.draw(draws, state), state.ahead, draws)
        if len(found) < shortest and (open_start or open_end):
            padding = "a" * (shortest - len(found))
            found = found + padding if open_end else padding + found
        if len(found) >= shortest and (longest is None or len(found) <= longest):
            return found
    return None


def _with_ahead(text: str, ahead: list[str], draws: Draws) -> str:
    """The text with all that has to lie ahead in it, in places of their own as long as there are any."""
    free = draws.order(range(len(text))) if ahead else []
    for part in ahead:
        at = min(free.pop() if free else 0, max(0, len(text) - len(part)))
        text = text[:at] + part + text[at + len(part) :]
    return text


@lru_cache(maxsize=512)
def parse(pattern: str) -> tuple[Term, bool, bool]:
    """The tree, and whether a match may have anything before it and after it. Raises Unsupported."""
    if len(pattern) > _PATTERN_MAX:
        raise Unsupported("the pattern is too long")
    reader = _Reader(pattern)
    try:
        term = reader.either()
    except (IndexError, RecursionError, ValueError, OverflowError) as error:
        raise Unsupported(f"the pattern {pattern[:80]!r} cannot be read") from error
    if reader.at < len(pattern):
        raise Unsupported(f"the pattern {pattern[:80]!r} cannot be read")
    return term, not pattern.startswith(("^", "(^")), not pattern.endswith(("$", "$)"))


class _Reader:
    """Recursive descent. Invariant: `at` is where the next term begins."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.groups = 0

    def peek(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def take(self, text: str) -> bool:
        if self.peek(text):
            self.at += len(text)
            return True
        return False

    def next(self) -> str:
        self.at += 1
        return self.pattern[self.at - 1]

    def either(self) -> Term:
        options = [self.sequence()]
        while self.take("|"):
            options.append(self.sequence())
        return options[0] if len(options) == 1 else Either(tuple(options))

    def sequence(self) -> Term:
        terms: list[Term] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            term = self.atom()
            if term is not None:
                terms.append(self.repeated(term))
        return terms[0] if len(terms) == 1 else Sequence(tuple(terms))

    def repeated(self, term: Term) -> Term:
        bounds = self.bounds()
        while bounds is not None:
            self.take("?") or self.take("+")
            term = Repeat(term, *bounds)
            bounds = self.bounds()
        return term

    def bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return bounds
        end = self.pattern.find("}", self.at)
        if not self.peek("{") or end < 0:
            return None
        least, comma, most = self.pattern[self.at + 1 : end].partition(",")
        if not least.isdigit() or not (most.isdigit() or not most):
            return None
        self.at = end + 1
        return int(least), (int(most) if most else None) if comma else int(least)

    def atom(self) -> Term | None:
        if self.take("("):
            return self.group()
        if self.take("["):
            return self.class_()
        sign = self.next()
        if sign in "^$":
            return None
        if sign == ".":
            return Chars(_LINE)
        if sign != "\\":
            return Chars(((ord(sign), ord(sign)),))
        if self.peek("b") or self.peek("B"):
            self.next()
            return None
        if self.take("k<"):
            end = self.pattern.index(">", self.at)
            name, self.at = self.pattern[self.at : end], end + 1
            return Back(name)
        if self.pattern[self.at] in "123456789":
            return Back(self.next())
        return Chars(self.escape())

    def group(self) -> Term | None:
        ahead = self.take("?=")
        around = ahead or any(self.take(opening) for opening in ("?!", "?<=", "?<!"))
        name = ""
        kept = not self.take("?:") and not around
        if kept and (self.take("?<") or self.take("?P<")):
            end = self.pattern.index(">", self.at)
            name, self.at = self.pattern[self.at : end], end + 1
        number = self.groups = self.groups + kept
        what = self.either()
        if not self.take(")"):
            raise ValueError("a group does not end")
        if around:
            return Ahead(what) if ahead else None
        return Group(number, name, what) if kept else what

    def class_(self) -> Chars:
        inverted = self.take("^")
        ranges: list[tuple[int, int]] = []
        while not self.take("]"):
            low = self.member()
            if self.peek("-") and not self.peek("-]") and len(low) == 1 and low[0][0] == low[0][1]:
                self.next()
                high = self.member()
                ranges.append((low[0][0], high[0][1]))
            else:
                ranges += low
        return Chars(_without(tuple(ranges)) if inverted else tuple(ranges))

    def member(self) -> Ranges:
        sign = self.next()
        if sign == "\\":
            return ((8, 8),) if self.take("b") else self.escape()
        return ((ord(sign), ord(sign)),)

    def escape(self) -> Ranges:
        sign = self.next()
        known: dict[str, Ranges] = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
        if sign.lower() in known:
            return known[sign] if sign in known else _without(known[sign.lower()])
        if sign in "pP":
            end = self.pattern.index("}", self.at)
            name, self.at = self.pattern[self.at + 1 : end], end + 1
            return _property(name) if sign == "p" else _without(_property(name))
        if sign in "xu" and not self.take("{"):
            digits = 2 if sign == "x" else 4
            code = int(self.pattern[self.at : self.at + digits], 16)
            self.at += digits
            return ((code, code),)
        if sign in "xu":
            end = self.pattern.index("}", self.at)
            code, self.at = int(self.pattern[self.at : end], 16), end + 1
            return ((code, code),)
        if sign == "c":
            code = ord(self.next()) % 32
            return ((code, code),)
        sign = _ESCAPES.get(sign, sign)
        return ((ord(sign), ord(sign)),)


def _property(name: str) -> Ranges:
    """A few characters of a Unicode property: enough to draw from."""
    value = name.rpartition("=")[2]
    if value in ("L", "Letter", "Alphabetic"):
        return ((65, 90), (97, 122))
    known: dict[str, Callable[[str], bool]] = {
        "Lu": str.isupper,
        "Ll": str.islower,
        "N": str.isdigit,
        "Nd": str.isdigit,
    }
    if value in known:
        return tuple((code, code) for code in range(128) if known[value](chr(code)))
    if value.startswith(("P", "S")):
        return tuple((code, code) for code in range(33, 127) if not chr(code).isalnum())
    if value.startswith("Z"):
        return ((32, 32),)
    return ((97, 122),)


def _without(ranges: Ranges) -> Ranges:
    """All characters but those, and no surrogates."""
    rest, low = [], 0
    for first, last in sorted((*ranges, (0xD800, 0xDFFF))):
        if low < first:
            rest.append((low, first - 1))
        low = max(low, last + 1)
    return (*rest, (low, 0x10FFFF)) if low <= 0x10FFFF else tuple(rest)


@lru_cache(maxsize=1024)
def _drawable(ranges: Ranges) -> tuple[str, ...]:
    """What to draw from, the more readable first."""
    groups = tuple(
        found
        for group in _READABLE
        if (found := "".join(sign for sign in group if any(low <= ord(sign) <= high for low, high in ranges)))
    )
    if groups:
        return groups
    return tuple(chr(low) for low, high in ranges if low <= high and not 0xD800 <= low <= 0xDFFF)[:1]
