"""Softmax and sum over the edges of a graph, forward and backward (`edges.c`)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.native.library import address, check, loaded, threads_for

REALS = {torch.float32: "float", torch.float64: "double"}

Numbers = Float[Tensor, "edges heads"]
Nodes = Float[Tensor, "nodes heads dim"]
Targets = Float[Tensor, "targets heads dim"]
Offsets = Int[Tensor, " starts"]
Index = Int[Tensor, " edges"]


def edges_forward(
    scores: Numbers, values: Nodes, kept: Numbers | None, offsets: Offsets, source: Index, targets: int
) -> tuple[Numbers, Targets]:
    """The weights, a softmax over the edges of each target, and the sums of weighted values."""
    _, heads, dim = values.shape
    _check_all(values, [scores, kept], offsets, [source], targets)
    weights, output = torch.empty_like(scores), values.new_empty(targets, heads, dim)
    threads = threads_for(len(source) * heads * dim)
    room = scores.new_empty(threads, 2, heads)
    tensors = offsets, source, scores, values, kept, weights, output, room
    function = getattr(loaded(), f"edges_forward_{REALS[values.dtype]}")
    function(targets, heads, dim, *map(address, tensors), threads)
    return weights, output


def edges_backward(
    grad: Targets, weights: Numbers, values: Nodes, kept: Numbers | None, offsets: Offsets, pairs: Int[Tensor, "2 edges"],
    outgoing: tuple[Tensor, Index],
) -> tuple[Numbers, Nodes]:  # fmt: skip
    """The gradients of the scores and of the values. `outgoing` lists the edges by source: where each begins, and which."""
    targets, (nodes, heads, dim) = len(grad), values.shape
    (source, target), (starts, order) = pairs, outgoing
    _check_all(values, [weights, kept], offsets, [source, target, order], targets)
    check("gradients of targets", grad, (targets, heads, dim), values.dtype)
    check("outgoing offsets", starts, (nodes + 1,), torch.int64)
    d_scores, d_values = torch.empty_like(weights), torch.empty_like(values)
    threads, real = threads_for(len(source) * heads * dim), REALS[values.dtype]
    room = weights.new_empty(threads, heads)
    for_scores = offsets, source, weights, kept, values, grad, d_scores, room
    getattr(loaded(), f"edges_score_gradient_{real}")(targets, heads, dim, *map(address, for_scores), threads)
    for_values = starts, order, target, weights, kept, grad, d_values
    getattr(loaded(), f"edges_value_gradient_{real}")(nodes, heads, dim, *map(address, for_values), threads)
    return d_scores, d_values


def _check_all(
    values: Tensor, on_edges: list[Tensor | None], offsets: Tensor, indices: list[Tensor], targets: int
) -> None:
    """Require sizes that fit together."""
    heads, edges, dtype = values.shape[1], len(indices[0]), values.dtype
    check("offsets", offsets, (targets + 1,), torch.int64)
    check("values of nodes", values, values.shape, dtype)
    for x in indices:
        check("an index of edges", x, (edges,), torch.int64)
    for y in on_edges:
        if y is not None:
            check("numbers of edges", y, (edges, heads), dtype)
