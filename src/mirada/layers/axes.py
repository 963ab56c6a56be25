"""Attention over any axes of an n-d input: space, time, or both for a video."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mirada.attention.equation import Attention
from mirada.attention.neighborhoods import Neighborhood
from mirada.errors import require
from mirada.shapes import show


class Axes(nn.Module):
    """Attend over the named axes of (batch, ..., width); places along the other axes are independent.

    The attended axes are flattened row by row into one sequence, the others into the batch. For a video of the axes
    (batch, time, height, width, channels), `axes=1` lets each pixel look along time, `axes=(2, 3)` lets each frame look at
    itself, and `axes=(1, 2, 3)` is space x time. A call's `where` speaks of samples: it holds for every place of its sample.

    Args:
        attention: the layer that attends.
        axes: the axis or axes to attend over, counted with the batch as 0.

    >>> from mirada.attention.heads import MultiHead
    >>> over_time = Axes(Attention(MultiHead(8, heads=2)), axes=1)
    >>> over_time(torch.zeros(1, 5, 3, 4, 8)).shape
    torch.Size([1, 5, 3, 4, 8])

    Keras calls them `attention_axes`.
    """

    def __init__(self, attention: Attention, axes: int | tuple[int, ...]) -> None:
        super().__init__()
        self.attention = attention
        self.axes = (axes,) if isinstance(axes, int) else tuple(axes)
        require(len(self.axes) > 0, "Axes needs at least one axis")

    def forward(
        self,
        x: Float[Tensor, "batch *n width"],
        memory: Float[Tensor, "batch *m width"] | None = None,
        values: Float[Tensor, "batch *m width"] | None = None,
        where: Neighborhood | None = None,
        **kwargs: Any,
    ) -> Float[Tensor, "batch *n out"]:
        """As `Attention`, with any number of axes between batch and width."""
        require("cache" not in kwargs, "a cache counts one axis of time; call the attention itself")
        free = self._free(x)
        others: dict[str, Tensor | None] = {}
        for name, tensor in (("memory", memory), ("values", values)):
            if tensor is not None:
                sizes = [tensor.shape[axis] for axis in free] if tensor.ndim == x.ndim else None
                require(
                    sizes == [x.shape[axis] for axis in free],
                    f"{name} must agree with x on the axes that are not attended, {(0, *free)}: "
                    f"got {name} {show(tensor)}, x {show(x)}",
                )
            others[name] = None if tensor is None else self._flatten(tensor)
        if where is not None:
            where = where.repeat(math.prod(x.shape[axis] for axis in free))
        y = self.attention(self._flatten(x), where=where, **others, **kwargs)
        order = (0, *free, *self._attended(x), x.ndim - 1)
        y = y.reshape(*(x.shape[axis] for axis in order[:-1]), y.shape[-1])
        return y.permute(*torch.tensor(order).argsort().tolist())

    def _attended(self, x: Tensor) -> tuple[int, ...]:
        axes = tuple(axis % x.ndim if -x.ndim <= axis < x.ndim else x.ndim for axis in self.axes)
        fits = len(set(axes)) == len(axes) and all(0 < axis < x.ndim - 1 for axis in axes)
        require(fits, f"axes must be distinct and lie between batch and width: got axes={self.axes} for x {show(x)}")
        return axes

    def _free(self, x: Tensor) -> tuple[int, ...]:
        attended = self._attended(x)
        return tuple(axis for axis in range(1, x.ndim - 1) if axis not in attended)

    def _flatten(self, x: Tensor) -> Float[Tensor, "rows n width"]:
        # raw permutes: which axes there are is known only at the call
        attended, free = self._attended(x), self._free(x)
        rows, n = x.shape[0] * math.prod(x.shape[a] for a in free), math.prod(x.shape[a] for a in attended)
        return x.permute(0, *free, *attended, x.ndim - 1).reshape(rows, n, x.shape[-1])

    def extra_repr(self) -> str:
        return f"axes={self.axes}"
