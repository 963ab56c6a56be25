"""Attention over the edges of a graph: a score per edge, a softmax per node, a sum per node. Nothing is nodes x nodes.

Edges are sorted by target once and kept with the neighborhood. Rows are gathered by `index_select`; where there is
compiled C, softmax and sum run in one pass of it.
"""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from mirada.attention.kernels.request import Kernel, KernelOutput, Request
from mirada.attention.neighborhoods import Edges
from mirada.attention.normalizers import Softmax
from mirada.attention.scores import Product, Score
from mirada.attention.transforms import transformed
from mirada.native.edges import REALS, Nodes, Numbers, Targets, edges_backward, edges_forward
from mirada.native.library import plain_gradients, serves

# shares of all pairs, measured by benchmarks/thresholds.py on two cores: a denser graph is better off as a mask
DENSEST_PRODUCT = 0.01  # where the fused kernel could take over
DENSEST = 0.5  # where only the reference could


class EdgesKernel(Kernel):
    """The edges of a graph, one by one: time and memory grow with their number."""

    name = "edges"

    def refuses(self, request: Request) -> str | None:
        graph = request.where
        if not isinstance(graph, Edges) or type(graph).sees is not Edges.sees:
            return "the neighborhood is no plain list of edges"
        if not request.score.reads_keys:
            return f"{type(request.score).__name__} scores places, not pairs"
        if type(request.normalizer) is not Softmax:
            return f"it has a softmax inside, not {type(request.normalizer).__name__}"
        if request.position.inside:
            return f"{type(request.position).__name__} acts inside the softmax or on the values"
        if request.q.is_meta:
            return "there are no edges on the meta device, only shapes"
        if transformed():
            return "its gradient has no rule for function transforms"
        if request.places.start or request.queries != graph.nodes:
            return f"it computes all nodes at once: got queries={request.queries} of {graph.nodes}"
        if 0 in (*request.q.shape, *request.v.shape, graph.pairs.shape[1]):
            return f"nothing to sum: q {tuple(request.q.shape)}, edges={graph.pairs.shape[1]}"
        if request.q.dtype not in (torch.float32, torch.float64):
            return f"it sums in the input's own precision, and {request.q.dtype} is too coarse for that"
        product = type(request.score).compare is Product.compare
        product = product and not graph.weighs_pairs
        if graph.pairs.shape[1] > (DENSEST_PRODUCT if product else DENSEST) * graph.nodes * graph.keys:
            return f"{graph.pairs.shape[1]} edges from {graph.keys} to {graph.nodes} nodes are too dense"
        return None

    def run(self, request: Request) -> KernelOutput:
        assert isinstance(request.where, Edges)
        _, v = request.visible()
        scores = _edge_scores(request).to(v.dtype)
        kept = None
        if request.normalizer.training and request.normalizer.dropout:  # type: ignore[attr-defined]
            kept = request.normalizer.drop(torch.ones_like(scores, memory_format=torch.contiguous_format))
        output = _MixEdges.apply(scores, _to_rows(v), kept, request.where)
        return KernelOutput(rearrange(output, "n (b h) d -> b h n d", b=request.batch))


def _edge_scores(request: Request) -> Numbers:
    """The score of every edge, in the order of `pairs`: (edges, batch * heads)."""
    assert isinstance(request.where, Edges)
    graph = request.where
    source, target = graph.pairs
    k, _ = request.visible()
    q, k = request.score.queries(request.q), request.score.keys(k)
    if graph.features is not None:
        return rearrange(feature_scores(request.score, graph, q, k, 0, graph.nodes), "b h e -> e (b h)")
    q, k = _to_rows(q).index_select(0, target), _to_rows(k).index_select(0, source)
    q, k = (rearrange(x, "e (b h) d -> b h e d", b=request.batch) for x in (q, k))
    scores = rearrange(request.score.aligned(q, k), "b h e -> e (b h)")
    return scores + graph.counts.log().to(scores.dtype).unsqueeze(-1) if graph.weighs_pairs else scores


def pair_scores(request: Request, q: Tensor, k: Tensor, first: int) -> Float[Tensor, "batch heads queries keys"]:
    """The scores of the prepared queries from node `first` on, where edges have features or are counted several times.

    Edges that connect the same nodes are one key with the sum of their weights: its score is the log of the summed powers.
    """
    graph = request.weighed_pairs
    assert graph is not None
    last = first + q.shape[2]
    source, target = graph.pairs[:, int(graph.offsets[first]) : int(graph.offsets[last])]
    index = (target - first) * graph.keys + source
    if graph.features is not None:
        of_pairs = feature_scores(request.score, graph, q, k, first, last)
        scores = of_pairs.new_zeros(*of_pairs.shape[:2], q.shape[2] * graph.keys).index_copy(2, index, of_pairs)
        return scores.unflatten(-1, (q.shape[2], graph.keys))
    scores = request.score.compare(q, k)
    counts = graph.counts[int(graph.offsets[first]) : int(graph.offsets[last])].log().to(scores.dtype)
    dense = scores.new_zeros(q.shape[2] * graph.keys).index_copy(0, index, counts)
    return scores + dense.view(q.shape[2], graph.keys)


