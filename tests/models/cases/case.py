"""What the battery must know of a model: its configurations, and how to make inputs for them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.testing import assert_close

from mirada.attention.neighborhoods import Causal, PerHead, Strided, Window
from mirada.config import Config
from mirada.layers.model import Model
from mirada.layers.output import IGNORED

BATCH, LENGTH, TARGET = 3, 7, 5
LENGTHS, TARGET_LENGTHS = torch.tensor([7, 4, 5]), torch.tensor([3, 5, 4])
SIZES = {"width": 24, "heads": 3, "hidden": 17, "depth": 2, "dropout": 0.0, "length": 29}
Changes = dict[str, Any]

# what a block of an encoder may be made of; {"width": 24, "heads": 3} fits all of it
ENCODER_BLOCK: dict[str, list[Any]] = {
    "order": ["pre", "post"],
    "norm": ["layer", "layer:1e-12", "rms", "batch"],
    "activation": ["relu", "gelu", "gelu-tanh", "silu", "gated"],
    "position": [
        "sinusoidal", "learned", "learned:offset=2", "rotary", "rotary:layout=interleaved", "relative:3", "alibi",
        "t5:8,9", "none",
    ],
    "where": ["complete", "window:2,2", "strided:2", "fixed:4,1", "~window:1", Window(1, 1), PerHead(*[Causal()] * 3)],
    "projection": ["multihead", "grouped:1", "collaborative:8", "split"],
    "score": ["dot", "additive", "general", "concat"],
    "normalizer": ["softmax", "sparsemax"],
}  # fmt: skip
# and a block that is decoded step by step
DECODER_BLOCK: dict[str, list[Any]] = ENCODER_BLOCK | {
    "position": [*ENCODER_BLOCK["position"], "relative:2,values=False"],
    "where": [
        "complete", "window:2", "strided:2", "fixed:4,1", "causal & window:3", "window:1,1", Window(2),
        PerHead(Window(1), Causal(), Strided(2)),
    ],
}  # fmt: skip

# texts that do not fit a vocabulary of 13 and a table of 29 positions, with their reasons
TEXT_MISFITS = {
    "too large": (torch.tensor([[3, 13]]), r"token ids must lie in 0\.\.12: got 3 to 13\. Was the text read with"),
    "negative": (torch.tensor([[-1, 3]]), r"token ids must lie in 0\.\.12: got -1 to 3"),
    "no integers": (torch.tensor([[1.0]]), "tokens must hold integers: got torch.float32"),
    "too long": (
        torch.zeros(1, 30, dtype=torch.long), r"positions must lie in the table of 29: got 0 to 29\. .*shorten the input",
    ),
    "no batch": (torch.zeros(3, dtype=torch.long), "batch"),
}  # fmt: skip


def tokens(*shape: int, vocab: int = 13, seed: int = 0) -> Tensor:
    """Random token ids."""
    return torch.randint(vocab, shape, generator=torch.Generator().manual_seed(seed))


def numbers(*shape: int, seed: int = 0) -> Tensor:
    """Random numbers."""
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def masked(wanted: Tensor, lengths: Tensor) -> Tensor:
    """What is wanted, with -100 beyond the lengths."""
    return wanted.masked_fill(torch.arange(wanted.shape[1]) >= lengths.unsqueeze(1), IGNORED)


@dataclass(frozen=True)
class Batch:
    """The arguments of `forward`, and the further ones of `loss`."""

    given: dict[str, Any]
    wanted: dict[str, Any]

    def to(self, dtype: torch.dtype) -> "Batch":
        """The same with its floating-point numbers in that precision."""
        given, wanted = (
            {k: v.to(dtype) if isinstance(v, Tensor) and v.is_floating_point() else v for k, v in part.items()}
            for part in (self.given, self.wanted)
        )
        return Batch(given, wanted)


def outputs(model: Model, batch: Batch) -> list[Tensor]:
    """The tensors that a model answers with."""
    answer = model(**batch.given)
    return list(answer) if isinstance(answer, tuple) else [answer]


def loss(model: Model, batch: Batch, **more: Any) -> Tensor:
    return model.loss(**batch.given, **batch.wanted, **more)


class Case(ABC):
    """A model: `base` is changed by the rest. Sizes differ, so that swapped axes fail."""

    model: ClassVar[type[Model]]
    base: ClassVar[Config]
    values: ClassVar[dict[str, list[Any]]]  # the fields of which any combination must work, or be refused when made
    variants: ClassVar[dict[str, Changes]]  # the configurations that every law is tried on
    refused: ClassVar[list[tuple[Changes, str]]]  # configurations that cannot work, and what is said of them
    misfits: ClassVar[dict[str, tuple[Changes, str]]] = {}  # arguments of `forward` that do not fit the base, and why
    by_heart: ClassVar[dict[str, Changes]]  # changes of the tiny configuration; each must learn one batch by heart
    rate: ClassVar[float] = 1e-2  # of learning by heart
    averages: ClassVar[bool] = True  # whether the loss is a mean over samples, each by itself
    padded: ClassVar[dict[str, Tensor]] = {}  # the arguments that are padded, and the true lengths of the samples
    dropout: ClassVar[Changes] = {"dropout": 0.5}
    smooth: ClassVar[Changes] = {"smoothing": 0.1}  # what else a loss takes
    strength: ClassVar[float] = 0.2  # how far parameters are moved from their start
    writes: ClassVar[str] = ""  # the argument that is written step by step, where the model generates
    seeds: ClassVar[int] = 15

    def config(self, **changes: Any) -> Config:
        return replace(self.base, **changes)

    @abstractmethod
    def batch(self, config: Config) -> Batch:
        """Inputs and targets for a configuration. The values in the padding are arbitrary."""

    @abstractmethod
    def shapes(self, config: Config) -> list[tuple[int, ...]]:
        """The shapes of the outputs for that batch."""

    def alone(self, batch: Batch, sample: int) -> Batch:
        """One sample without its padding."""

        def own(name: str, value: Any) -> Any:
            if not isinstance(value, Tensor) or name in ("lengths", "target_lengths"):
                return None
            value = value[sample : sample + 1]
            return value[:, : int(self.padded[name][sample])] if name in self.padded else value

        given, wanted = ({k: own(k, v) for k, v in part.items()} for part in (batch.given, batch.wanted))
        return Batch(given, wanted)

    def part(self, together: Tensor, alone: Tensor, sample: int) -> Tensor:
        """What a batch answers for one sample, cut to what that sample gets alone."""
        return together[(slice(sample, sample + 1), *(slice(0, size) for size in alone.shape[1:]))]

    def averaged(self, batch: Batch) -> Batch:
        """What of a batch has a loss that is one mean."""
        return batch

    def counted(self, batch: Batch) -> int:
        """Over how many numbers the loss is a mean."""
        wanted = batch.wanted.get("wanted")
        return 1 if wanted is None or wanted.is_floating_point() else int((wanted != IGNORED).sum())

    def other_padding(self, batch: Batch, more: int = 3) -> Batch:
        """The same samples with other things in the padding, and more of it: NaN where there are floating-point numbers."""

        def other(name: str, value: Any) -> Any:
            if name not in self.padded:
                return value
            value = torch.cat([value, value[:, :more]], dim=1)
            if name == "wanted":
                return masked(value, self.padded[name])
            padding = torch.arange(value.shape[1]) >= self.padded[name].unsqueeze(1)
            if value.is_floating_point():
                return value.masked_fill(padding.unsqueeze(-1), torch.nan)
            return torch.where(padding, value.roll(1, 0), value)  # the tokens of another sample

        given, wanted = ({k: other(k, v) for k, v in part.items()} for part in (batch.given, batch.wanted))
        return Batch(given, wanted)

    def idle(self, config: Config) -> tuple[str, ...]:
        """How the names of parameters begin that no gradient reaches, for a reason."""
        return ()

    def start(self, model: Any, batch: Batch) -> Any:
        """The state before the first step."""
        return model.start(model.encode(*(value for name, value in batch.given.items() if name != self.writes)))

    def looks(self, config: Config) -> bool:
        """Whether the steps have an alignment."""
        return True

    def drops(self, config: Config) -> bool:
        """Whether dropout acts anywhere."""
        return True

    def assert_learned(self, model: Model, batch: Batch) -> None:
        """The likeliest token or class is the wanted one, wherever one is wanted."""
        [right, *_] = batch.wanted.values()
        counts = right != IGNORED
        assert_close(outputs(model, batch)[0].argmax(-1)[counts], right[counts])
