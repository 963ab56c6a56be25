"""Selective Attention (Leviathan, Kalman and Matias, 2024, arXiv:2410.02703), as a normalizer.

A query may say that a key is no longer needed: S_lj = max(score of head 0, 0), not for itself and not for the first key.
Later queries subtract what was said before them: alpha_i = softmax over j of (e_ij - sum over l < i of S_lj).
The weights of a query depend on earlier queries, so the class does not declare `rowwise`: no kernel cuts its rows apart.
"""

import torch

from mirada import Attention, Causal, MultiHead
from mirada.attention import Normalized, Normalizer
from mirada.testing import check


class Selective(Normalizer):
    """A softmax of scores from which head 0 subtracts what earlier queries no longer need."""

    def normalize(self, scores, mask):
        said = scores[:, :1].clamp(min=0).masked_fill(~mask[:, :1], 0)
        own = torch.eye(*scores.shape[2:], dtype=torch.bool, device=scores.device)
        own[:, :1] = True  # the first key is never given up
        said = said.masked_fill(own, 0)
        left = scores - (said.cumsum(2) - said)
        nobody = ~mask.any(-1, keepdim=True)
        return Normalized(left.masked_fill(~mask, -torch.inf).masked_fill(nobody, 0).softmax(-1).masked_fill(~mask, 0))


PARTS = [Selective()]

if __name__ == "__main__":
    layer = Attention(MultiHead(32, heads=4), where=Causal(), normalizer=Selective())
    print(layer(torch.randn(2, 50, 32)).shape)
    print(check(Selective()))
