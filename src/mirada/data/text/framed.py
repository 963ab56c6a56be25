"""Texts as an encoder reads them: one text, or two with a tab between them, with the special tokens of its tokenizer around."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from mirada.data.batching import pad
from mirada.data.text.tokenize import Piece, Tokenizer

BETWEEN = "\t"  # two texts that are read together


class FramedText(NamedTuple):
    """The tokens of a text, special ones included, and for each the number of its segment.

    >>> FramedText([2, 7, 3], [0, 0, 0]).tokens
    [2, 7, 3]
    """

    tokens: list[int]
    segments: list[int]

    def says(self, tokenizer: Tokenizer) -> bool:
        """Whether there is more than special tokens; an unknown word is one, and a word all the same."""
        return any(token not in tokenizer.special or token == tokenizer.unknown for token in self.tokens)


def framed_texts(tokenizer: Tokenizer, texts: Sequence[str], most: int = 0) -> list[FramedText]:
    """The tokens of texts with special ones around; of pairs with a tab between them, too.

    Args:
        tokenizer: the model's.
        texts: the texts.
        most: cut texts to so many tokens, pairs at their longer side; 0 cuts none.

    >>> tokenizer = Tokenizer.train(["the red house is red"], kind="word")
    >>> framed_texts(tokenizer, ["the red house is red", "red\\tthe house"], most=5)
    [FramedText(tokens=[2, 8, 5, 6, 3], segments=[0, 0, 0, 0, 0]), FramedText(tokens=[2, 5, 3, 8, 3], segments=[0, 0, 0, 1, 1])]
    """
    parts = [text.split(BETWEEN, 1) for text in texts]
    ids = iter(tokenizer.encode_all([part for pair in parts for part in pair]))
    framed = []
    for pair in parts:
        sides = [next(ids) for _ in pair]
        text = FramedText(*tokenizer.framed(*sides))
        if most and (over := len(text.tokens) - most) > 0:
            text = FramedText(*tokenizer.framed(*_shortened(sides, over)))
        framed.append(text)
    return framed


def _shortened(sides: list[list[int]], over: int) -> list[list[int]]:
    """Texts with so many tokens less, taken from the end of whichever is longer."""
    sizes = [len(side) for side in sides]
    for _ in range(over):
        longest = max(range(len(sizes)), key=sizes.__getitem__)
        sizes[longest] = max(0, sizes[longest] - 1)
    return [side[:size] for side, size in zip(sides, sizes, strict=True)]


def padded(texts: Sequence[FramedText], tokenizer: Tokenizer, segments: int) -> dict[str, Tensor]:
    """The inputs of a model: tokens and lengths, and the segments where it tells several apart.

    Args:
        texts: the texts.
        tokenizer: the model's, whose padding token fills up the shorter ones.
        segments: how many kinds of segments the model has.
    """
    tokens, lengths = pad([text.tokens for text in texts], tokenizer.filler)
    inputs = {"tokens": tokens, "lengths": lengths}
    return inputs | ({"segments": pad([text.segments for text in texts])[0]} if segments > 1 else {})


def framed_pieces(tokenizer: Tokenizer, text: str) -> list[Piece]:
    """The tokens of one text or two, without special ones, with the places that they cover.

    >>> [(piece.text, piece.start) for piece in framed_pieces(Tokenizer.train(["the red"], kind="word"), "the\\tred")]
    [('the', 0), ('red', 4)]
    """
    first, between, second = text.partition(BETWEEN)
    shift = len(first) + len(between)
    after = tokenizer.pieces(second) if between else []
    moved = [replace(piece, start=piece.start + shift, end=piece.end + shift) for piece in after]
    return [*tokenizer.pieces(first), *moved]
