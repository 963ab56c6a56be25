"""Text classifiers: a Transformer, and the lectures' two Keras programs.

transformer:  words + position -> encoder layers -> pool -> classes
lstm:         words -> LSTM -> attention (q = k = v, no parameters) -> mean -> classes
convolution:  words -> Conv1D, relu -> attention (learned scale, or heads) -> flatten -> dense, relu -> classes
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mirada.attention.equation import Attention
from mirada.attention.heads import MultiHead, Split, linear
from mirada.attention.neighborhoods import Padding
from mirada.attention.scores import Dot
from mirada.errors import require
from mirada.layers.block import BlockConfig, input_position
from mirada.layers.convolution import Stem1d, pool
from mirada.layers.dropout import Dropout
from mirada.layers.embed import AddPosition, TokenEmbedding
from mirada.layers.model import Model, as_padding, check_classes, real_places
from mirada.layers.output import check_smoothing
from mirada.layers.recurrent import Recurrent
from mirada.layers.stack import Encoder
from mirada.shapes import check_axes, show

Tokens = Int[Tensor, "batch length"]
Features = Float[Tensor, "batch length width"]
Encoded = Float[Tensor, "batch places units"]  # a convolution has fewer places
Real = Bool[Tensor, "batch places"]


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(BlockConfig):
    """`encoder` is transformer, lstm or convolution; `pool` is mean, max, first, attention or flatten.

    `units` is the size of the LSTM or of the convolution, `kernel` the reach of the convolution, `dense` an optional relu layer
    before the classes. `key_dim` is the dim of the `heads` of the convolution's attention; 0: one head, no projections, and a
    learned scale. One class means one score, through a sigmoid: yes or no.

    Args:
        encoder: transformer, lstm or convolution.
        vocab: how many tokens there are.
        classes: how many classes there are.
        depth: layers of the Transformer.
        pool: mean, max, first, attention or flatten.
        units: numbers in a state of the LSTM, or channels of the convolution.
        kernel: places that the convolution sees.
        key_dim: numbers in a key of one head of the convolution's attention; 0 for no projections.
        dense: numbers in the layer before the classes; 0 for none.
        numbers: places at the beginning that hold a number besides their token: the columns of a table.
        and the fields of `BlockConfig`.

    >>> ClassifierConfig(encoder="lstm", vocab=1000, classes=3, units=32).pool
    'mean'
    """

    encoder: str = "transformer"
    vocab: int = 8000
    classes: int = 2
    depth: int = 2
    pool: str = "mean"
    units: int = 20
    kernel: int = 3
    key_dim: int = 0
    dense: int = 0
    numbers: int = 0
    small: ClassVar = {"vocab": 13, "depth": 2, "classes": 3, "length": 16}

    def check(self) -> None:
        super().check()
        self.one_of("encoder", "transformer", "lstm", "convolution")
        self.one_of("pool", "mean", "max", "first", "attention", "flatten")
        self.at_least(1, "vocab", "classes", "depth", "units", "kernel")
        self.at_least(0, "dense", "key_dim", "numbers")
        if self.encoder == "convolution" and self.kernel > self.length:
            raise ValueError(f"a kernel of {self.kernel} does not fit a text of length={self.length}")

    @property
    def has_blocks(self) -> bool:
        return self.encoder == "transformer"

    @classmethod
    def keras_lstm(cls) -> Self:
        """The lectures' Embedding, LSTM(20), Attention, GlobalAveragePooling1D, Dense(1, sigmoid): 209,701 parameters."""
        return cls(encoder="lstm", vocab=2000, width=100, units=20, classes=1, dropout=0.0)

    @classmethod
    def keras_convolution(cls, key_dim: int = 0) -> Self:
        """The lectures' Embedding, Conv1D relu, Attention, Flatten, Dense(6, relu), Dense(1, sigmoid).

        With `key_dim=64` its attention has five heads of 64.
        """
        return cls(
            encoder="convolution", vocab=1000, width=20, heads=5, units=64, kernel=3, length=120, pool="flatten",
            dense=6, classes=1, key_dim=key_dim, dropout=0.0,
        )  # fmt: skip


