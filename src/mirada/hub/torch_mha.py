"""From `torch.nn.MultiheadAttention` to our layer, and back."""

import torch
from torch import nn

from mirada.attention.equation import Attention
from mirada.attention.heads import MultiHead
from mirada.attention.neighborhoods import Complete
from mirada.attention.normalizers import Softmax
from mirada.attention.positions import Position
from mirada.attention.scores import Dot
from mirada.errors import require


def from_torch(layer: nn.MultiheadAttention) -> Attention:
    """Our layer with a copy of the weights of a PyTorch layer, and the same outputs.

    Ours always takes (batch, n, width). `layer(q, k, v, key_padding_mask=p)` is `ours(q, memory=k, values=v, where=...)` with
    `Padding(lengths)` or `Dense(~p.unsqueeze(1))`; mind the sign: True hides a key in PyTorch and shows it here.

    Args:
        layer: a `torch.nn.MultiheadAttention` without `add_bias_kv` and `add_zero_attn`.

    Returns:
        An `Attention` with `MultiHead` heads, in the mode (training or evaluation), dtype and device of the layer.

    >>> ours = from_torch(nn.MultiheadAttention(8, 2, batch_first=True))
    >>> ours(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """
    kind = type(layer).__name__
    require(isinstance(layer, nn.MultiheadAttention), f"from_torch needs a MultiheadAttention: got {kind}")
    require(
        layer.bias_k is None and layer.bias_v is None and not layer.add_zero_attn,
        "a MultiheadAttention with add_bias_kv or add_zero_attn attends to rows that are not in its input; "
        "our layer has no such rows. Build it without them.",
    )
    bias = layer.in_proj_bias is not None
    heads = MultiHead(layer.embed_dim, layer.num_heads, memory_width=layer.kdim, bias=bias, values_width=layer.vdim)
    heads.to(layer.out_proj.weight)  # before the weights are copied: they keep all of their digits
    projections = (heads.query, heads.key, heads.value)
    separate = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
    weights = separate if layer.in_proj_weight is None else layer.in_proj_weight.chunk(3)
    with torch.no_grad():
        for projection, weight in zip(projections, weights, strict=True):
            projection.weight.copy_(weight)
        heads.out.weight.copy_(layer.out_proj.weight)
        if bias:
            for projection, vector in zip(projections, layer.in_proj_bias.chunk(3), strict=True):
                projection.bias.copy_(vector)
            heads.out.bias.copy_(layer.out_proj.bias)
    ours = Attention(heads, normalizer=Softmax(dropout=layer.dropout))
    return ours.train(layer.training)


def to_torch(layer: Attention) -> nn.MultiheadAttention:
    """A PyTorch layer with a copy of the weights of ours, and the same outputs: what `from_torch` takes.

    A neighborhood is passed to each call there, so the layer has none of its own; mind the sign: True hides a key in PyTorch.

    Args:
        layer: an `Attention` of `MultiHead` heads with dot products over sqrt(dim), a softmax and no position.

    Returns:
        A `torch.nn.MultiheadAttention` with `batch_first=True`, in the mode, dtype and device of the layer.

    >>> theirs = to_torch(Attention(MultiHead(8, 2)))
    >>> theirs(*[torch.zeros(1, 3, 8)] * 3)[0].shape
    torch.Size([1, 3, 8])
    """
    require(isinstance(layer, Attention), f"to_torch needs an Attention: got {type(layer).__name__}")
    if wrong := _beyond_torch(layer):
        raise ValueError(f"a MultiheadAttention cannot be this layer: {wrong}; got {layer}")
    heads, normalizer = layer.heads, layer.normalizer
    assert isinstance(heads, MultiHead)
    assert isinstance(normalizer, Softmax)
    widths = {"kdim": heads.memory_width, "vdim": heads.value_width}
    widths = {} if set(widths.values()) == {heads.width} else widths
    bias = heads.out.bias is not None
    theirs = nn.MultiheadAttention(heads.width, heads.heads, normalizer.dropout, bias, batch_first=True, **widths)
    theirs.to(heads.out.weight)
    projections = (heads.query, heads.key, heads.value)
    separate = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    weights = separate if theirs.in_proj_weight is None else theirs.in_proj_weight.chunk(3)
    with torch.no_grad():
        for projection, weight in zip(projections, weights, strict=True):
            weight.copy_(projection.weight)
        theirs.out_proj.weight.copy_(heads.out.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
            theirs.out_proj.bias.copy_(heads.out.bias)
    return theirs.train(layer.training)


def _beyond_torch(layer: Attention) -> str | None:
    """What a MultiheadAttention does not have, if the layer has it."""
    heads, score = layer.heads, layer.score
    if type(heads) is not MultiHead:
        return f"its heads are MultiHead, not {type(heads).__name__}"
    if heads.dim * heads.heads != heads.width or heads.value_dim != heads.dim or heads.out.out_features != heads.width:
        return "its heads share the width, and its outputs have it"
    if heads.query_norm is not None:
        return "it has no norm of queries and keys"
    if len({each.bias is None for each in (heads.query, heads.key, heads.value, heads.out)}) > 1:
        return "all of its projections have a bias, or none"
    if type(score) is not Dot or score.scale not in (None, heads.dim**-0.5):
        return "its score is Dot()"
    if type(layer.normalizer) is not Softmax or type(layer.position) is not Position:
        return "it has a softmax and no position"
    if type(layer.where) is not Complete:
        return "it is given its mask in each call. Set where=Complete() and pass attn_mask=~where.dense(queries, keys)[0, 0]"
    return None
