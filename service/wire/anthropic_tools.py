"""The tools of a message request, and which of them may, must or must not be called.

Custom tools bring their schema. Those that Anthropic defines and a client runs (bash, text editor, memory, computer)
have theirs here, after its tool reference, reduced to what an emulated call needs. Tools that run at the provider (web
search, code execution, ...) are accepted, counted and never called: nothing here could run them.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, ValidationInfo, ValidatorFunctionWrapHandler
from pydantic import WrapValidator as Wrap
from pydantic_core import PydanticCustomError

from service import schemas
from service.messages import Tool
from service.wire.anthropic_blocks import CacheControl, Fields, as_json
from service.wire.anthropic_errors import invalid

Mode = Literal["auto", "none", "required"]

_TEXT = {"type": "string"}
_LINES = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
_PATH = {"type": "string", "minLength": 1}
_UNKNOWN: dict[str, Any] = {}


def _object(required: Sequence[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


# The beginning of a type -> what its calls look like; None: it runs at the provider.
_DEFINED: dict[str, dict[str, Any] | None] = {
    "bash_": _object(["command"], command=_TEXT, restart={"type": "boolean"}),
    "text_editor_": _object(
        ["command", "path"],
        command={"enum": ["view", "create", "str_replace", "insert"]},
        path=_PATH,
        file_text=_TEXT,
        old_str=_TEXT,
        new_str=_TEXT,
        insert_line={"type": "integer", "minimum": 0},
        view_range=_LINES,
    ),
    "memory_": _object(
        ["command", "path"],
        command={"enum": ["view", "create", "str_replace", "insert", "delete", "rename"]},
        path=_PATH,
        file_text=_TEXT,
    ),
    "computer_toolset_": None,
    "computer_": _object(
        ["action"],
        action={"enum": ["screenshot", "left_click", "type", "key", "mouse_move", "scroll", "wait"]},
        coordinate=_LINES,
        text=_TEXT,
    ),
    "browser_toolset_": None,
    "web_search_": None,
    "web_fetch_": None,
    "code_execution_": None,
    "tool_search_tool_": None,
    "mcp_toolset": None,
    "advisor_": None,
}
_NEWEST = ("custom", "bash_20250124", "text_editor_20250728", "memory_20250818", "web_search_20260318")  # to be shown


class Custom(Fields):
    """A tool of the client's own."""

    type: Literal["custom"] | None = None
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,128}$")]
    description: str | None = None
    input_schema: dict[str, Any]
    cache_control: CacheControl | None = None
    strict: bool | None = None
    eager_input_streaming: bool | None = None
    defer_loading: bool | None = None
    allowed_callers: list[str] | None = None
    input_examples: list[dict[str, Any]] | None = None


class Defined(Fields):
    """A tool that Anthropic defines; its options, which differ by type, are kept and not looked at."""

    type: str
    name: str | None = None
    cache_control: CacheControl | None = None


