"""What form a message asks an answer to have, where that shows: code, a list, JSON; and the blocks that give it.

Blocks are sentences to `prose`: they are cut like the corpus, so that an answer may be cut off anywhere in them.
"""

import re
from functools import cache, lru_cache
from random import Random
from typing import Literal

from workers.content import corpus, samples
from workers.content.phrases import Phrase, book, cut

Shape = Literal["code", "list"]  # of prose
Form = Shape | Literal["json"]

_ASKED = re.compile(
    r"\b(?:"
    r"(?P<json>(?:as|in|with|only|valid|return|respond(?:ing)? with|output|reply with|a|raw) json\b"
    r"|json (?:object|format|array|only|response|output))"
    r"|(?P<code>(?:write|implement|create|give|show|generate|complete|refactor|fix|code)\b[^.?!\n]{0,60}"
    r"\b(?:code|function|program|script|class|method|snippet|query|regex|algorithm|component)\b"
    r"|code (?:example|snippet|sample))"
    r"|(?P<list>(?:a |bullet(?:ed)? |numbered |short )list of\b|\blist (?:the|all|some|three|four|five|\d+)\b"
    r"|bullet points?|step[- ]by[- ]step|steps to\b))"
)

# One of these is in every match.
_TELLING = (
    "json", "code", "list", "bullet", "step", "function", "program", "script", "class", "method", "snippet", "query",
    "regex", "algorithm", "component",
)  # fmt: skip


def asked(text: str) -> Form | None:
    """None where nothing is said of form."""
    lower = text.lower()
    if not any(word in lower for word in _TELLING):  # nearly every time, and much sooner known
        return None
    match = _ASKED.search(lower)
    return match.lastgroup if match else None  # type: ignore[return-value]


def block(form: Shape, random: Random, text: str) -> list[Phrase]:
    """What an answer of that form begins with. The last phrase ends a paragraph."""
    if form == "code":
        return list(_code(int(random.random() * len(samples.INTRODUCTIONS)), _sample(text)))
    return _list(random)


def _list(random: Random) -> list[Phrase]:
    topic = int(random.random() * len(corpus.TOPICS))
    cores = corpus.TOPICS[topic]
    count = 3 + int(random.random() * 4)
    start = int(random.random() * len(cores))
    return list(_items(topic, start, count, random.random() < 0.5))


@lru_cache(maxsize=512)
def _items(topic: int, start: int, count: int, numbered: bool) -> tuple[Phrase, ...]:
    cores = corpus.TOPICS[topic]
    lines = [cores[(start + index) % len(cores)] for index in range(count)]
    heads = [f"{index}. " if numbered else "- " for index in range(1, count + 1)]
    items = [f"{head}{line[0].upper()}{line[1:]}" for head, line in zip(heads, lines, strict=True)]
    return (cut("Here is a list:\n\n" + ".\n".join(items)), book().paragraph_end)


def _sample(text: str) -> str:
    """The name of the sample whose words are in the text, in the language that it names."""
    words = set(re.findall(r"[a-z+#]+", text.lower()))
    language = next((name for name, also in samples.LANGUAGES.items() if words & also), "python")
    fitting = [name for name, sample in samples.SAMPLES.items() if sample.language == language]
    return next((name for name in fitting if words & samples.SAMPLES[name].words), fitting[-1])


def program(text: str) -> str:
    """One in the language that the text names, for what it is about."""
    return samples.SAMPLES[_sample(text)].code.strip()


def ended(sentence: list[Phrase]) -> list[Phrase]:
    """The sentence as the end of an answer, rather than of a paragraph."""
    return [*sentence[:-1], _fence() if sentence[-1] is _fence_end() else book().full_stop]


@cache
def _fence() -> Phrase:
    return cut("```")


@cache
def _fence_end() -> Phrase:
    return cut("```\n\n")


@cache
def _code(introduction: int, sample: str) -> tuple[Phrase, ...]:
    found = samples.SAMPLES[sample]
    text = f"{samples.INTRODUCTIONS[introduction]}:\n\n```{found.language}\n{found.code.strip()}\n"
    return (cut(text), _fence_end())
