"""Encoders of texts, trained elsewhere or fine-tuned here: BERT, RoBERTa, DistilBERT, ELECTRA, ESM-2, ModernBERT.

words + positions + segments -> norm -> encoder layers -> a vector for every token
    -> mask:     transform -> a score for every word, at every place
    -> classes:  pool -> transform -> a score for every class
    -> tags:     transform -> a score for every tag, at every place
    -> span:     transform -> the scores of the first and the last place of an answer
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.heads import linear
from mirada.attention.neighborhoods import Padding
from mirada.errors import require
from mirada.layers.block import BlockConfig, input_position, norm
from mirada.layers.convolution import pool
from mirada.layers.dropout import Dropout
from mirada.layers.embed import AddPosition, TokenEmbedding
from mirada.layers.model import Model, as_padding, check_text, real_places, start_small
from mirada.layers.norm import NoNorm
from mirada.layers.output import IGNORED, Output, Transform
from mirada.layers.parse import parse
from mirada.layers.stack import Encoder
from mirada.shapes import check_axes, show

Tokens = Int[Tensor, "batch length"]
Lengths = Int[Tensor, " batch"]
HEADS = ("none", "mask", "classes", "tags", "span")
POOLS = ("first", "mean", "max", "root")
USUAL_MASKED = 0.15 * 0.8  # the share of tokens that are hidden while an ESM is trained


@dataclass(frozen=True, kw_only=True)
class TextEncoderConfig(BlockConfig):
    """Vocabulary, depth, and what stands before and behind the blocks; the block's fields are in `BlockConfig`.

    `head` is what the model answers: none (a vector for every token), mask (the words), classes, tags or span. `transform` is
    the layer before its scores: none, or an activation as in `tanh`, `gelu:norm=yes`, `gelu:norm=yes,bias=no`. Without a head
    it is the pooler that a checkpoint brings, which a new head may start from.

    Args:
        vocab: how many tokens there are.
        depth: how many layers there are.
        segments: how many kinds of segments there are; 0 for none.
        embed: numbers in a word's vector; 0 for the width of the blocks.
        input_norm: own (a norm of the input), first (it is the norm of the first attention, too) or none.
        masked: the token that is hidden by a vector of zeros, the others scaled to make up for it; -1 for none.
        head: none, mask, classes, tags or span.
        transform: the layer before the scores: none, or its activation, with norm=yes or bias=no.
        pool: the vector of a text: first, mean, max or root (the sum over the square root of the length).
        classes: classes or tags to score.
        tied: whether the scores of words share the table of the input.
        and the fields of `BlockConfig`.

    >>> TextEncoderConfig(vocab=1000, width=64, head="classes", transform="tanh", classes=3).pool
    'first'
    """

    activation: str = "gelu"
    order: str = "post"
    norm: str = "layer:1e-12"
    position: str = "learned"
    vocab: int = 8000
    depth: int = 4
    segments: int = 2
    embed: int = 0
    input_norm: str = "own"
    masked: int = -1
    head: str = "none"
    transform: str = "none"
    pool: str = "first"
    classes: int = 2
    tied: bool = True
    small: ClassVar = {"vocab": 13, "depth": 2, "head": "classes"}

    def check(self) -> None:
        super().check()
        self.at_least(1, "vocab", "depth", "classes")
        self.at_least(0, "segments", "embed")
        self.at_least(-1, "masked")
        self.at_most({"masked": self.vocab - 1})
        self.one_of("head", *HEADS)
        self.one_of("pool", *POOLS)
        self.one_of("input_norm", "own", "first", "none")
        if self.input_norm == "first" and self.order != "pre":
            raise ValueError(
                "input_norm=first is for blocks whose norms stand before (order=pre): their first has none"
            )
        if self.head == "mask" and self.transform == "none" and self.input_width != self.width:
            raise self._wrong(f"give transform=, which makes {self.input_width} numbers of {self.width} for head=mask")
        with torch.device("meta"):
            made_transform(self)

    @property
    def input_width(self) -> int:
        """Numbers in the vector of a word, a position and a segment."""
        return self.embed or self.width


class TextEncoder(Model[TextEncoderConfig]):
    """Every place attends to all others, or to those of its window; a head answers.

    What it returns depends on `config.head`: (batch, length, width) for none, (batch, length, vocab) for mask,
    (batch, classes) for classes, (batch, length, classes) for tags, (batch, length, 2) for span.

    Args:
        config: sizes and parts, as a `TextEncoderConfig`.

    >>> TextEncoder(TextEncoderConfig.tiny())(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 2])
    >>> sizes = TextEncoderConfig.tiny().to_dict() | {"head": "mask", "transform": "gelu:norm=yes", "embed": 6}
    >>> TextEncoder(TextEncoderConfig(**sizes))(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 13])

    Devlin et al. (2019), arXiv:1810.04805; Liu et al. (2019), arXiv:1907.11692; Sanh et al. (2019), arXiv:1910.01108; Clark et
    al. (2020), arXiv:2003.10555; Lin et al. (2023), Science 379; Warner et al. (2024), arXiv:2412.13663.
    """

    Config = TextEncoderConfig
    head_parts: ClassVar[tuple[str, ...]] = ("transform", "output")  # what a new head replaces
    head_fields: ClassVar[tuple[str, ...]] = ("head", "transform", "pool", "classes")

    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__(config)
        inner, width = config.input_width, config.width
        self.words = TokenEmbedding(config.vocab, inner)
        self.segments = TokenEmbedding(config.segments, inner, of="segment") if config.segments else None
        self.place = AddPosition(input_position(config, inner))
        self.norm = None if config.input_norm == "none" else norm(config, inner)
        self.dropout = Dropout(config.dropout)
        self.widen = None if inner == width else linear(inner, width, bias=True)
        self.encoder = Encoder(config, config.depth)
        if config.input_norm == "first":
            self.encoder.layers[0].around_self.norm = NoNorm(width)
        self.pool = pool(config.pool, width, config.heads, config.length)
        self.transform = made_transform(config)
        self.output = self._output(config)
        self.apply(start_small)

    @classmethod
    def reused_parts(cls, there: TextEncoderConfig, here: TextEncoderConfig) -> tuple[str, ...]:
        """The pooler that a checkpoint without a head brings."""
        same = there.head == "none" and there.transform == here.transform != "none"
        return ("transform",) if same else ()

    def _output(self, config: TextEncoderConfig) -> nn.Module | None:
        """The layer that scores; that of the words may share the table of the input."""
        if config.head == "mask":
            return Output(config.input_width, config.vocab, tied=self.words.weight if config.tied else None)
        scores = {"classes": config.classes, "tags": config.classes, "span": 2}
        return linear(config.width, scores[config.head], bias=True) if config.head in scores else None

    def forward(
        self, tokens: Tokens, lengths: Lengths | None = None, segments: Tokens | None = None
    ) -> Float[Tensor, "batch *places scores"]:
        """What the head answers; without one, a vector for every token."""
        h = self.encode(tokens, lengths, segments)
        return self.score(h, as_padding(lengths, *tokens.shape))

    def score(
        self, h: Float[Tensor, "batch length width"], padding: Padding | None = None
    ) -> Float[Tensor, "batch *places scores"]:
        """The answer of the head to the vectors of `encode`."""
        if self.output is None:
            return h
        if self.config.head == "mask":
            return self.output(self.before_scores(h))
        if self.config.head == "classes":
            h = self.pool(h, real_places(padding, h.shape[1]))
        return self.output(self.dropout(self.before_scores(h)))

    def before_scores(self, h: Float[Tensor, "*places width"]) -> Float[Tensor, "*places out"]:
        """What the layer of scores reads."""
        return h if self.transform is None else self.transform(h)

    def loss(
        self,
        tokens: Tokens,
        wanted: Tensor,
        lengths: Lengths | None = None,
        segments: Tokens | None = None,
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy of what is wanted: of words and tags at every place (-100: none), of the class, or of the first
        and the last place of the answer.
        """
        require(self.output is not None, "an encoder without a head has nothing to learn: give head=")
        h, padding = self.encode(tokens, lengths, segments), as_padding(lengths, *tokens.shape)
        if self.config.head == "mask":
            hidden = wanted != IGNORED
            return self.output.loss(self.before_scores(h[hidden]), wanted[hidden])  # type: ignore[union-attr,operator]
        scores, wanted = self.score(h, padding), wanted.long()
        if self.config.head == "span":
            real = real_places(padding, tokens.shape[1])
            scores = scores if real is None else scores.masked_fill(~real.unsqueeze(-1), -torch.inf)
            return F.cross_entropy(scores.transpose(1, 2).flatten(0, 1), wanted.flatten())
        return F.cross_entropy(scores.flatten(0, -2), wanted.flatten())

    def encode(
        self, tokens: Tokens, lengths: Lengths | None = None, segments: Tokens | None = None
    ) -> Float[Tensor, "batch length width"]:
        """A vector for every place, in its context."""
        check_axes("tokens", tokens, "batch length")
        check_text(tokens, tokens if segments is None else segments)
        shown = None if segments is None else show(segments)
        require(self.segments is not None or segments is None, f"the model has no segments: got {shown}")
        most = self.config.length
        message = f"the model reads texts of at most length={most} tokens: got {tokens.shape[1]}. Cut the text."
        require(tokens.shape[1] <= most, message)
        padding = as_padding(lengths, *tokens.shape)
        real = real_places(padding, tokens.shape[1])
        x = self._embedded(tokens, padding)
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        x = self.place(x)
        x = self.dropout(x if self.norm is None else self.norm(x, real))
        return self.encoder(x if self.widen is None else self.widen(x), padding, real)

    def _embedded(self, tokens: Tokens, padding: Padding | None) -> Float[Tensor, "batch length inner"]:
        """The vectors of the words.

        e = 0 for the hidden token, table[token] (1 - 0.12) / (1 - hidden / length) for the others, where a token hides by zeros
        """
        x = self.words(tokens)
        if self.config.masked < 0:
            return x
        hidden = tokens == self.config.masked
        real = real_places(padding, tokens.shape[1])
        counted, length = (hidden, tokens.shape[1]) if real is None else (hidden & real, real.sum(1))
        rest = 1 - counted.sum(1).to(x.dtype) / length
        factor = (1 - USUAL_MASKED) / rest.clamp(min=torch.finfo(x.dtype).tiny)
        return x.masked_fill(hidden.unsqueeze(-1), 0.0) * factor[:, None, None]

    def vector(
        self, tokens: Tokens, lengths: Lengths | None = None, segments: Tokens | None = None
    ) -> Float[Tensor, "batch width"]:
        """One vector for every text: those of its tokens, pooled as `config.pool` says."""
        h = self.encode(tokens, lengths, segments)
        return self.pool(h, real_places(as_padding(lengths, *tokens.shape), tokens.shape[1]))


def told_apart(segments: Tokens, config: BlockConfig) -> Tokens | None:
    """Segments as a model takes them: None where it has one kind, or none.

    >>> told_apart(torch.tensor([[0, 1]]), TextEncoderConfig.tiny())
    tensor([[0, 1]])
    """
    return segments if getattr(config, "segments", 0) > 1 else None


def made_transform(config: TextEncoderConfig) -> Transform | None:
    """The layer before the scores that a configuration describes."""
    if config.transform == "none":
        return None
    out = config.input_width if config.head == "mask" else config.width
    return parse("transform", config.transform, {"width": config.width, "out": out, "normed": partial(norm, config)})
