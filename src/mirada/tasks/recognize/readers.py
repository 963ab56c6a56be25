"""Plain readers of pixels, made in seconds: logistic regression and a random forest.

Attention is mixed with them by validation.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from mirada.errors import require
from mirada.tasks.recognize.forest import TREES, Forest
from mirada.tasks.recognize.pictures import Picture, Seeing, Square
from mirada.training.baselines import MOST_ROWS, DenseRows, learning, logistic_regression
from mirada.training.mixtures import NETWORK, Scores, chosen_scales
from mirada.training.state import packed, read_checkpoint

READERS = "readers.safetensors"
PLAIN = {"linear": "linear", "forest": "random forest"}
SIDE, MOST_NUMBERS = 40, 16_000_000  # pixels along a side, and of all pictures, that are learned from at most
LEAST = 1e-2  # probability that the forest leaves to every class
TREE = "forest."  # before the names of its arrays


@dataclass(frozen=True, eq=False)
class PlainPictures:
    """What plain readers learned of pictures, and how they are mixed with attention.

    Args:
        weights: Of the linear model.
        bias: Of the linear model.
        forest: The random forest.
        scales: The scale of every reader that answers; empty until they are fitted, attention answers alone then.
    """

    weights: Float[Tensor, "features classes"]
    bias: Float[Tensor, " classes"]
    forest: Forest
    scales: Mapping[str, float]

    @classmethod
    def fit(
        cls,
        pictures: Sequence[Picture],
        classes: Int[np.ndarray, " pictures"],
        fitting: Seeing,
        count: int,
        class_weights: Sequence[float] = (),
    ) -> Self:
        """Learn from pictures, or from every so manieth where there are many.

        Args:
            pictures: The pictures.
            classes: The number of the class of each.
            fitting: What is seen of them.
            count: The number of classes.
            class_weights: How much each class counts in the linear model.
        """
        numbers = math.ceil(fitting.size / _step(fitting)) ** 2 * fitting.channels
        every = max(1, -(-len(pictures) * numbers // MOST_NUMBERS), -(-len(pictures) // MOST_ROWS))
        rows = pixel_rows((picture.seen(fitting) for picture in pictures[::every]), fitting)
        classes = classes[::every]
        with learning():
            x, wanted = torch.from_numpy(rows).float(), torch.from_numpy(classes)
            mean = x.mean(0)
            scale = (x - mean).square().sum(1).mean().sqrt().clamp_min(1e-9)  # rows have length 1 then, on the average
            row_weights = torch.tensor(class_weights)[wanted] if class_weights else None
            weights, bias = logistic_regression(
                DenseRows((x - mean) / scale), wanted, rows.shape[1], count, row_weights=row_weights
            )
            return cls(weights / scale, bias - mean @ (weights / scale), Forest.fit(rows, classes, count), {})

    def scores(self, squares: Iterable[Square], fitting: Seeing) -> dict[str, Scores]:
        """The scores of every plain reader for some pictures."""
        rows = pixel_rows(squares, fitting)
        shares = torch.from_numpy(self.forest.votes(rows) / TREES).float()
        return {
            "linear": torch.from_numpy(rows).float() @ self.weights + self.bias,
            "forest": (shares + LEAST / len(self.bias)).log(),
        }

    def calibrated(self, scores: Mapping[str, Scores], wanted: Int[Tensor, " records"], counts: Tensor) -> Self:
        """A copy that answers as validates best."""
        return replace(self, scales=chosen_scales(scores, wanted, counts))

    # what a run keeps

    def content(self) -> bytes:
        """The content of its file."""
        trees = {f"{TREE}{name}": torch.from_numpy(array) for name, array in self.forest.arrays().items()}
        return packed({"weights": self.weights, "bias": self.bias, **trees}, {})

    @classmethod
    def restore(cls, scales: Any, path: Path, fitting: Seeing, count: int) -> Self:
        """What a file and config.json kept."""
        require(path.exists(), f"{path} is missing: this run answers with it. Restore the file.")
        tensors, _ = read_checkpoint(path)
        features = math.ceil(fitting.size / _step(fitting)) ** 2 * fitting.channels
        try:
            weights, bias = tensors["weights"].float(), tensors["bias"].float()
            require(
                weights.shape == (features, count) and bias.shape == (count,), "its linear model is of other pictures"
            )
            known = isinstance(scales, dict) and all(name in (NETWORK, *PLAIN) for name in scales)
            finite = known and all(isinstance(scale, float) and math.isfinite(scale) for scale in scales.values())
            require(finite, "the scales of its readers in config.json are broken")
            arrays = {name.removeprefix(TREE): x.numpy() for name, x in tensors.items() if name.startswith(TREE)}
            forest = Forest.restore(arrays, features, count)
        except (KeyError, ValueError, TypeError) as error:
            raise ValueError(f"{path} does not hold the readers of this run: {error}. Restore the file.") from None
        return cls(weights, bias, forest, scales)


def pixel_rows(squares: Iterable[Square], fitting: Seeing) -> UInt8[np.ndarray, "n features"]:
    """The pixels of pictures side by side, of large ones the means of blocks."""
    from mirada.drawing.attention.picture import shrunk

    step = _step(fitting)
    return np.stack([shrunk(square, (step, step)).reshape(-1) for square in squares])


def _step(fitting: Seeing) -> int:
    """The side of the blocks whose means are read."""
    return -(-fitting.size // SIDE)
