"""Responses over a WebSocket: what a client's frames ask for, and what a server's say. Sans-IO.

A client sends {"type": "response.create", ...} with the fields of a request's body, and maybe with a `stream_id`, which
names the lane that the response belongs to. A server answers with the events of a stream, each in a frame of its own,
with the lane's name if it has one; a refusal is {"type": "error", "status", "error", "headers"}. After the types of
openai 3.57, and OpenAI's guide to the WebSocket mode.
"""

from collections.abc import Mapping

import msgspec
import orjson

from service.errors import InvalidRequest
from service.wire.openai_errors import not_json

_NAME_MAX = 128  # characters of a lane's name


class _Frame(msgspec.Struct):
    type: str | None = None
    stream_id: str | None = None


_decoder = msgspec.json.Decoder(_Frame)


def lane(frame: bytes) -> str | None:
    """The lane that a request is for. Raises InvalidRequest for what is no request."""
    try:
        head = _decoder.decode(frame)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"Invalid frame: {error}.", code="invalid_type") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise not_json(str(error)) from None
    if head.type != "response.create":
        raise InvalidRequest(
            f"Invalid value: {str(head.type)[:64]!r}. Supported values are: 'response.create'.", param="type"
        )
    if head.stream_id is not None and not 0 < len(head.stream_id) <= _NAME_MAX:
        raise InvalidRequest(
            f"Invalid 'stream_id': expected a string of 1 to {_NAME_MAX} characters.", param="stream_id"
        )
    return head.stream_id


def frames(events: bytes, of: str | None) -> list[bytes]:
    """Events, a line each, as frames of a lane."""
    lines = events.splitlines()
    if of is None:
        return lines
    beginning = b'{"stream_id":%b,' % orjson.dumps(of)
    return [beginning + line[1:] for line in lines]


def refusal(status: int, body: bytes, headers: Mapping[str, str]) -> bytes:
    """An answer of HTTP that is an error, as an event."""
    told = {name: text for name, text in headers.items() if not name.startswith("content-")}
    return orjson.dumps({"type": "error", "status": status, **orjson.loads(body), "headers": told})
