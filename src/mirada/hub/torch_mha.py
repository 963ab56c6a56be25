"""From `torch.nn.MultiheadAttention` to our layer."""

import torch
from torch import nn

from mirada.attention.equation import Attention
from mirada.attention.heads import MultiHead
from mirada.attention.normalizers import Softmax
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
    return ours.to(layer.out_proj.weight).train(layer.training)
