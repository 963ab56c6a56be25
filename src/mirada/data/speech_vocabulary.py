"""What is learned from spoken texts before a model learns: their tokens, and how loud every band of the recordings is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mirada.data.options import TextOptions
from mirada.data.tokenize import Tokenizer
from mirada.data.vocabulary import TOKENIZER, Vocabulary
from mirada.errors import require

LEAST = 1e-2  # of a deviation: a band that is always silent stays as it is


@dataclass(frozen=True)
class SpeechVocabulary:
    """A tokenizer, and the mean and the standard deviation of the log energies of every band.

    `pace` is how many frames a token takes; `augment` says how much recordings are changed while they are learned from.
    """

    files: ClassVar[tuple[str, ...]] = (TOKENIZER,)

    vocabulary: Vocabulary
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    pace: float
    augment: str = "no"

    @classmethod
    def learn(
        cls, texts: Sequence[str], frames: Sequence[NDArray[np.float16]], options: TextOptions, start: Self | None
    ) -> Self:
        """The tokens of these texts and the scale of these frames; those of the run to start from, where there is one."""
        if start is not None:
            return start
        count = sum(map(len, frames))
        mean = sum(each.sum(axis=0, dtype=np.float64) for each in frames) / count
        squares = sum(np.square(each - mean).sum(axis=0) for each in frames) / count
        deviation = np.maximum(np.sqrt(squares), LEAST)
        vocabulary = Vocabulary.learn(texts, options, None)
        tokens = sum(len(text) + 1 for text in vocabulary.tokenizer.encode_all(list(texts)))
        return cls(
            vocabulary, tuple(mean.round(6).tolist()), tuple(deviation.round(6).tolist()), round(count / tokens, 3)
        )

    @property
    def tokenizer(self) -> Tokenizer:
        return self.vocabulary.tokenizer

    def scaled(self, frames: Float[Tensor, "*batch mels"]) -> Float[Tensor, "*batch mels"]:
        """Frames whose bands have mean 0 and deviation 1, in the data that was learned from."""
        return (frames - torch.tensor(self.mean)) / torch.tensor(self.deviation)

    def facts(self) -> dict[str, Any]:
        """What config.json holds of it."""
        return {"mean": list(self.mean), "deviation": list(self.deviation), "pace": self.pace, "augment": self.augment}

    def contents(self) -> dict[str, bytes]:
        """Its files, by name."""
        return self.vocabulary.contents()

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        """What `facts` and the files kept."""
        rows = [facts.get(name) for name in ("mean", "deviation")]
        require(
            all(isinstance(row, list) and row and all(isinstance(x, int | float) for x in row) for row in rows),
            "mean and deviation in config.json must be lists of numbers",
        )
        pace, augment = facts.get("pace"), facts.get("augment")
        require(
            isinstance(pace, int | float) and pace > 0 and isinstance(augment, str),
            "pace and augment in config.json must be a number above 0 and a word",
        )
        mean, deviation = (tuple(map(float, row)) for row in rows)  # type: ignore[arg-type]
        return cls(Vocabulary.restore({}, paths), mean, deviation, float(pace), augment)  # type: ignore[arg-type]
