"""Any text cut into its tokens, each with text that is valid UTF-8 by itself.

A character that several tokens make up is the text of the last of them, and the others have none: the number of tokens
stays the tokenizer's, and no client sees half a character.
"""

from functools import lru_cache

from service import tokenizer
from workers.content.phrases import Phrase, escape

SILENT = Phrase(("",), (b"",))  # a token that says nothing


def spell(text: str) -> Phrase:
    """Its tokens. A lone surrogate becomes U+FFFD, as the tokenizer has it."""
    texts: list[str] = []
    wire: list[bytes] = []
    held = b""
    for token in tokenizer.encode(text):
        piece, piece_wire = _piece(token)
        if held or piece is None:
            piece, held = _decoded(held + tokenizer.pieces((token,))[0])
            piece_wire = escape(piece)
        texts.append(piece)
        wire.append(piece_wire)
    return Phrase(tuple(texts), tuple(wire))


def _decoded(data: bytes) -> tuple[str, bytes]:
    """The whole characters of it, and what is left of another."""
    for end in range(len(data), max(-1, len(data) - 4), -1):
        try:
            return data[:end].decode(), data[end:]
        except UnicodeDecodeError:
            continue
    return "", data


@lru_cache(maxsize=32_768)
def _piece(token: int) -> tuple[str | None, bytes]:
    try:
        text = tokenizer.pieces((token,))[0].decode()
    except UnicodeDecodeError:
        return None, b""
    return text, escape(text)
