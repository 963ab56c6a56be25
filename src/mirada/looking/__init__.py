"""Looking at attention from outside: kernels stay as fast as they are, weights are recomputed when asked for.

>>> import torch
>>> from mirada import Attention, MultiHead
>>> from mirada.looking import look
>>> layer = Attention(MultiHead(width=4, heads=2))
>>> with look(layer) as seen:
...     _ = layer(torch.zeros(1, 3, 4))
>>> seen[""].weights().shape
torch.Size([1, 2, 3, 3])
"""

from typing import TYPE_CHECKING

from mirada.lazy import submodules

if TYPE_CHECKING:
    from mirada.looking.change.changes import Cut, DropHead, Force, MaskKey
    from mirada.looking.change.intervene import intervene
    from mirada.looking.explain.alignment import alignment_error, sentence_relations
    from mirada.looking.explain.compare import compare_methods
    from mirada.looking.explain.importance import difference, divergence, importance
    from mirada.looking.explain.measures import rollout, weight_gradients
    from mirada.looking.explain.methods import Methods
    from mirada.looking.explain.relations import read_conllu
    from mirada.looking.labels import AxisLabels, GridLabels, Labels, NodeLabels, TextLabels, TimeLabels
    from mirada.looking.record import Call, Seen, look

__all__ = [
    "AxisLabels", "Call", "Cut", "DropHead", "Force", "GridLabels", "Labels", "MaskKey", "Methods", "NodeLabels",
    "Seen", "TextLabels", "TimeLabels", "alignment_error", "compare_methods", "difference", "divergence",
    "importance", "intervene", "look", "read_conllu", "rollout", "sentence_relations", "weight_gradients",
]  # fmt: skip

__getattr__ = submodules(__name__)
