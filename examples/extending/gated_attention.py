"""Gated attention (Qiu et al., 2025, arXiv:2505.06708), as heads.

What a head read is gated by the token that asked, one number per head: head_h * sigmoid(x G_h), before the output
projection. Heads whose `merge` takes a second argument are given the input; the attention keeps its fused kernel.
"""

import torch
from torch import nn

from mirada import Attention, Causal, MultiHead
from mirada.testing import check


class HeadGated(MultiHead):
    """Heads that a token may switch off."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.gate = nn.Linear(width, heads, bias=False)

    def merge(self, h, x):  # (batch, heads, n, value_dim), (batch, n, width)
        return super().merge(h * torch.sigmoid(self.gate(x)).mT.unsqueeze(-1))


PARTS = [HeadGated(12, heads=3)]

if __name__ == "__main__":
    layer = Attention(HeadGated(32, heads=4), where=Causal())
    x = torch.randn(2, 50, 32)
    print(layer(x).shape, layer.plan(x).kernel)
    print(check(HeadGated(12, heads=3)))
