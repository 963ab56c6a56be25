"""mirada: every attention mechanism as one composable layer, fast, and always open to a look.

>>> from mirada import Attention, MultiHead, attend, look
"""

from importlib import import_module

TYPE_CHECKING = False  # checkers know the name; importing `typing` takes longer than all else that happens here
if TYPE_CHECKING:
    from typing import Any

    from mirada.attention.equation import Attention, attend
    from mirada.attention.heads import MultiHead
    from mirada.attention.normalizers import draws
    from mirada.looking.change.changes import Cut, DropHead, Force, MaskKey
    from mirada.looking.change.intervene import intervene
    from mirada.looking.explain.importance import importance
    from mirada.looking.explain.measures import weight_gradients
    from mirada.looking.record import Seen, look
    from mirada.runs.load import load
    from mirada.runs.train import train

__version__ = "0.1.0"
__all__ = [
    "Attention",
    "Cut",
    "DropHead",
    "Force",
    "MaskKey",
    "MultiHead",
    "Seen",
    "attend",
    "draws",
    "importance",
    "intervene",
    "load",
    "look",
    "train",
    "weight_gradients",
]

_HOME = {
    "Attention": "mirada.attention.equation",
    "attend": "mirada.attention.equation",
    "MultiHead": "mirada.attention.heads",
    "draws": "mirada.attention.normalizers",
    "Cut": "mirada.looking.change.changes",
    "DropHead": "mirada.looking.change.changes",
    "Force": "mirada.looking.change.changes",
    "MaskKey": "mirada.looking.change.changes",
    "importance": "mirada.looking.explain.importance",
    "intervene": "mirada.looking.change.intervene",
    "load": "mirada.runs.load",
    "look": "mirada.looking.record",
    "Seen": "mirada.looking.record",
    "train": "mirada.runs.train",
    "weight_gradients": "mirada.looking.explain.measures",
}


_PACKAGES = ("attention", "decoding", "engine", "hub", "layers", "looking", "models", "training")


def __getattr__(name: str) -> "Any":
    """Import a name on first use, so that the command line starts without torch."""
    if name in _PACKAGES:
        return import_module(f"mirada.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'mirada' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
