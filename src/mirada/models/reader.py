"""The reader: a question and a passage in one sequence; the answer is a span of the passage.

words + positions + segments (+ marks) -> norm (-> convolutions) -> encoder layers -> start and end scores of every place
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
from mirada.layers.convolution import Stem1d
from mirada.layers.dropout import Dropout
from mirada.layers.embed import AddPosition, TokenEmbedding
from mirada.layers.model import Model, as_padding, check_text, real_places
from mirada.layers.stack import Encoder, Layers
from mirada.shapes import check_axes, check_integers, readable, show

Tokens = Int[Tensor, "batch length"]


@dataclass(frozen=True, kw_only=True)
class ReaderConfig(BlockConfig):
    """Vocabulary and depth; the block's fields are in `BlockConfig`.

    `marks` is how many marks a place can have besides its word, such as "this word is in the question, too": features that a
    small model would need many examples to learn (Chen et al., 2017, arXiv:1704.00051, 3.2). 0: there are none.
    `convolutions`, each over `kernel` places, come before the encoder: neighbors matter most, and attention would have
    to learn that (Yu et al., 2018, arXiv:1804.09541).

    Args:
        vocab: how many tokens there are.
        depth: how many layers there are.
        marks: how many marks a place can have.
        convolutions: how many convolutions come before the encoder.
        kernel: places that a convolution sees.
        and the fields of `BlockConfig`.

    >>> ReaderConfig(vocab=1000, width=64, marks=2, convolutions=1).kernel
    5
    """

    activation: str = "gelu"
    position: str = "learned"
    vocab: int = 8000
    depth: int = 4
    marks: int = 0
    convolutions: int = 0
    kernel: int = 5
    small: ClassVar = {"vocab": 13, "depth": 2}

    def check(self) -> None:
        super().check()
        self.at_least(1, "vocab", "depth", "kernel")
        self.at_least(0, "marks", "convolutions")
        require(self.kernel % 2 == 1, f"ReaderConfig: kernel must be odd, to have a middle: got {self.kernel}")


class Span(NamedTuple):
    """The scores of every place as the first and as the last of the answer; minus infinity outside the passage."""

    start: Float[Tensor, "batch length"]
    end: Float[Tensor, "batch length"]


class Reader(Model[ReaderConfig]):
    """Question and passage look at each other; two scores per place point at the answer.

    `segments` is 0 for the question and 1 for the passage: only there an answer may lie.

    Args:
        config: sizes and parts, as a `ReaderConfig`.

    >>> tokens, segments = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[0, 0, 1, 1]])
    >>> Reader(ReaderConfig.tiny())(tokens, segments).start.isinf().tolist()
    [[True, True, False, False]]

    Devlin et al. (2019), arXiv:1810.04805, 4.2; Rajpurkar et al. (2016), arXiv:1606.05250.
    """

    Config = ReaderConfig

    def __init__(self, config: ReaderConfig) -> None:
        super().__init__(config)
        self.words = TokenEmbedding(config.vocab, config.width)
        self.segments = TokenEmbedding(2, config.width, of="segment")
        self.marks = TokenEmbedding(config.marks, config.width, of="mark") if config.marks else None
        self.place = AddPosition(input_position(config))
        self.norm = norm(config)
        self.dropout = Dropout(config.dropout)
        stems = (Stem1d(config.width, config.width, size=config.kernel) for _ in range(config.convolutions))
        self.stems: Layers[Stem1d] = Layers(stems)
        self.encoder = Encoder(config, config.depth)
        self.ends = linear(config.width, 2, bias=True)

    def forward(
        self,
        tokens: Tokens,
        segments: Tokens,
        lengths: Int[Tensor, " batch"] | None = None,
        marks: Tokens | None = None,
    ) -> Span:
        """The scores of every place as the answer's first and last."""
        check_text(tokens, segments)
        padding = as_padding(lengths, *tokens.shape)
        real = real_places(padding, tokens.shape[1])
        x = self.place(self.words(tokens) + self.segments(segments) + self.marked(tokens, marks))
        x = self.dropout(self.norm(x, real))
        for stem in self.stems:
            x = x + self.dropout(stem(x, lengths)[0])
        h = self.encoder(x, padding, real)
        passage: Bool[Tensor, "batch length"] = segments == 1
        passage = passage if real is None else passage & real
        start, end = self.ends(h).masked_fill(~passage.unsqueeze(-1), -torch.inf).unbind(-1)
        return Span(start, end)

    def marked(self, tokens: Tokens, marks: Tokens | None) -> Float[Tensor, "batch length width"] | float:
        """The vectors of the marks; 0 for a model without marks."""
        if self.marks is None or marks is None:
            require(
                self.marks is marks is None,
                f"a reader with marks={self.config.marks} is {'given' if self.marks else 'not given'} a mark for every place",
            )
            return 0.0
        require(marks.shape == tokens.shape, f"a mark for every token: got {show(marks)} for {show(tokens)}")
        return self.marks(marks)

    def loss(
        self,
        tokens: Tokens,
        segments: Tokens,
        starts: Int[Tensor, " batch"],
        ends: Int[Tensor, " batch"],
        lengths: Int[Tensor, " batch"] | None = None,
        marks: Tokens | None = None,
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy of the true first and last places."""
        span = self(tokens, segments, lengths, marks)
        for name, places in (("starts", starts), ("ends", ends)):
            check_axes(name, places, "batch")
            check_integers(name, places)
            require(places.shape == span.start.shape[:1], f"{name} must be one place per text: got {show(places)}")
            if not readable(places, span.start):
                continue
            near = places.long().clamp(0, tokens.shape[1] - 1)
            inside = (near == places) & span.start.gather(1, near.unsqueeze(1)).isfinite().squeeze(1)
            require(bool(inside.all()), f"{name} must lie in the passage (segment 1): got {places.tolist()}")
        if readable(starts, ends):
            message = f"ends must not lie before starts: got {starts.tolist()}, {ends.tolist()}"
            require(bool((starts <= ends).all()), message)
        require(len(tokens) > 0, "a loss needs at least one sample: got none")
        return (F.cross_entropy(span.start, starts.long()) + F.cross_entropy(span.end, ends.long())) / 2

    @torch.no_grad()
    def best(self, span: Span, longest: int = 30) -> tuple[Int[Tensor, "batch 2"], Float[Tensor, " batch"]]:
        """The likeliest span of at most `longest` places, first and last, and its log-probability."""
        require(longest >= 1, f"longest must be at least 1: got {longest}")
        require(bool(span.start.isfinite().any(1).all()), "every text needs a passage (segment 1) to find an answer in")
        start, end = (scores.log_softmax(-1) for scores in span)
        places, scores = best_spans(start, end, longest)
        return places[:, 0], scores[:, 0]


def best_spans(
    start: Float[Tensor, "batch length"], end: Float[Tensor, "batch length"], longest: int, count: int = 1
) -> tuple[Int[Tensor, "batch count 2"], Float[Tensor, "batch count"]]:
    """The `count` likeliest spans of at most `longest` places, first and last, and their log-probabilities, best first.

    score(i, j) = log p_start(i) + log p_end(j),    i <= j < i + longest

    What is minus infinity cannot be in a span; where there are fewer spans, the others have that score.

    >>> start, end = torch.tensor([[0.1, 0.2, 0.7]]).log(), torch.tensor([[0.8, 0.1, 0.1]]).log()
    >>> places, scores = best_spans(start, end, longest=2, count=2)
    >>> places.tolist(), [round(p, 2) for p in scores.exp()[0].tolist()]
    ([[[0, 0], [2, 2]]], [0.08, 0.07])
    """
    require(longest >= 1 and count >= 1, f"longest and count must be at least 1: got {longest}, {count}")
    batch, length = start.shape
    longest = min(longest, length)
    # a row for every length of a span, so that only what is allowed is added up: longest x length, not length x length
    pairs = start.new_full((batch, longest, length), -torch.inf)
    for more in range(longest):
        pairs[:, more, : length - more] = start[:, : length - more] + end[:, more:]
    scores, index = pairs.flatten(1).topk(min(count, longest * length))
    first = index % length
    return torch.stack([first, first + index.div(length, rounding_mode="floor")], dim=-1), scores


def span_mass(
    start: Float[Tensor, "batch length"], end: Float[Tensor, "batch length"], longest: int
) -> Float[Tensor, " batch"]:
    """The log-probability of all spans of at most `longest` places together: the rest belongs to pairs that are no spans.

    >>> start, end = torch.tensor([[0.1, 0.2, 0.7]]).log(), torch.tensor([[0.8, 0.1, 0.1]]).log()
    >>> round(span_mass(start, end, longest=2).exp().item(), 2)  # 0.1 * 0.9 + 0.2 * 0.2 + 0.7 * 0.1
    0.2
    """
    before = F.pad(end.double().exp().cumsum(1), (1, 0))
    length = end.shape[1]
    last = (torch.arange(length, device=end.device) + longest).clamp(max=length)
    return (start.double().exp() * (before[:, last] - before[:, :-1])).sum(1).log().to(start.dtype)
