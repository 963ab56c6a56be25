"""How alike are a query and a key? Each score maps (q, k) to a number per pair, before mask and normalizer.

A score is a module with three steps: prepare the queries, prepare the keys, compare. Preparing is linear in the length
and is done once; comparing is what a kernel repeats. A score whose comparison is a plain dot product of what was prepared
is a `Product`, and every fused kernel can run it.
"""

from mirada.attention.scores.content_free import Location, Offset
from mirada.attention.scores.graph import Graph, GraphV2
from mirada.attention.scores.perceptron import Additive, Concat, TanhSum
from mirada.attention.scores.product import Bilinear, Dot, QKNorm, Softcap
from mirada.attention.scores.score import Product, Score, scores_heads_alike

__all__ = [
    "Additive",
    "Bilinear",
    "Concat",
    "Dot",
    "Graph",
    "GraphV2",
    "Location",
    "Offset",
    "Product",
    "QKNorm",
    "Score",
    "Softcap",
    "TanhSum",
    "scores_heads_alike",
]
