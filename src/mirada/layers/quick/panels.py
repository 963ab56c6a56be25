"""Weights in the form in which `step.c` reads them."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mirada.layers.norm import LayerNorm, Norm
from mirada.layers.quick.library import panel
from mirada.layers.quick.parts import Part, joined

Numbers = Float[Tensor, " numbers"]


def laid_out(parts: list[Part], last: Norm | None) -> Numbers:
    """The weights of a stack in the order of a step: before the two matrices of each part, its norm."""
    pieces = []
    for part in parts:
        pieces += [beside(part.norm, part.scale), packed(*joined(part.first)), packed(*joined((part.last,)))]
    return torch.cat(pieces if last is None else [*pieces, beside(last, 1.0)])


def beside(norm: Norm, scale: float) -> Numbers:
    """A norm's weights, after its eps and the scale of the attention behind it."""
    shift = norm.bias.detach() if isinstance(norm, LayerNorm) else torch.zeros(norm.width)
    small = torch.zeros(panel())
    small[0], small[1] = norm.eps, scale
    room = padded(norm.width) - norm.width
    return torch.cat([small, F.pad(norm.weight.detach(), (0, room)), F.pad(shift, (0, room))])


def packed(weight: Float[Tensor, "out inner"], bias: Float[Tensor, " out"]) -> Numbers:
    """A matrix in panels of columns, and its bias behind it."""
    room = padded(len(weight)) - len(weight)
    panels = F.pad(weight, (0, 0, 0, room)).view(-1, panel(), weight.shape[1]).transpose(1, 2)
    return torch.cat([panels.flatten(), F.pad(bias, (0, room))])


def padded(n: int) -> int:
    """As many as fill whole panels."""
    return -(-n // panel()) * panel()


def parameters_of(modules: list[nn.Module]) -> list[Tensor]:
    """The parameters of modules that have no others inside."""
    return [parameter for module in modules for parameter in module._parameters.values() if parameter is not None]
