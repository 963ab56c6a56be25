"""Rows and columns that are cells of a picture, of a model that describes it."""

from collections.abc import Mapping
from dataclasses import replace
from math import isqrt

import numpy as np
from jaxtyping import UInt8
from torch import Tensor

from mirada.data.image import Box
from mirada.data.text.tokenize import Tokenizer
from mirada.decoding.search import Hypothesis
from mirada.drawing.attention.picture import png
from mirada.looking.labels import GridLabels, Labels, written_labels

WordBoxes = Mapping[str, tuple[Box, ...]]  # where words are in a picture


def caption_labels(
    tokenizer: Tokenizer,
    name: str,
    pixels: UInt8[np.ndarray, "size size 3"],
    best: Hypothesis,
    boxes: WordBoxes,
    logits: Tensor,
) -> Labels:
    """What the rows and columns of a caption are: words that were written, cells of the picture."""
    assert best.alignment is not None
    side = isqrt(best.alignment.shape[1])
    cells, text = GridLabels.of(side, side, picture=png(pixels)), tokenizer.decode(best.tokens)
    found = written_labels("cells", cells, tokenizer, best, text, name, logits)
    known = {word.lower(): places for word, places in boxes.items()}
    placed = ((step.row, box) for step in found.outputs for box in known.get(step.text.lower(), ()))
    return replace(found, boxes=tuple(placed))
