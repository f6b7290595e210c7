"""The one door to a tokenizer: o200k_base, the vocabulary of OpenAI's GPT-4o and later models.

It ships whole inside a wheel, so nothing is downloaded at run time. Any text may come in: the names of special tokens
count as the ordinary text that they are, a lone surrogate counts as U+FFFD, and time grows linearly with length.
Counting and encoding release the GIL, so a long prompt may be counted in a thread while the event loop goes on.

Knows nothing of wire formats or models: every model is counted with the same vocabulary.
"""

from collections.abc import Iterable
from functools import cache
from typing import Protocol, cast

import toktok  # type: ignore[import-untyped]

from service.messages import Turn

# OpenAI cookbook, "How to count tokens with tiktoken", section 6: each message is wrapped in three tokens, and every
# answer is primed with <|start|>assistant<|message|>.
PER_MESSAGE = 3
PER_ANSWER = 3


class _Encoding(Protocol):
    """The part of the library's tokenizer that is used here."""

    def count(self, text: str) -> int: ...
    def encode_ordinary(self, text: str) -> list[int]: ...
    def encode_to_buffer(self, text: str, *, disallowed_special: tuple[str, ...]) -> bytes: ...
    def decode_single_token_bytes(self, token: int) -> bytes: ...


def load() -> None:
    """Unpacks the vocabulary (some 0.4 s, 60 MB), which the first use does otherwise. For processes that start."""
    _encoding()


def count(text: str) -> int:
    """Tokens in `text`."""
    try:
        return _encoding().count(text)
    except UnicodeEncodeError:
        return _encoding().count(_encodable(text))


def count_chat(turns: Iterable[Turn]) -> int:
    """Prompt tokens of a conversation in OpenAI's chat format."""
    return PER_ANSWER + sum(PER_MESSAGE + count(turn.role) + count(turn.text) for turn in turns)


def encode(text: str) -> list[int]:
    """The tokens of `text`."""
    try:
        return _encoding().encode_ordinary(text)
    except UnicodeEncodeError:
        return _encoding().encode_ordinary(_encodable(text))


def packed(text: str) -> bytes:
    """The tokens of `text` as little-endian unsigned integers of 4 bytes: no slower than to count them."""
    try:
        return _encoding().encode_to_buffer(text, disallowed_special=())
    except UnicodeEncodeError:
        return _encoding().encode_to_buffer(_encodable(text), disallowed_special=())


def pieces(tokens: Iterable[int]) -> list[bytes]:
    """The bytes each token stands for. A single one need not be valid UTF-8; together they are the text."""
    decode = _encoding().decode_single_token_bytes
    return [decode(token) for token in tokens]


@cache
def _encoding() -> _Encoding:
    return cast(_Encoding, toktok._encoding("o200k_base"))


def _encodable(text: str) -> str:
    """Joins surrogate pairs and replaces what is left of surrogates, as a JSON decoder that insists on Unicode does."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
