"""Convolution stems: short-range features before attention; and pooling, from a sequence to one vector."""

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mirada.attention.equation import Attention
from mirada.attention.heads import MultiHead
from mirada.attention.neighborhoods import Dense
from mirada.errors import require, require_known, unknown
from mirada.layers.feedforward import ACTIVATIONS
from mirada.shapes import check_axes, check_dtype, check_pictures

USUAL = 3  # convolutions of a pooled stem
NARROWEST = 32  # channels after its first convolution, unless all of it is narrower


class Stem1d(nn.Module):
    """Convolutions along time, each followed by an activation; a stride > 1 shortens the sequence.

    Places beyond a sample's true length are zeros, so that a sample's features do not depend on the padding.

    Args:
        channels: numbers in a time step.
        width: numbers in a feature vector.
        depth: how many convolutions there are.
        size: places that a convolution sees.
        stride: places between two windows of a convolution.
        padding: "same" (zeros at both ends) or "valid".
        activation: relu, gelu, gelu-tanh or silu.

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
        require_known("activation", activation, ACTIVATIONS)
        self.channels, self.size, self.stride, self.activation = channels, size, stride, activation
        self.margin = size // 2 if padding == "same" else 0
        widths = [channels] + [width] * (depth - 1)
        self.layers = nn.ModuleList(nn.Conv1d(inputs, width, size, stride, self.margin) for inputs in widths)

    def forward(
        self, x: Float[Tensor, "batch time channels"], lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch shorter width"], Int[Tensor, " batch"] | None]:
        """The features, and the true lengths they have."""
        check_axes("x", x, "batch time channels", channels=self.channels)
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
        """The lengths after one layer."""
        return ((lengths + 2 * self.margin - self.size).div(self.stride, rounding_mode="floor") + 1).clamp(min=0)


class Stem2d(nn.Module):
    """Convolutions over a picture, each halving its sides; the cells are a sequence, row by row.

    Args:
        channels: numbers in a pixel.
        width: numbers in a cell.
        depth: how many convolutions there are.
        activation: relu, gelu, gelu-tanh or silu.

    >>> Stem2d(3, 8, depth=2)(torch.zeros(2, 3, 12, 16)).shape
    torch.Size([2, 12, 8])
    """

    def __init__(self, channels: int, width: int, depth: int = 2, activation: str = "relu") -> None:
        super().__init__()
        require(min(channels, width, depth) >= 1, "sizes of a stem must be at least 1")
        require_known("activation", activation, ACTIVATIONS)
        self.channels, self.activation = channels, activation
        widths = [channels] + [width] * (depth - 1)
        self.layers = nn.ModuleList(nn.Conv2d(inputs, width, 3, stride=2, padding=1) for inputs in widths)

    def forward(self, pictures: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch cells out"]:
        """A vector per cell."""
        check_pictures(pictures, self.channels)
        check_dtype("pictures", pictures, next(self.parameters()))
        x = pictures
        for layer in self.layers:
            x = ACTIVATIONS[self.activation](layer(x))
        return rearrange(x, "b c h w -> b (h w) c")


class PooledStem2d(nn.Module):
    """Convolutions over a picture, each with a norm and an activation; the first `pools` of them also halve its sides.

    x = activation(norm(max of 2 x 2 of conv(x))), with conv over 3 x 3; the cells are a sequence, row by row

    The norm is that of a batch, over all its pictures and places: with a norm of each place or of each picture the same
    model was 12 points behind and more after 350 steps (docs/decisions/0023). The channels double from one convolution to
    the next, up to `width`. What is left of a side that is odd is cut off.

    Args:
        channels: numbers in a pixel.
        width: numbers in a cell.
        pools: how often the sides are halved.
        depth: how many convolutions there are, at least `pools`; 0: three, or as many as there are pools.
        activation: relu, gelu, gelu-tanh or silu.

    >>> PooledStem2d(3, 8, pools=2)(torch.zeros(2, 3, 12, 16)).shape
    torch.Size([2, 12, 8])

    Hassani et al. (2021), Escaping the Big Data Paradigm with Compact Transformers, arXiv:2104.05704.
    """

    def __init__(self, channels: int, width: int, pools: int = 2, depth: int = 0, activation: str = "relu") -> None:
        super().__init__()
        depth = depth or max(USUAL, pools)
        require(min(channels, width, pools) >= 1, "sizes of a stem must be at least 1")
        require(depth >= pools, f"a stem of depth={depth} cannot halve a picture {pools} times: give depth={pools}")
        require_known("activation", activation, ACTIVATIONS)
        self.channels, self.pools, self.activation = channels, pools, activation
        widths = [max(min(width, NARROWEST), width >> (depth - 1 - number)) for number in range(depth)]
        before = [channels, *widths[:-1]]
        convolutions = (
            nn.Conv2d(inputs, outputs, 3, padding=1) for inputs, outputs in zip(before, widths, strict=True)
        )
        self.layers = nn.ModuleList(convolutions)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for outputs in widths)

    def forward(self, pictures: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch cells out"]:
        """A vector per cell."""
        check_pictures(pictures, self.channels)
        check_dtype("pictures", pictures, next(self.parameters()))
        batch, channels, height, width = pictures.shape
        # the numbers of a place side by side, which makes pools and norms fast; a view has strides that show it for one channel
        x = pictures.movedim(1, 3).reshape(-1).view(batch, height, width, channels).movedim(3, 1)
        for number, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            x = layer(x)
            if number < self.pools:
                x = nn.functional.max_pool2d(x, 2)
            x = ACTIVATIONS[self.activation](norm(x))
        return rearrange(x, "b c h w -> b (h w) c")


# From a sequence to one vector. Padding counts in none of them.


Input = Float[Tensor, "batch length width"]
Real = Bool[Tensor, "batch length"]


class Pool(nn.Module):
    """The interface: `pool(x, real)`, where `real` marks the places that are not padding (None: all are)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = self.out = width

    def forward(self, x: Input, real: Real | None = None) -> Float[Tensor, "batch out"]:
        """One vector per sample."""
        raise NotImplementedError


