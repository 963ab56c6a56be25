"""Scalable-Softmax (Nakanishi, 2025, arXiv:2501.19399), as a normalizer.

A softmax over many keys flattens. Scores are multiplied by s log n, with n the keys that a query sees and a trained s:
alpha_i = softmax over j of (s log(n_i) e_ij). Keys are counted by the mask, so steps with a cache are exact.
"""

import torch
from torch import nn

from mirada import Attention, Causal, MultiHead
from mirada.attention import Normalized, Normalizer, Softmax
from mirada.testing import check


class ScalableSoftmax(Normalizer):
    """A softmax that stays as sharp over many keys as over few."""

    rowwise = True  # a query's weights depend on its own scores and mask

    def __init__(self, start: float = 0.43) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.tensor(start))

    def normalize(self, scores, mask):
        seen = mask.expand_as(scores).sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)
        return Normalized(Softmax()(self.s.to(scores.dtype) * seen.log() * scores, mask))


PARTS = [ScalableSoftmax()]

if __name__ == "__main__":
    layer = Attention(MultiHead(32, heads=4), where=Causal(), normalizer=ScalableSoftmax())
    print(layer(torch.randn(2, 50, 32)).shape)
    print(check(ScalableSoftmax()))
