"""Pretrained word vectors in text format (word2vec, GloVe, fastText) as the initial embedding of a model."""

from collections.abc import Sequence
from pathlib import Path

from torch import nn

from mirada.data.text.vectors import read_vectors
from mirada.errors import require
from mirada.layers.embed import TokenEmbedding


def start_from_vectors(model: nn.Module, path: str | Path, tokens: Sequence[str]) -> None:
    """Initialize the embedding of every token that has a vector in a file; the others stay as they are."""
    table = read_vectors(path, set(tokens)).table(tokens)
    for words in model.modules():
        if isinstance(words, TokenEmbedding) and words.vocab == len(tokens):
            width = words.weight.shape[1]
            require(
                table.shape[1] == width, f"{path} has vectors of {table.shape[1]} numbers: pass width={table.shape[1]}"
            )
            words.copy_vectors(table)
