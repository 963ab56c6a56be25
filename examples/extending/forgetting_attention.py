"""Forgetting Transformer (Lin et al., 2025, arXiv:2503.02130), as heads that carry a state from step to step.

A score loses log f_l for every place l between key and query: e_ij = q_i.k_j / sqrt(d) + c_i - c_j, with c the running
sum of log f. A softmax does not see c_i; -c_j is one more number of the key, which q meets with a 1. A step with a cache
goes on from the last key: `project_next` is given the keys that the cache keeps.
"""

import torch
from torch import nn
from torch.nn.functional import logsigmoid

from mirada import Attention, Causal, MultiHead
from mirada.testing import check


class Fading(MultiHead):
    """Heads that lower the scores of what lies before places that forget. For causal neighborhoods in float32."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.forget = nn.Linear(width, heads)
        self.dim = self.key_dim = self.dim + 1  # `scale_dim` stays: it is what the default scale counts

    def queries(self, x):
        q = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return torch.cat([q, torch.ones_like(q[..., :1])], -1)

    def keys(self, memory, before=0.0):
        k = self.key(memory).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        sums = -logsigmoid(self.forget(memory)).cumsum(1).mT.unsqueeze(-1) * self.scale_dim**0.5 + before
        return torch.cat([k, sums], -1)

    def project_next(self, x, before):
        return self.queries(x), self.keys(x, before[:, :, -1:, -1:] if before.shape[2] else 0.0), self.values(x)


PARTS = [Fading(12, heads=3)]

if __name__ == "__main__":
    layer = Attention(Fading(32, heads=4), where=Causal())
    x = torch.randn(2, 50, 32)
    print(layer(x).shape, layer.plan(x).kernel)
    print(check(Fading(12, heads=3)))
