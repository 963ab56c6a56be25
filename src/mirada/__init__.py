"""mirada: every attention mechanism as one composable layer, fast, and always open to a look.

>>> from mirada import Attention, MultiHead, attend, look
"""

from importlib import import_module

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than the rest of this module
if TYPE_CHECKING:
    from typing import Any

    from mirada.attention.equation import Attention, attend
    from mirada.attention.heads import (
        Collaborative,
        Differential,
        Forgetting,
        GatedHeads,
        Grouped,
        Latent,
        MultiHead,
        Split,
        Tied,
    )
    from mirada.attention.neighborhoods import (
        Causal,
        Complete,
        Dense,
        Dilated,
        Documents,
        Edges,
        Fixed,
        Global,
        Grid,
        Monotonic,
        Padding,
        PerHead,
        Prefix,
        Strided,
        Window,
    )
    from mirada.attention.normalizers import (
        Entmax15,
        Gumbel,
        Hard,
        Identity,
        Sigmoid,
        Sinks,
        Softmax,
        SoftmaxPlusOne,
        SoftmaxTopK,
        Sparsemax,
        StraightThrough,
        draws,
    )
    from mirada.attention.positions import ALiBi, Learned, LocalGaussian, Pairs, Relative, Rotary, Sinusoidal, T5Bias
    from mirada.attention.scores import (
        Additive,
        Bilinear,
        Concat,
        Dot,
        Graph,
        GraphV2,
        Location,
        Offset,
        QKNorm,
        Softcap,
        TanhSum,
    )
    from mirada.layers.parse import register
    from mirada.looking.change.changes import Cut, DropHead, Force, MaskKey
    from mirada.looking.change.intervene import intervene
    from mirada.looking.explain.importance import importance
    from mirada.looking.explain.measures import weight_gradients
    from mirada.looking.record import Seen, look
    from mirada.runs.importing import import_model
    from mirada.runs.load import load
    from mirada.runs.train import train

__version__ = "0.1.0"
__all__ = [
    "ALiBi", "Additive", "Attention", "Bilinear", "Causal", "Collaborative", "Complete", "Concat", "Cut", "Dense",
    "Differential", "Dilated", "Documents", "Dot", "DropHead", "Edges", "Entmax15", "Fixed", "Force", "Forgetting",
    "GatedHeads", "Global", "Graph", "GraphV2", "Grid", "Grouped", "Gumbel", "Hard", "Identity", "Latent", "Learned",
    "LocalGaussian", "Location", "MaskKey", "Monotonic", "MultiHead", "Offset", "Padding", "Pairs", "PerHead",
    "Prefix", "QKNorm", "Relative", "Rotary", "Seen", "Sigmoid", "Sinks", "Sinusoidal", "Softcap", "Softmax",
    "SoftmaxPlusOne", "SoftmaxTopK", "Sparsemax", "Split", "StraightThrough", "Strided", "T5Bias", "TanhSum", "Tied",
    "Window", "attend", "draws", "import_model", "importance", "intervene", "load", "look", "register", "train",
    "weight_gradients",
]  # fmt: skip

_PACKAGES = ("attention", "decoding", "engine", "hub", "layers", "looking", "models", "testing", "training")


def __getattr__(name: str) -> "Any":
    """Import a name on first use, so that the command line starts without torch."""
    if name in _PACKAGES:
        return import_module(f"mirada.{name}")
    homes = import_module("mirada.lazy").homes(__name__)
    if name not in homes:
        raise AttributeError(f"module 'mirada' has no attribute {name!r}")
    return getattr(import_module(homes[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
