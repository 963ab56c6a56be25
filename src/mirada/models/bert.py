"""BERT: a bidirectional encoder, trained to fill gaps and to predict whether one sentence follows another.

words + positions + segments -> norm -> encoder layers -> gaps:   dense, gelu, norm, output (tied)
                                                       -> first:  dense, tanh -> follows or not
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mirada.attention.heads import linear
from mirada.errors import require
from mirada.layers.block import BlockConfig, input_position, norm
from mirada.layers.dropout import Dropout
from mirada.layers.embed import AddPosition, TokenEmbedding
from mirada.layers.feedforward import ACTIVATIONS
from mirada.layers.model import Model, as_padding, check_classes, check_text, real_places, start_small
from mirada.layers.output import IGNORED, Output
from mirada.layers.stack import Encoder
from mirada.shapes import check_axes, show

Tokens = Int[Tensor, "batch length"]
Lengths = Int[Tensor, " batch"]


@dataclass(frozen=True, kw_only=True)
class BERTConfig(BlockConfig):
    """Vocabulary, depth and number of segments; the block's fields are in `BlockConfig`.

    Args:
        vocab: how many tokens there are.
        depth: how many layers there are.
        segments: how many kinds of segments there are.
        and the fields of `BlockConfig`.

    >>> BERTConfig(vocab=1000, width=64, depth=2).position
    'learned'
    """

    activation: str = "gelu"
    order: str = "post"
    norm: str = "layer:1e-12"
    position: str = "learned"
    vocab: int = 8000
    depth: int = 4
    segments: int = 2
    small: ClassVar = {"vocab": 13, "depth": 2}

    def check(self) -> None:
        super().check()
        self.at_least(1, "vocab", "depth", "segments")


class Predicted(NamedTuple):
    """The scores of every token at every place, and of "does not follow" and "follows"."""

    words: Float[Tensor, "batch length vocab"]
    follows: Float[Tensor, "batch 2"]


class BERT(Model[BERTConfig]):
    """Every place attends to all others; trained on hidden words and the order of sentences.

    Args:
        config: sizes and parts, as a `BERTConfig`.

    >>> BERT(BERTConfig.tiny())(torch.tensor([[1, 2, 3]])).words.shape
    torch.Size([1, 3, 13])

    Devlin et al. (2019), arXiv:1810.04805.
    """

    Config = BERTConfig

    def __init__(self, config: BERTConfig) -> None:
        super().__init__(config)
        self.words = TokenEmbedding(config.vocab, config.width)
        self.segments = TokenEmbedding(config.segments, config.width, of="segment")
        self.place = AddPosition(input_position(config))
        self.norm = norm(config)
        self.dropout = Dropout(config.dropout)
        self.encoder = Encoder(config, config.depth)
        self.gap = linear(config.width, config.width, bias=True)
        self.gap_norm = norm(config)
        self.output = Output(config.width, config.vocab, tied=self.words.weight)
        self.pool = linear(config.width, config.width, bias=True)
        self.order = linear(config.width, 2, bias=True)
        self.apply(start_small)

    def forward(self, tokens: Tokens, lengths: Lengths | None = None, segments: Tokens | None = None) -> Predicted:
        """What every place could hold, and whether the second segment follows the first."""
        h = self.encode(tokens, lengths, segments)
        real = real_places(as_padding(lengths, *tokens.shape), tokens.shape[1])
        return Predicted(self.output(self.guess(h, real)), self.order(self.summary(h)))

    def loss(
        self,
        tokens: Tokens,
        wanted: Tokens,
        lengths: Lengths | None = None,
        segments: Tokens | None = None,
        follows: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy of the hidden words (-100: not hidden), plus that of the order where it is given."""
        h = self.encode(tokens, lengths, segments)
        check_axes("wanted", wanted, "batch length")
        require(wanted.shape == tokens.shape, f"wanted must fit the tokens {show(tokens)}: got {show(wanted)}")
        hidden: Bool[Tensor, "batch length"] = wanted != IGNORED
        total = self.output.loss(self.guess(h[hidden]), wanted[hidden])  # other places need no scores
        if follows is None:
            return total
        follows = check_classes("follows", follows, 2, len(tokens))
        return total + F.cross_entropy(self.order(self.summary(h)), follows)

    def encode(
        self, tokens: Tokens, lengths: Lengths | None = None, segments: Tokens | None = None
    ) -> Float[Tensor, "batch length width"]:
        """A vector for every place, in its context."""
        check_axes("tokens", tokens, "batch length")
        segments = torch.zeros_like(tokens) if segments is None else segments
        check_text(tokens, segments)
        padding = as_padding(lengths, *tokens.shape)
        real = real_places(padding, tokens.shape[1])
        x = self.place(self.words(tokens) + self.segments(segments))
        return self.encoder(self.dropout(self.norm(x, real)), padding, real)

    def guess(
        self, h: Float[Tensor, "*batch width"], real: Bool[Tensor, "*batch"] | None = None
    ) -> Float[Tensor, "*batch width"]:
        """What the output layer reads to guess a word."""
        return self.gap_norm(ACTIVATIONS.get(self.config.activation, F.gelu)(self.gap(h)), real)

    def summary(self, h: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch width"]:
        """A vector for the whole text: the first place, once more transformed."""
        return torch.tanh(self.pool(h[:, 0]))
