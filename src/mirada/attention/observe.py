"""Interventions: how a call of a layer can be changed from outside, before a kernel is planned for it."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from mirada.attention.cache import Cache
from mirada.attention.kernels.plan import Plan
from mirada.attention.kernels.request import Request
from mirada.attention.memory import Memory
from mirada.attention.normalizers import Draw
from mirada.attention.transforms import ThreadRegistry, recomputing

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
    kept: bool = False  # keys and values are those of a Memory, which is never changed
    aliases: bool = False  # queries, keys and values are the caller's own tensors, which the caller may change later
    output: torch.Tensor | None = None  # of the heads, before they are merged; with its gradient


class Observer(Protocol):
    """An observer of calls. It may keep what it sees and must change nothing."""

    def see(self, event: Event) -> None:
        """A call was made."""


_observers: ThreadRegistry[Observer] = ThreadRegistry()


def observed(observer: Observer) -> AbstractContextManager[None]:
    """Show every call of every layer to the observer, inside the block and in this thread."""
    return _observers.holding(observer)


def notify(event: Event) -> None:
    """Show a call to all observers. Never compiled: an observer must see tensors that were computed, not traced."""
    _apart(_show)(event)


def _show(event: Event) -> None:
    for observer in () if recomputing() else _observers.here():  # what is recomputed was shown before
        observer.see(event)


anybody_looks = _observers.any


class Intervention(Protocol):
    """A change of calls from outside. The request it returns is planned and computed like any other."""

    def change(self, layer: Any, request: Request, memory: Memory | None, again: bool) -> Request:
        """The request to run instead. `again`: the last call over this memory is only inspected, not repeated."""

    def made(self, layer: Any, request: Request, memory: Memory | None) -> None:
        """A changed request was run."""


_interventions: ThreadRegistry[Intervention] = ThreadRegistry()
anybody_intervenes = _interventions.any


def intervening(intervention: Intervention) -> AbstractContextManager[None]:
    """Apply an intervention to every call of every layer, inside the block and in this thread."""
    return _interventions.holding(intervention)


def changed(layer: Any, request: Request, memory: object, again: bool = False) -> Request:
    """The request after all open interventions of this thread, the outermost first."""
    return _apart(_change_all)(layer, request, memory if isinstance(memory, Memory) else None, again)


def finished(layer: Any, request: Request, memory: object) -> None:
    """Notify the open interventions that the request was run."""
    _apart(_tell_all)(layer, request, memory if isinstance(memory, Memory) else None)


def _change_all(layer: Any, request: Request, memory: Memory | None, again: bool) -> Request:
    for intervention in _interventions.here():
        request = intervention.change(layer, request, memory, again)
    return request


def _tell_all(layer: Any, request: Request, memory: Memory | None) -> None:
    for intervention in () if recomputing() else _interventions.here():  # what is recomputed was counted before
        intervention.made(layer, request, memory)


def _apart(function: Any) -> Any:
    """The function, never compiled; the compiler is imported only when it is running, since that takes seconds."""
    return torch.compiler.disable(function) if torch.compiler.is_compiling() else function
