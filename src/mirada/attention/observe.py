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
    kept: bool = False  # keys and values are those of a Memory, which nobody changes
    aliases: bool = False  # queries, keys and values are the caller's own tensors, which may go on to be changed
    output: torch.Tensor | None = None  # of the heads, before they are merged; with its gradient


class Observer(Protocol):
    """Somebody who looks at calls from outside. It may keep what it sees and must change nothing."""

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
    """Somebody who changes calls from outside. What it gives back is planned and computed as any other request."""

    def change(self, layer: Any, request: Request, memory: Memory | None, again: bool) -> Request:
        """The request to run instead. `again`: the last call over this memory is only asked about, not made."""

    def made(self, layer: Any, request: Request, memory: Memory | None) -> None:
        """A changed request was run."""


_interventions: ThreadRegistry[Intervention] = ThreadRegistry()
anybody_intervenes = _interventions.any


def intervening(intervention: Intervention) -> AbstractContextManager[None]:
    """Let it change every call of every layer, inside the block and in this thread."""
    return _interventions.holding(intervention)


def changed(layer: Any, request: Request, memory: object, again: bool = False) -> Request:
    """The request as the open interventions of this thread want it, the outermost first."""
    return _apart(_change_all)(layer, request, memory if isinstance(memory, Memory) else None, again)


def finished(layer: Any, request: Request, memory: object) -> None:
    """Tell them that it was run."""
    _apart(_tell_all)(layer, request, memory if isinstance(memory, Memory) else None)


def _change_all(layer: Any, request: Request, memory: Memory | None, again: bool) -> Request:
    for intervention in _interventions.here():
        request = intervention.change(layer, request, memory, again)
    return request


def _tell_all(layer: Any, request: Request, memory: Memory | None) -> None:
    for intervention in () if recomputing() else _interventions.here():  # what is recomputed was counted before
        intervention.made(layer, request, memory)


def _apart(function: Any) -> Any:
    """The function, kept from the compiler, which is imported only if it is at work: that takes seconds."""
    return torch.compiler.disable(function) if torch.compiler.is_compiling() else function
