"""The mechanism: h_i = sum over j in N(i) of alpha(x_i, x_j) psi_v(x_j), one factor per file.

>>> from mirada.attention import Causal, Window
>>> Causal() & Window(2)
Causal() & Window(left=2, right=0)
"""

from typing import TYPE_CHECKING

from mirada.lazy import submodules

if TYPE_CHECKING:
    from mirada.attention.cache import Cache
    from mirada.attention.equation import Attention, attend
    from mirada.attention.heads import (
        Collaborative,
        Differential,
        Forgetting,
        GatedHeads,
        Grouped,
        Heads,
        Latent,
        MultiHead,
        Split,
        Tied,
    )
    from mirada.attention.memory import Memory
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
        Neighborhood,
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
        Normalized,
        Normalizer,
        Sigmoid,
        Sinks,
        Softmax,
        SoftmaxPlusOne,
        SoftmaxTopK,
        Sparsemax,
        StraightThrough,
        draws,
    )
    from mirada.attention.positions import (
        ALiBi,
        Learned,
        LocalGaussian,
        Pairs,
        Position,
        Relative,
        Rotary,
        Sinusoidal,
        T5Bias,
    )
    from mirada.attention.scores import (
        Additive,
        Bilinear,
        Concat,
        Dot,
        Graph,
        GraphV2,
        Location,
        Offset,
        Product,
        QKNorm,
        Score,
        Softcap,
        TanhSum,
    )

__all__ = [
    "ALiBi", "Additive", "Attention", "Bilinear", "Cache", "Causal", "Collaborative", "Complete", "Concat", "Dense",
    "Differential", "Dilated", "Documents", "Dot", "Edges", "Entmax15", "Fixed", "Forgetting", "GatedHeads", "Global",
    "Graph", "GraphV2", "Grid", "Grouped", "Gumbel", "Hard", "Heads", "Identity", "Latent", "Learned",
    "LocalGaussian", "Location", "Memory", "Monotonic", "MultiHead", "Neighborhood", "Normalized", "Normalizer",
    "Offset", "Padding", "Pairs", "PerHead", "Position", "Prefix", "Product", "QKNorm", "Relative", "Rotary", "Score",
    "Sigmoid", "Sinks", "Sinusoidal", "Softcap", "Softmax", "SoftmaxPlusOne", "SoftmaxTopK", "Sparsemax", "Split",
    "StraightThrough", "Strided", "T5Bias", "TanhSum", "Tied", "Window", "attend", "draws",
]  # fmt: skip

__getattr__ = submodules(__name__)
