"""Labels of texts that tokenizers of checkpoints cut: words, characters in several tokens, special tokens and sinks."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mirada.data.text.foreign import read_tokenizer
from mirada.data.text.tokenize import Tokenizer
from mirada.looking.labels import TextLabels, read_axis, written_axis
from mirada.looking.show import _remarks
from mirada.looking.statistics import dense_statistics
from tests.data.text.foreign_folders import FOLDERS

TEXT = "The unaffable café 😀 stays, 12"


@pytest.fixture(scope="module", params=["bert", "gpt2", "roberta", "llama3", "llama2", "unigram"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp(request.param)
    FOLDERS[request.param](path)
    return read_tokenizer({each.name: each for each in path.iterdir()}, {})


def test_pieces_are_joined_to_words(tokenizer: Tokenizer) -> None:
    tokens, _ = tokenizer.framed(tokenizer.encode(TEXT))
    axis = read_axis(tokenizer, TEXT, tokens)
    special = [token in tokenizer.special - {tokenizer.unknown} for token in tokens]
    words = [word for word, places in axis.words if not special[places[0]] and axis.spans[places[0]] is not None]
    assert words == ["The", "unaffable", "café", "😀", "stays", ",", "12"]
    assert [place for _, places in axis.words for place in places] == list(range(len(tokens)))


def test_no_name_has_a_mark_or_half_a_character(tokenizer: Tokenizer) -> None:
    tokens, _ = tokenizer.framed(tokenizer.encode(TEXT))
    for axis in (read_axis(tokenizer, TEXT, tokens), written_axis(tokenizer, tokenizer.encode(TEXT), ())):
        for name in axis.tokens:
            assert name.strip()
            assert not any(mark in name for mark in ("Ġ", "▁", "##", "\ufffd", "<F0"))


def test_characters_in_several_tokens_are_numbered(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("😀")
    axis = read_axis(tokenizer, "😀", ids)
    parts = [name for name in axis.tokens if name.startswith("😀")]
    count = len(parts)
    assert parts == (["😀"] if count == 1 else [f"😀 {number}/{count}" for number in range(1, count + 1)])


def test_special_tokens_are_named_and_have_no_place(tokenizer: Tokenizer) -> None:
    tokens, _ = tokenizer.framed(tokenizer.encode(TEXT))
    axis = read_axis(tokenizer, TEXT, tokens)
    for token, name, span in zip(tokens, axis.tokens, axis.spans, strict=True):
        if token in tokenizer.special - {tokenizer.unknown}:
            assert span is None
            assert name in ("[CLS]", "[SEP]", "<s>", "</s>", "<|begin|>")


def test_sinks_are_said_by_their_special_token() -> None:
    """One of two heads rests on the last token, as heads of BERT do."""
    axis = TextLabels(("[CLS]", "una", "ffa", "ble", "[SEP]"), "unaffable", (None, (0, 3), (3, 6), (6, 9), None))
    weights = torch.full((2, 5, 5), 0.2)
    weights[1] = torch.tensor([0.025, 0.025, 0.025, 0.025, 0.9])
    stream: Any = SimpleNamespace(statistics=lambda: dense_statistics([(0, weights)]))
    (remark,) = _remarks(stream, axis, None)
    assert remark == "1 of 2 heads give most of their weight to one place, whatever the query: \u201c[SEP]\u201d."
