"""The error envelope of the OpenAI dialect: {"error": {message, type, param, code}}, all four always present."""

from collections.abc import Sequence
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from service.errors import InvalidRequest, ServiceError

_TYPES = {429: "requests", 500: "server_error", 503: "service_unavailable_error"}

# What pydantic calls a fault -> (code, what the message says of it); the words are those clients of the real API meet.
_FAULTS = {
    "missing": ("missing_required_parameter", "Missing required parameter: '{param}'."),
    "greater_than_equal": (
        "integer_below_min_value",
        "Invalid '{param}': value below minimum. Expected a value >= {ge}, but got {input} instead.",
    ),
    "less_than_equal": (
        "integer_above_max_value",
        "Invalid '{param}': value above maximum. Expected a value <= {le}, but got {input} instead.",
    ),
    "too_short": ("empty_array", "Invalid '{param}': empty array. Expected at least {min_length} element(s)."),
    "too_long": (
        "array_above_max_length",
        "Invalid '{param}': array too long. Expected at most {max_length} elements, but got {actual_length} instead.",
    ),
    "string_too_short": (
        "empty_string",
        "Invalid '{param}': empty string. Expected at least {min_length} character(s).",
    ),
    "literal_error": ("invalid_value", "Invalid value for '{param}': {input}. Supported values are: {expected}."),
    "union_tag_invalid": (
        "invalid_value",
        "Invalid value for '{param}': {tag}. Supported values are: {expected_tags}.",
    ),
    "value_error": ("invalid_value", "Invalid '{param}': {error}."),
}
_WRONG_TYPE = ("invalid_type", "Invalid type for '{param}': {msg}, but got {kind} instead.")
_KINDS = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    str: "a string",
    list: "an array",
    dict: "an object",
}


def envelope(error: ServiceError) -> bytes:
    """The body of an error answer, and the payload of an error event within a stream."""
    kind = _TYPES.get(error.status, "invalid_request_error")
    return orjson.dumps({"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}})


def refusal(invalid: ValidationError, model: type[BaseModel]) -> InvalidRequest:
    """The first fault found in a request body, in the words of the dialect."""
    fault = invalid.errors(include_url=False)[0]
    if fault["type"] == "json_invalid":
        return InvalidRequest(
            "We could not parse the JSON body of your request. (The body must be one JSON object.)", code="invalid_json"
        )
    param = _path(fault["loc"], model)
    if not param:
        return InvalidRequest("The body of the request must be a JSON object.", code="invalid_type")
    code, words = _FAULTS.get(fault["type"], _WRONG_TYPE)
    return InvalidRequest(words.format_map(_facts(fault, param)), code=code, param=param)


def _facts(fault: ErrorDetails, param: str) -> dict[str, Any]:
    given = fault["input"]
    shown = f"'{given[:64]}'" if isinstance(given, str) else given if isinstance(given, int | float) else "this"
    return {
        **fault.get("ctx", {}),
        "param": param,
        "input": shown,
        "msg": fault["msg"].removeprefix("Input should be ").replace("a valid ", "a ").replace("dictionary", "object"),
        "kind": _KINDS.get(type(given), "something else"),
    }


def _path(location: Sequence[int | str], model: type[BaseModel]) -> str:
    """('messages', 0, 'content', 'list', 1) -> messages[0].content[1]: pydantic's names of union arms drop out."""
    names = _field_names(model)
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part in names:
            path += f".{part}" if path else part
    return path


def _field_names(model: type[BaseModel]) -> set[str]:
    schema = model.model_json_schema()
    parts = [schema, *schema.get("$defs", {}).values()]
    return {name for part in parts for name in part.get("properties", {})}
