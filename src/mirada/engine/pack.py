"""Weights in the form in which `decode.c` reads them: float32, in panels of columns.

Another precision is another packing of the same parts: `panels` would give int8 and its scales, and the products of `decode.c`
would read them. Nothing else knows how numbers are stored.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mirada.engine.anatomy import Half, joined
from mirada.layers.norm import LayerNorm, Norm
from mirada.native import decode

Numbers = Float[Tensor, " _"]  # as many as there are


class Packed(NamedTuple):
    """All that C reads of a half, beside its words and positions."""

    stack: Numbers
    sources: list[Numbers]  # keys and values of each layer that looks at a source
    scores: Numbers | None


def pack(half: Half) -> Packed:
    """The weights of a stack, of the norm behind it and of an output."""
    return Packed(
        together(in_order(half)),
        [panels(*joined(cross.heads.key, cross.heads.value)) for cross in half.across],  # type: ignore[arg-type]
        None if half.output is None else together([panels(*joined(half.output))]),
    )


def in_order(half: Half) -> list[Numbers]:
    """The weights of a stack in the order of a step: before the two matrices of each sublayer, its norm."""
    pieces = []
    for norm, scale, first, last in half.sublayers:
        pieces += [beside(norm, scale), panels(*joined(*first)), panels(*joined(last))]
    return pieces if half.stack.norm is None else [*pieces, beside(half.stack.norm, 1.0)]


def together(pieces: list[Numbers]) -> Numbers:
    """All numbers one after the other, in large pages of memory where they can be had."""
    room = pieces[0].new_empty(sum(len(piece) for piece in pieces))
    decode.enlarge(room)
    return torch.cat(pieces, out=room)


def beside(norm: Norm, scale: float) -> Numbers:
    """A norm's weights, after its eps and the scale of the attention behind it."""
    weight = norm.weight.detach()
    shift = norm.bias.detach() if isinstance(norm, LayerNorm) else torch.zeros_like(weight)
    small = weight.new_zeros(decode.panel())
    small[0], small[1] = norm.eps, scale
    room = padded(norm.width) - norm.width
    return torch.cat([small, F.pad(weight, (0, room)), F.pad(shift, (0, room))])


def panels(weight: Float[Tensor, "out inner"], bias: Float[Tensor, " out"]) -> Numbers:
    """A matrix in panels of columns, and its bias behind it."""
    room = padded(len(weight)) - len(weight)
    columns = F.pad(weight, (0, 0, 0, room)).view(-1, decode.panel(), weight.shape[1]).transpose(1, 2)
    return torch.cat([columns.flatten(), F.pad(bias, (0, room))])


def padded(n: int) -> int:
    """As many as fill whole panels."""
    return -(-n // decode.panel()) * decode.panel()
