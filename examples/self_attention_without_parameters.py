"""Self-attention with nothing to learn: every output is a mean of the inputs, weighted by their likeness.

    w'_ij = <x_i, x_j>,   w_ij = exp(w'_ij) / sum over j of exp(w'_ij),   y_i = sum over j of w_ij x_j

The layer is `Attention(Split(width, heads=1), score=Dot(scale=1.0))`: one head that is the whole vector, no projections, the
raw dot product. It is compared with the formula written out. Lectures, row 2.2.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from mirada import Attention, look
from mirada.attention.heads import Split
from mirada.attention.scores import Dot

X = ((2.0, 0.0, 1.0), (1.0, 1.0, 0.0), (0.0, 2.0, 0.0), (2.0, 0.0, 0.5))


def inputs() -> Float[Tensor, "n width"]:
    """Four vectors; the first and the last are alike."""
    return torch.tensor(X)


def by_formula(x: Float[Tensor, "n width"]) -> tuple[Tensor, Tensor, Tensor]:
    """Raw products w', weights w and outputs y, as the formula is written."""
    raw = x @ x.T
    weights = raw.exp() / raw.exp().sum(-1, keepdim=True)
    return raw, weights, weights @ x


def by_mirada(x: Float[Tensor, "n width"]) -> tuple[Attention, Tensor, Tensor]:
    """The layer, the weights it used and its outputs."""
    layer = Attention(Split(width=x.shape[-1], heads=1), score=Dot(scale=1.0))
    with look(layer) as seen:
        y = layer(x[None])
    return layer, seen[""].weights(head=0)[0], y[0]


def block(title: str, rows: Tensor, digits: int) -> list[str]:
    """A matrix under its title."""
    return [title, *("".join(f"{x:8.{digits}f}" for x in row) for row in rows)]


def main() -> None:
    x = inputs()
    raw, weights, y = by_formula(x)
    layer, layer_weights, layer_y = by_mirada(x)
    blocks = (
        block("x", x, 1),
        block("w' = <x_i, x_j>", raw, 1),
        block("w = softmax of each row", layer_weights, 3),
        block("y_i = sum of w_ij x_j", layer_y, 3),
    )
    print("\n\n".join("\n".join(lines) for lines in blocks))
    print(f"\nparameters of the layer: {sum(p.numel() for p in layer.parameters())}")
    print(f"largest difference from the formula: weights {(layer_weights - weights).abs().max():.0e}, ", end="")
    print(f"outputs {(layer_y - y).abs().max():.0e}")


if __name__ == "__main__":
    main()
