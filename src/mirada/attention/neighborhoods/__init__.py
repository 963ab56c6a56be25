"""Who may be seen: N(i), the set of keys j that query i attends to. True = may be seen, everywhere.

A neighborhood is a symbol: frozen, printable, hashable, and no tensor until a kernel asks for one. `&`, `|` and `~`
combine them. Numbers compare by value, tensors by identity.

    >>> Causal() & Window(left=127)
    Causal() & Window(left=127, right=0)
    >>> (Causal() & Window(1)).dense(3, 3).int()[0, 0].tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
"""

from mirada.attention.neighborhoods.algebra import (
    Complement,
    Complete,
    Intersection,
    KeyRange,
    Mask,
    Neighborhood,
    PerHead,
    Union,
    as_neighborhood,
    intersect,
    lengths_of,
)
from mirada.attention.neighborhoods.data import Dense, Documents, Edges, Padding
from mirada.attention.neighborhoods.patterns import (
    Causal,
    Dilated,
    Fixed,
    Global,
    Grid,
    Monotonic,
    Prefix,
    Strided,
    Window,
)

__all__ = [
    "Causal",
    "Complement",
    "Complete",
    "Dense",
    "Dilated",
    "Documents",
    "Edges",
    "Fixed",
    "Global",
    "Grid",
    "Intersection",
    "KeyRange",
    "Mask",
    "Monotonic",
    "Neighborhood",
    "Padding",
    "PerHead",
    "Prefix",
    "Strided",
    "Union",
    "Window",
    "as_neighborhood",
    "intersect",
    "lengths_of",
]
