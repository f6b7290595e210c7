"""Texts of exactly so many tokens (o200k_base), the same ones for the same seed, and no two that begin alike."""

from functools import cache
from random import Random

from service import tokenizer

_WORDS = """
the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one you
were her all she there would their we him been has when who will more no if out so said what up its about into than them
can only other new some could time these two may then do first any my now such like our over man me even most made after
also did many before must through back years where much your way well down should because each just those people how too
little state good very make world still own see men work long get here between both life being
"""


def text(tokens: int, seed: object) -> str:
    """`tokens` is at least 1."""
    words = _words()
    return "".join(Random(str(seed)).choices(words, k=tokens))


@cache
def _words() -> tuple[str, ...]:
    """Each is one token wherever it stands: the vocabulary splits text in front of spaces."""
    return tuple(word for word in (f" {word}" for word in _WORDS.split()) if tokenizer.count(word) == 1)
