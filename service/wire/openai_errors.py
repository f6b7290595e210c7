"""The error envelope of the OpenAI dialect: {"error": {message, type, param, code}}, all four always present."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from service.errors import InvalidRequest, ServiceError

_TYPES = {429: "requests", 500: "server_error", 503: "service_unavailable_error"}

# What pydantic calls a fault -> (code, what the message says of it); the words are those clients of the real API meet.
_FAULTS = {
    "greater_than_equal": (
        "{number}_below_min_value",
        "Invalid '{param}': {number} below minimum value. Expected a value >= {ge}, but got {input} instead.",
    ),
    "less_than_equal": (
        "{number}_above_max_value",
        "Invalid '{param}': {number} above maximum value. Expected a value <= {le}, but got {input} instead.",
    ),
    "too_short": (
        "empty_array",
        "Invalid '{param}': empty array. Expected an array with minimum length {min_length}, but got an empty array"
        " instead.",
    ),
    "too_long": (
        "array_above_max_length",
        "Invalid '{param}': array too long. Expected an array with maximum length {max_length}, but got an array"
        " with length {length} instead.",
    ),
    "string_too_short": (
        "empty_string",
        "Invalid '{param}': empty string. Expected a string with minimum length {min_length}, but got an empty string"
        " instead.",
    ),
    "string_too_long": (
        "string_above_max_length",
        "Invalid '{param}': string too long. Expected a string with maximum length {max_length}, but got a string with"
        " length {length} instead.",
    ),
    "string_pattern_mismatch": (
        "invalid_value",
        "Invalid '{param}': string does not match pattern. Expected a string that matches the pattern '{pattern}'.",
    ),
    "object_too_long": (
        "object_above_max_properties",
        "Invalid '{param}': too many properties. Expected an object with at most {max_length} properties, but got an"
        " object with {length} properties instead.",
    ),
    "literal_error": ("invalid_value", "Invalid value: {input}. Supported values are: {expected}."),
}
_WRONG_TYPE = ("invalid_type", "Invalid type for '{param}': expected {wanted}, but got {kind} instead.")
_WANTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "a boolean",
    "list_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
}
_KINDS = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal number",
    str: "a string",
    list: "an array",
    dict: "an object",
}


def envelope(error: ServiceError) -> bytes:
    """The body of an error answer, and the payload of an error event within a stream."""
    words = {"message": error.message, "type": type_of(error), "param": error.param, "code": error.code}
    return orjson.dumps({"error": words})


def type_of(error: ServiceError) -> str:
    return error.type or _TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")


def not_json(detail: str) -> InvalidRequest:
    """The body cannot be read at all; `detail` says where and why."""
    return InvalidRequest(f"We could not parse the JSON body of your request. ({detail})", code="invalid_json")


def missing(param: str) -> InvalidRequest:
    return InvalidRequest(f"Missing required parameter: '{param}'.", code="missing_required_parameter", param=param)


def refusal(invalid: ValidationError, model: type[BaseModel]) -> InvalidRequest:
    """The first fault found in a request body, in the words of the dialect."""
    param, faults = _first(invalid, model)
    if not param:
        return InvalidRequest("The body of the request must be a JSON object.", code="invalid_type")
    kind = faults[0]["type"]
    if kind == "too_long" and isinstance(faults[0]["input"], dict):
        kind = "object_too_long"
    if kind == "missing":
        return missing(param)
    facts = _facts(faults, param)
    code, words = _FAULTS.get(kind, _WRONG_TYPE)
    return InvalidRequest(words.format_map(facts), code=code.format_map(facts), param=param)


def _first(invalid: ValidationError, model: type[BaseModel]) -> tuple[str, list[ErrorDetails]]:
    """The path of the first faulty parameter, and what is wrong with it.

    A value that may be of several types fails once for each. The path that leads deepest into it belongs to the type
    that was meant; at its end, what is wrong beside the type does.
    """
    found = [(_path(fault["loc"], model), fault) for fault in invalid.errors(include_url=False)]
    outermost = found[0][0]
    param = max((path for path, _ in found if f"{path}.".startswith((f"{outermost}.", f"{outermost}["))), key=len)
    faults = [fault for path, fault in found if path == param]
    return param, [fault for fault in faults if fault["type"] not in _WANTED] or faults


def _facts(faults: list[ErrorDetails], param: str) -> dict[str, Any]:
    given = faults[0]["input"]
    kind = _KINDS[type(given)]
    limits = {
        name: f"{limit:g}" if isinstance(limit, float) else limit for name, limit in faults[0].get("ctx", {}).items()
    }
    wanted = list(dict.fromkeys(_WANTED.get(fault["type"], "another type") for fault in faults))
    return {
        **limits,
        "param": param,
        "input": f"'{given[:64]}'" if isinstance(given, str) else given if isinstance(given, int | float) else kind,
        "length": len(given) if isinstance(given, list | str | dict) else None,
        "number": "integer" if isinstance(given, int) else "decimal",
        "wanted": wanted[0] if len(wanted) == 1 else "one of " + " or ".join(wanted),
        "kind": kind,
    }


def _path(location: Iterable[int | str], model: type[BaseModel]) -> str:
    """('messages', 0, 'content', 'list', 1) -> messages[0].content[1]: pydantic's names of union arms drop out."""
    names = _field_names(model)
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part in names:
            path += f".{part}" if path else part
    return path


@cache
def _field_names(model: type[BaseModel]) -> frozenset[str]:
    schema = model.model_json_schema()
    parts = [schema, *schema.get("$defs", {}).values()]
    return frozenset(name for part in parts for name in part.get("properties", {}))