class Classifier(Model[ClassifierConfig]):
    """Encode a text, pool it, and score the classes.

    Args:
        config: sizes and parts, as a `ClassifierConfig`.

    >>> Classifier(ClassifierConfig.tiny())(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3])
    >>> sum(p.numel() for p in Classifier(ClassifierConfig.keras_lstm()).parameters())
    209701
    """

    Config = ClassifierConfig
    head_parts: ClassVar[tuple[str, ...]] = ("dense", "classes")  # what a new head replaces
    head_fields: ClassVar[tuple[str, ...]] = ("classes",)

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__(config)
        self.words = TokenEmbedding(config.vocab, config.width)
        self.slopes = nn.Parameter(0.02 * torch.randn(config.numbers, config.width)) if config.numbers else None
        kinds = {"transformer": TransformerEncoder, "lstm": LSTMEncoder, "convolution": ConvolutionEncoder}
        encoder: Any = kinds[config.encoder](config)
        self.encoder, width, length = encoder, encoder.width, encoder.length
        self.pool = pool(config.pool, width, config.heads if width % config.heads == 0 else 1, length)
        self.dense = linear(self.pool.out, config.dense, bias=True) if config.dense else None
        self.dropout = Dropout(config.dropout)
        self.classes = linear(config.dense or self.pool.out, config.classes, bias=True)

    def forward(
        self,
        tokens: Tokens,
        lengths: Int[Tensor, " batch"] | None = None,
        values: Float[Tensor, "batch numbers"] | None = None,
    ) -> Float[Tensor, "batch classes"]:
        """The scores of the classes; of one class, the score of "yes" before the sigmoid, or the number that is estimated.

        The first places of a table hold numbers: word + value x slope, with a slope for every place.
        """
        check_axes("tokens", tokens, "batch length")
        require(tokens.shape[1] > 0, "a text needs at least one token: got none")
        message = f"the model reads texts of at most length={self.config.length}: got {tokens.shape[1]}. Cut the text."
        require(tokens.shape[1] <= self.config.length, message)
        h = self.words(tokens)
        if self.slopes is not None:
            good = values is not None and values.shape == (tokens.shape[0], self.config.numbers)
            require(
                good,
                f"values must be (batch, numbers={self.config.numbers}): got {values if values is None else show(values)}",
            )
            assert values is not None
            places = values.unsqueeze(-1) * self.slopes
            h = torch.cat([h[:, : self.config.numbers] + places, h[:, self.config.numbers :]], dim=1)
        else:
            require(values is None, "values are for a model with numbers=")
        h, real = self.encoder(h, as_padding(lengths, *tokens.shape))
        h = self.pool(h, real)
        h = h if self.dense is None else torch.relu(self.dense(h))
        return self.classes(self.dropout(h))

    def loss(
        self,
        tokens: Tokens,
        lengths: Int[Tensor, " batch"] | None,
        classes: Int[Tensor, " batch"],
        smoothing: float = 0.0,
        values: Float[Tensor, "batch numbers"] | None = None,
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy of the right classes (0 and 1 where there is one score)."""
        check_smoothing(smoothing)
        scores = self(tokens, lengths, values)
        classes = check_classes("classes", classes, max(2, self.config.classes), len(tokens))
        if self.config.classes == 1:
            soft = classes * (1 - smoothing) + smoothing / 2
            return F.binary_cross_entropy_with_logits(scores[:, 0], soft.to(scores.dtype))
        return F.cross_entropy(scores, classes, label_smoothing=smoothing)


class TransformerEncoder(nn.Module):
    """Positions, then encoder layers."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        self.width, self.length = config.width, config.length
        self.place = AddPosition(input_position(config), config.dropout)
        self.stack = Encoder(config, config.depth)

    def forward(self, x: Features, padding: Padding | None) -> tuple[Encoded, Real | None]:
        """A vector per place, and which places are real."""
        real = real_places(padding, x.shape[1])
        return self.stack(self.place(x), padding, real), real


class LSTMEncoder(nn.Module):
    """An LSTM whose states then look at each other: q = k = v, without a scale, as in Keras' `Attention()`."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        self.width, self.length = config.units, config.length
        self.recurrent = Recurrent("lstm", config.width, config.units)
        self.attention = Attention(Split(config.units, heads=1), score=Dot(scale=1.0))

    def forward(self, x: Features, padding: Padding | None) -> tuple[Encoded, Real | None]:
        """A vector per place, and which places are real."""
        states, _ = self.recurrent(x, None if padding is None else padding.lengths)
        return self.attention(states, where=padding), real_places(padding, x.shape[1])


class ConvolutionEncoder(nn.Module):
    """A convolution without margins, whose features then look at each other, with a learned scale or with heads."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        self.width, self.length = config.units, config.length - config.kernel + 1
        self.stem = Stem1d(config.width, config.units, size=config.kernel, padding="valid")
        if config.key_dim:
            self.attention = Attention(MultiHead(config.units, config.heads, dim=config.key_dim))
        else:
            self.attention = Attention(Split(config.units, heads=1), score=Dot("learned"))

    def forward(self, x: Features, padding: Padding | None) -> tuple[Encoded, Real | None]:
        """A vector per place, and which places are real."""
        h, lengths = self.stem(x, None if padding is None else padding.lengths)
        padding = as_padding(lengths, *h.shape[:2])
        return self.attention(h, where=padding), real_places(padding, h.shape[1])
