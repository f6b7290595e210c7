"""The vocabulary in the shape that others read: every token can be reached by merges, and none is lost."""

import json
from pathlib import Path

import pytest

from loadtests import vocabulary
from service import tokenizer


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    directory = tmp_path_factory.mktemp("vocabulary")
    vocabulary.write(directory, 20_000)
    assert json.loads((directory / "tokenizer_config.json").read_text())["tokenizer_class"]
    read: dict[str, dict[str, object]] = json.loads(Path(directory, "tokenizer.json").read_text())
    return read


def test_each_token_comes_of_two_lesser_ones(document: dict[str, dict[str, object]]) -> None:
    vocab, merges = document["model"]["vocab"], document["model"]["merges"]
    assert isinstance(vocab, dict)
    assert isinstance(merges, list)
    for text in ("Hello", " world", " then", "ing"):
        for token in tokenizer.encode(text):
            (piece,) = tokenizer.pieces([token])
            letters = vocabulary._letters()
            assert vocab["".join(letters[byte] for byte in piece)] == token
    assert len(vocab) - len(merges) == 256, "bytes stand for themselves"
    ranks = [vocab[left + right] for left, right in merges]
    assert ranks == sorted(ranks), "the pair that is merged first comes first"
    assert all(max(vocab[left], vocab[right]) < vocab[left + right] for left, right in merges)
