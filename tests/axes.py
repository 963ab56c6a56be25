"""Axis words are enforced while tests run: a call whose tensors break an annotation fails its test.

    def loss(logits: Float[Tensor, "batch vocab"], wanted: Int[Tensor, " batch"]) -> Float[Tensor, ""]

The hook wraps every function, method and dataclass of mirada that names axes, when its module is imported. A function may
be handed what breaks its annotation only if it refuses that itself, with an error of its own: then there is no result to
check. Other annotations, and values that are no tensors or arrays, are mypy's.
"""

import functools
import importlib.abc
import importlib.machinery
import inspect
import sys
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any, get_args

import numpy as np
import torch
from beartype.door import is_bearable
from jaxtyping import AbstractArray, jaxtyped
from torch import Tensor

RETURN = "return"
UNDECIDED = "undecided"  # the signature of a value that must be looked at in every call


class WrongAxesError(TypeError):
    """Tensors do not have the axes that an annotation names, or an axis has two sizes in one call."""


class AxesHook(importlib.abc.MetaPathFinder):
    """Enforces the axes of a package's modules once they are imported."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not any(f"{name}.".startswith(f"{package}.") for package in self.packages):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = functools.partial(run, spec.loader.exec_module)  # type: ignore[method-assign]
        return spec


def install(*packages: str) -> None:
    """Enforce the axes of packages or modules that were not imported yet."""
    early = [name for name in packages if name in sys.modules]
    assert not early, f"{early} were imported before their axes could be enforced"
    sys.meta_path.insert(0, AxesHook(packages))


def run(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    """Execute a module, then wrap what it defines."""
    execute(module)
    for name, value in list(vars(module).items()):
        if getattr(value, "__module__", None) == module.__name__:
            if isinstance(value, FunctionType):
                setattr(module, name, enforced(value))
            elif isinstance(value, type):
                enforce_class(value)


def enforce_class(kind: type) -> None:
    """Wrap the methods of a class, the one that makes a dataclass too."""
    for name, value in list(vars(kind).items()):
        if isinstance(value, staticmethod | classmethod):
            setattr(kind, name, type(value)(enforced(value.__func__)))
        elif isinstance(value, property) and value.fget is not None:
            setattr(kind, name, property(enforced(value.fget), value.fset, value.fdel))
        elif isinstance(value, FunctionType):
            setattr(kind, name, enforced(value))


def names_axes(hint: object) -> bool:
    """Whether axes are named anywhere in an annotation."""
    return (isinstance(hint, type) and issubclass(hint, AbstractArray)) or any(map(names_axes, get_args(hint)))


def axis_hints(function: FunctionType) -> dict[str, Any]:
    """The annotations of a function that name axes."""
    try:
        hints = inspect.get_annotations(function, eval_str=True)
    except NameError:  # of a name that only a type checker imports
        hints = {name: hint for name, hint in function.__annotations__.items() if not isinstance(hint, str)}
    return {name: hint for name, hint in hints.items() if names_axes(hint)}


def enforced(function: FunctionType) -> Callable[..., Any]:
    """The function, which checks its arguments and its result after every call that it did not refuse."""
    inner = inspect.unwrap(function)
    hints = axis_hints(inner) if isinstance(inner, FunctionType) else {}
    if not hints:
        return function
    order = list(inspect.signature(inner).parameters)
    places = [(name, -1 if name == RETURN else order.index(name)) for name in hints]
    known: set[object] = set()

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if torch.compiler.is_compiling():
            return result  # shapes may be symbols there
        count = len(args)
        values = [result if place < 0 else args[place] if place < count else kwargs.get(name) for name, place in places]
        key = tuple([signature(value) for value in values])
        if key not in known:
            check(function.__qualname__, hints, values)
            if UNDECIDED not in key:
                known.add(key)
        return result

    return call


def signature(value: object, other: object = None) -> object:
    """What decides whether a value fits an annotation: nothing but shapes and dtypes, where all that it holds has them.

    `other` stands for what is neither array nor tuple: `check` does not look at it, unless it is in a tuple.
    """
    if isinstance(value, Tensor | np.ndarray):
        return value.shape, value.dtype
    if isinstance(value, tuple):
        parts = tuple([signature(part, None if part is None else UNDECIDED) for part in value])
        return UNDECIDED if UNDECIDED in parts else (type(value), parts)
    return other


def check(name: str, hints: dict[str, Any], values: list[Any]) -> None:
    """Require that every value fits its annotation, with one size for every axis word."""
    with jaxtyped("context"):
        for (word, hint), value in zip(hints.items(), values, strict=True):
            if isinstance(value, Tensor | np.ndarray | tuple) and not is_bearable(value, hint):
                shown = ", ".join(f"{word}={shape(value)}" for word, value in zip(hints, values, strict=True))
                raise WrongAxesError(f"{name}: {word} is not {hint}: got {shown}")


def shape(value: object) -> str:
    """What an error shows of a value."""
    return f"{value.dtype}{tuple(value.shape)}" if isinstance(value, Tensor | np.ndarray) else type(value).__name__
