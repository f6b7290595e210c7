"""Which prompts begin alike: a prompt's full blocks of tokens, each known by a hash of itself and all before it.

Equal beginnings of prompts give equal leading blocks, and nothing else does, under one salt. Whoever must not share
(other accounts, models or tiers) has another salt. Hashes are BLAKE2b, 8 bytes: among a billion blocks, two collide
with a probability of 3 %, and a collision costs the emulator a wrong hit and nobody a secret.

Knows nothing about caches or what a token says.
"""

from array import array
from collections.abc import Iterable
from hashlib import blake2b
from itertools import chain
from struct import unpack as _unpack

from service import tokenizer
from service.messages import Turn

# What stands for the tokens that wrap a message and prime an answer. No text encodes to such ids.
_BEGIN, _END, _PRIME = (0xFFFFFFFF - number for number in range(3))

_HASH = 8  # bytes


def prompt(turns: Iterable[Turn], tools: str) -> "array[int]":
    """The tokens of a chat prompt as it is counted, tools first: as many as tokenizer says."""
    tokens = array("I", tokenizer.encode(tools) if tools else ())
    for turn in turns:
        role, text = tokenizer.encode(turn.role), tokenizer.encode(turn.text)
        tokens.extend(chain((_BEGIN,), role, (_END,), text, (_END,)))
    tokens.extend([_PRIME] * tokenizer.PER_ANSWER)
    return tokens


def blocks(tokens: "array[int]", size: int, salt: str) -> bytes:
    """The hashes of the full blocks of `size` tokens, packed."""
    data = tokens.tobytes()
    step = size * tokens.itemsize
    before = blake2b(salt.encode("utf-8", "surrogatepass"), digest_size=_HASH).digest()
    hashes = []
    for end in range(step, len(data) + 1, step):
        before = blake2b(before + data[end - step : end], digest_size=_HASH).digest()
        hashes.append(before)
    return b"".join(hashes)


def unpack(packed: bytes) -> tuple[int, ...]:
    return _unpack(f"<{len(packed) // _HASH}Q", packed)
