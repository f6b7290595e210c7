"""Streams of Anthropic's messages (its documentation, "Streaming messages").

Which event may follow which is a table; ping may come anywhere after the first event, and error instead of any.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from grammar.events import demand, events

_FOLLOWS = {
    "": {"message_start"},
    "message_start": {"content_block_start", "message_delta"},
    "content_block_start": {"content_block_delta", "content_block_stop"},
    "content_block_delta": {"content_block_delta", "content_block_stop"},
    "content_block_stop": {"content_block_start", "message_delta"},
    "message_delta": {"message_stop"},
    "message_stop": set(),
    "error": set(),
}
_DELTAS = {
    "text": {"text_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
    "tool_use": {"input_json_delta"},
}
_EMPTY = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}


@dataclass(slots=True)
class Said:
    """`blocks`: (type, text, signature or name). A call's text is the JSON of its input."""

    blocks: list[tuple[str, str, str]] = field(default_factory=list)
    stop: tuple[str | None, str | None] = (None, None)
    output_tokens: int = 0
    error: Any = None
    done: bool = False


def read(body: bytes) -> Said:
    """What a stream says. Raises Ungrammatical."""
    said, before, kind = Said(), "", ""
    for event in events(body):
        data = event.json
        demand(event.name == data["type"], "an event has the name of its type")
        if event.name == "ping":
            demand(before not in ("", "message_stop", "error"), "a ping comes before the message, or after it")
            continue
        if event.name == "error":
            demand(before not in ("message_stop", "error"), "an error comes after the end")
            demand(data["error"].keys() >= {"type", "message"}, "an error has a type and a message")
            said.error = data["error"]
        else:
            demand(event.name in _FOLLOWS[before], f"{event.name} comes after {before or 'nothing'}")
        before = event.name
        match event.name:
            case "message_start":
                _check_start(data["message"])
            case "content_block_start":
                demand(data["index"] == len(said.blocks), "blocks are numbered")
                kind = data["content_block"]["type"]
                said.blocks.append(_begun(data["content_block"]))
            case "content_block_delta":
                demand(data["index"] == len(said.blocks) - 1, "a delta belongs to the open block")
                _add(said, kind, data["delta"])
            case "content_block_stop":
                demand(data["index"] == len(said.blocks) - 1, "the open block is the one that stops")
            case "message_delta":
                said.stop = (data["delta"]["stop_reason"], data["delta"]["stop_sequence"])
                demand(said.stop[0] is not None, "message_delta has the stop reason")
                said.output_tokens = data["usage"]["output_tokens"]
            case "message_stop":
                said.done = True
    return said


def _check_start(message: Any) -> None:
    demand(
        (message["type"], message["role"], message["content"]) == ("message", "assistant", []), "a message starts empty"
    )
    demand(message["stop_reason"] is None and message["stop_sequence"] is None, "it has not stopped")
    demand(message["usage"]["input_tokens"] >= 0 and message["usage"]["output_tokens"] > 0, "it has a usage")


def _begun(block: Any) -> tuple[str, str, str]:
    kind = block["type"]
    if kind == "tool_use":
        demand(block["input"] == {} and block["id"] != "", "a call begins with an id and no input")
        return kind, "", block["name"]
    demand(block == _EMPTY[kind], "a block begins empty")
    return kind, "", ""


def _add(said: Said, kind: str, delta: Any) -> None:
    demand(delta["type"] in _DELTAS[kind], f"{delta['type']} in a block of {kind}")
    kind, text, beside = said.blocks[-1]
    match delta["type"]:
        case "text_delta":
            text += delta["text"]
        case "thinking_delta":
            demand(not beside, "thinking goes on after its signature")
            text += delta["thinking"]
        case "signature_delta":
            demand(not beside and bool(delta["signature"]), "there is one signature")
            beside = delta["signature"]
        case "input_json_delta":
            text += delta["partial_json"]
    said.blocks[-1] = (kind, text, beside)


def whole(body: Any) -> Said:
    """What a whole answer says."""
    blocks = []
    for block in body["content"]:
        match block["type"]:
            case "text":
                blocks.append(("text", block["text"], ""))
            case "thinking":
                blocks.append(("thinking", block["thinking"], block["signature"]))
            case "tool_use":
                blocks.append(("tool_use", json.dumps(block["input"]), block["name"]))
    return Said(blocks, (body["stop_reason"], body["stop_sequence"]), body["usage"]["output_tokens"], None, True)