def feature_scores(
    score: Score, graph: Edges, q: Tensor, k: Tensor, first: int, last: int
) -> Float[Tensor, "batch heads pairs"]:
    """The scores of the pairs of the targets first, ..., last - 1, whose prepared queries are `q`, with their features."""
    begin, end = int(graph.offsets[first]), int(graph.offsets[last])
    order, pair = graph.listing
    low, high = torch.searchsorted(pair, torch.tensor([begin, end], device=pair.device)).tolist()
    order, pair = order[low:high], pair[low:high]
    source, target = graph.pairs[:, pair]
    assert graph.features is not None
    features = graph.features.to(q).index_select(0, order)
    scores = score.aligned(score.add_features(q.index_select(2, target - first), features), k.index_select(2, source))
    if high - low == end - begin:
        return scores
    pair = pair - begin
    index = pair.expand_as(scores)
    top = scores.new_full((*scores.shape[:2], end - begin), -torch.inf)
    top = top.scatter_reduce(2, index, scores.detach(), "amax")
    powers = (scores - top.index_select(2, pair)).exp()
    return top + torch.zeros_like(top).index_add(2, pair, powers).log()


def edge_weights(request: Request) -> Float[Tensor, "batch heads edges"]:
    """The weight of every edge, in the order of `pairs`."""
    assert isinstance(request.where, Edges)
    return rearrange(_segment_softmax(_edge_scores(request), request.where), "e (b h) -> b h e", b=request.batch)


def _to_rows(x: Float[Tensor, "batch heads nodes dim"]) -> Float[Tensor, "nodes batch*heads dim"]:
    """(nodes, batch * heads, dim): all numbers of a node are adjacent, so that gathering reads whole rows."""
    return rearrange(x, "b h n d -> n (b h) d").contiguous()


class _MixEdges(torch.autograd.Function):
    """Weights from scores, per target, and the sum of weighted values: (targets, heads, dim).

    `kept` is the dropout mask, which multiplies the weights before the values. None keeps all.
    """

    @staticmethod
    def forward(ctx, scores: Numbers, values: Nodes, kept: Numbers | None, graph: Edges) -> Targets:  # type: ignore[no-untyped-def]
        given, scores = scores, scores.contiguous()
        if serves(scores, values, *([] if kept is None else [kept]), dtypes=tuple(REALS)):
            weights, output = edges_forward(scores, values, kept, graph.offsets, graph.pairs[0], graph.nodes)
        else:
            weights, output = _mixed(scores, values, kept, graph)
        ctx.save_for_backward(given, weights, values, kept)
        ctx.graph = graph
        return output

    @staticmethod
    def backward(ctx, grad: Targets):  # type: ignore[no-untyped-def]
        scores, weights, values, kept = ctx.saved_tensors
        graph, grad = ctx.graph, grad.contiguous()
        if torch.is_grad_enabled():

            def again(scores: Numbers, values: Nodes) -> Targets:
                return _mixed(scores, values, kept, graph)[1]

            return *plain_gradients(again, (scores, values), ctx.needs_input_grad[:2], grad), None, None
        source, target = graph.pairs
        if serves(grad, weights, values, *([] if kept is None else [kept]), dtypes=tuple(REALS)):
            given = grad, weights, values, kept, graph.offsets, graph.pairs, graph.outgoing
            return *edges_backward(*given), None, None
        here = grad.index_select(0, target)
        used = weights if kept is None else weights * kept
        d_values = torch.zeros_like(values).index_add(0, source, here * used.unsqueeze(-1))
        d_weights = (here * values.index_select(0, source)).sum(-1)
        d_weights = d_weights if kept is None else d_weights * kept
        mean = torch.zeros_like(grad[..., 0]).index_add(0, target, d_weights * weights)
        return weights * (d_weights - mean.index_select(0, target)), d_values, None, None


def _mixed(scores: Numbers, values: Nodes, kept: Numbers | None, graph: Edges) -> tuple[Numbers, Targets]:
    """Weights and output, by plain operations."""
    weights = _segment_softmax(scores, graph)
    used = weights if kept is None else weights * kept
    moved = values.index_select(0, graph.pairs[0]) * used.unsqueeze(-1)
    return weights, values.new_zeros(graph.nodes, *values.shape[1:]).index_add(0, graph.pairs[1], moved)


def _segment_softmax(scores: Numbers, graph: Edges) -> Numbers:
    """A softmax over the edges of every target."""
    target = graph.pairs[1]
    index = target.unsqueeze(-1).expand_as(scores)
    top = scores.new_full((graph.nodes, scores.shape[1]), -torch.inf).scatter_reduce(0, index, scores.detach(), "amax")
    powers = (scores - top.index_select(0, target)).exp()
    return powers / torch.zeros_like(top).index_add(0, target, powers).index_select(0, target)
