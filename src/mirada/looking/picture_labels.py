"""Rows and columns that are cells of a picture: of a model that names it, and of one that describes it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isqrt
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from torch import Tensor

from mirada.data.picture_classes import PictureClasses
from mirada.data.picture_file import Box
from mirada.data.picture_set import Picture
from mirada.data.tokenize import Tokenizer
from mirada.decoding.hypothesis import Hypothesis
from mirada.drawing.raster import png
from mirada.looking.labels import AxisLabels, GridLabels, Labels, WrittenStep
from mirada.looking.text_labels import RANKED, written_labels

WordBoxes = Mapping[str, tuple[Box, ...]]  # where words are in a picture


def class_labels(
    known: PictureClasses, config: Any, picture: Picture, candidates: Sequence[str], scores: Float[Tensor, "1 classes"]
) -> Labels:
    """What the rows and columns are: patches of the picture as the model sees it, after the class token where it has one."""
    before = ("[class]",) if config.has_token else ()
    cells = GridLabels.of(known.grid, known.grid, before, png(picture.seen(known.fitting)))
    pairs = zip(known.labels, scores[0].float().softmax(-1).tolist(), strict=True)
    ranked = sorted((pair for pair in pairs if pair[0] in (candidates or known.labels)), key=lambda pair: -pair[1])
    decides = config.pool in ("first", "attention")  # one row, of the class token or of the pooling query
    chosen = known.labels.index(ranked[0][0])
    steps = (WrittenStep(0, *ranked[0], tuple(ranked[:RANKED]), chosen),) if decides else ()
    return Labels(
        {"cells": cells, "query": AxisLabels(("[query]",))},
        {"pool*": ("query", "cells"), "*": ("cells", "cells")},
        {"input": picture.name}, ranked[0], steps, chosen=chosen,
    )  # fmt: skip


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
