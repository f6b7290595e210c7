"""The service's vocabulary as a directory that Hugging Face's `tokenizers` reads, for clients with counts of their own.

o200k_base is a table of byte strings by rank; a tokenizer.json has merges. Each token but the single bytes comes of the
one pair of lesser tokens that byte-pair encoding, held below its own rank, is left with. The pattern that splits text
beforehand is OpenAI's (github.com/openai/tiktoken, tiktoken_ext/openai_public.py).
"""

import json
from collections.abc import Mapping
from pathlib import Path

from service import tokenizer

_SIZE = 199_998  # tokens of o200k_base that stand for text
_END = "<|endoftext|>"
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"
_PATTERN = "|".join(
    (
        rf"{_BEFORE}{_UPPER}*{_LOWER}+{_CONTRACTIONS}",
        rf"{_BEFORE}{_UPPER}+{_LOWER}*{_CONTRACTIONS}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


def write(directory: Path, size: int = _SIZE) -> None:
    """tokenizer.json and what it takes to be found, with the first `size` tokens; all take some ten seconds."""
    directory.mkdir(parents=True, exist_ok=True)
    pieces = tokenizer.pieces(range(size))
    ranks = {piece: rank for rank, piece in enumerate(pieces)}
    shown = _letters()
    names = ["".join(shown[byte] for byte in piece) for piece in pieces]
    merges = [
        [names[ranks[left]], names[ranks[right]]]
        for piece in pieces
        if len(piece) > 1
        for left, right in (_halves(piece, ranks),)
    ]
    special = {"id": _SIZE + 1, "content": _END, "special": True}
    special |= dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    document = {
        "version": "1.0",
        "added_tokens": [special],
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": _PATTERN}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
            ],
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {name: rank for rank, name in enumerate(names)}, "merges": merges},
    }
    (directory / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False))
    configured = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": _END,
        "bos_token": _END,
        "model_max_length": 1_000_000,
        "clean_up_tokenization_spaces": False,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(configured))


def _halves(piece: bytes, ranks: Mapping[bytes, int]) -> tuple[bytes, bytes]:
    """What byte-pair encoding makes of a token's bytes without the token itself: two parts."""
    parts = [piece[at : at + 1] for at in range(len(piece))]
    while len(parts) > 2:
        pairs = [(ranks.get(parts[at] + parts[at + 1], _SIZE), at) for at in range(len(parts) - 1)]
        _, at = min(pairs)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts[0], parts[1]


def _letters() -> dict[int, str]:
    """The letter that stands for each byte: itself, where it can be seen (GPT-2's encoder.py, bytes_to_unicode)."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {byte: chr(256 + number) for number, byte in enumerate(hidden)}
