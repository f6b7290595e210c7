"""Texts of the older endpoints: a string or an array of token ids, one or many of them. Sans-IO."""

from dataclasses import dataclass
from typing import Any

from service import tokenizer
from service.errors import InvalidRequest
from service.wire.openai_body import LIST_MAX


@dataclass(frozen=True, slots=True)
class Text:
    """`tokens` is their number."""

    text: str
    tokens: int


def texts(given: Any, param: str, may_be_empty: bool) -> tuple[Text, ...]:
    """What a field of that name says, counted. Raises InvalidRequest."""
    if isinstance(given, str):
        return (_string(given, param, may_be_empty),)
    if not isinstance(given, list):
        raise _wrong(param)
    if not given:
        raise _empty_array(param)
    if _is_token(given[0]):
        return (_tokens(given, param),)
    if len(given) > LIST_MAX:
        raise InvalidRequest(
            f"Invalid '{param}': array too long. Expected an array with maximum length {LIST_MAX}, but got an array "
            f"with length {len(given)} instead.",
            code="array_above_max_length",
            param=param,
        )
    return tuple(_one(each, f"{param}[{index}]", may_be_empty) for index, each in enumerate(given))


def _one(given: Any, param: str, may_be_empty: bool) -> Text:
    if isinstance(given, str):
        return _string(given, param, may_be_empty)
    if not isinstance(given, list):
        raise _wrong(param)
    if not given:
        raise _empty_array(param)
    return _tokens(given, param)


def _string(given: str, param: str, may_be_empty: bool) -> Text:
    if not given and not may_be_empty:
        raise InvalidRequest(f"Invalid '{param}': input cannot be an empty string.", param=param)
    return Text(given, tokenizer.count(given))


def _tokens(given: list[Any], param: str) -> Text:
    """Bytes that are no text, as halves of a character are, are read as U+FFFD."""
    for index, token in enumerate(given):
        if not _is_token(token):
            raise InvalidRequest(
                f"Invalid type for '{param}[{index}]': expected an integer.",
                code="invalid_type",
                param=f"{param}[{index}]",
            )
    try:
        return Text(b"".join(tokenizer.pieces(given)).decode(errors="replace"), len(given))
    except (KeyError, OverflowError):
        raise InvalidRequest(f"Invalid '{param}': it contains an id that no token has.", param=param) from None


def _is_token(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _wrong(param: str) -> InvalidRequest:
    return InvalidRequest(
        f"Invalid type for '{param}': expected a string, an array of token ids, or an array of either.",
        code="invalid_type",
        param=param,
    )


def _empty_array(param: str) -> InvalidRequest:
    return InvalidRequest(
        f"Invalid '{param}': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        code="empty_array",
        param=param,
    )
