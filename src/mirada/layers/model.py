"""What every model has: a configuration, and a folder it can be saved to and loaded from."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Generic, Self, TypeVar

import torch
from jaxtyping import Bool, Int
from safetensors import SafetensorError
from safetensors.torch import load_model, save_model
from torch import Tensor, nn

from mirada.attention.neighborhoods import Padding
from mirada.checksums import damage, with_checksum
from mirada.config import Config
from mirada.errors import require
from mirada.files import read_json, write_whole
from mirada.layers.model_size import require_explained
from mirada.shapes import check_axes, check_integers, check_size, show

C = TypeVar("C", bound=Config)
WEIGHTS = "model.safetensors"


class Model(nn.Module, Generic[C]):
    """A module made from one configuration. `save` writes `config.json` and `model.safetensors`, `load` reads them."""

    Config: ClassVar[type[Config]]
    config: C

    def __init__(self, config: C) -> None:
        super().__init__()
        require(
            isinstance(config, self.Config),
            f"{type(self).__name__} takes a {self.Config.__name__}: got {type(config).__name__}",
        )
        self.config = config

    def save(self, folder: str | Path) -> None:
        """Write the configuration as JSON and the weights as safetensors."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        described = {"model": type(self).__name__.lower(), "config": self.config.to_dict()}
        write_whole(folder / "config.json", (json.dumps(described, indent=2) + "\n").encode())
        with TemporaryDirectory(dir=folder, prefix=".") as beside:  # the library writes in place, and through links
            part = Path(beside, WEIGHTS)
            save_model(self, str(part))
            content = part.read_bytes()
        write_whole(folder / WEIGHTS, with_checksum(content))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The model of a folder, in evaluation mode."""
        folder = Path(folder)
        described = read_json(folder / "config.json")
        name = described.get("model")
        if name != cls.__name__.lower():
            raise ValueError(f"{folder} holds a model {name!r}: load it with that class, not {cls.__name__}")
        fields = described.get("config")
        require(isinstance(fields, dict), f"{folder / 'config.json'} must hold the fields of the model under 'config'")
        config = cls.Config.from_dict(fields)  # type: ignore[arg-type]
        weights = folder / WEIGHTS
        with told_of(weights):
            wrong = damage(weights)
            require(not wrong, wrong)
            require_explained(cls, config, weights.stat().st_size)
        model = cls(config)  # type: ignore[arg-type]
        with told_of(weights):
            load_model(model, str(weights))
        return model.eval()


@contextmanager
def told_of(weights: Path) -> Iterator[None]:
    """What fails while weights are read is an error that names them and the settings beside them."""
    try:
        yield
    except (OSError, SafetensorError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        beside = weights.with_name("config.json")
        raise ValueError(f"{weights} does not hold the weights of {beside}: {reason}") from None


def check_pair(source: Tensor, target: Int[Tensor, "batch length"]) -> None:
    """Require targets of (batch, length), one for every sample of the source."""
    check_axes("target", target, "batch length")
    check_size("target", target, 0, "batch", len(source))


def check_text(tokens: Int[Tensor, "batch length"], segments: Int[Tensor, "batch length"]) -> None:
    """Require texts of at least one token, and a segment for every token."""
    check_axes("tokens", tokens, "batch length")
    check_axes("segments", segments, "batch length")
    require(tokens.shape[1] > 0, "a text needs at least one token: got none")
    require(segments.shape == tokens.shape, f"a segment for every token: got {show(segments)} for {show(tokens)}")
    check_integers("tokens", tokens)
    check_integers("segments", segments)


def check_step(tokens: Int[Tensor, " batch"], batch: int) -> None:
    """Require one token per entry of a state."""
    check_axes("tokens", tokens, "batch")
    check_size("tokens", tokens, 0, "batch", batch)
    check_integers("tokens", tokens)


def check_state(state: object, kind: type, owner: object) -> None:
    """Require a state of that kind that `owner` made: another one's keys and values are of other weights."""
    if not isinstance(state, kind):
        raise ValueError(f"step takes the {kind.__name__} that start returned: got {type(state).__name__}")
    if state.owner is not owner:  # type: ignore[attr-defined]
        raise ValueError("this state was made by another model: step it with the one whose start made it")


def check_classes(name: str, classes: Int[Tensor, " batch"], count: int, batch: int) -> Int[Tensor, " batch"]:
    """Require one class per sample, each in 0..count - 1; they come back as the integers that a loss reads."""
    check_axes(name, classes, "batch")
    check_integers(name, classes)
    check_size(name, classes, 0, "batch", batch)
    require(batch > 0, "a loss needs at least one sample: got none")
    low, high = (int(bound) for bound in classes.aminmax())
    require(low >= 0 and high < count, f"{name} must be a class in 0..{count - 1}: got {low} to {high}")
    return classes.long()


def as_padding(lengths: Int[Tensor, " batch"] | None, batch: int, length: int) -> Padding | None:
    """The neighborhood of the true lengths; None where nothing is padded."""
    if lengths is None:
        return None
    check_axes("lengths", lengths, "batch")
    check_integers("padding lengths", lengths)
    require(len(lengths) == batch, f"lengths must have one number per sample: got {len(lengths)} for batch={batch}")
    if batch and int(lengths.min()) == length == int(lengths.max()):
        return None
    padding = Padding(lengths.clone())  # it is kept, and belongs to who called
    require(
        padding.longest <= length,
        f"lengths must be at most the length of the batch: got lengths up to {padding.longest}, length={length}",
    )
    return padding


def real_places(padding: Padding | None, length: int) -> Bool[Tensor, "batch length"] | None:
    """The mask of places that are not padding; None where nothing is padded."""
    if padding is None:
        return None
    return torch.arange(length, device=padding.lengths.device) < padding.lengths.unsqueeze(1)


def start_small(module: nn.Module) -> None:
    """Let a linear layer start as those of BERT and GPT-2 do: normal numbers of standard deviation 0.02."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)
