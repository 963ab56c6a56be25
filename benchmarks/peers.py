"""What else computes the same attention: the peers our kernels are measured against."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def unfolded_window(q: Tensor, k: Tensor, v: Tensor, left: int) -> Tensor:
    """A causal window as blocks of queries over unfolded, overlapping blocks of keys, in one masked SDPA call."""
    batch, heads, length, dim = q.shape
    block = left
    rest = -length % block
    q, k, v = (F.pad(x, (0, 0, 0, rest)) for x in (q, k, v))
    blocks = q.shape[2] // block
    k, v = (F.pad(x, (0, 0, left, 0)).unfold(2, block + left, block).transpose(3, 4) for x in (k, v))
    rows, columns = torch.arange(block)[:, None] + left, torch.arange(block + left)
    seen = (columns <= rows) & (columns >= rows - left)
    first = torch.arange(block + left) >= left  # the first block has nothing before it
    mask = seen.expand(blocks, -1, -1).clone()
    mask[0] &= first
    q, k, v = (x.reshape(batch * heads, blocks, -1, dim) for x in (q, k, v))
    output = F.scaled_dot_product_attention(q, k, v, mask[None])
    return output.reshape(batch, heads, -1, dim)[:, :, :length]


def flex(
    length: int, seen: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Compiled FlexAttention over the pairs of which `seen(batch, head, query, key)` says True."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(seen, None, None, length, length, device="cpu")
    compiled = torch.compile(flex_attention)
    return lambda q, k, v: compiled(q, k, v, block_mask=mask)


def direct_relative(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, clip: int) -> Tensor:
    """Relative positions with the n x n x dim tensors of the paper written out."""
    length = q.shape[2]
    distance = torch.arange(length)[None, :] - torch.arange(length)[:, None]
    rows = distance.clamp(-clip, clip) + clip
    scores = q @ k.transpose(-2, -1) + torch.einsum("bhid,ijd->bhij", q, keys[rows])
    weights = (scores * q.shape[-1] ** -0.5).softmax(-1)
    return weights @ v + torch.einsum("bhij,ijd->bhid", weights, values[rows])
