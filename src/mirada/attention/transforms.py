"""What PyTorch is doing around a call: a function transform, a backward pass that recomputes, batched gradients."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.autograd import forward_ad
from torch.utils.checkpoint import CheckpointFunction

T = TypeVar("T")


def transformed() -> bool:
    """Whether a function transform (torch.func.grad, vmap, jvp, ...) is at work: only plain operations have its rules."""
    return forward_mode() or torch._C._functorch.peek_interpreter_stack() is not None


def forward_mode() -> bool:
    """Whether derivatives go along with the numbers (torch.func.jvp, jacfwd, a `dual_level`): fused kernels have none."""
    return forward_ad._current_level >= 0


def twice() -> bool:
    """Whether one gradient is taken inside another (torch.func.hessian, jacrev of grad): fused kernels have one only."""
    if torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is None:
        return False
    levels = torch._C._functorch.get_interpreter_stack() or []
    return sum(level.key() == torch._C._functorch.TransformType.Grad for level in levels) > 1


@contextmanager
def ordinary() -> Iterator[None]:
    """Outside inference mode and function transforms for a moment: what is kept must serve every later call.

    >>> made = []
    >>> def kept(x):
    ...     with ordinary():
    ...         made.append(torch.arange(2.0))
    ...     return (x * made[0]).sum()
    >>> torch.func.grad(kept)(torch.ones(2)), made
    (tensor([0., 1.]), [tensor([0., 1.])])
    """
    plain = torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is None
    with torch.inference_mode(False), nullcontext() if plain else temporarily_clear_interpreter_stack():
        yield


def recomputing() -> bool:
    """Whether this is part of a backward pass: what was computed once is computed again (activation checkpointing)."""
    return torch._C._current_graph_task_id() != -1


def to_be_recomputed() -> bool:
    """Whether this is the first pass of a reentrant activation checkpoint: without gradients, which the second will have."""
    frame: FrameType | None = None if torch.is_grad_enabled() else sys._getframe()
    while frame is not None and frame.f_code is not CheckpointFunction.forward.__code__:
        frame = frame.f_back
    return frame is not None


def each_gradient(backward: Callable[[Tensor], tuple[Tensor, ...]], grad: Tensor) -> tuple[Tensor, ...]:
    """backward(grad), one by one where `grad` is a batch of gradients, as `jacobian(vectorize=True)` and vmap pass it.

    >>> x = torch.ones(2, requires_grad=True)
    >>> class Twice(torch.autograd.Function):
    ...     forward = staticmethod(lambda ctx, x: 2 * x)
    ...     backward = staticmethod(lambda ctx, grad: each_gradient(lambda g: (2 * g,), grad)[0])
    >>> torch.autograd.functional.jacobian(Twice.apply, x, vectorize=True)
    tensor([[2., 0.],
            [0., 2.]])
    """
    functorch: Any = torch._C._functorch
    wrap: Callable[[Tensor, int, int], Tensor]
    if functorch.is_batchedtensor(grad):
        level, axis = functorch.maybe_get_level(grad), functorch.maybe_get_bdim(grad)
        whole, wrap = functorch.get_unwrapped(grad), functorch._add_batch_dim
    elif not torch._C._has_storage(grad):  # the older vmap, which a vectorized Jacobian still uses
        # entering it once more returns how deep it is nested
        level, axis = torch._C._vmapmode_increment_nesting() - 1, 0
        torch._C._vmapmode_decrement_nesting()
        whole, wrap = torch._remove_batch_dim(grad, level, 1, 0), torch._add_batch_dim
    else:
        return backward(grad)
    gradients = [each_gradient(backward, one) for one in whole.unbind(axis)]
    return tuple(wrap(torch.stack(parts), 0, level) for parts in zip(*gradients, strict=True))


class ThreadRegistry(Generic[T]):
    """What was registered in this thread and not removed yet: observers, interventions, collectors of draws.

    The list is replaced and never changed: another thread may be iterating over it.

    >>> registry = ThreadRegistry()
    >>> with registry.holding("one"):
    ...     registry.here()
    ['one']
    >>> registry.any()
    False
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, T]] = []
        self._lock = threading.Lock()

    @contextmanager
    def holding(self, item: T) -> Iterator[None]:
        """Register an item inside the block, for this thread."""
        entry = (threading.get_ident(), item)
        with self._lock:
            self._entries = [*self._entries, entry]
        try:
            yield
        finally:
            with self._lock:
                self._entries = [other for other in self._entries if other is not entry]

    def here(self) -> list[T]:
        """The items of this thread, the outermost first."""
        return [item for thread, item in self._entries if thread == threading.get_ident()]

    def any(self) -> bool:
        """Whether this thread has an item; while compiling, whether any thread has: that need not be known yet."""
        return bool(self._entries) and (torch.compiler.is_compiling() or len(self.here()) > 0)


# What a class declares about one of its methods, which a subclass that overrides the method must not inherit.


def reset_inherited(cls: type, base: type, method: str, statements: tuple[str, ...]) -> None:
    """Reset to `base`'s values what a new class inherits about a `method` that it overrides.

    A declaration (`band`, say) describes the method (`sees`) of the class that contains it. A subclass with another method,
    its own or that of a mixin, declares nothing until it repeats it: overriding the method alone is always right. A class
    without a method of its own declares something about those of its subclasses.

    >>> class Shape:
    ...     round = False
    ...     def draw(self): raise NotImplementedError
    ...     def __init_subclass__(cls): reset_inherited(cls, Shape, "draw", ("round",))
    >>> class Circle(Shape):
    ...     round = True
    ...     def draw(self): return "o"
    >>> class Square(Circle):
    ...     def draw(self): return "[]"
    >>> Circle.round, Square.round
    (True, False)
    """
    own, none_yet = getattr(cls, method), getattr(base, method)
    for name in statements:
        speaker = next(kind for kind in cls.__mro__ if name in vars(kind))
        if getattr(speaker, method, none_yet) not in (own, none_yet):
            setattr(cls, name, vars(base)[name])


def refuse_alone(cls: type, method: str, meaning: str, why: str) -> None:
    """Raise a ValueError if a new class overrides a method but not the one that kernels call, in the same class or a subclass.

    >>> class Quiet(list):
    ...     def __repr__(self): return "..."
    >>> refuse_alone(Quiet, "__repr__", "append", "which nobody reads: write append")
    Traceback (most recent call last):
    ValueError: Quiet overrides __repr__, which nobody reads: write append
    """
    if place_of(cls, method) < place_of(cls, meaning):
        raise ValueError(f"{cls.__name__} overrides {method}, {why}")


def place_of(cls: type, name: str) -> int:
    """How far up the line of classes a name is defined: 0 is the class itself."""
    return next(place for place, kind in enumerate(cls.__mro__) if name in vars(kind))
