"""Streams of legacy completions (OpenAI's API reference: the completion object)."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from grammar.events import demand, events


@dataclass(slots=True)
class Choice:
    text: str = ""
    tokens: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    finish: str | None = None


@dataclass(slots=True)
class Said:
    choices: dict[int, Choice] = field(default_factory=lambda: defaultdict(Choice))
    usage: Any = None
    error: Any = None
    done: bool = False


def read(body: bytes, include_usage: bool) -> Said:
    """What a stream says. Raises Ungrammatical."""
    said, same = Said(), set()
    for event in events(body):
        demand(event.name == "", "events have no names")
        demand(not said.done and said.error is None, f"{event.data!r} comes after the end")
        if event.data == "[DONE]":
            said.done = True
            continue
        chunk = event.json
        if "error" in chunk:
            said.error = chunk["error"]
            continue
        demand(said.usage is None, "a chunk follows the usage")
        demand("service_tier" not in chunk and chunk["object"] == "text_completion", "chunks are text completions")
        same.add(tuple(chunk[name] for name in ("id", "created", "model", "system_fingerprint")))
        demand(len(same) == 1, "chunks differ in what is the same for all")
        demand(("usage" in chunk) == include_usage, "usage is there if it was asked for, and only then")
        if not chunk["choices"]:
            said.usage = chunk["usage"]
            continue
        demand(chunk.get("usage") is None, "only the last chunk has the usage")
        (choice,) = chunk["choices"]
        _add(said.choices[choice["index"]], choice)
    if said.done:
        demand(all(choice.finish for choice in said.choices.values()), "done, and a choice has not finished")
        demand(not include_usage or said.usage is not None, "done, and the usage is missing")
    return said


def _add(mine: Choice, choice: Any) -> None:
    demand(choice.keys() == {"text", "index", "logprobs", "finish_reason"}, "a choice has four fields")
    demand(mine.finish is None, "a choice goes on after its finish")
    mine.text += choice["text"]
    if choice["logprobs"] is not None:
        mine.tokens += choice["logprobs"]["tokens"]
        mine.offsets += choice["logprobs"]["text_offset"]
    mine.finish = choice["finish_reason"]


def whole(body: Any) -> Said:
    """What a whole answer says."""
    said = Said(usage=body["usage"], done=True)
    for choice in body["choices"]:
        _add(said.choices[choice["index"]], choice)
    return said
