"""A usual stack, taken apart: what a step goes through, in its order."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mirada.attention.equation import Attention
from mirada.layers.block import DecoderLayer, EncoderLayer
from mirada.layers.norm import Norm, RMSNorm
from mirada.layers.residual import Residual

Layer = EncoderLayer | DecoderLayer


class Shape(NamedTuple):
    """What all layers of a stack have in common."""

    width: int
    heads: int
    dim: int
    hidden: int
    activation: str
    rms: bool
    post: bool
    cross: bool


class Part(NamedTuple):
    """One residual part of a layer: x + last(f(first(norm(x)))), or the norm of x + last(f(first(x))).

    The `first` are joined: queries, keys and values come from one product.
    """

    norm: Norm
    scale: float  # of the scores, where f is attention
    first: tuple[nn.Linear, ...]
    last: nn.Linear


def shape_of(layer: Layer) -> Shape:
    """The sizes and kinds of a usual layer."""
    heads, around, feed = layer.self.heads, layer.around_self, layer.feed
    rms, post, cross = type(around.norm) is RMSNorm, around.order == "post", isinstance(layer, DecoderLayer)
    hidden, activation = feed.widen.out_features, str(feed.activation)  # type: ignore[union-attr]
    return Shape(heads.width, heads.heads, heads.dim, hidden, activation, rms, post, cross)


def parts_of(layer: Layer) -> list[Part]:
    """The parts of a usual layer in the order of a step."""

    def attention(module: Attention, around: Residual, *names: str) -> Part:
        heads, factor = module.heads, module.score.factor(module.heads.dim)  # type: ignore[operator]
        return Part(around.norm, float(factor), tuple(getattr(heads, name) for name in names), heads.out)  # type: ignore[arg-type]

    parts = [attention(layer.self, layer.around_self, "query", "key", "value")]
    if isinstance(layer, DecoderLayer):
        parts.append(attention(layer.cross, layer.around_cross, "query"))
    return [*parts, Part(layer.around_feed.norm, 1.0, (layer.feed.widen,), layer.feed.narrow)]


def joined(*linears: nn.Linear) -> tuple[Tensor, Tensor]:
    """Weight and bias of several linear layers of one input, as those of one; no copy of a single one's weight."""
    weights = [linear.weight.detach() for linear in linears]
    biases = [
        weight.new_zeros(len(weight)) if linear.bias is None else linear.bias.detach()
        for linear, weight in zip(linears, weights, strict=True)
    ]
    return (weights[0], biases[0]) if len(linears) == 1 else (torch.cat(weights), torch.cat(biases))
