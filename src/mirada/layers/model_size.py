"""How large a model would be, asked before it is built: a setting, or somebody's config.json, may describe any size."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.overrides import TorchFunctionMode

from mirada.config import Config
from mirada.errors import require

DRAWN = (torch.randn, torch.rand)
SCALED = (Tensor.mul, Tensor.__mul__, Tensor.__rmul__, Tensor.div, Tensor.__truediv__, torch.mul, torch.div)
FILLED = (
    "normal_", "uniform_", "trunc_normal_", "constant_", "zeros_", "ones_", "eye_", "orthogonal_", "xavier_uniform_",
    "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "fill_", "zero_", "copy_", "mul_", "add_", "sub_", "div_",
)  # fmt: skip
SHOWN = 3  # settings that an error names
SLACK = 4  # a tensor that is made and then replaced (by a shared one) is none of the model's
MOST_TABLES = 1 << 30  # bytes of a model that is loaded beside its weights: tables that are computed, not stored
HARMLESS = 1 << 20  # numbers of a model that need no explanation: what is wrong with its weights is told by their names
MOST_TENSORS = 100_000  # of a model: thousands of layers have fewer
FEWEST_TENSORS, OF_A_TENSOR = 1000, 20  # one takes at least twice as many bytes in the header of a file
TRAINED = 4  # numbers for each weight in training: itself, its gradient, two moments of Adam


@dataclass(frozen=True)
class ModelSize:
    """The numbers that a file of a model has, each once, the bytes they take, and the bytes of tables that are computed."""

    numbers: int
    weights: int
    tables: int


class TooLargeError(Exception):
    """A model that is larger than anybody asked for."""


def size_of(build: Callable[[], nn.Module], most: int, tensors: int = MOST_TENSORS) -> ModelSize | None:
    """The size of a model, which is described and not built; None where it cannot be told.

    Nothing is computed, and nobody waits: one of much more than `most` bytes, or of more than `tensors`, is a `TooLargeError`
    as soon as that is clear.

    >>> size_of(lambda: nn.Linear(3, 5), most=1000)
    ModelSize(numbers=20, weights=80, tables=0)
    """
    try:
        with SizeCounter(SLACK * most, tensors), torch.device("meta"), Described():
            model = build()
    except OverflowError:
        raise TooLargeError from None
    except RuntimeError as error:
        if "overflow" in str(error).lower():
            raise TooLargeError from None
        return None  # a model of somebody else's, which cannot be described without being built
    stored = dict.fromkeys(value for value in model.state_dict(keep_vars=True).values() if isinstance(value, Tensor))
    tables = [value for value in model.buffers() if value not in stored]
    return ModelSize(sum(value.numel() for value in stored), sum(map(in_bytes, stored)), sum(map(in_bytes, tables)))


class Described(TorchFunctionMode):
    """First values are not even described: PyTorch would import its compiler to do so, for seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in DRAWN:
            return torch.empty(*args, **(kwargs or {}))
        first = args[0] if args else (kwargs or {}).get("tensor")
        scaled = func in SCALED and len(args) == 2 and isinstance(args[1], int | float)
        if isinstance(first, Tensor) and (scaled or getattr(func, "__name__", "") in FILLED):
            return first
        return func(*args, **(kwargs or {}))


class SizeCounter:
    """Counts the parameters and buffers that modules get in this thread, and ends it where they have more than `most` bytes."""

    def __init__(self, most: int, tensors: int) -> None:
        self.most, self.total, self.tensors, self.thread = most, 0, tensors, threading.get_ident()

    def __enter__(self) -> None:
        self.hooks = [
            register_module_parameter_registration_hook(self.count),
            register_module_buffer_registration_hook(self.count),
        ]

    def __exit__(self, *_: object) -> None:
        for hook in self.hooks:
            hook.remove()

    def count(self, module: nn.Module, name: str, value: Tensor | None) -> None:
        if value is not None and threading.get_ident() == self.thread:
            self.total, self.tensors = self.total + in_bytes(value), self.tensors - 1
            if self.total > self.most or self.tensors < 0:
                raise TooLargeError


def in_bytes(value: Tensor) -> int:
    return value.numel() * value.element_size()


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


def require_explained(kind: Callable[[Any], nn.Module], config: Config, stored: int) -> None:
    """Require a model whose weights can be in a file of so many bytes: each number takes at least one."""
    told = f"the settings {largest(config)} describe a model"
    tensors = max(FEWEST_TENSORS, stored // OF_A_TENSOR)
    try:
        size = size_of(lambda: kind(config), 8 * max(stored, HARMLESS) + MOST_TABLES, tensors)
    except TooLargeError:
        raise ValueError(f"{told} that is far larger than the {stored:,} bytes of the file") from None
    if size is not None:
        require(
            size.numbers <= max(stored, HARMLESS),
            f"{told} with {size.numbers:,} numbers, and the file has {stored:,} bytes",
        )
        require(
            size.tables <= MOST_TABLES,
            f"{told} with {size.tables:,} bytes of tables, and at most {MOST_TABLES:,} are made",
        )


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
