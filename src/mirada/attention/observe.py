"""Observers: how a call of a layer can be looked at from outside."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from mirada.attention.cache import Cache
from mirada.attention.kernels.plan import Plan
from mirada.attention.kernels.request import Request
from mirada.attention.normalizers import Draw
from mirada.attention.transforms import recomputing


@dataclass(frozen=True, eq=False)
class Event:
    """One call of a layer, as observers see it."""

    layer: Any  # the module that was called; None for `attend` itself
    request: Request
    plan: Plan
    draw: Draw | None
    cache: Cache | None
    kind: str
    kept: bool = False  # keys and values are those of a Memory, which nobody changes
    aliases: bool = False  # queries, keys and values are the caller's own tensors, which may go on to be changed
    output: torch.Tensor | None = None  # of the heads, before they are merged; with its gradient


class Observer(Protocol):
    """Somebody who looks at calls from outside. It may keep what it sees and must change nothing."""

    def see(self, event: Event) -> None: ...


_observers: list[tuple[int, Observer]] = []  # replaced, never changed: another thread may be going through it
_changing = threading.Lock()


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Show every call of every layer to the observer, inside the block and in this thread."""
    global _observers
    entry = (threading.get_ident(), observer)
    with _changing:
        _observers = [*_observers, entry]
    try:
        yield
    finally:
        with _changing:
            _observers = [other for other in _observers if other is not entry]


def notify(event: Event) -> None:
    """Show a call to all observers. Never compiled: an observer must see tensors that were computed, not traced."""
    if torch.compiler.is_compiling():
        never_compiled()(event)
    else:
        show(event)


def show(event: Event) -> None:
    if recomputing():  # it was shown when it was computed first
        return
    for observer in here():
        observer.see(event)


def here() -> list[Observer]:
    return [observer for thread, observer in _observers if thread == threading.get_ident()]


def never_compiled() -> Callable[[Event], None]:
    """`show`, kept from the compiler. Made when it is needed: asking for it imports the compiler, which takes seconds."""
    return torch.compiler.disable(show)


def anybody_looks() -> bool:
    """Whether somebody looks at this thread; while compiling, whether anybody looks: that need not be known yet."""
    return bool(_observers) and (torch.compiler.is_compiling() or len(here()) > 0)
