"""The mistakes that a distilled tier makes: at most one in an answer, drawn, and only of a kind that can be made in it.

A mistake changes what an answer says before it is cut into tokens. What an API guarantees is kept: strict tools and
strict schemas are never broken in form. Knows nothing of tiers: the probability of each kind is given.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeVar

from service.messages import TAKES_TEXT, Call, Tool, Wish
from workers.content import plausible
from workers.content.calls import written
from workers.content.draws import Draws
from workers.content.hints import Hints
from workers.content.instances import dumped, required, valid
from workers.content.prediction import Edit

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.]*\w)")
_OPPOSITES = {"yes": "no", "no": "yes", "true": "false", "false": "true", "all": "none", "more": "less", "less": "more",
              "before": "after", "after": "before", "first": "last", "is": "is not", "are": "are not"}  # fmt: skip
_WORD = re.compile(r"\b(?:" + "|".join(_OPPOSITES) + r")\b")
_PREFIXES = ("fetch", "lookup", "run", "do", "query")
_TRIES = 12

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Draft:
    """What an answer is to say. `text` None: prose of its own, with `opening` first if there is one.

    `shaped`: the message asks for a form (code, a list, JSON). `schema`: what the text satisfies; empty: nothing.
    `changes`: how the text differs from the predicted output; None: it does not follow one.
    """

    text: str | None = None
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    opening: str | None = None
    schema: bytes = b""
    shaped: bool = False
    scripted: bool = False
    changes: tuple[Edit, ...] | None = None
    mistake: str = ""


@dataclass(frozen=True, slots=True)
class Making:
    """All that a kind of mistake may look at."""

    draft: Draft
    wish: Wish
    message: Hints
    random: Random

    def pick(self) -> int:
        """One of the calls."""
        return int(self.random.random() * len(self.draft.calls))

    def tool(self, call: Call) -> Tool | None:
        return next((tool for tool in self.wish.tools if tool.name == call.name), None)

    def strict(self, call: Call) -> bool:
        tool = self.tool(call)
        return tool is not None and tool.strict

    def with_call(self, index: int, **changes: Any) -> Draft:
        calls = list(self.draft.calls)
        calls[index] = _changed(calls[index], **changes)
        return replace(self.draft, calls=tuple(calls))


def erred(draft: Draft, wish: Wish, message: Hints, random: Random) -> Draft:
    """The draft with the mistake that is drawn, or forced by a scripted reply; itself if there is none to make."""
    forced = wish.scripted.mistake if wish.scripted is not None else None
    if forced == "" or not (forced or wish.mistakes):
        return draft
    share = random.random()
    making = Making(draft, wish, message, random)
    for kind, probability in ((forced, 1.0),) if forced else wish.mistakes:
        made = MISTAKES[kind](making) if kind in MISTAKES and _may_be(kind, making) else None
        if made is None:
            continue
        if share < probability:
            return replace(made, mistake=kind, changes=None)
        share -= probability
    return draft


def _may_be(kind: str, making: Making) -> bool:
    """Cheaply, so that an answer in which nothing can go wrong costs nothing."""
    draft = making.draft
    if draft.text is None and not draft.calls and draft.opening is None and not draft.shaped:
        return False
    return bool(draft.calls) or kind in ("invalid_json", "wrong_value", "ignored_instruction")


def _wrong_tool(making: Making) -> Draft | None:
    """Another one of the tools, with arguments that are valid for it."""
    index = making.pick()
    others = [tool for tool in making.wish.tools if tool.name != making.draft.calls[index].name]
    if not others:
        return None
    call = written(others[int(making.random.random() * len(others))], making.message, making.random)
    return making.with_call(index, name=call.name, arguments=call.arguments)


def _missing_argument(making: Making) -> Draft | None:
    index = making.pick()
    call, tool = making.draft.calls[index], making.tool(making.draft.calls[index])
    members = _members(call.arguments)
    if making.strict(call) or not members:
        return None
    needed = [name for name in required(tool.parameters) if name in members] if tool is not None else list(members)
    if not needed:
        return None
    del members[needed[int(making.random.random() * len(needed))]]
    return making.with_call(index, arguments=dumped(members))


def _mistyped_argument(making: Making) -> Draft | None:
    index = making.pick()
    call, tool = making.draft.calls[index], making.tool(making.draft.calls[index])
    members = _members(call.arguments)
    if making.strict(call) or not members:
        return None
    for name in _order(list(members), making.random):
        for value in _mistyped(members[name]):
            changed = {**members, name: value}
            if tool is None or not tool.parameters or not valid(tool.parameters, changed):
                return making.with_call(index, arguments=dumped(changed))
    return None


def _invalid_json(making: Making) -> Draft | None:
    draft = making.draft
    if draft.calls:
        index = making.pick()
        call = draft.calls[index]
        broken = None if making.strict(call) else _broken(call.arguments, making.random)
        return making.with_call(index, arguments=broken) if broken is not None else None
    broken = _broken(draft.text, making.random) if draft.text is not None and not making.wish.strict else None
    return replace(draft, text=broken) if broken is not None else None


def _hallucinated_tool(making: Making) -> Draft | None:
    """A name that sounds right, and is none of the tools'. One that is forced by its name is what the API calls."""
    index = making.pick()
    call = making.draft.calls[index]
    if making.strict(call) or (making.wish.tool_choice == "required" and len(making.wish.tools) == 1):
        return None
    names = {tool.name for tool in making.wish.tools}
    head, _, rest = call.name.partition("_")
    prefix = _PREFIXES[int(making.random.random() * len(_PREFIXES))]
    guesses = [f"{prefix}_{rest or head}", f"{call.name}_v2", f"{call.name}_tool"]
    return making.with_call(index, name=next(guess for guess in guesses if guess not in names))


