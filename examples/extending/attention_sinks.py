"""Attention sinks as in gpt-oss (OpenAI, 2025, arXiv:2508.10925), as a normalizer.

A head that has nothing to say needs a place for its weight: a trained score per head in the denominator, without a value.
`mirada.Sinks` is the same on a fused kernel; this one shows how a normalizer with numbers per head is written.
"""

import torch
from torch import nn

from mirada import Attention, Causal, MultiHead
from mirada.attention import Normalized, Normalizer
from mirada.testing import check


class HeadSinks(Normalizer):
    """alpha_ij = exp(e_ij) / (exp(s_h) + sum over j' of exp(e_ij'))."""

    rowwise = True

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads, self.sinks = heads, nn.Parameter(torch.zeros(heads))

    def normalize(self, scores, mask):
        sinks = self.sinks.to(scores.dtype).view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        return Normalized(torch.cat([scores.masked_fill(~mask, -torch.inf), sinks], -1).softmax(-1)[..., :-1])


PARTS = [HeadSinks(heads=3)]

if __name__ == "__main__":
    layer = Attention(MultiHead(32, heads=4), where=Causal(), normalizer=HeadSinks(heads=4))
    print(layer(torch.randn(2, 50, 32)).shape)
    print(check(HeadSinks(heads=3)))
