"""Interventions: how a call of a layer can be changed from outside, before a kernel is planned for it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from mirada.attention.cache import Cache
from mirada.attention.kernels.plan import Plan
from mirada.attention.kernels.request import Request
from mirada.attention.memory import Memory
from mirada.attention.normalizers import Draw
from mirada.attention.transforms import recomputing

# Observers: how a call of a layer can be looked at from outside.


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

    def see(self, event: Event) -> None:
        """A call was made."""


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
    _apart(_show)(event)


def _show(event: Event) -> None:
    if recomputing():  # it was shown when it was computed first
        return
    for observer in _observers_here():
        observer.see(event)


def _observers_here() -> list[Observer]:
    return [observer for thread, observer in _observers if thread == threading.get_ident()]


def anybody_looks() -> bool:
    """Whether somebody looks at this thread; while compiling, whether anybody looks: that need not be known yet."""
    return bool(_observers) and (torch.compiler.is_compiling() or len(_observers_here()) > 0)


class Intervention(Protocol):
    """Somebody who changes calls from outside. What it gives back is planned and computed as any other request."""

    def change(self, layer: Any, request: Request, memory: Memory | None, again: bool) -> Request:
        """The request to run instead. `again`: the last call over this memory is only asked about, not made."""

    def made(self, layer: Any, request: Request, memory: Memory | None) -> None:
        """A changed request was run."""


_active: list[tuple[int, Intervention]] = []  # replaced, never changed: another thread may be going through it


@contextmanager
def intervening(intervention: Intervention) -> Iterator[None]:
    """Let it change every call of every layer, inside the block and in this thread."""
    global _active
    entry = (threading.get_ident(), intervention)
    with _changing:
        _active = [*_active, entry]
    try:
        yield
    finally:
        with _changing:
            _active = [other for other in _active if other is not entry]


def anybody_intervenes() -> bool:
    """Whether calls of this thread are changed; while compiling, whether any thread's are: that need not be known yet."""
    return bool(_active) and (torch.compiler.is_compiling() or len(_interventions_here()) > 0)


def changed(layer: Any, request: Request, memory: object, again: bool = False) -> Request:
    """The request as the open interventions of this thread want it, the outermost first."""
    return _apart(_change_all)(layer, request, memory if isinstance(memory, Memory) else None, again)


def finished(layer: Any, request: Request, memory: object) -> None:
    """Tell them that it was run."""
    _apart(_tell_all)(layer, request, memory if isinstance(memory, Memory) else None)


def _interventions_here() -> list[Intervention]:
    return [intervention for thread, intervention in _active if thread == threading.get_ident()]


def _change_all(layer: Any, request: Request, memory: Memory | None, again: bool) -> Request:
    for intervention in _interventions_here():
        request = intervention.change(layer, request, memory, again)
    return request


def _tell_all(layer: Any, request: Request, memory: Memory | None) -> None:
    if recomputing():  # it was counted when it was computed first
        return
    for intervention in _interventions_here():
        intervention.made(layer, request, memory)


def _apart(function: Any) -> Any:
    """The function, kept from the compiler, which is imported only if it is at work: that takes seconds."""
    return torch.compiler.disable(function) if torch.compiler.is_compiling() else function
