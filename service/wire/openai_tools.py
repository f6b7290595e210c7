"""The tools of a chat completion and which of them may, must or must not be called; functions, their older form.

Rules and words after the errors that the OpenAI API answers with. A custom tool takes text where a function takes JSON:
nothing is known of its input, and a grammar for it is accepted and not followed.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from service import schemas
from service.errors import InvalidRequest
from service.messages import TAKES_TEXT, Tool
from service.wire.openai_body import BOUNDED, Fields, as_json
from service.wire.openai_errors import missing

TOOLS_MAX = 128
Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$", max_length=64)]
Mode = Literal["auto", "none", "required"]


class Function(Fields):
    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Custom(Fields):
    name: Name
    description: str | None = None
    format: dict[str, Any] | None = None


class ToolDefinition(Fields):
    """`type` names the field that holds it."""

    type: Literal["function", "custom"]
    function: Function | None = None
    custom: Custom | None = None

    def tool(self, path: str) -> Tool:
        """Raises InvalidRequest."""
        if self.type == "custom":
            if self.custom is None:
                raise missing(f"{path}.custom")
            return Tool(self.custom.name, TAKES_TEXT, self.custom.description or "")
        if self.function is None:
            raise missing(f"{path}.function")
        return _function(self.function, f"{path}.function")


class Named(Fields):
    name: str


class NamedTool(Fields):
    """`type` names the field that holds the name."""

    type: Literal["function", "custom"]
    function: Named | None = None
    custom: Named | None = None

    def name(self, path: str) -> str:
        named = self.function if self.type == "function" else self.custom
        if named is None:
            raise missing(f"{path}.{self.type}")
        return named.name


class AllowedTools(Fields):
    mode: Literal["auto", "required"]
    tools: Annotated[list[NamedTool], Field(min_length=1), BOUNDED]


class ToolChoice(Fields):
    """A tool by its name, or those that are allowed."""

    type: Literal["function", "custom", "allowed_tools"]
    function: Named | None = None
    custom: Named | None = None
    allowed_tools: AllowedTools | None = None


Tools = Annotated[list[ToolDefinition], Field(min_length=1, max_length=TOOLS_MAX, fail_fast=True)]
Functions = Annotated[list[Function], Field(min_length=1, max_length=TOOLS_MAX, fail_fast=True)]


def offered(tools: Sequence[ToolDefinition]) -> tuple[Tool, ...]:
    """All of them. Raises InvalidRequest."""
    return tuple(definition.tool(f"tools[{index}]") for index, definition in enumerate(tools))


def offered_functions(functions: Sequence[Function]) -> tuple[Tool, ...]:
    """As `offered`, for the older form."""
    return tuple(_function(function, f"functions[{index}]") for index, function in enumerate(functions))


def chosen(tools: tuple[Tool, ...], choice: Mode | ToolChoice | None) -> tuple[tuple[Tool, ...], Mode]:
    """The tools that may be called, and whether one has to be. Raises InvalidRequest for a name that is not there."""
    if choice is None or isinstance(choice, str):
        return tools, choice or "auto"
    if choice.type == "allowed_tools":
        if choice.allowed_tools is None:
            raise missing("tool_choice.allowed_tools")
        path = "tool_choice.allowed_tools.tools"
        names = [tool.name(f"{path}[{index}]") for index, tool in enumerate(choice.allowed_tools.tools)]
        return _named(tools, names, path), choice.allowed_tools.mode
    named = choice.function if choice.type == "function" else choice.custom
    if named is None:
        raise missing(f"tool_choice.{choice.type}")
    return _named(tools, [named.name], f"tool_choice.{choice.type}.name")[:1], "required"


def chosen_function(tools: tuple[Tool, ...], choice: str | Named | None) -> tuple[tuple[Tool, ...], Mode]:
    """As `chosen`, for the older form."""
    if isinstance(choice, Named):
        return _named(tools, [choice.name], "function_call.name")[:1], "required"
    return tools, "none" if choice == "none" else "auto"


def _function(function: Function, path: str) -> Tool:
    strict = bool(function.strict)
    if function.parameters is None:
        return Tool(function.name, description=function.description or "", strict=strict)
    parameters = as_json(function.parameters, f"{path}.parameters")
    fault = schema_fault(function.parameters, parameters, strict)
    if fault is not None:
        raise InvalidRequest(
            f"Invalid schema for function '{function.name}': {fault}",
            code="invalid_function_parameters",
            param=f"{path}.parameters",
        )
    return Tool(function.name, parameters, function.description or "", strict)


def schema_fault(document: dict[str, Any], text: bytes, strict: bool) -> str | None:
    """What keeps a JSON Schema from being used; `text` is the document as JSON."""
    kind = document.get("type", "object")
    if kind != "object":
        return f"schema must be a JSON Schema of 'type: \"object\"', got 'type: {str(kind)[:64]!r}'."
    try:
        schemas.read(text)
    except schemas.InvalidSchema as invalid:
        return f"{str(invalid)[:500]}."
    return schemas.strict_fault(document) if strict else None


def _named(tools: tuple[Tool, ...], names: Sequence[str], param: str) -> tuple[Tool, ...]:
    unknown = next((name for name in names if all(tool.name != name for tool in tools)), None)
    if unknown is not None:
        raise InvalidRequest(f"Tool choice '{unknown[:100]}' not found in 'tools' parameter.", param=param)
    return tuple(tool for tool in tools if tool.name in names)
