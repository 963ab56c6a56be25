"""The size of a model before it is built, and what all models share.

A setting, or a config.json from elsewhere, may describe any size."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from safetensors import SafetensorError
from safetensors.torch import save_model
from torch import Tensor, nn
from torch.nn.modules import module as registration
from torch.overrides import TorchFunctionMode

from mirada.attention.neighborhoods import Padding
from mirada.config import Config
from mirada.errors import require
from mirada.files import MOST_TENSORS, damage, read_json, with_checksum, write_whole
from mirada.layers.parse import saved
from mirada.layers.weights import FILLED, built_empty, fill, tensors_of
from mirada.shapes import check_axes, check_integers, check_size, readable, show

M = TypeVar("M", bound=nn.Module)
DRAWN = (torch.randn, torch.rand)
SCALED = (Tensor.mul, Tensor.__mul__, Tensor.__rmul__, Tensor.div, Tensor.__truediv__, torch.mul, torch.div)
SHOWN = 3  # settings that an error names
SLACK = 4  # a tensor that is made and then replaced (by a shared one) is none of the model's
MOST_TABLES = 1 << 30  # bytes of a model besides its weights: tables that are computed, not stored
HARMLESS = 1 << 20  # numbers of a model that are always accepted: the error about its weights then names them
FEWEST_TENSORS, OF_A_TENSOR = 1000, 20  # one takes at least twice as many bytes in the header of a file
TRAINED = 4  # numbers for each weight in training: itself, its gradient, two moments of Adam


@dataclass(frozen=True)
class ModelSize:
    """The numbers that a file of a model has, each once, the bytes they take, and the bytes of tables that are computed."""

    numbers: int
    weights: int
    tables: int


class TooLargeError(Exception):
    """A model that is larger than allowed."""


def size_of(build: Callable[[], nn.Module], most: int, tensors: int = MOST_TENSORS) -> ModelSize | None:
    """The size of a model, which is described and not built; None if it cannot be determined.

    Nothing is computed: a model of much more than `most` bytes, or of more than `tensors` tensors, is a `TooLargeError` as soon
    as that is clear.

    >>> size_of(lambda: nn.Linear(3, 5), most=1000)
    ModelSize(numbers=20, weights=80, tables=0)
    """
    model = _described(build, most, tensors)
    return None if model is None else _measured(model)


def _described(build: Callable[[], M], most: int, tensors: int) -> M | None:
    """The model on the meta device; None for one from outside, which cannot be described without being built."""
    try:
        with SizeCounter(SLACK * most, tensors), torch.device("meta"), WithoutInitialization():
            return build()
    except OverflowError:
        raise TooLargeError from None
    except RuntimeError as error:
        if "overflow" in str(error).lower():
            raise TooLargeError from None
        return None


def _measured(model: nn.Module) -> ModelSize:
    """The size of a model, described or built."""
    stored = dict.fromkeys(value for value in model.state_dict(keep_vars=True).values() if isinstance(value, Tensor))
    tables = [value for value in model.buffers() if value not in stored]
    numbers, weights = sum(value.numel() for value in stored), sum(value.nbytes for value in stored)
    return ModelSize(numbers, weights, sum(value.nbytes for value in tables))


class WithoutInitialization(TorchFunctionMode):
    """Skips the initialization: to describe it, PyTorch would import its compiler, which takes seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in DRAWN:
            return torch.empty(*args, **(kwargs or {}))
        first = args[0] if args else (kwargs or {}).get("tensor")
        scaled = func in SCALED and len(args) == 2 and isinstance(args[1], int | float)
        if isinstance(first, Tensor) and (scaled or getattr(func, "__name__", "") in FILLED):
            return first
        return func(*args, **(kwargs or {}))


class SizeCounter:
    """Counts the parameters and buffers of modules made in this thread, and stops at more than `most` bytes."""

    def __init__(self, most: int, tensors: int) -> None:
        self.most, self.total, self.tensors, self.thread = most, 0, tensors, threading.get_ident()

    def __enter__(self) -> None:
        of_parameters = registration.register_module_parameter_registration_hook(self.count)
        self.hooks = [of_parameters, registration.register_module_buffer_registration_hook(self.count)]

    def __exit__(self, *_: object) -> None:
        for hook in self.hooks:
            hook.remove()

    def count(self, module: nn.Module, name: str, value: Tensor | None) -> None:
        """Count one parameter or buffer."""
        if value is not None and threading.get_ident() == self.thread:
            self.total, self.tensors = self.total + value.nbytes, self.tensors - 1
            if self.total > self.most or self.tensors < 0:
                raise TooLargeError


