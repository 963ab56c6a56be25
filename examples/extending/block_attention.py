"""Mixture of Block Attention (Lu et al., 2025, arXiv:2502.13189), as a normalizer.

Keys come in blocks. A query attends to its own block and to the k - 1 earlier ones that fit it best; a block's score is the
query times the mean of its keys, and that is the mean of the block's scores. So a normalizer needs the scores only.
"""

import torch
from torch.nn.functional import pad

from mirada import Attention, Causal, MultiHead
from mirada.attention import Normalized, Normalizer, Softmax
from mirada.testing import check


class BlockSoftmax(Normalizer):
    """A softmax over the keys of the k best blocks, of which the last one that a query sees is always one."""

    rowwise = True

    def __init__(self, block: int, k: int) -> None:
        super().__init__()
        self.block, self.k = block, k

    def normalize(self, scores, mask):
        mask = mask.expand_as(scores)
        gap = -scores.shape[-1] % self.block
        inside = pad(mask, (0, gap)).unflatten(-1, (-1, self.block))
        count = inside.sum(-1)
        each = pad(scores.detach().masked_fill(~mask, 0), (0, gap)).unflatten(-1, (-1, self.block))
        fit = (each.sum(-1) / count.clamp(min=1)).masked_fill(count == 0, -torch.inf)
        last = (count > 0) * torch.arange(1, count.shape[-1] + 1, device=count.device)
        fit = fit.masked_fill((last == last.amax(-1, keepdim=True)) & (count > 0), torch.inf)
        best = fit >= fit.topk(min(self.k, fit.shape[-1]), dim=-1).values[..., -1:]
        return Normalized(Softmax()(scores, mask & best.repeat_interleave(self.block, -1)[..., : scores.shape[-1]]))


PARTS = [BlockSoftmax(block=3, k=2)]

if __name__ == "__main__":
    layer = Attention(MultiHead(32, heads=4), where=Causal(), normalizer=BlockSoftmax(block=8, k=3))
    print(layer(torch.randn(2, 50, 32)).shape)
    print(check(BlockSoftmax(block=3, k=2)))
