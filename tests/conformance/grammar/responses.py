"""Streams of responses (OpenAI's API reference, "Streaming events").

An item is added, filled and done before the next. What each kind of item is filled with is a table: the event that
opens its content, that of a piece, those that end it, and where in them the whole text stands.
"""

from dataclasses import dataclass, field
from typing import Any

from grammar.events import demand, events

_ENDS = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}


@dataclass(frozen=True, slots=True)
class Filling:
    opening: str | None
    piece: str
    whole: str
    field: str
    closing: str | None


_FILLINGS = {
    "message": Filling("content_part.added", "output_text.delta", "output_text.done", "text", "content_part.done"),
    "function_call": Filling(None, "function_call_arguments.delta", "function_call_arguments.done", "arguments", None),
    "custom_tool_call": Filling(None, "custom_tool_call_input.delta", "custom_tool_call_input.done", "input", None),
    "reasoning": Filling(
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "text",
        "reasoning_summary_part.done",
    ),
}


@dataclass(slots=True)
class Said:
    items: list[Any] = field(default_factory=list)
    error: Any = None
    response: Any = None  # the last one
    done: bool = False


def read(body: bytes, summarized: bool) -> Said:
    """What a stream says. Raises Ungrammatical."""
    said = Said()
    heard = [(event.name, event.json) for event in events(body)]
    for number, (name, data) in enumerate(heard):
        demand(name == data["type"], "an event has the name of its type")
        demand(data["sequence_number"] == number, f"number {data['sequence_number']} comes instead of {number}")
    names = [name.removeprefix("response.") for name, _ in heard]
    demand(names[:2] == ["created", "in_progress"][: len(names)], "a stream begins with created, in_progress")
    at = 2
    while at < len(heard) and names[at] == "output_item.added":
        at = _item(said, heard, at, summarized)
    if at < len(heard) and names[at] == "error":
        said.error = heard[at][1]
        demand(said.error.keys() >= {"code", "message", "param"}, "an error has a code, a message and a parameter")
        at += 1
    if at < len(heard):
        _end(said, *heard[at])
        at += 1
    demand(at >= len(heard), f"{names[at : at + 1]} comes where it must not")
    for name, data in heard[:2]:
        demand(data["response"]["status"] == "in_progress" and data["response"]["output"] == [], f"{name} has output")
        demand(said.response is None or data["response"]["id"] == said.response["id"], "the response has another id")
    return said


def _end(said: Said, name: str, data: Any) -> None:
    demand(name in _ENDS, f"{name} ends a stream")
    said.response = data["response"]
    demand(said.response["status"] == _ENDS[name], "a response has the status of its event")
    demand((name == "response.failed") == (said.error is not None), "what fails says why")
    demand(said.error is not None or said.response["output"] == said.items, "the response has the items that were done")
    said.done = said.error is None


def _item(said: Said, heard: list[tuple[str, Any]], at: int, summarized: bool) -> int:
    """Reads one item, as far as there is any of it; returns where the next event is."""
    added = heard[at][1]
    demand(added["output_index"] == len(said.items), "items are numbered")
    kind = added["item"]["type"]
    filling = _FILLINGS[kind]
    text, place, at = "", {"output_index": added["output_index"], "item_id": added["item"]["id"]}, at + 1

    def comes(event: str | None) -> Any:
        """The data of the event, if it is the next one."""
        if event is None or at >= len(heard) or heard[at][0] != f"response.{event}":
            return None
        data = heard[at][1]
        demand(all(data.get(name) == value for name, value in place.items()), f"{event} belongs to another item")
        return data

    filled = kind != "reasoning" or summarized
    if filled and filling.opening is not None and at < len(heard) and heard[at][0] != "error":
        demand(comes(filling.opening) is not None, f"{kind} has no {filling.opening}")
        at += 1
    while filled and (data := comes(filling.piece)) is not None:
        text, at = text + data["delta"], at + 1
    if filled and (data := comes(filling.whole)) is not None:
        demand(data[filling.field] == text, "the pieces join to the whole")
        at += 1
        if filling.closing is not None:
            demand((part := comes(filling.closing)) is not None, f"{kind} has no {filling.closing}")
            demand(part["part"]["text"] == text, "the part has the whole")
            at += 1
        demand(at < len(heard) and heard[at][0] == "response.output_item.done", "a whole item is done")
    if at < len(heard) and heard[at][0] == "response.output_item.done":
        done = heard[at][1]
        demand(done["item"]["id"] == added["item"]["id"], "the item that is done is the one that was added")
        demand(not filled or _text(done["item"]) == text, "the item has the whole")
        said.items.append(done["item"])
        at += 1
    return at


def _text(item: Any) -> str:
    match item["type"]:
        case "message":
            return "".join(part["text"] for part in item["content"])
        case "reasoning":
            return "".join(part["text"] for part in item["summary"])
        case "function_call":
            return str(item["arguments"])
    return str(item["input"])