def largest(config: Config) -> str:
    """The settings that make a model large.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Small(Config):
    ...     width: int = 8
    ...     vocab: int = 4000
    >>> largest(Small())
    'vocab=4,000, width=8'
    """
    sizes = [(value, name) for name, value in config.to_dict().items() if type(value) is int and value > 1]
    return ", ".join(f"{name}={value:,}" for value, name in sorted(sizes, reverse=True)[:SHOWN])


def require_explained(kind: Callable[[Any], M], config: Config, stored: int) -> M | None:
    """Require a model whose weights can be in a file of so many bytes: each number takes at least one.

    Returns the model on the meta device, where it can be described without being built.
    """
    described = f"the settings {largest(config)} describe a model"
    tensors = max(FEWEST_TENSORS, stored // OF_A_TENSOR)
    try:
        model = _described(lambda: kind(config), 8 * max(stored, HARMLESS) + MOST_TABLES, tensors)
    except TooLargeError:
        raise ValueError(f"{described} that is far larger than the {stored:,} bytes of the file") from None
    if model is not None:
        size = _measured(model)
        message = f"{described} with {size.numbers:,} numbers, and the file has {stored:,} bytes"
        require(size.numbers <= max(stored, HARMLESS), message)
        message = f"{described} with {size.tables:,} bytes of tables, and at most {MOST_TABLES:,} are made"
        require(size.tables <= MOST_TABLES, message)
    return model


def require_memory(kind: Callable[[Any], nn.Module], config: Config, memory: int, copies: int = TRAINED) -> None:
    """Require a model that can be trained in so many bytes of memory, with `copies` of its weights; 0 bytes are not known."""
    if not memory:
        return
    way = f"this machine has {memory / 1e9:.1f} GB. The largest settings are {largest(config)}: take smaller ones."
    try:
        size = size_of(lambda: kind(config), memory)
    except TooLargeError:
        raise ValueError(f"the model is far larger than the memory: {way}") from None
    if size is not None:
        needed = copies * size.weights + size.tables
        held = "with their gradients and the two moments of Adam " if copies > 1 else ""
        require(needed <= memory, f"the weights of the model take {held}{needed / 1e9:.1f} GB, and {way}")


# What every model has: a configuration, and a folder it can be saved to and loaded from.


C = TypeVar("C", bound=Config)
WEIGHTS = "model.safetensors"


class Model(nn.Module, Generic[C]):
    """A module made from one configuration. `save` writes `config.json` and `model.safetensors`, `load` reads them.

    A subclass sets `Config`, the class of its configuration, and builds its modules from one.

    Args:
        config: the configuration, of the class `Config`.

    >>> from mirada.models import GPT, GPTConfig
    >>> with TemporaryDirectory() as folder:
    ...     GPT(GPTConfig.tiny()).save(folder)
    ...     GPT.load(folder).config == GPTConfig.tiny()
    True
    """

    Config: ClassVar[type[Config]]
    head_parts: ClassVar[tuple[str, ...]] = ()  # what a new head replaces: modules behind the body
    head_fields: ClassVar[tuple[str, ...]] = ()  # fields of the configuration that describe them
    body_rests: bool = False  # whether only the head is in training mode, when the model is
    config: C

    def __init__(self, config: C) -> None:
        super().__init__()
        message = f"{type(self).__name__} takes a {self.Config.__name__}: got {type(config).__name__}"
        require(isinstance(config, self.Config), message)
        self.config = config

    def train(self, mode: bool = True) -> Self:
        """Training or evaluation mode; where the body rests (tune=head), it stays in evaluation mode."""
        super().train(mode)
        if mode and self.body_rests:
            for name, part in self.named_children():
                part.train(name in self.head_parts)
        return self

    @classmethod
    def usual_head(cls, there: Any) -> Mapping[str, Any]:
        """Fields of a new head that depend on the body which it is put on.

        Args:
            there: the configuration of the model that is started from.
        """
        return {}

    @classmethod
    def reused_parts(cls, there: Any, here: Any) -> tuple[str, ...]:
        """The parts of a head that a model with another head takes over.

        Args:
            there: the configuration of the model that is started from.
            here: the new one.
        """
        return ()

    def save(self, folder: str | Path) -> None:
        """Write the configuration as JSON and the weights as safetensors.

        Args:
            folder: where to; it is made if need be.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        described = {"model": type(self).__name__.lower(), "config": self.config.to_dict()}
        write_whole(folder / "config.json", (json.dumps(described, indent=2) + "\n").encode())
        with TemporaryDirectory(dir=folder, prefix=".") as scratch:  # the library writes in place, and through links
            part = Path(scratch, WEIGHTS)
            save_model(self, str(part))
            content = part.read_bytes()
        write_whole(folder / WEIGHTS, with_checksum(content))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The model of a folder, in evaluation mode.

        Args:
            folder: what `save` wrote.
        """
        folder = Path(folder)
        described = read_json(folder / "config.json")
        name = described.get("model")
        if name != cls.__name__.lower():
            raise ValueError(f"{folder} holds a model {name!r}: load it with that class, not {cls.__name__}")
        fields = described.get("config")
        require(isinstance(fields, dict), f"{folder / 'config.json'} must hold the fields of the model under 'config'")
        with saved():
            config = cls.Config.from_dict(fields)  # type: ignore[arg-type]
        weights = folder / WEIGHTS
        with _naming_weights(weights):
            wrong = damage(weights)
            require(not wrong, wrong)
            require_explained(cls, config, weights.stat().st_size)
        model = built_empty(lambda: cls(config))  # type: ignore[arg-type]
        with _naming_weights(weights):
            fill(model, tensors_of(weights))
        return model.eval()


class StepModel(Model[C]):
    """A model that a search can step, whose `decoder` knows where it looked."""

    decoder: Any

    def reorder(self, state: Any, index: Int[Tensor, " entries"]) -> Any:
        """The state in which entry b continues from entry index[b]."""
        return state.reorder(index)

    def alignment(self, state: Any) -> Float[Tensor, "batch keys"]:
        """Where the model looked in the last step: weights over the places of the source, or over its own text so far."""
        return self.decoder.alignment(state)


@contextmanager
def _naming_weights(weights: Path) -> Iterator[None]:
    """Errors while weights are read name the file and its config.json."""
    try:
        yield
    except (OSError, SafetensorError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        settings = weights.with_name("config.json")
        raise ValueError(f"{weights} does not hold the weights of {settings}: {reason}") from None


def check_pair(source: Tensor, target: Int[Tensor, "batch length"]) -> None:
    """Require targets of (batch, length), one for every sample of the source."""
    check_axes("target", target, "batch length", batch=source.shape[0])


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
    check_axes("tokens", tokens, "batch", batch=batch)
    check_integers("tokens", tokens)


def check_state(state: object, kind: type, owner: object) -> None:
    """Require a state of that kind that `owner` made: keys and values of another model are of other weights."""
    if not isinstance(state, kind):
        raise ValueError(f"step takes the {kind.__name__} that start returned: got {type(state).__name__}")
    traced = torch.compiler.is_exporting()  # where modules are stand-ins for those that made the state
    if state.owner is not owner and not traced:  # type: ignore[attr-defined]
        raise ValueError("this state was made by another model: step it with the one whose start made it")


def check_classes(name: str, classes: Int[Tensor, " batch"], count: int, batch: int) -> Int[Tensor, " batch"]:
    """Require one class per sample, each in 0..count - 1; returned as the integers that a loss reads."""
    check_axes(name, classes, "batch")
    check_integers(name, classes)
    check_size(name, classes, 0, "batch", batch)
    require(batch > 0, "a loss needs at least one sample: got none")
    if readable(classes):
        low, high = (int(bound) for bound in classes.aminmax())
        require(low >= 0 and high < count, f"{name} must be a class in 0..{count - 1}: got {low} to {high}")
    return classes.long()


def as_padding(lengths: Int[Tensor, " batch"] | None, batch: int, length: int) -> Padding | None:
    """The neighborhood of the true lengths; None where nothing is padded."""
    if lengths is None:
        return None
    check_axes("lengths", lengths, "batch")
    check_integers("padding lengths", lengths)
    require(
        lengths.shape[0] == batch, f"lengths must have one number per sample: got {lengths.shape[0]} for batch={batch}"
    )
    if not readable(lengths):  # numbers are not known: every text may be padded
        return Padding(lengths)
    if batch and int(lengths.min()) == length == int(lengths.max()):
        return None
    padding = Padding(lengths.clone())  # the caller may change theirs
    message = f"lengths must be at most the length of the batch: got lengths up to {padding.longest}, length={length}"
    require(padding.longest <= length, message)
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
