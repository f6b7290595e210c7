"""The input of a response as the model reads it: a text, or items of a conversation. Sans-IO.

Items are taken as they come: an agent gives back what it was given, and what it made of it, by names and types that
change with every model. What a model cannot do without is checked: the parts of messages, and that calls of tools and
their results belong together, in the words the OpenAI API answers with.

Reasoning items are taken back without being read: they are encrypted, or summaries.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from service.errors import InvalidRequest
from service.messages import Turn
from service.wire.openai_body import as_text
from service.wire.openai_errors import missing
from service.wire.openai_messages import check_image

Item = Mapping[str, Any]

_ROLES = ("user", "assistant", "system", "developer")
_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "summary_text": "text", "refusal": "refusal"}
_IMAGE, _FILE = "input_image", "input_file"
_CALLS = ("function_call", "custom_tool_call")
_UNREAD = ("reasoning", "additional_tools", "compaction_trigger")
REFERENCE = "item_reference"


def items(given: str | Sequence[Any], param: str = "input") -> tuple[Item, ...]:
    """What `input` says, as items. Raises InvalidRequest."""
    if isinstance(given, str):
        return ({"type": "message", "role": "user", "content": [{"type": "input_text", "text": given}]},)
    return tuple(_item(item, f"{param}[{index}]") for index, item in enumerate(given))


def turns(conversation: Sequence[Item]) -> tuple[Turn, ...]:
    """What is read of it."""
    return tuple(Turn(_role(item), _said(item)) for item in conversation if item["type"] not in _UNREAD)


def images(conversation: Sequence[Item]) -> tuple[tuple[bytes, ...], ...]:
    """Digests of the images of each turn; empty if there are none."""
    found = tuple(tuple(_pictures(item)) for item in conversation if item["type"] not in _UNREAD)
    return found if any(found) else ()


def check_results(conversation: Sequence[Item]) -> None:
    """Each result is one of a call before it, and no call goes without. Raises InvalidRequest."""
    called: dict[str, bool] = {}  # whether somebody has to answer it
    answered: set[str] = set()
    for index, item in enumerate(conversation):
        call = item.get("call_id")
        if not isinstance(call, str):
            continue
        if not _is_result(item):
            called[call] = item["type"] in _CALLS
        elif call not in called:
            raise InvalidRequest(
                f"No tool call found for {_words(item)} with call_id {call[:100]}.", param=f"input[{index}].call_id"
            )
        else:
            answered.add(call)
    open_call = next((call for call, needed in called.items() if needed and call not in answered), None)
    if open_call is not None:
        raise InvalidRequest(f"No tool output found for function call {open_call[:100]}.", param="input")


def _item(given: Any, path: str) -> Item:
    if not isinstance(given, dict):
        raise InvalidRequest(f"Invalid type for '{path}': expected an object.", code="invalid_type", param=path)
    kind = given.get("type", "message" if "role" in given else None)
    if kind is None:
        raise missing(f"{path}.type")
    if not isinstance(kind, str):
        raise InvalidRequest(f"Invalid type for '{path}.type': expected a string.", code="invalid_type", param=path)
    item = {**given, "type": kind}
    if kind == "message":
        _check_message(item, path)
    elif kind in _CALLS or _is_result(item):
        _check_call(item, path)
    elif kind == REFERENCE and not isinstance(given.get("id"), str):
        raise missing(f"{path}.id")
    return item


def _check_message(item: dict[str, Any], path: str) -> None:
    if item.get("role") not in _ROLES:
        known = ", ".join(map(repr, _ROLES))
        raise InvalidRequest(
            f"Invalid value: {str(item.get('role'))[:64]!r}. Supported values are: {known}.", param=f"{path}.role"
        )
    content = item.get("content")
    if content is None:
        raise missing(f"{path}.content")
    if isinstance(content, str):
        item["content"] = content = [
            {"type": "output_text" if item["role"] == "assistant" else "input_text", "text": content}
        ]
    _check_parts(content, f"{path}.content")


def _check_parts(parts: Any, path: str) -> None:
    if not isinstance(parts, list):
        raise InvalidRequest(
            f"Invalid type for '{path}': expected one of a string or an array.", code="invalid_type", param=path
        )
    for index, part in enumerate(parts):
        where = f"{path}[{index}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in _TEXTS:
            if not isinstance(part.get(_TEXTS[kind]), str):
                raise missing(f"{where}.{_TEXTS[kind]}")
        elif kind == _IMAGE:
            _check_image(part, where)
        elif kind != _FILE:
            known = ", ".join(map(repr, (*_TEXTS, _IMAGE, _FILE)))
            raise InvalidRequest(
                f"Invalid value: {str(kind)[:64]!r}. Supported values are: {known}.", param=f"{where}.type"
            )


def _check_image(part: Item, path: str) -> None:
    if isinstance(part.get("image_url"), str):
        check_image(part["image_url"], f"{path}.image_url")
    elif not isinstance(part.get("file_id"), str):
        raise missing(f"{path}.image_url")


def _check_call(item: Item, path: str) -> None:
    if item["type"] not in ("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"):
        return
    needed = ["call_id"]
    if item["type"] in _CALLS:
        needed += ["name", "arguments" if item["type"] == "function_call" else "input"]
    for field in needed:
        if not isinstance(item.get(field), str):
            raise missing(f"{path}.{field}")
    if _is_result(item):
        if item.get("output") is None:
            raise missing(f"{path}.output")
        if not isinstance(item["output"], str):
            _check_parts(item["output"], f"{path}.output")


def _is_result(item: Item) -> bool:
    kind: str = item["type"]
    return kind.endswith("_output")


def _words(item: Item) -> str:
    return "custom tool call output" if item["type"] == "custom_tool_call_output" else "function call output"


def _role(item: Item) -> str:
    if item["type"] == "message":
        role: str = item["role"]
        return role
    return "tool" if _is_result(item) else "assistant"


def _said(item: Item) -> str:
    if item["type"] == "message":
        return _read(item["content"])
    if _is_result(item):
        output = item.get("output")
        return output if isinstance(output, str) else _read(output) if isinstance(output, list) else ""
    if item["type"] in _CALLS:
        said = {"name": item["name"], "arguments": item.get("arguments", item.get("input"))}
        return as_text(said, "input")
    return as_text({name: value for name, value in item.items() if name not in ("id", "status")}, "input")


def _read(parts: Sequence[Item]) -> str:
    return "".join(part[_TEXTS[part["type"]]] if part["type"] in _TEXTS else _name(part) for part in parts)


def _name(part: Item) -> str:
    """Of a file, no more than what it is called can be read here."""
    name = part.get("filename")
    return name if part["type"] == _FILE and isinstance(name, str) else ""


def _pictures(item: Item) -> Iterator[bytes]:
    content = item.get("content") if item["type"] == "message" else item.get("output")
    for part in content if isinstance(content, list) else ():
        if part["type"] == _IMAGE:
            told = part["image_url"] if isinstance(part.get("image_url"), str) else part["file_id"]
            yield blake2b(told.encode("utf-8", "surrogatepass"), digest_size=16).digest()
