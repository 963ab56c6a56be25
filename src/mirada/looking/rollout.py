"""Attention through several layers at once: the product of their weights, each mixed with the residual.

A_l = 0.5 mean over heads of alpha_l + 0.5 I,   rollout = A_L ... A_2 A_1

Where a decoder looks at an encoder, what it looks at are states that have looked around already: cross-attention times the
encoder's rollout. Abnar and Zuidema (2020), arXiv:2005.00928. Values, norms and feed-forward layers are not in it.
"""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

RESIDUAL = 0.5  # the share of a layer's output that did not go through its attention


def rollout(layers: Iterable[Float[Tensor, "heads places places"]]) -> Float[Tensor, "places places"]:
    """What every place has seen of every input place after all layers, from the first to the last.

    >>> swap = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    >>> rollout([swap]).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    >>> uniform = torch.full((1, 2, 2), 0.5)
    >>> rollout([uniform, uniform]).tolist()
    [[0.625, 0.375], [0.375, 0.625]]
    """
    product = None
    for weights in layers:
        mixed = RESIDUAL * torch.eye(weights.shape[-1], dtype=weights.dtype) + (1 - RESIDUAL) * weights.mean(0)
        mixed = mixed / mixed.sum(-1, keepdim=True)  # a row that sees nothing keeps what it was
        product = mixed if product is None else mixed @ product
    if product is None:
        raise ValueError("rollout needs at least one layer of self-attention: got none")
    return product


def cross_rollout(
    cross: Iterable[Float[Tensor, "heads queries keys"]], encoder: Iterable[Float[Tensor, "heads keys keys"]]
) -> Float[Tensor, "queries keys"]:
    """What every row of a decoder has seen of the input: its cross-attention, mean of layers and heads, through the encoder.

    >>> cross_rollout([torch.tensor([[[1.0, 0.0]]])], [torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])]).tolist()
    [[0.5, 0.5]]
    """
    looked = torch.stack([weights.mean(0) for weights in cross]).mean(0)
    return looked @ rollout(encoder)