def _read(value: Any, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """The type tells the two kinds apart; an unknown one is let through where a beta may have brought it."""
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind == "custom":
        return check(value)
    if info.context or _schema(kind) is not _UNKNOWN:
        return Defined.model_validate(value, extra="ignore")
    words = "Input tag '{tag}' found using 'type' does not match any of the expected tags: {tags}"
    tags = ", ".join(f"'{tag}'" for tag in _NEWEST)
    raise PydanticCustomError("union_tag_invalid", words, {"tag": kind[:64], "tags": tags})


# Two arms, so that the path of a fault names the one that was meant.
AnyTool = Annotated[
    Annotated[Annotated[Custom, Tag("custom")] | Annotated[Defined, Tag("defined")], Discriminator(lambda _: "custom")],
    Wrap(_read),
]


class AutoChoice(Fields):
    type: Literal["auto"]
    disable_parallel_tool_use: bool | None = None


class AnyChoice(Fields):
    type: Literal["any"]
    disable_parallel_tool_use: bool | None = None


class ToolChoice(Fields):
    type: Literal["tool"]
    name: str
    disable_parallel_tool_use: bool | None = None


class NoChoice(Fields):
    type: Literal["none"]


Choice = Annotated[AutoChoice | AnyChoice | ToolChoice | NoChoice, Field(discriminator="type")]


def text(documents: Sequence[dict[str, Any]]) -> str:
    """The definitions as the model is given them to read: their JSON, without what is said to the cache.

    The real models are given another notation, which is not published. Raises InvalidRequest.
    """
    return as_json([{key: value for key, value in tool.items() if key != "cache_control"} for tool in documents])


def check(tools: Sequence[Custom | Defined], choice: Choice | None) -> None:
    """Raises InvalidRequest for what only shows when tools are seen together, or deeper."""
    for index, tool in enumerate(tools):
        if isinstance(tool, Custom):
            _check_input(tool.input_schema, f"tools.{index}.custom.input_schema")
    names = [tool.name for tool in tools if tool.name is not None]
    if len(set(names)) < len(names):
        raise invalid("tools: Tool names must be unique.")
    if choice is None:
        return
    if not tools and not isinstance(choice, NoChoice):
        raise invalid("tool_choice may only be specified while providing tools.")
    if isinstance(choice, ToolChoice) and choice.name not in names:
        raise invalid(f"Tool '{choice.name[:100]}' not found in provided tools")


def callable_tools(tools: Sequence[Custom | Defined], choice: Choice | None) -> tuple[Tool, ...]:
    """Those that an answer may call: one alone if it is named."""
    if isinstance(choice, NoChoice):
        return ()
    named = choice.name if isinstance(choice, ToolChoice) else None
    return tuple(_tools(tool for tool in tools if named in (None, tool.name)))


def mode(tools: Sequence[Tool], choice: Choice | None) -> Mode:
    """`tools` are those that may be called; where there are none, there is nothing to force."""
    if isinstance(choice, NoChoice):
        return "none"
    return "required" if tools and isinstance(choice, AnyChoice | ToolChoice) else "auto"


def parallel(choice: Choice | None) -> bool:
    """Whether one answer may call several."""
    return not getattr(choice, "disable_parallel_tool_use", None)


def eager(tools: Sequence[Custom | Defined]) -> frozenset[str]:
    """Names of those whose input is to be streamed as it is written."""
    return frozenset(tool.name for tool in tools if isinstance(tool, Custom) and tool.eager_input_streaming)


def _tools(tools: Iterable[Custom | Defined]) -> Iterable[Tool]:
    for tool in tools:
        if isinstance(tool, Custom):
            schema = as_json(tool.input_schema).encode()
            yield Tool(tool.name, schema, tool.description or "", bool(tool.strict))
        elif tool.name is not None and (schema_of := _schema(tool.type)):
            yield Tool(tool.name, as_json(schema_of).encode())


def _schema(kind: str) -> dict[str, Any] | None:
    """Of a defined tool's type: _UNKNOWN if there is no such type, None if it is not for a client to run."""
    return next((schema for beginning, schema in _DEFINED.items() if kind.startswith(beginning)), _UNKNOWN)


def check_schema(schema: dict[str, Any], path: str) -> None:
    """Raises InvalidRequest: it is no JSON Schema, or more of one than can be handled."""
    try:
        schemas.read(as_json(schema).encode())
    except schemas.InvalidSchema as fault:
        draft = "It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12)"
        raise invalid(f"{path}: JSON schema is invalid. {draft}: {str(fault)[:500]}") from None


def _check_input(schema: dict[str, Any], path: str) -> None:
    if "type" not in schema:
        raise invalid(f"{path}.type: Field required")
    if schema["type"] != "object":
        raise invalid(f"{path}.type: Input should be 'object'")
    if schema.keys() & {"oneOf", "allOf", "anyOf"}:
        raise invalid(f"{path}: input_schema does not support oneOf, allOf, or anyOf at the top level")
    check_schema(schema, path)
