"""Differential Transformer (Ye et al., 2024, arXiv:2410.05258), as heads.

Each head has two maps of weights and uses their difference: (softmax(q_1 k_1) - lambda softmax(q_2 k_2)) V. Two ordinary
heads that share their values compute the two terms in a fused kernel; `merge` subtracts them. (The paper also
parametrizes lambda by four vectors and normalizes each head: `mirada.Differential` has both.)
"""

import torch
from torch import nn

from mirada import Attention, Causal, Grouped
from mirada.testing import check


class Difference(Grouped):
    """Pairs of heads over the same keys' values: the second is subtracted from the first."""

    def __init__(self, width: int, heads: int, start: float = 0.8) -> None:
        super().__init__(width, 2 * heads, kv_heads=heads, dim=width // heads)
        self.key_heads = 2 * heads
        self.key = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.share = nn.Parameter(torch.full((heads, 1, 1), start))

    def merge(self, h):
        return super().merge(h[:, ::2] - self.share * h[:, 1::2])


PARTS = [Difference(12, heads=3)]

if __name__ == "__main__":
    layer = Attention(Difference(32, heads=4), where=Causal())
    x = torch.randn(2, 50, 32)
    print(layer(x).shape, layer.plan(x).kernel)
    print(check(Difference(12, heads=3)))