def _ignored_instruction(making: Making) -> Draft | None:
    """Prose, where a call, JSON or another form was asked for; or a call fewer than was asked for."""
    draft, wish = making.draft, making.wish
    if len(draft.calls) > 1:
        return replace(draft, calls=draft.calls[:-1])
    if draft.calls and wish.tool_choice == "required":
        return None
    if draft.text is not None and (wish.strict and draft.schema):
        return None
    if not (draft.calls or draft.text is not None or draft.shaped):
        return None
    return Draft()


def _wrong_value(making: Making) -> Draft | None:
    draft = making.draft
    if draft.calls:
        index = making.pick()
        call, tool = draft.calls[index], making.tool(draft.calls[index])
        schema = tool.parameters if tool is not None else b""
        arguments = _other_value(call.arguments, schema, making.random)
        if arguments is None and schema == TAKES_TEXT:
            arguments = _other_word(call.arguments, making.random)
        return making.with_call(index, arguments=arguments) if arguments is not None else None
    text = draft.opening if draft.text is None else draft.text
    if text is None:
        return None
    other = _other_value(text, draft.schema, making.random)
    if other is None and not draft.schema:
        other = _other_word(text, making.random)
    if other is None:
        return None
    return replace(draft, opening=other) if draft.text is None else replace(draft, text=other)


MISTAKES: Mapping[str, Callable[[Making], Draft | None]] = {
    "wrong_tool": _wrong_tool,
    "missing_argument": _missing_argument,
    "mistyped_argument": _mistyped_argument,
    "invalid_json": _invalid_json,
    "hallucinated_tool": _hallucinated_tool,
    "ignored_instruction": _ignored_instruction,
    "wrong_value": _wrong_value,
}


def _changed(call: Call, name: str | None = None, arguments: str | None = None) -> Call:
    return Call(call.name if name is None else name, call.arguments if arguments is None else arguments, call.id)


def _parsed(text: str) -> Any:
    """None also if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _members(text: str) -> dict[str, Any] | None:
    value = _parsed(text)
    return value if isinstance(value, dict) else None


def _mistyped(value: Any) -> list[Any]:
    match value:
        case bool():
            return ["yes" if value else "no"]
        case int() | float():
            return [str(value), [value]]
        case str():
            return [len(value), [value], {"value": value}]
        case list():
            return [", ".join(map(str, value)), None]
    return ["none", 0]


def _broken(text: str, random: Random) -> str | None:
    """JSON that is cut short, or has a comma too many, or quotes of the wrong kind; None if it is none as it is."""
    if _parsed(text) is None:
        return None
    ways = [text[:-1], f"{text[:-1]},{text[-1:]}", text.replace('"', "'", 2), f"{text}}}"]
    return next((broken for broken in _order(ways, random) if broken and _parsed(broken) is None), None)


def _other_value(text: str, schema: bytes, random: Random) -> str | None:
    """The JSON text with one leaf changed, still valid if it was; None if that cannot be done."""
    value = _parsed(text)
    if not isinstance(value, dict | list):
        return None
    was_valid = bool(schema) and valid(schema, value)
    for path in _order(list(_leaves(value, ()))[:50], random)[:_TRIES]:
        for leaf in _others(_at(value, path), str(path[-1]), random):
            changed = _put(value, path, leaf)
            if not was_valid or valid(schema, changed):
                return dumped(changed)
    return None


def _others(value: Any, name: str, random: Random) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        step = 1 + int(random.random() * 9)
        yield from (value + step, value - step, value + 1, value * 2, value - 1)
    elif isinstance(value, str):
        word = _other_word(value, random)
        draws = Draws(random)
        others = [word or value, *(plausible.string(draws, name) for _ in range(3)), f"{value} 2", value[::-1]]
        yield from (other for other in others if other != value)


def _other_word(text: str, random: Random) -> str | None:
    """The text with another number in it, or with one word turned round."""
    numbers = list(_NUMBER.finditer(text))
    if numbers:
        match = numbers[int(random.random() * len(numbers))]
        number = f"{float(match[0]) + 1:g}" if "." in match[0] else str(int(match[0]) + 1 + int(random.random() * 9))
        return text[: match.start()] + number + text[match.end() :]
    words = list(_WORD.finditer(text))
    if not words:
        return None
    match = words[int(random.random() * len(words))]
    return f"{text[: match.start()]}{_OPPOSITES[match[0]]}{text[match.end() :]}"


def _leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(child, (*path, key))
    elif value is not None:
        yield path


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _put(value: Any, path: tuple[Any, ...], leaf: Any) -> Any:
    if not path:
        return leaf
    copy = value.copy()
    copy[path[0]] = _put(value[path[0]], path[1:], leaf)
    return copy


def _order(of: list[T], random: Random) -> list[T]:
    return [of.pop(int(random.random() * len(of))) for _ in range(len(of))]
