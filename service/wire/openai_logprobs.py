"""Log probabilities in the shape of legacy completions: four lists side by side.

For the tokens of a prompt, which nobody generated, they are made up from what the token is and what precedes it: the
same prompt has the same, as it would have with a model.
"""

from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import dataclass, field
from zlib import crc32

import orjson

from service import tokenizer

_LEAST = 12.0  # nats, below which no made-up probability falls
_STEP = 0.75  # nats between an alternative and the next


@dataclass(slots=True)
class Alternatives:
    """Of consecutive tokens. `offsets` count characters from the beginning of the choice's text."""

    tokens: list[str] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    likeliest: list[dict[str, float] | None] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)

    def extend(self, other: "Alternatives") -> None:
        self.tokens += other.tokens
        self.logprobs += other.logprobs
        self.likeliest += other.likeliest
        self.offsets += other.offsets

    def json(self, alternatives: int) -> bytes:
        """With 0 alternatives there is no list of them."""
        return orjson.dumps(
            {
                "tokens": self.tokens,
                "token_logprobs": self.logprobs,
                "top_logprobs": self.likeliest if alternatives else None,
                "text_offset": self.offsets,
            }
        )


def legacy(logprobs: Sequence[bytes], offset: int) -> Alternatives:
    """Of generated tokens, each as in chat completions; the first begins `offset` characters into the text."""
    told = Alternatives()
    for logprob in map(orjson.loads, logprobs):
        told.tokens.append(logprob["token"])
        told.logprobs.append(logprob["logprob"])
        others = {other["token"]: other["logprob"] for other in logprob["top_logprobs"]}
        told.likeliest.append({**others, logprob["token"]: logprob["logprob"]})
        told.offsets.append(offset)
        offset += len(logprob["token"])
    return told


def legacy_prompt(text: str, alternatives: int) -> Alternatives:
    """Of a prompt's tokens."""
    told = Alternatives()
    digest, offset = 0, 0
    characters = getincrementaldecoder("utf-8")()
    pieces = tokenizer.pieces(tokenizer.encode(text))
    for index, piece in enumerate(pieces):
        token = _told(piece)
        digest = crc32(piece, digest)
        logprob = -_LEAST * (digest / 2**32) ** 3
        told.tokens.append(token)
        told.logprobs.append(logprob if index else None)
        others = {
            _told(pieces[(digest + rank) % len(pieces)]): logprob - _STEP * (rank + 1) for rank in range(alternatives)
        }
        told.likeliest.append({**others, token: logprob} if index else None)
        told.offsets.append(offset)
        offset += len(characters.decode(piece))
    return told


def _told(piece: bytes) -> str:
    """Bytes that are no text by themselves, as parts of a character are, are spelt out."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)
