"""The content blocks of the Messages API: what a request may hold, and what of it a model would read.

Shapes after the types of Anthropic's Python SDK 2.14. Blocks that the service has no use for (results of tools that run
at the provider, and whatever a beta adds) keep their JSON as their text. Knows nothing of roles or of what may follow
what: `anthropic_rules` does.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, ValidatorFunctionWrapHandler
from pydantic import WrapValidator as Wrap

from service.wire.anthropic_errors import invalid

IMAGE_TOKENS = 1334  # of an image of one megapixel, after Anthropic's vision guide; others count the same here

# Of tools that run at the provider, and of betas: seen in histories, never written here.
FOREIGN = frozenset(
    {
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "advisor_tool_result",
        "mcp_tool_use",
        "mcp_tool_result",
        "container_upload",
        "compaction",
        "fallback",
    }
)


class Fields(BaseModel):
    """Unknown fields are refused, and types not converted; a request with a beta header is read with extra="ignore"."""

    model_config = ConfigDict(extra="forbid", strict=True)


class CacheControl(Fields):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] = "5m"


class Block(Fields):
    """What every block can say of itself, but for its cache_control: some may not have one."""

    cache_control: CacheControl | None = None

    def words(self) -> str:
        """What can be read of it."""
        return ""

    def pictures(self) -> Iterable[bytes]:
        """A digest of each thing in it that has to be looked at, by what it is or where."""
        return ()


class Text(Block):
    type: Literal["text"]
    text: str
    citations: list[dict[str, Any]] | None = None

    def words(self) -> str:
        return self.text


class Base64Image(Fields):
    type: Literal["base64"]
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    data: str


class Base64Document(Fields):
    type: Literal["base64"]
    media_type: Literal["application/pdf"]
    data: str


class Address(Fields):
    type: Literal["url"]
    url: str


class Uploaded(Fields):
    type: Literal["file"]
    file_id: str


class PlainText(Fields):
    type: Literal["text"]
    media_type: Literal["text/plain"]
    data: str


class Image(Block):
    type: Literal["image"]
    source: Annotated[Base64Image | Address | Uploaded, Field(discriminator="type")]
    transformations: dict[str, Any] | None = None

    def pictures(self) -> Iterable[bytes]:
        return (_digest(self.source),)


def _as_blocks(value: Any) -> Any:
    """A string is short for one block of text, and an empty one for none."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}] if value else []
    return value


class Pieces(Fields):
    type: Literal["content"]
    content: Annotated[list[Annotated[Text | Image, Field(discriminator="type")]], BeforeValidator(_as_blocks)]


class Document(Block):
    """A text is read; of what has pages, each document counts as one image."""

    type: Literal["document"]
    source: Annotated[Base64Document | PlainText | Pieces | Address | Uploaded, Field(discriminator="type")]
    citations: dict[str, Any] | None = None
    context: str | None = None
    title: str | None = None

    def words(self) -> str:
        source = self.source
        if isinstance(source, PlainText):
            said = [source.data]
        else:
            said = [piece.words() for piece in source.content] if isinstance(source, Pieces) else []
        return "\n".join([*filter(None, (self.title, self.context)), *said])

    def pictures(self) -> Iterable[bytes]:
        if isinstance(self.source, Pieces):
            return [digest for piece in self.source.content for digest in piece.pictures()]
        return () if isinstance(self.source, PlainText) else (_digest(self.source),)


class SearchResult(Block):
    type: Literal["search_result"]
    source: str
    title: str
    content: list[Text]
    citations: dict[str, Any] | None = None

    def words(self) -> str:
        return "\n".join([self.title, self.source, *(text.text for text in self.content)])


class Thinking(Fields):
    type: Literal["thinking"]
    thinking: str
    signature: str
    cache_control: ClassVar[None] = None

    def words(self) -> str:
        return self.thinking

    def pictures(self) -> Iterable[bytes]:
        return ()


class RedactedThinking(Fields):
    type: Literal["redacted_thinking"]
    data: str
    cache_control: ClassVar[None] = None

    def words(self) -> str:
        return ""

    def pictures(self) -> Iterable[bytes]:
        return ()


class ToolUse(Block):
    type: Literal["tool_use"]
    id: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$")]
    name: Annotated[str, Field(min_length=1, max_length=200)]
    input: dict[str, Any]
    caller: dict[str, Any] | None = None
    toolset_name: str | None = None

    def words(self) -> str:
        return as_json({"type": "tool_use", "id": self.id, "name": self.name, "input": self.input})


@dataclass(frozen=True, slots=True)
class Foreign:
    """A block of a type that is let through as it is."""

    type: str
    fields: dict[str, Any]

    @property
    def cache_control(self) -> CacheControl | None:
        given = self.fields.get("cache_control")
        return CacheControl.model_validate(given, extra="ignore") if isinstance(given, dict) else None

    def words(self) -> str:
        return as_json({name: value for name, value in self.fields.items() if name != "cache_control"})

    def pictures(self) -> Iterable[bytes]:
        return ()


def _let_through(value: Any, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Types of others always, unknown ones where a beta may have brought them (the context says)."""
    if isinstance(value, dict):
        kind = value.get("type")
        if isinstance(kind, str) and (kind in FOREIGN or (info.context and kind not in _KNOWN)):
            return Foreign(kind, value)
    return check(value)


_Shown = Annotated[Annotated[Text | Image | Document | SearchResult, Field(discriminator="type")], Wrap(_let_through)]


class ToolResult(Block):
    type: Literal["tool_result"]
    tool_use_id: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$")]
    content: Annotated[list[_Shown], BeforeValidator(_as_blocks)] | None = None
    is_error: bool | None = None
    toolset_name: str | None = None

    def words(self) -> str:
        return "\n".join(filter(None, (block.words() for block in self.content or ())))

    def pictures(self) -> Iterable[bytes]:
        return [digest for block in self.content or () for digest in block.pictures()]


Content = Annotated[
    Annotated[
        Text | Image | Document | SearchResult | Thinking | RedactedThinking | ToolUse | ToolResult,
        Field(discriminator="type"),
    ],
    Wrap(_let_through),
]
AnyBlock = Text | Image | Document | SearchResult | Thinking | RedactedThinking | ToolUse | ToolResult | Foreign
Contents = Annotated[list[Content], BeforeValidator(_as_blocks)]
Texts = Annotated[list[Text], BeforeValidator(_as_blocks)]

_KNOWN = frozenset(
    {"text", "image", "document", "search_result", "thinking", "redacted_thinking", "tool_use", "tool_result"}
)


def as_json(document: Any) -> str:
    """JSON as text. Raises InvalidRequest: reading goes deeper (1,024 levels) than writing (254)."""
    try:
        return orjson.dumps(document).decode()
    except orjson.JSONEncodeError:
        raise invalid("The request body is nested too deeply.") from None


def _digest(source: Fields) -> bytes:
    return blake2b(source.model_dump_json().encode(), digest_size=16).digest()
