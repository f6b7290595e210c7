"""Embedding models, emulated: vectors of which the same text has the same, and texts with words in common near ones.

A text is the sum of its features: its words, and the groups of three letters in them, so that forms of a word are near
each other. A feature is a handful of signed entries at places that its hash says (Weinberger et al. 2009, "Feature
Hashing for Large Scale Multitask Learning"): one in the whole vector, one in its first half, one in its first quarter,
and so on. So the beginning of a vector is an embedding, too, as with the models that are trained for that (Kusupati et
al. 2022, "Matryoshka Representation Learning"). What words mean is not known: synonyms are as far apart as any words.

Knows nothing of wire formats. Pure, and bounded by the distinct words of a text: 8,192 tokens of prose take some 15 ms.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from math import hypot, log, sqrt
from random import Random
from types import MappingProxyType

TOKENS_MAX = 8192  # of one text

_SMALLEST = 12  # dimensions that the narrowest entry of a feature is spread over
_SCALES = 8
_GRAIN = 0.15  # length of what tells texts of equal words apart, beside 1 of the words
_GROUPS_WEIGHT = 0.6  # of all groups of letters of a word, beside 1 of the word
_COMMON_WEIGHT = 0.15
_COMMON_WORDS = """
    a an and are as at be but by for from had has have he her his i if in is it its me my not of on or our she so that
    the their them then there they this to up was we were what when which who will with you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Embedder:
    """A model. `shortens`: a request may ask for fewer dimensions. `created` in Unix seconds."""

    id: str
    dimensions: int
    shortens: bool
    created: int
    owned_by: str


# Dimensions after OpenAI's embeddings guide; `created` and `owned_by` as its list of models has them.
EMBEDDERS: Mapping[str, Embedder] = MappingProxyType(
    {
        model.id: model
        for model in (
            Embedder("text-embedding-3-small", 1536, True, 1705948997, "system"),
            Embedder("text-embedding-3-large", 3072, True, 1705953180, "system"),
            Embedder("text-embedding-ada-002", 1536, False, 1671217299, "openai-internal"),
        )
    }
)


def embed(model: Embedder, text: str, dimensions: int | None = None) -> "array[float]":
    """A unit vector of 32-bit floats: of all dimensions of the model, or the first of them brought to unit length."""
    vector = [0.0] * model.dimensions
    for feature, weight in _features(text):
        for place in _places(model.id, model.dimensions, feature):
            if place < 0:
                vector[-place - 1] -= weight
            else:
                vector[place] += weight
    grain = Random(_hash(f"{model.id}\0{text}")).randbytes(model.dimensions)
    share = _GRAIN * (hypot(*vector) or 1.0) / (74 * sqrt(model.dimensions))  # 74: the spread of a signed byte
    vector = [value + (byte - 127.5) * share for value, byte in zip(vector, grain, strict=True)]
    short = vector[:dimensions]
    length = hypot(*short)
    return array("f", [value / length for value in short])


def _features(text: str) -> Iterator[tuple[str, float]]:
    """What a text consists of, and how much each counts: a word that comes often counts more, but not in proportion."""
    lowered = text.lower()
    for word, times in Counter(_WORD.findall(lowered) or lowered).items():
        weight = (1 + log(times)) * (_COMMON_WEIGHT if word in _COMMON else 1.0)
        yield word, weight
        bounded = f"<{word}>"
        groups = [bounded[start : start + 3] for start in range(len(bounded) - 2)]
        for group in groups:
            yield f"...{group}", weight * _GROUPS_WEIGHT / sqrt(len(groups))


@lru_cache(maxsize=16_384)
def _places(model: str, dimensions: int, feature: str) -> tuple[int, ...]:
    """Entries of a feature: n stands for +1 at n, -n - 1 for -1 at n."""
    number = _hash(f"{model}\0{feature}")
    places = []
    for scale in range(_SCALES):
        number, sign = divmod(number, 2)
        number, place = divmod(number, max(_SMALLEST, dimensions >> scale))
        places.append(-place - 1 if sign else place)
    return tuple(places)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=32).digest(), "little")
