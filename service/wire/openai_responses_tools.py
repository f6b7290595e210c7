"""The tools of a response, and which of them may, must or must not be called. Sans-IO.

Functions and custom tools can be called, also those inside of namespaces and those that an item of the input adds.
Tools that the provider would run itself (web search, code interpreter, ...) are accepted and never called: whoever
offers them can do without. A custom tool takes text where a function takes JSON.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from service import schemas
from service.errors import InvalidRequest
from service.messages import TAKES_TEXT, Tool
from service.wire.openai_body import as_json
from service.wire.openai_errors import missing
from service.wire.openai_tools import schema_fault

Mode = Literal["auto", "none", "required"]
MODES: tuple[Mode, ...] = ("none", "auto", "required")
_NAME = re.compile("^[a-zA-Z0-9_-]{1,128}$")
_CALLABLE = ("function", "custom")


def definitions(tools: Sequence[Any], path: str = "tools") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Those that can be called, each with its path. Raises InvalidRequest."""
    for index, tool in enumerate(tools):
        where = f"{path}[{index}]"
        if not isinstance(tool, dict):
            raise InvalidRequest(f"Invalid type for '{where}': expected an object.", code="invalid_type", param=where)
        kind = tool.get("type")
        if not isinstance(kind, str):
            raise missing(f"{where}.type")
        if kind == "namespace" and isinstance(tool.get("tools"), list):
            yield from definitions(tool["tools"], f"{where}.tools")
        elif kind in _CALLABLE:
            _check_name(tool.get("name"), f"{where}.name")
            yield where, tool


def _check_name(name: Any, path: str) -> None:
    if not isinstance(name, str):
        raise missing(path)
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"Invalid '{path}': string does not match pattern. Expected a string that matches the pattern "
            f"'{_NAME.pattern}'.",
            param=path,
        )


def offered(tools: Sequence[Any]) -> tuple[Tool, ...]:
    """Raises InvalidRequest."""
    return tuple(_tool(tool, path) for path, tool in definitions(tools))


def custom(tools: Sequence[Any]) -> frozenset[str]:
    """The names of those that take text."""
    return frozenset(tool["name"] for _, tool in definitions(tools) if tool["type"] == "custom")


def chosen(
    tools: tuple[Tool, ...], choice: str | Mapping[str, Any] | None, others: bool = False
) -> tuple[tuple[Tool, ...], Mode]:
    """The tools that may be called, and whether one has to be; `others` are offered, too. Raises InvalidRequest."""
    if choice is None:
        return tools, "auto"
    if isinstance(choice, str):
        mode = _mode(choice, "tool_choice")
        if mode == "required" and not tools and not others:
            raise InvalidRequest(
                "Tool choice 'required' must be specified with 'tools' parameter.", param="tool_choice"
            )
        return tools, mode
    kind = choice.get("type")
    if kind == "allowed_tools":
        allowed = choice.get("tools")
        if not isinstance(allowed, list):
            raise missing("tool_choice.tools")
        named = [tool["name"] for _, tool in definitions(allowed, "tool_choice.tools")]
        return _named(tools, named), _mode(choice.get("mode"), "tool_choice.mode")
    if kind in _CALLABLE:
        if not isinstance(choice.get("name"), str):
            raise missing("tool_choice.name")
        return _named(tools, [choice["name"]])[:1], "required"
    return tools, "auto"  # a tool that the provider would run


def _mode(word: Any, param: str) -> Mode:
    mode = next((mode for mode in MODES if mode == word), None)
    if mode is None:
        known = ", ".join(map(repr, MODES))
        raise InvalidRequest(f"Invalid value: {str(word)[:64]!r}. Supported values are: {known}.", param=param)
    return mode


def _named(tools: tuple[Tool, ...], names: Sequence[str]) -> tuple[Tool, ...]:
    unknown = next((name for name in names if all(tool.name != name for tool in tools)), None)
    if unknown is not None:
        raise InvalidRequest(f"Tool choice '{unknown[:100]}' not found in 'tools' parameter.", param="tool_choice")
    return tuple(tool for tool in tools if tool.name in names)


def _tool(tool: Mapping[str, Any], path: str) -> Tool:
    description = tool.get("description")
    words = description if isinstance(description, str) else ""
    parameters = tool.get("parameters")
    strict = tool.get("strict") is True
    if tool["type"] == "custom":
        return Tool(tool["name"], TAKES_TEXT, words, strict)
    if parameters is None:
        return Tool(tool["name"], description=words, strict=strict)
    if not isinstance(parameters, dict):
        where = f"{path}.parameters"
        raise InvalidRequest(f"Invalid type for '{where}': expected an object.", code="invalid_type", param=where)
    text = as_json(parameters, f"{path}.parameters")
    fault = schema_fault(parameters, text, strict)
    if fault is not None:
        raise InvalidRequest(
            f"Invalid schema for function '{tool['name']}': {fault}",
            code="invalid_function_parameters",
            param=f"{path}.parameters",
        )
    if tool.get("strict") is None:
        strict = schemas.strict_fault(parameters) is None  # it is, by default, where it can be
    return Tool(tool["name"], text, words, strict)
