"""Softmax and sum over the edges of a graph, forward and backward (`edges.c`)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.native.library import address, check, loaded, threads_for

REALS = {torch.float32: "float", torch.float64: "double"}

Numbers = Float[Tensor, "edges heads"]
Nodes = Float[Tensor, "nodes heads dim"]
Offsets = Int[Tensor, " nodes+1"]
Index = Int[Tensor, " edges"]


def edges_forward(
    scores: Numbers, values: Nodes, kept: Numbers | None, offsets: Offsets, source: Index
) -> tuple[Numbers, Nodes]:
    """The weights, a softmax over the edges of each target, and the sums of weighted values."""
    nodes, heads, dim = values.shape
    _check_all(values, [scores, kept], [values], offsets, [source])
    weights, output = torch.empty_like(scores), torch.empty_like(values)
    threads = threads_for(len(source) * heads * dim)
    room = scores.new_empty(threads, 2, heads)
    tensors = offsets, source, scores, values, kept, weights, output, room
    function = getattr(loaded(), f"edges_forward_{REALS[values.dtype]}")
    function(nodes, heads, dim, *map(address, tensors), threads)
    return weights, output


def edges_backward(
    grad: Nodes, weights: Numbers, values: Nodes, kept: Numbers | None, offsets: Offsets, pairs: Int[Tensor, "2 edges"],
    outgoing: tuple[Offsets, Index],
) -> tuple[Numbers, Nodes]:  # fmt: skip
    """The gradients of the scores and of the values. `outgoing` lists the edges by source: where each begins, and which."""
    nodes, heads, dim = values.shape
    (source, target), (starts, order) = pairs, outgoing
    _check_all(values, [weights, kept], [values, grad], offsets, [source, target, order])
    check("outgoing offsets", starts, (nodes + 1,), torch.int64)
    d_scores, d_values = torch.empty_like(weights), torch.empty_like(values)
    threads, real = threads_for(len(source) * heads * dim), REALS[values.dtype]
    room = weights.new_empty(threads, heads)
    for_scores = offsets, source, weights, kept, values, grad, d_scores, room
    getattr(loaded(), f"edges_score_gradient_{real}")(nodes, heads, dim, *map(address, for_scores), threads)
    for_values = starts, order, target, weights, kept, grad, d_values
    getattr(loaded(), f"edges_value_gradient_{real}")(nodes, heads, dim, *map(address, for_values), threads)
    return d_scores, d_values


def _check_all(
    values: Tensor, on_edges: list[Tensor | None], on_nodes: list[Tensor], offsets: Tensor, indices: list[Tensor]
) -> None:
    """Require sizes that fit together."""
    nodes, heads, _ = values.shape
    edges, dtype = len(indices[0]), values.dtype
    check("offsets", offsets, (nodes + 1,), torch.int64)
    for x in indices:
        check("an index of edges", x, (edges,), torch.int64)
    for x in on_nodes:
        check("values of nodes", x, values.shape, dtype)
    for y in on_edges:
        if y is not None:
            check("numbers of edges", y, (edges, heads), dtype)
