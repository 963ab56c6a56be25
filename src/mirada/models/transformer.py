"""The encoder-decoder Transformer, in the form of the paper and in the modern one.

source -> words + position -> encoder layers ------------------.
                                                               v
target -> words + position -> decoder layers (self, then cross over the source) -> output
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from mirada.attention.neighborhoods import Padding
from mirada.errors import require
from mirada.layers.block import BlockConfig, input_position, norm
from mirada.layers.embed import AddPosition, TokenEmbedding
from mirada.layers.model import StepModel, as_padding, check_pair, check_step, real_places
from mirada.layers.output import IGNORED, Output
from mirada.layers.stack import Decoder, DecoderState, Encoder
from mirada.shapes import check_axes

Tokens = Integer[Tensor, "batch length"]
Target = Integer[Tensor, "batch places"]
Lengths = Int[Tensor, " batch"]


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BlockConfig):
    """Vocabularies and depth; the block's fields are in `BlockConfig`.

    `tied` shares the target's words with the output, "all" also with the source, "words" the source's with the target's but
    not with the output (one vocabulary for both).

    Args:
        vocab: how many tokens there are.
        source_vocab: how many tokens the source has.
        depth: how many layers the encoder has.
        decoder_depth: how many layers the decoder has; 0: as many as the encoder.
        tied: no, output, words or all.
        output_bias: whether the output layer has a bias.
        output_scale: what the output layer multiplies its input by.
        scaled_words: whether word vectors are multiplied by sqrt(width).
        normed_words: whether words with their positions are normalized.
        and the fields of `BlockConfig`.

    >>> TransformerConfig(vocab=1000, source_vocab=1000, tied="all", where="window:64").depth
    3
    """

    vocab: int = 8000
    source_vocab: int = 8000
    depth: int = 3
    decoder_depth: int = 0
    tied: str = "output"  # no, output, words or all
    output_bias: bool = False
    output_scale: float = 1.0
    scaled_words: bool = True
    normed_words: bool = False
    small: ClassVar = {"vocab": 13, "source_vocab": 11, "depth": 2}

    def check(self) -> None:
        super().check()
        self.at_least(1, "vocab", "source_vocab", "depth")
        self.at_least(0, "decoder_depth")
        self.one_of("tied", "no", "output", "words", "all")
        if not 0 < self.output_scale < math.inf:
            raise ValueError(f"output_scale must be positive and finite: got {self.output_scale}")
        self.check_decoder()
        if self.one_table and self.vocab != self.source_vocab:
            raise ValueError(
                f"tied={self.tied!r} needs one vocabulary: got vocab={self.vocab}, source_vocab={self.source_vocab}. "
                "Use tied='output'."
            )

    @property
    def one_table(self) -> bool:
        """Whether source and target share the vectors of their words."""
        return self.tied in ("words", "all")

    @classmethod
    def paper(cls, vocab: int) -> Self:
        """The base model of "Attention Is All You Need"."""
        sizes: dict[str, Any] = {"width": 512, "heads": 8, "hidden": 2048, "depth": 6}
        return cls(vocab=vocab, source_vocab=vocab, order="post", tied="all", **sizes)


class SourceMemory(NamedTuple):
    """What the encoder made of a source."""

    states: Float[Tensor, "batch length width"]
    padding: Padding | None


class Transformer(StepModel[TransformerConfig]):
    """An encoder reads the source, a decoder writes the target and looks at the source at every layer.

    Args:
        config: sizes and parts, as a `TransformerConfig`.

    >>> import torch
    >>> model = Transformer(TransformerConfig.tiny())
    >>> source, target = torch.tensor([[1, 2, 3]]), torch.tensor([[0, 4]])
    >>> model(source, None, target).shape
    torch.Size([1, 2, 13])

    Vaswani et al. (2017), arXiv:1706.03762; pre-norm: Xiong et al. (2020), arXiv:2002.04745.
    """

    Config = TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        width, scaled = config.width, config.scaled_words
        self.target_words = TokenEmbedding(config.vocab, width, scaled)
        own = None if config.one_table else TokenEmbedding(config.source_vocab, width, scaled)
        self.source_words = self.target_words if own is None else own
        self.source_place, self.target_place = (
            AddPosition(input_position(config), config.dropout, norm(config) if config.normed_words else None)
            for _ in range(2)
        )
        self.encoder = Encoder(config, config.depth)
        self.decoder = Decoder(config, config.decoder_depth or config.depth)
        table = self.target_words.weight if config.tied in ("output", "all") else None
        self.output = Output(width, config.vocab, config.output_bias, table, config.output_scale)

    def forward(self, source: Tokens, lengths: Lengths | None, target: Target) -> Float[Tensor, "batch places vocab"]:
        """The scores of every next token: logits[:, t] follow target[:, :t + 1]."""
        return self.output(self.hidden(source, lengths, target))

    def loss(
        self,
        source: Tokens,
        lengths: Lengths | None,
        target: Target,
        wanted: Target,
        smoothing: float = 0.0,
        target_lengths: Lengths | None = None,
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy of the wanted tokens; -100 marks those that do not count."""
        real = wanted != IGNORED if target_lengths is None else None
        return self.output.loss(self.hidden(source, lengths, target, target_lengths, real), wanted, smoothing)

    def hidden(
        self,
        source: Tokens,
        lengths: Lengths | None,
        target: Target,
        target_lengths: Lengths | None = None,
        real: Bool[Tensor, "batch places"] | None = None,
    ) -> Float[Tensor, "batch places width"]:
        """What the output layer reads. No place sees the padding at a target's end; only batch norm would count it."""
        states, padding = self.encode(source, lengths)
        check_pair(source, target)
        if target_lengths is not None:
            real = real_places(as_padding(target_lengths, *target.shape), target.shape[1])
        return self.decoder(self.target_place(self.target_words(target)), states, padding, real)

    def encode(self, source: Tokens, lengths: Lengths | None = None) -> SourceMemory:
        """Read the source; `lengths` are the true lengths of a padded batch."""
        check_axes("source", source, "batch length")
        padding = as_padding(lengths, *source.shape)
        x = self.source_place(self.source_words(source))
        return SourceMemory(self.encoder(x, padding, real_places(padding, source.shape[1])), padding)

    def start(self, memory: SourceMemory) -> DecoderState:
        """The state before the first token."""
        require(isinstance(memory, SourceMemory), f"start takes what encode returned: got {type(memory).__name__}")
        return self.decoder.start(memory.states, memory.padding)

    def step(
        self, tokens: Int[Tensor, " batch"], state: DecoderState
    ) -> tuple[Float[Tensor, "batch vocab"], DecoderState]:
        """The scores of every next token after these, and the state that leads on."""
        check_step(tokens, state.batch)
        x = self.target_place(self.target_words(tokens.unsqueeze(1)), start=state.filled)
        h, state = self.decoder.step(x, state)
        return self.output(h[:, -1]), state
