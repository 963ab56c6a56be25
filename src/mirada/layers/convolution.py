"""Convolution stems: short-range features before attention looks further."""

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.errors import require, unknown
from mirada.layers.linear_activation import ACTIVATIONS
from mirada.shapes import check_axes, check_dtype, check_size, show


class Stem1d(nn.Module):
    """Convolutions along time, each followed by an activation; a stride > 1 shortens the sequence.

    Places beyond a sample's true length are zeros, so that a padded batch gives each sample what it gets alone.

    >>> frames, lengths = Stem1d(3, 8, depth=2, stride=2)(torch.zeros(2, 9, 3), torch.tensor([9, 4]))
    >>> frames.shape, lengths.tolist()
    (torch.Size([2, 3, 8]), [3, 1])
    """

    def __init__(
        self,
        channels: int,
        width: int,
        depth: int = 1,
        size: int = 3,
        stride: int = 1,
        padding: str = "same",
        activation: str = "relu",
    ) -> None:
        super().__init__()
        require(min(channels, width, depth, size, stride) >= 1, "sizes of a stem must be at least 1")
        require(padding in ("same", "valid"), f"padding must be 'same' or 'valid': got {padding!r}")
        if activation not in ACTIVATIONS:
            raise unknown("activation", activation, ACTIVATIONS)
        self.channels, self.size, self.stride, self.activation = channels, size, stride, activation
        self.margin = size // 2 if padding == "same" else 0
        self.layers = nn.ModuleList(
            nn.Conv1d(width if layer else channels, width, size, stride, self.margin) for layer in range(depth)
        )

    def forward(
        self, x: Float[Tensor, "batch time channels"], lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch shorter width"], Int[Tensor, " batch"] | None]:
        """The features, and the true lengths they have."""
        check_axes("x", x, "batch time channels")
        check_size("x", x, 2, "channels", self.channels)
        check_dtype("x", x, next(self.parameters()))
        x = rearrange(x, "b t c -> b c t")
        for layer in self.layers:
            require(
                x.shape[-1] + 2 * self.margin >= self.size,
                f"a convolution of size {self.size} needs at least {self.size - 2 * self.margin} places: got {x.shape[-1]}",
            )
            if lengths is not None:
                x = x.masked_fill(torch.arange(x.shape[-1], device=x.device) >= lengths.view(-1, 1, 1), 0)
                lengths = self.shorten(lengths)
            x = ACTIVATIONS[self.activation](layer(x))
        return rearrange(x, "b c t -> b t c"), lengths

    def shorten(self, lengths: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """How many places are left of that many, after one layer."""
        return ((lengths + 2 * self.margin - self.size).div(self.stride, rounding_mode="floor") + 1).clamp(min=0)


class Stem2d(nn.Module):
    """Convolutions over a picture, each halving its sides; the cells come out as a sequence, row by row.

    >>> Stem2d(3, 8, depth=2)(torch.zeros(2, 3, 12, 16)).shape
    torch.Size([2, 12, 8])
    """

    def __init__(self, channels: int, width: int, depth: int = 2, activation: str = "relu") -> None:
        super().__init__()
        require(min(channels, width, depth) >= 1, "sizes of a stem must be at least 1")
        if activation not in ACTIVATIONS:
            raise unknown("activation", activation, ACTIVATIONS)
        self.channels, self.activation = channels, activation
        self.layers = nn.ModuleList(
            nn.Conv2d(width if layer else channels, width, 3, stride=2, padding=1) for layer in range(depth)
        )

    def forward(self, pictures: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch cells out"]:
        check_axes("pictures", pictures, "batch channels height width")
        check_dtype("pictures", pictures, next(self.parameters()))
        require(
            pictures.shape[1] == self.channels, f"pictures must have {self.channels} channels: got {show(pictures)}"
        )
        require(min(pictures.shape[2:]) > 0, f"a picture needs at least one pixel: got shape {show(pictures)}")
        x = pictures
        for layer in self.layers:
            x = ACTIVATIONS[self.activation](layer(x))
        return rearrange(x, "b c h w -> b (h w) c")
