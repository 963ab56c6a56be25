"""From tokens, pictures and series to vectors of one width."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int, Integer
from torch import Tensor, nn

from mirada.attention.heads import linear
from mirada.attention.positions import InputPosition
from mirada.errors import require
from mirada.layers.dropout import Dropout
from mirada.layers.norm import Norm
from mirada.native.products import called
from mirada.shapes import check_axes, check_dtype, check_integers, check_pictures, show


class TokenEmbedding(nn.Module):
    """A vector per token: a row of a table.

    e = scale * table[token], with scale sqrt(width) for `scaled` tables, whose rows start with variance 1/width

    The table may be shared with the output layer, and may start from pretrained word vectors: `copy_vectors`.

    Args:
        vocab: how many tokens there are.
        width: numbers in a vector.
        scaled: whether vectors are multiplied by sqrt(width).
        of: what a token is called in errors.

    >>> TokenEmbedding(vocab=10, width=4)(torch.tensor([[1, 2]])).shape
    torch.Size([1, 2, 4])

    Vaswani et al. (2017), arXiv:1706.03762, 3.4.
    """

    def __init__(self, vocab: int, width: int, scaled: bool = False, of: str = "token") -> None:
        super().__init__()
        require(vocab >= 1 and width >= 1, f"sizes must be at least 1: got vocab={vocab}, width={width}")
        self.vocab, self.of, self.scale = vocab, of, math.sqrt(width) if scaled else 1.0
        self.weight = nn.Parameter(torch.empty(vocab, width))
        with torch.no_grad():  # in place: where weights come from a file, nothing is drawn
            nn.init.normal_(self.weight).mul_(width**-0.5 if scaled else 0.02)

    def forward(self, tokens: Integer[Tensor, "*places"]) -> Float[Tensor, "*places width"]:
        """The rows of these tokens."""
        check_integers(f"{self.of}s", tokens)
        try:
            vectors = F.embedding(tokens if tokens.dtype == torch.int32 else tokens.long(), self.weight)
        except IndexError:
            low, high = (int(bound) for bound in tokens.aminmax())
            raise ValueError(
                f"{self.of} ids must lie in 0..{self.vocab - 1}: got {low} to {high}. "
                "Was the text read with the model's own tokenizer?"
            ) from None
        return vectors if self.scale == 1.0 else vectors * self.scale

    @torch.no_grad()
    def copy_vectors(self, vectors: Float[Tensor, "vocab width"], frozen: bool = False) -> None:
        """Start from pretrained word vectors: row i is the vector of token i, a row of NaN means there is none.

        >>> words = TokenEmbedding(vocab=2, width=2)
        >>> words.copy_vectors(torch.tensor([[1.0, 2.0], [torch.nan, torch.nan]]), frozen=True)
        >>> words(torch.tensor([[0]])).tolist()
        [[[1.0, 2.0]]]
        """
        message = f"word vectors must fit the table {show(self.weight)}: got {show(vectors)}"
        require(vectors.shape == self.weight.shape, message)
        self.weight.copy_(torch.where(vectors.isnan(), self.weight, vectors / self.scale))
        self.weight.requires_grad_(not frozen)

    def extra_repr(self) -> str:
        return f"{self.vocab}, {self.weight.shape[1]}, scale={self.scale:.4g}"


class AddPosition(nn.Module):
    """Add the positions to an input, then drop out: what every input goes through before the first block.

    h = dropout(norm(x + position))

    Args:
        position: what is added; None adds nothing.
        dropout: the share of numbers dropped in training.
        norm: what the sum is normalized by; None leaves it as it is.

    >>> from mirada.attention.positions import Sinusoidal
    >>> AddPosition(Sinusoidal(4))(torch.zeros(1, 2, 4))[0, 0].tolist()
    [0.0, 1.0, 0.0, 1.0]
    """

    def __init__(self, position: InputPosition | None, dropout: float = 0.0, norm: Norm | None = None) -> None:
        super().__init__()
        self.position, self.norm = position, norm
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "batch length width"],
        start: int = 0,
        positions: Int[Tensor, "*batch length"] | None = None,
    ) -> Float[Tensor, "batch length width"]:
        """x with the positions start, start + 1, ... added, or those given."""
        x = x if self.position is None else self.position.add(x, start, positions)
        return self.dropout(x if self.norm is None else self.norm(x))


class Patches(nn.Module):
    """A picture as a sentence: squares of pixels, row by row, each through one linear layer.

    Args:
        channels: numbers in a pixel.
        size: pixels on a side of a patch.
        width: numbers in a vector.
        bias: whether a trained vector is added.

    >>> Patches(channels=3, size=4, width=8)(torch.zeros(2, 3, 8, 12)).shape
    torch.Size([2, 6, 8])

    Dosovitskiy et al. (2021), arXiv:2010.11929, 3.1.
    """

    def __init__(self, channels: int, size: int, width: int, bias: bool = True) -> None:
        super().__init__()
        require(min(channels, size, width) >= 1, f"sizes must be at least 1: got {channels}, {size}, {width}")
        self.channels, self.size = channels, size
        self.project = linear(channels * size * size, width, bias)

    def forward(self, pictures: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch n out"]:
        """A vector per patch."""
        check_pictures(pictures, self.channels)
        check_dtype("pictures", pictures, self.project.weight)
        height, width = pictures.shape[2:]
        require(
            height % self.size == 0 and width % self.size == 0,
            f"pictures must divide into patches of {self.size} x {self.size}: got {height} x {width}. Crop or resize them.",
        )
        pieces = rearrange(pictures, "b c (h p) (w q) -> b (h w) (c p q)", p=self.size, q=self.size)
        return called(self.project, pieces)


class SeriesEmbedding(nn.Module):
    """A vector per time step of a series, from the numbers measured there.

    Args:
        features: numbers in a time step.
        width: numbers in a vector.

    >>> SeriesEmbedding(features=3, width=8)(torch.zeros(2, 5, 3)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        require(min(features, width) >= 1, f"sizes must be at least 1: got features={features}, width={width}")
        self.features = features
        self.project = linear(features, width, bias=True)

    def forward(self, series: Float[Tensor, "batch time features"]) -> Float[Tensor, "batch time width"]:
        """A vector per time step."""
        check_axes("series", series, "batch time features")
        check_dtype("series", series, self.project.weight)
        message = f"series must have {self.features} features: got shape {show(series)}"
        require(series.shape[-1] == self.features, message)
        return self.project(series)
