"""Weights in the form in which `step.c` reads them."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mirada.layers.block import DecoderLayer
from mirada.layers.norm import LayerNorm, Norm
from mirada.layers.output import Output
from mirada.layers.quick.library import loaded, panel
from mirada.layers.quick.parts import Part, joined

Numbers = Float[Tensor, " numbers"]


class Packed(NamedTuple):
    """All that is kept of a model's weights."""

    stack: Numbers
    sources: list[Numbers]  # keys and values of each layer that looks at a source
    scores: Numbers | None


def pack(parts: tuple[Part, ...], norm: Norm | None, layers: nn.ModuleList, output: Output | None) -> Packed:
    """The weights of a stack, of the norm behind it and of an output."""
    across = [layer.cross.heads for layer in layers if isinstance(layer, DecoderLayer)]
    return Packed(
        together(stack(parts, norm)),
        [packed(*joined(heads.key, heads.value)) for heads in across],  # type: ignore[arg-type]
        None if output is None else together([packed(*joined(output))]),  # type: ignore[arg-type]
    )


def stack(parts: tuple[Part, ...], last: Norm | None) -> list[Numbers]:
    """The weights of a stack in the order of a step: before the two matrices of each part, its norm."""
    pieces = []
    for part in parts:
        pieces += [beside(part.norm, part.scale), packed(*joined(*part.first)), packed(*joined(part.last))]
    return pieces if last is None else [*pieces, beside(last, 1.0)]


def together(pieces: list[Numbers]) -> Numbers:
    """All numbers one after the other, in large pages of memory where they can be had."""
    room = pieces[0].new_empty(sum(len(piece) for piece in pieces))
    loaded().enlarge(room.data_ptr(), 4 * len(room))
    return torch.cat(pieces, out=room)


def beside(norm: Norm, scale: float) -> Numbers:
    """A norm's weights, after its eps and the scale of the attention behind it."""
    weight = norm.weight.detach()
    shift = norm.bias.detach() if isinstance(norm, LayerNorm) else torch.zeros_like(weight)
    small = weight.new_zeros(panel())
    small[0], small[1] = norm.eps, scale
    room = padded(norm.width) - norm.width
    return torch.cat([small, F.pad(weight, (0, room)), F.pad(shift, (0, room))])


def packed(weight: Float[Tensor, "out inner"], bias: Float[Tensor, " out"]) -> Numbers:
    """A matrix in panels of columns, and its bias behind it."""
    room = padded(len(weight)) - len(weight)
    panels = F.pad(weight, (0, 0, 0, room)).view(-1, panel(), weight.shape[1]).transpose(1, 2)
    return torch.cat([panels.flatten(), F.pad(bias, (0, room))])


def padded(n: int) -> int:
    """As many as fill whole panels."""
    return -(-n // panel()) * panel()
