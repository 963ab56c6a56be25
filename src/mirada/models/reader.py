"""The reader: a question and a passage in one sequence; the answer is a span of the passage.

words + positions + segments -> norm -> encoder layers -> start and end scores of every place
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mirada.attention.heads import linear
from mirada.errors import require
from mirada.layers.block import BlockConfig, input_position, norm
from mirada.layers.dropout import Dropout
from mirada.layers.embed import Placed, Words
from mirada.layers.model import Model, as_padding, check_text, real_places
from mirada.layers.stack import Encoder
from mirada.shapes import check_axes, check_integers, show

Tokens = Int[Tensor, "batch length"]


@dataclass(frozen=True, kw_only=True)
class ReaderConfig(BlockConfig):
    """Vocabulary and depth; the block's fields are in `BlockConfig`."""

    activation: str = "gelu"
    position: str = "learned"
    vocab: int = 8000
    depth: int = 4

    def check(self) -> None:
        super().check()
        self.at_least(1, "vocab", "depth")

    @classmethod
    def tiny(cls) -> Self:
        return cls(vocab=13, width=16, heads=2, hidden=32, depth=2, dropout=0.0, length=32)


class Span(NamedTuple):
    """The scores of every place as the first and as the last of the answer; minus infinity outside the passage."""

    start: Float[Tensor, "batch length"]
    end: Float[Tensor, "batch length"]


class Reader(Model[ReaderConfig]):
    """Question and passage look at each other; two scores per place point at the answer.

    `segments` is 0 for the question and 1 for the passage: only there an answer may lie.

    >>> tokens, segments = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[0, 0, 1, 1]])
    >>> Reader(ReaderConfig.tiny())(tokens, segments).start.isinf().tolist()
    [[True, True, False, False]]

    Devlin et al. (2019), arXiv:1810.04805, 4.2; Rajpurkar et al. (2016), arXiv:1606.05250.
    """

    Config = ReaderConfig

    def __init__(self, config: ReaderConfig) -> None:
        super().__init__(config)
        self.words = Words(config.vocab, config.width)
        self.segments = Words(2, config.width, of="segment")
        self.place = Placed(input_position(config))
        self.norm = norm(config)
        self.dropout = Dropout(config.dropout)
        self.encoder = Encoder(config, config.depth)
        self.ends = linear(config.width, 2, bias=True)

    def forward(self, tokens: Tokens, segments: Tokens, lengths: Int[Tensor, " batch"] | None = None) -> Span:
        """The scores of every place as the answer's first and last."""
        check_text(tokens, segments)
        padding = as_padding(lengths, *tokens.shape)
        real = real_places(padding, tokens.shape[1])
        x = self.place(self.words(tokens) + self.segments(segments))
        h = self.encoder(self.dropout(self.norm(x, real)), padding, real)
        passage: Bool[Tensor, "batch length"] = segments == 1
        passage = passage if real is None else passage & real
        start, end = self.ends(h).masked_fill(~passage.unsqueeze(-1), -torch.inf).unbind(-1)
        return Span(start, end)

    def loss(
        self,
        tokens: Tokens,
        segments: Tokens,
        starts: Int[Tensor, " batch"],
        ends: Int[Tensor, " batch"],
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy of the true first and last places."""
        span = self(tokens, segments, lengths)
        for name, places in (("starts", starts), ("ends", ends)):
            check_axes(name, places, "batch")
            check_integers(name, places)
            require(places.shape == span.start.shape[:1], f"{name} must be one place per text: got {show(places)}")
            near = places.long().clamp(0, tokens.shape[1] - 1)
            inside = (near == places) & span.start.gather(1, near.unsqueeze(1)).isfinite().squeeze(1)
            require(bool(inside.all()), f"{name} must lie in the passage (segment 1): got {places.tolist()}")
        require(
            bool((starts <= ends).all()), f"ends must not lie before starts: got {starts.tolist()}, {ends.tolist()}"
        )
        require(len(tokens) > 0, "a loss needs at least one sample: got none")
        return (F.cross_entropy(span.start, starts.long()) + F.cross_entropy(span.end, ends.long())) / 2

    @torch.no_grad()
    def best(self, span: Span, longest: int = 30) -> tuple[Int[Tensor, "batch 2"], Float[Tensor, " batch"]]:
        """The likeliest span of at most `longest` places, first and last, and its log-probability."""
        require(longest >= 1, f"longest must be at least 1: got {longest}")
        require(bool(span.start.isfinite().any(1).all()), "every text needs a passage (segment 1) to find an answer in")
        start, end = (scores.log_softmax(-1) for scores in span)
        pairs = start.unsqueeze(2) + end.unsqueeze(1)
        length = start.shape[1]
        allowed = torch.ones(length, length, dtype=torch.bool, device=start.device).triu().tril(longest - 1)
        score, index = pairs.masked_fill(~allowed, -torch.inf).flatten(1).max(1)
        return torch.stack([index // length, index % length], dim=1), score
