"""Which prompts begin alike: a prompt's full blocks of tokens, each known by a hash of itself and all before it.

Under one salt, equal beginnings of prompts give equal leading blocks, and nothing else does but for chance: a hash has
64 bits of a SHA-256, so with a probability of 3 % some two among a billion blocks are alike, and then a prompt is found
that was never sent. Whoever must not share (other accounts, models or tiers) has another salt.

An image counts as many tokens as its model charges for it, and stands behind the text of its message.

Knows nothing about caches, or what a token says.
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from struct import pack
from struct import unpack as _unpack

from service import tokenizer
from service.messages import Turn

_TOKEN, _HASH = 4, 8  # bytes


def _wrapping(count: int, first: int) -> bytes:
    """Stand for tokens that wrap what is said. No text has such ids."""
    return pack(f"<{count}I", *(0xFFFFFFFF - number for number in range(first, first + count)))


_BEGIN, _BETWEEN, _END = (_wrapping(1, number) for number in range(tokenizer.PER_MESSAGE))
_PRIME = _wrapping(tokenizer.PER_ANSWER, tokenizer.PER_MESSAGE)


def prompt(turns: Sequence[Turn], tools: str, images: Sequence[Sequence[bytes]] = (), image_tokens: int = 0) -> bytes:
    """The ids of a chat prompt's tokens, tools first, 4 bytes each: as many tokens as are counted.

    `images` has a digest of each image of each turn, and nothing if there are none.
    """
    parts = [tokenizer.packed(tools)] if tools else []
    for number, turn in enumerate(turns):
        parts += (_BEGIN, _role(turn.role), _BETWEEN, tokenizer.packed(turn.text))
        parts += (_shown(digest, image_tokens) for digest in (images[number] if images else ()))
        parts.append(_END)
    parts.append(_PRIME)
    return b"".join(parts)


def length(prompt: bytes) -> int:
    """How many tokens."""
    return len(prompt) // _TOKEN


def beginning(prompt: bytes, tokens: int) -> bytes:
    """The prompt up to there."""
    return prompt[: tokens * _TOKEN]


def blocks(prompt: bytes, size: int, salt: str) -> bytes:
    """The hashes of its full blocks of `size` tokens, 8 bytes each."""
    running = sha256(salt.encode("utf-8", "surrogatepass") + b"\0")
    view, step = memoryview(prompt), size * _TOKEN
    hashes = []
    for end in range(step, len(prompt) + 1, step):
        running.update(view[end - step : end])
        hashes.append(running.digest()[:_HASH])
    return b"".join(hashes)


def unpack(blocks: bytes) -> tuple[int, ...]:
    return _unpack(f"<{len(blocks) // _HASH}Q", blocks)


@lru_cache(16)  # there are six roles
def _role(name: str) -> bytes:
    return tokenizer.packed(name)


def _shown(digest: bytes, tokens: int) -> bytes:
    """As many tokens as an image has, of which the first say what it is."""
    return digest.ljust(tokens * _TOKEN, b"\xff")[: tokens * _TOKEN]
