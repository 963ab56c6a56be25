"""GPT: a decoder-only Transformer that reads a text and predicts what comes next.

text -> words + position -> causal layers -> norm -> output
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from mirada.attention.heads import linear
from mirada.attention.neighborhoods import Documents, Neighborhood
from mirada.errors import require
from mirada.layers.block import BlockConfig, input_position
from mirada.layers.embed import AddPosition, TokenEmbedding
from mirada.layers.model import StepModel, start_small
from mirada.layers.output import IGNORED, Output
from mirada.layers.stack import DecoderState, Stack
from mirada.shapes import check_axes

Tokens = Integer[Tensor, "batch length"]


@dataclass(frozen=True, kw_only=True)
class GPTConfig(BlockConfig):
    """Vocabulary and depth; the block's fields are in `BlockConfig`.

    Args:
        vocab: how many tokens there are.
        depth: how many layers there are.
        tied: whether the output layer shares the words' table.
        embed: numbers in a word's vector, before the blocks and behind them; 0 for the width of the blocks.
        and the fields of `BlockConfig`.

    >>> GPTConfig(vocab=1000, width=64, depth=2, position="rotary").tied
    True
    """

    activation: str = "gelu-tanh"
    position: str = "learned"
    vocab: int = 8000
    depth: int = 4
    tied: bool = True
    embed: int = 0
    small: ClassVar = {"vocab": 13, "depth": 2}

    def check(self) -> None:
        super().check()
        self.at_least(1, "vocab", "depth")
        self.at_least(0, "embed")
        self.check_decoder()

    @property
    def word_width(self) -> int:
        """Numbers in the vector of a word."""
        return self.embed or self.width


class GPT(StepModel[GPTConfig]):
    """Every place looks at itself and at what came before, and predicts the next token.

    Args:
        config: sizes and parts, as a `GPTConfig`.

    >>> import torch
    >>> GPT(GPTConfig.tiny())(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 13])

    Radford et al. (2019), "Language Models are Unsupervised Multitask Learners".
    """

    Config = GPTConfig

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(config)
        inner, width = config.word_width, config.width
        self.words = TokenEmbedding(config.vocab, inner)
        self.widen = None if inner == width else linear(inner, width, bias=False)
        self.narrow = None if inner == width else linear(width, inner, bias=False)
        self.place = AddPosition(input_position(config), config.dropout)
        self.decoder = Stack(config, config.depth)
        self.output = Output(inner, config.vocab, bias=False, tied=self.words.weight if config.tied else None)
        self.apply(start_small)

    def forward(
        self, tokens: Tokens, where: Neighborhood | None = None, positions: Tokens | None = None
    ) -> Float[Tensor, "batch length vocab"]:
        """The scores of every next token. Texts packed into one row pass `where=Documents(ids)` and their own positions."""
        return self.output(self.hidden(tokens, where, positions))

    def loss(
        self,
        tokens: Tokens,
        wanted: Tokens,
        where: Neighborhood | None = None,
        positions: Tokens | None = None,
        smoothing: float = 0.0,
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy of the wanted tokens; -100 marks those that do not count."""
        return self.output.loss(self.hidden(tokens, where, positions, wanted != IGNORED), wanted, smoothing)

    def hidden(
        self,
        tokens: Tokens,
        where: Neighborhood | None = None,
        positions: Tokens | None = None,
        real: Bool[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch length word_width"]:
        """What the output layer reads. `real` marks the places that a batch norm counts."""
        check_axes("tokens", tokens, "batch length")
        x = self.place(self._words(tokens), positions=positions)
        homogeneous = all(layer.self_attention.where.homogeneous for layer in self.decoder.layers)
        if homogeneous and self.place.position is not None and _steady(positions, where):
            positions = None  # they are in x already, and distances are the same without them: a faster kernel will do
        return self._narrowed(self.decoder(x, where, real, positions))

    def start(self, batch: int = 1) -> DecoderState:
        """The state of `batch` empty texts: this model has no source to read."""
        require(isinstance(batch, int), f"start takes a number of texts: got {type(batch).__name__}")
        return self.decoder.start(batch)

    def step(
        self, tokens: Int[Tensor, " batch"] | Tokens, state: DecoderState
    ) -> tuple[Float[Tensor, "batch vocab"], DecoderState]:
        """The scores after one more token of each text, or after several at once (a prompt)."""
        tokens = tokens.unsqueeze(1) if isinstance(tokens, Tensor) and tokens.ndim == 1 else tokens
        check_axes("tokens", tokens, "batch length", batch=state.batch)
        require(tokens.shape[1] > 0, "a step needs at least one token: got none")
        h, state = self.decoder.step(self.place(self._words(tokens), start=state.filled), state)
        return self.output(self._narrowed(h[:, -1])), state

    def _words(self, tokens: Tokens) -> Float[Tensor, "batch length width"]:
        """The vectors of the words, as wide as the blocks."""
        x = self.words(tokens)
        return x if self.widen is None else self.widen(x)

    def _narrowed(self, h: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch word_width"]:
        """Vectors as wide as those of the words."""
        return h if self.narrow is None else self.narrow(h)


def _steady(positions: Tokens | None, where: Neighborhood | None) -> bool:
    """Whether positions advance by one from token to token, inside every document."""
    if positions is None:
        return True
    rows = positions.view(-1, positions.shape[-1])
    on = rows[:, 1:] - rows[:, :-1] == 1
    for part in () if where is None else where.conjuncts():
        if isinstance(part, Documents):
            on = on | (part.ids[:, 1:] != part.ids[:, :-1])
    return bool(torch.all(on))
