"""Interventions: how a call of a layer can be changed from outside, before a kernel is planned for it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from mirada.attention.kernels.request import Request
from mirada.attention.memory import Memory
from mirada.attention.transforms import recomputing


class Intervention(Protocol):
    """Somebody who changes calls from outside. What it gives back is planned and computed as any other request."""

    def change(self, layer: Any, request: Request, memory: Memory | None, again: bool) -> Request:
        """The request to run instead. `again`: the last call over this memory is only asked about, not made."""

    def made(self, layer: Any, request: Request, memory: Memory | None) -> None:
        """A changed request was run."""


_active: list[tuple[int, Intervention]] = []  # replaced, never changed: another thread may be going through it
_changing = threading.Lock()


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
    return bool(_active) and (torch.compiler.is_compiling() or len(here()) > 0)


def changed(layer: Any, request: Request, memory: object, again: bool = False) -> Request:
    """The request as the open interventions of this thread want it, the outermost first."""
    return apart(change_all)(layer, request, memory if isinstance(memory, Memory) else None, again)


def finished(layer: Any, request: Request, memory: object) -> None:
    """Tell them that it was run."""
    apart(tell_all)(layer, request, memory if isinstance(memory, Memory) else None)


def here() -> list[Intervention]:
    return [intervention for thread, intervention in _active if thread == threading.get_ident()]


def change_all(layer: Any, request: Request, memory: Memory | None, again: bool) -> Request:
    for intervention in here():
        request = intervention.change(layer, request, memory, again)
    return request


def tell_all(layer: Any, request: Request, memory: Memory | None) -> None:
    if recomputing():  # it was counted when it was computed first
        return
    for intervention in here():
        intervention.made(layer, request, memory)


def apart(function: Any) -> Any:
    """The function, kept from the compiler: what it does depends on the call's number. Asking imports the compiler."""
    return torch.compiler.disable(function) if torch.compiler.is_compiling() else function
