"""Rows and columns that are cells of a picture, of a model that names it."""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from mirada.drawing.attention.picture import png
from mirada.looking.labels import RANKED, AxisLabels, GridLabels, Labels, WrittenStep
from mirada.tasks.recognize.examples import PictureClasses
from mirada.tasks.recognize.pictures import Picture


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
