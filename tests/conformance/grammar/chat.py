"""Streams of chat completions (OpenAI's API reference: the chat completion chunk object)."""

from dataclasses import dataclass, field
from typing import Any

from grammar.events import demand, events

_FINISH = {"stop", "length", "tool_calls", "content_filter"}


@dataclass(slots=True)
class Choice:
    content: str | None = None
    calls: list[tuple[str, str, str]] = field(default_factory=list)  # id, name, arguments
    logprobs: list[Any] = field(default_factory=list)
    finish: str | None = None


@dataclass(slots=True)
class Said:
    choices: dict[int, Choice] = field(default_factory=dict)
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
            demand(chunk["error"].keys() == {"message", "type", "param", "code"}, "an error has four fields")
            said.error = chunk["error"]
            continue
        demand(said.usage is None, "a chunk follows the usage")
        demand(chunk["object"] == "chat.completion.chunk", "chunks say that they are")
        same.add(tuple(chunk[name] for name in ("id", "created", "model", "service_tier", "system_fingerprint")))
        demand(len(same) == 1, "chunks differ in what is the same for all")
        demand(("usage" in chunk) == include_usage, "usage is there if it was asked for, and only then")
        if include_usage and not chunk["choices"]:
            demand(all(choice.finish for choice in said.choices.values()), "usage comes before a choice has finished")
            said.usage = chunk["usage"]
            continue
        demand(chunk.get("usage") is None, "only the last chunk has the usage")
        (choice,) = chunk["choices"]
        _add(said, choice)
    if said.done:
        demand(all(choice.finish for choice in said.choices.values()), "done, and a choice has not finished")
        demand(not include_usage or said.usage is not None, "done, and the usage is missing")
    return said


def _add(said: Said, choice: Any) -> None:
    demand(choice.keys() == {"index", "delta", "logprobs", "finish_reason"}, "a choice has four fields")
    delta, index = choice["delta"], choice["index"]
    if index not in said.choices:
        demand(delta.get("role") == "assistant", "a choice begins with its role")
        demand(choice["finish_reason"] is None, "a choice begins before it ends")
        demand(delta.get("content") == "" or "tool_calls" in delta, "with a role comes an empty content, or a call")
        said.choices[index] = Choice()
    else:
        demand("role" not in delta, "the role comes once")
    mine = said.choices[index]
    demand(mine.finish is None, "a choice goes on after its finish")
    if delta.get("content") is not None:
        demand(not mine.calls, "text comes after calls")
        mine.content = (mine.content or "") + delta["content"]
    for piece in delta.get("tool_calls", ()):
        _add_call(mine, piece)
    if choice["logprobs"] is not None:
        mine.logprobs += choice["logprobs"]["content"]
    if choice["finish_reason"] is not None:
        demand(delta == {}, "a finish comes with an empty delta")
        demand(choice["finish_reason"] in _FINISH, "a finish has one of four reasons")
        mine.finish = choice["finish_reason"]


def _add_call(mine: Choice, piece: Any) -> None:
    if piece["index"] == len(mine.calls):
        demand(piece.keys() == {"index", "id", "type", "function"}, "a call begins with its id, type and name")
        demand(piece["type"] == "function" and piece["function"].keys() == {"name", "arguments"}, "of a function")
        mine.calls.append((piece["id"], piece["function"]["name"], piece["function"]["arguments"]))
        return
    demand(piece["index"] == len(mine.calls) - 1, "fragments belong to the last call")
    demand(piece.keys() == {"index", "function"} and piece["function"].keys() == {"arguments"}, "id and name come once")
    name, called, arguments = mine.calls[-1]
    mine.calls[-1] = (name, called, arguments + piece["function"]["arguments"])


def whole(body: Any) -> Said:
    """What a whole answer says."""
    said = Said(usage=body["usage"], done=True)
    for choice in body["choices"]:
        message = choice["message"]
        calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", ())]
        logprobs = choice["logprobs"]["content"] if choice["logprobs"] else []
        said.choices[choice["index"]] = Choice(message["content"], calls, logprobs, choice["finish_reason"])
    return said
