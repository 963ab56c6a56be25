"""The residual connection around a layer, before or after its norm."""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn

from mirada.errors import unknown
from mirada.layers.dropout import Dropout
from mirada.layers.norm import Norm

Input = Float[Tensor, "batch length width"]


class Residual(nn.Module):
    """A layer with its norm, its dropout and a way around it.

    pre:   h = x + dropout(layer(norm(x)))
    post:  h = norm(x + dropout(layer(x)))

    The layer is handed over at the call, so that it keeps a short name in the module that owns it.

    >>> from mirada.layers.norm import LayerNorm
    >>> import torch
    >>> around = Residual(LayerNorm(4), order="pre")
    >>> around(torch.ones(1, 1, 4), lambda x: 3 * x).tolist()
    [[[1.0, 1.0, 1.0, 1.0]]]

    He et al. (2016), arXiv:1512.03385; Xiong et al. (2020), arXiv:2002.04745.
    """

    def __init__(self, norm: Norm, order: Literal["pre", "post"], dropout: float = 0.0) -> None:
        super().__init__()
        if order not in ("pre", "post"):
            raise unknown("order", order, ["pre", "post"])
        self.norm, self.order = norm, order
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Input, layer: Callable[[Input], Input], real: Bool[Tensor, "batch length"] | None = None
    ) -> Input:
        if self.order == "pre":
            return self.dropout(layer(self.norm(x, real)), base=x)
        return self.norm(self.dropout(layer(x), base=x), real)

    def extra_repr(self) -> str:
        return f"order={self.order!r}"