class MeanPool(Pool):
    """The average of the real places.

    >>> MeanPool(1)(torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([[True, True, False]])).item()
    2.0
    """

    def forward(self, x: Input, real: Real | None = None) -> Float[Tensor, "batch out"]:
        if real is None:
            return x.mean(1)
        return x.masked_fill(~real.unsqueeze(-1), 0).sum(1) / real.sum(1, keepdim=True).clamp(min=1)


class RootPool(Pool):
    """The sum of the real places over the square root of their number.

    >>> round(RootPool(1)(torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([[True, True, False]])).item() ** 2, 3)
    8.0
    """

    def forward(self, x: Input, real: Real | None = None) -> Float[Tensor, "batch out"]:
        if real is None:
            return x.sum(1) / max(1, x.shape[1]) ** 0.5
        return x.masked_fill(~real.unsqueeze(-1), 0).sum(1) / real.sum(1, keepdim=True).clamp(min=1).sqrt()


class MaxPool(Pool):
    """The largest number of every channel among the real places; 0 where there is none.

    >>> MaxPool(1)(torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([[True, True, False]])).item()
    3.0
    """

    def forward(self, x: Input, real: Real | None = None) -> Float[Tensor, "batch out"]:
        if real is None:
            return x.amax(1)
        return x.masked_fill(~real.unsqueeze(-1), -torch.inf).amax(1).masked_fill(~real.any(1, keepdim=True), 0)


class FirstPool(Pool):
    """The vector of the first place, the class token; 0 for a sample without places.

    >>> FirstPool(1)(torch.tensor([[[1.0], [3.0]]])).item()
    1.0
    """

    def forward(self, x: Input, real: Real | None = None) -> Float[Tensor, "batch out"]:
        return x[:, 0] if real is None else x[:, 0].masked_fill(~real[:, :1], 0)


class FirstMeanPool(Pool):
    """The vector of the first place and the average of the others side by side, without the first `before` places.

    Args:
        width: numbers in a vector.
        before: places that do not count in the average.

    >>> FirstMeanPool(1, before=2)(torch.tensor([[[1.0], [99.0], [3.0], [5.0]]])).tolist()
    [[1.0, 4.0]]

    Oquab et al. (2023), arXiv:2304.07193.
    """

    def __init__(self, width: int, before: int = 1) -> None:
        super().__init__(width)
        self.before, self.out = before, 2 * width

    def forward(self, x: Input, real: Real | None = None) -> Float[Tensor, "batch out"]:
        mean = MeanPool(self.width)(x[:, self.before :], None if real is None else real[:, self.before :])
        return torch.cat([FirstPool(self.width)(x, real), mean], dim=1)


class FlattenPool(Pool):
    """All places side by side: `length` of them, shorter samples filled with zeros.

    >>> FlattenPool(2, length=3)(torch.ones(1, 2, 2)).tolist()
    [[1.0, 1.0, 1.0, 1.0, 0.0, 0.0]]
    """

    def __init__(self, width: int, length: int) -> None:
        super().__init__(width)
        self.length, self.out = length, width * length

    def forward(self, x: Input, real: Real | None = None) -> Float[Tensor, "batch out"]:
        length = x.shape[1]
        message = f"Flatten has room for length={self.length}: got length={length}. Cut the input."
        require(length <= self.length, message)
        if real is not None:
            x = x.masked_fill(~real.unsqueeze(-1), 0)
        return rearrange(nn.functional.pad(x, (0, 0, 0, self.length - length)), "b n w -> b (n w)")


class AttentionPool(Pool):
    """A learned query attends to the sequence: a weighted average.

    >>> AttentionPool(8, heads=2)(torch.zeros(2, 3, 8)).shape
    torch.Size([2, 8])
    """

    def __init__(self, width: int, heads: int = 1) -> None:
        super().__init__(width)
        self.query = nn.Parameter(torch.randn(1, 1, width) * width**-0.5)
        self.attention = Attention(MultiHead(width, heads))

    def forward(self, x: Input, real: Real | None = None) -> Float[Tensor, "batch out"]:
        where = None if real is None else Dense(rearrange(real, "b n -> b 1 1 n"))
        return self.attention(self.query.expand(x.shape[0], -1, -1), memory=x, where=where)[:, 0]


def pool(name: str, width: int, heads: int, length: int) -> Pool:
    """The pooling of that name: mean, max, first, root, flatten or attention."""
    known: dict[str, type[Pool]] = {"mean": MeanPool, "max": MaxPool, "first": FirstPool, "root": RootPool}
    if name == "flatten":
        return FlattenPool(width, length)
    if name == "attention":
        return AttentionPool(width, heads)
    if name not in known:
        raise unknown("pool", name, [*known, "flatten", "attention"])
    return known[name](width)
