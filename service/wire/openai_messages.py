"""The messages of a chat completion: roles, parts of content, and results that have to follow the calls they are of.

Rules and words after the errors that the OpenAI API answers with. Knows which parts a role may have; not which of them
a model takes, but for sound and files, which none here does.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Annotated, Any, Literal

from pydantic import Field

from service.errors import InvalidRequest
from service.messages import Turn
from service.wire.openai_body import BOUNDED, Fields, as_text
from service.wire.openai_errors import missing

IMAGE_TOKENS = 85  # assumed: what an image of low detail costs in the published vision price tables

Role = Literal["developer", "system", "user", "assistant", "tool", "function"]

_NEEDED = {
    "developer": ("content",),
    "system": ("content",),
    "user": ("content",),
    "tool": ("content", "tool_call_id"),
    "function": ("name",),
}
_PARTS = {
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
}
_ADDRESSES = ("https://", "http://")
_FORMATS = ("png", "jpeg", "jpg", "gif", "webp")
_DATA = re.compile(r"data:image/([a-z0-9.+-]+);base64,", re.IGNORECASE)


class ImageUrl(Fields):
    url: str
    detail: Literal["auto", "low", "high", "original"] | None = None


class Part(Fields):
    """A piece of a message. `type` names the field that holds it."""

    type: Literal["text", "refusal", "image_url", "input_audio", "file"]
    text: str | None = None
    refusal: str | None = None
    image_url: ImageUrl | None = None
    input_audio: dict[str, Any] | None = None
    file: dict[str, Any] | None = None

    def words(self) -> str:
        """What can be read of it."""
        held = getattr(self, self.type)
        return held if isinstance(held, str) else ""


class CalledFunction(Fields):
    name: str
    arguments: str


class CalledCustom(Fields):
    name: str
    input: str


class ToolCall(Fields):
    """A call that an earlier answer made. `type` names the field that holds it."""

    id: str
    type: Literal["function", "custom"]
    function: CalledFunction | None = None
    custom: CalledCustom | None = None


class Message(Fields):
    """One turn. The names of participants are accepted, and neither shown to the model nor counted."""

    role: Role
    content: str | Annotated[list[Part], Field(min_length=1), BOUNDED] | None = None
    refusal: str | None = None
    name: str | None = None
    tool_calls: Annotated[list[ToolCall], Field(min_length=1), BOUNDED] | None = None
    tool_call_id: str | None = None
    function_call: CalledFunction | None = None
    audio: dict[str, Any] | None = None

    def missing(self) -> str | None:
        """The path, from here, of something that its role or one of its parts cannot do without."""
        for field in _NEEDED.get(self.role, ()):
            if getattr(self, field) is None:
                return field
        for index, part in enumerate(self.parts):
            if getattr(part, part.type) is None:
                return f"content[{index}].{part.type}"
        for index, call in enumerate(self.tool_calls or ()):
            if getattr(call, call.type) is None:
                return f"tool_calls[{index}].{call.type}"
        return None

    @property
    def parts(self) -> Sequence[Part]:
        return self.content if isinstance(self.content, list) else ()

    def text(self) -> str:
        """All that is text in it, calls included: what the model would be given to read."""
        said = self.content if isinstance(self.content, str) else "".join(part.words() for part in self.parts)
        said += self.refusal or ""
        if self.tool_calls:
            said += as_text([call.model_dump(exclude_none=True) for call in self.tool_calls], "messages")
        if self.function_call:
            said += as_text(self.function_call.model_dump(), "messages")
        return said

    def images(self) -> tuple[bytes, ...]:
        """What tells its images apart: digests of what they are, or of where."""
        return tuple(
            blake2b(part.image_url.url.encode(), digest_size=16).digest()
            for part in self.parts
            if part.type == "image_url" and part.image_url
        )


def turns(messages: Sequence[Message]) -> tuple[Turn, ...]:
    """The conversation as the model is given it."""
    return tuple(Turn("tool" if message.role == "function" else message.role, message.text()) for message in messages)


def images(messages: Sequence[Message]) -> tuple[tuple[bytes, ...], ...]:
    """Of each message; empty if none has any."""
    found = tuple(message.images() for message in messages)
    return found if any(found) else ()


def check(messages: Sequence[Message]) -> None:
    """Raises InvalidRequest for the first message that cannot stand where it does."""
    for index, message in enumerate(messages):
        field = message.missing()
        if (field == "content" and field in message.model_fields_set) or _says_nothing(message):
            raise InvalidRequest(
                "Invalid value for 'content': expected a string, got null.", param=f"messages.[{index}].content"
            )
        if field is not None:
            raise missing(f"messages[{index}].{field}")
        _check_parts(index, message)
    _check_results(messages)


def _says_nothing(message: Message) -> bool:
    """An answer has to consist of something."""
    said = (message.content, message.refusal, message.tool_calls, message.function_call, message.audio)
    return message.role == "assistant" and all(each is None for each in said)


def _check_parts(index: int, message: Message) -> None:
    allowed = _PARTS.get(message.role, ("text",))
    for number, part in enumerate(message.parts):
        path = f"messages[{index}].content[{number}]"
        if part.type == "image_url" and part.type not in allowed:
            raise InvalidRequest(
                f"Invalid 'messages[{index}]'. Image URLs are only allowed for messages with role 'user', but this "
                f"message with role '{message.role}' contains an image URL.",
                param=f"messages[{index}]",
            )
        if part.type not in allowed:
            known = ", ".join(map(repr, allowed))
            raise InvalidRequest(f"Invalid value: '{part.type}'. Supported values are: {known}.", param=f"{path}.type")
        if part.type in ("input_audio", "file"):
            raise InvalidRequest(
                f"Invalid content type. {part.type} is only supported by certain models.", param=f"{path}.type"
            )
        if part.image_url is not None:
            check_image(part.image_url.url, f"{path}.image_url.url")


def check_image(url: str, path: str) -> None:
    """Nothing is fetched, and nothing decoded: only what a URL says of itself is looked at."""
    data = _DATA.match(url)
    if data is None and not url.lower().startswith(_ADDRESSES):
        raise InvalidRequest(
            f"Invalid '{path}'. Expected a valid URL or an image in base64, but got a value with an invalid format.",
            param=path,
        )
    if data is not None and data[1].lower() not in _FORMATS:
        raise InvalidRequest(
            "You uploaded an unsupported image. Please make sure your image has of one the following formats: "
            "['png', 'jpeg', 'gif', 'webp'].",
            code="invalid_image_format",
            param=path,
        )


def _check_results(messages: Sequence[Message]) -> None:
    """Each call of a message is answered by one of the tool messages right behind it, and these answer nothing else."""
    open_calls: dict[str, None] = {}
    answerable: set[str] = set()
    for index, message in enumerate(messages):
        if message.role == "tool":
            if message.tool_call_id not in answerable:
                raise InvalidRequest(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'.",
                    param=f"messages.[{index}].role",
                )
            open_calls.pop(message.tool_call_id, None)
            continue
        _require_results(open_calls, index)
        open_calls = dict.fromkeys(_called(message))
        answerable = set(open_calls)
    _require_results(open_calls, None)


def _called(message: Message) -> Iterator[str]:
    for call in message.tool_calls or () if message.role == "assistant" else ():
        yield call.id


def _require_results(open_calls: dict[str, None], index: int | None) -> None:
    """`index`: of the message that comes instead; None: there is no further one."""
    if open_calls:
        raise InvalidRequest(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(open_calls)[:500],
            param="messages" if index is None else f"messages.[{index}].role",
        )
