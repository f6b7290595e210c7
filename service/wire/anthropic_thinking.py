"""Thinking: what a request may ask of it, how much it leads to, and the signature that comes back with it.

A signature stands for the text it came with. The real API refuses a block that was changed; so does this one where the
signature is its own, and lets others' through. It is no secret: anybody could make it.
"""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from hashlib import blake2b
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from service.wire.anthropic_blocks import Fields
from service.wire.anthropic_errors import invalid

Effort = Literal["low", "medium", "high", "xhigh", "max"]
Display = Literal["summarized", "omitted"]

# Assumed: the median of tokens thought before an answer, where the model decides how much it thinks.
_ADAPTIVE: dict[Effort, int] = {"low": 60, "medium": 150, "high": 300, "xhigh": 600, "max": 1200}
_SHARE = 4  # of a budget, and of max_tokens, one in so many is the median: most answers use little of what they may

_MARK = b"\x12\xb0\x01fastmode-thinking\x18\x02"  # every signature of this service begins alike
_DIGEST = 64  # bytes


class Enabled(Fields):
    type: Literal["enabled"]
    budget_tokens: Annotated[int, Field(ge=1024)]
    display: Display | None = None


class Adaptive(Fields):
    type: Literal["adaptive"]
    display: Display | None = None


class Disabled(Fields):
    type: Literal["disabled"]


class BetweenTools(Fields):
    """Thinking is off, but for remarks between calls of tools, which are not emulated."""

    type: Literal["between_tools"]


Config = Annotated[Enabled | Adaptive | Disabled | BetweenTools, Field(discriminator="type")]


def active(config: Config | None) -> bool:
    return isinstance(config, Enabled | Adaptive)


def shown(config: Config | None) -> bool:
    """Whether the answer has the text of its thinking; otherwise its signature alone."""
    return getattr(config, "display", None) != "omitted"


def expected(config: Config | None, effort: Effort | None, max_tokens: int) -> int:
    """Tokens of thinking, the median; 0: none. Some of `max_tokens` is left to the answer."""
    match config:
        case Enabled():
            return max(1, min(config.budget_tokens, max_tokens) // _SHARE)
        case Adaptive():
            return max(1, min(_ADAPTIVE[effort or "high"], max_tokens // _SHARE))
        case _:
            return 0


def check(config: Config, accepted: frozenset[str], max_tokens: int, forced: bool) -> None:
    """Raises InvalidRequest; `accepted` are the types that the model takes, `forced`: a tool has to be called."""
    if config.type not in accepted and config.type in ("enabled", "adaptive", "disabled"):
        if config.type == "adaptive":
            raise invalid("adaptive thinking is not supported on this model")
        raise invalid(
            f'"thinking.type.{config.type}" is not supported for this model. Use "thinking.type.adaptive" and '
            '"output_config.effort" to control thinking behavior.'
        )
    if isinstance(config, Enabled) and max_tokens <= config.budget_tokens:
        raise invalid("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if active(config) and forced:
        raise invalid("Thinking may not be enabled when tool_choice forces tool use.")


class Signing:
    """Makes the signature of a text that comes piece by piece, JSON-escaped as it is sent."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=_DIGEST)

    def add(self, escaped: bytes) -> None:
        self._digest.update(escaped)

    def signature(self) -> bytes:
        return b64encode(_MARK + self._digest.digest())


def signature(escaped: bytes) -> bytes:
    """Of a whole text, JSON-escaped without quotes."""
    return b64encode(_MARK + blake2b(escaped, digest_size=_DIGEST).digest())


def genuine(thinking: str, signed: str) -> bool:
    """Whether a block is as it was sent. Text that was left out does not count, nor do others' signatures."""
    try:
        raw = b64decode(signed, validate=True)
    except (NotBase64, ValueError):
        return True
    if not raw.startswith(_MARK) or not thinking:
        return True
    escaped: Any = orjson.dumps(thinking)[1:-1]
    return signature(escaped).decode() == signed
