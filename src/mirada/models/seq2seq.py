"""The recurrent encoder-decoder: without attention, with Bahdanau's, and with Luong's.

source -> words -> recurrent encoder -> states (the memory) ----.
                          | last state                          v
target -> words -> recurrent decoder, looking at the memory -> output
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from einops import rearrange
from jaxtyping import Float, Int, Integer
from torch import Tensor

from mirada.attention.heads import linear
from mirada.attention.neighborhoods import Padding
from mirada.config import Config
from mirada.errors import require
from mirada.layers.dropout import Dropout
from mirada.layers.embed import TokenEmbedding
from mirada.layers.model import StepModel, as_padding, check_pair, check_step
from mirada.layers.output import Output
from mirada.layers.parse import parse
from mirada.layers.recurrent import BahdanauDecoder, Carried, LuongDecoder, PlainDecoder, Recurrent, RecurrentState
from mirada.shapes import check_axes

Tokens = Integer[Tensor, "batch length"]
Target = Integer[Tensor, "batch places"]
Lengths = Int[Tensor, " batch"]


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(Config):
    """`attention` is no, bahdanau or luong; `score` any score as a word (dot, general, concat, additive, location).

    Luong's also have a `reach` (global, local-m, local-p, `half` places to each side) and `feeding` (of the last readout into
    the next step). `dot` is scaled; Luong's own is `dot:1.0`. `length` is the longest source that `location` can score.

    Args:
        vocab: how many tokens there are.
        source_vocab: how many tokens the source has.
        width: numbers in a word's vector.
        hidden: numbers in a state.
        depth: how many layers there are.
        cell: rnn, gru or lstm.
        directions: 1, or 2 to read the source backward too.
        attention: no, bahdanau or luong.
        score: dot, general, concat, additive or location.
        reach: global, local-m or local-p.
        half: places on each side, where the reach is local.
        feeding: whether a readout goes into the next step.
        dropout: the share of numbers dropped in training.
        length: the longest source that `location` can score.

    >>> Seq2SeqConfig(cell="lstm", attention="luong", score="dot", feeding=True).directions
    2
    """

    vocab: int = 8000
    source_vocab: int = 8000
    width: int = 256
    hidden: int = 256
    depth: int = 1
    cell: str = "gru"
    directions: int = 2
    attention: str = "luong"
    score: str = "general"
    reach: str = "global"
    half: int = 10
    feeding: bool = False
    dropout: float = 0.2
    length: int = 512

    def check(self) -> None:
        self.at_least(1, "vocab", "source_vocab", "width", "hidden", "depth", "half", "length")
        self.probability("dropout")
        self.one_of("attention", "no", "bahdanau", "luong")
        self.one_of("reach", "global", "local-m", "local-p")
        if self.attention != "luong" and (self.feeding or self.reach != "global"):
            raise ValueError(
                f"feeding and reach are Luong's: got attention={self.attention!r}, feeding={self.feeding}, "
                f"reach={self.reach!r}. Use attention='luong'."
            )
        with torch.device("meta"):
            Recurrent(self.cell, self.width, self.hidden, self.depth, self.directions)
            _decoder(self)

    @classmethod
    def tiny(cls) -> Self:
        """Small sizes, for tests and examples."""
        return cls(vocab=13, source_vocab=11, width=6, hidden=8, dropout=0.0, half=2, length=16)


class RecurrentMemory(NamedTuple):
    """What the encoder made of a source."""

    states: Float[Tensor, "batch length hidden"]
    padding: Padding | None
    last: Carried


class Seq2Seq(StepModel[Seq2SeqConfig]):
    """One recurrent net reads the source, another writes the target, and may attend to the source at every step.

    Args:
        config: sizes and parts, as a `Seq2SeqConfig`.

    >>> model = Seq2Seq(Seq2SeqConfig.tiny())
    >>> model(torch.tensor([[1, 2, 3]]), None, torch.tensor([[0, 4]])).shape
    torch.Size([1, 2, 13])

    Sutskever et al. (2014), arXiv:1409.3215; Bahdanau et al. (2015), arXiv:1409.0473; Luong et al. (2015), arXiv:1508.04025.
    """

    Config = Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__(config)
        self.source_words = TokenEmbedding(config.source_vocab, config.width, scaled=True)
        self.target_words = TokenEmbedding(config.vocab, config.width, scaled=True)
        self.dropout = Dropout(config.dropout)
        sizes = config.cell, config.width, config.hidden, config.depth
        self.encoder = Recurrent(*sizes, config.directions, config.dropout)
        self.bridge_h = linear(config.hidden, config.hidden, bias=True)
        self.bridge_c = linear(config.hidden, config.hidden, bias=True) if config.cell == "lstm" else None
        self.decoder = _decoder(config)
        self.output = Output(config.hidden, config.vocab)

    def forward(self, source: Tokens, lengths: Lengths | None, target: Target) -> Float[Tensor, "batch places vocab"]:
        """The scores of every next token: logits[:, t] follow target[:, :t + 1]."""
        return self.output(self.hidden(source, lengths, target))

    def loss(
        self, source: Tokens, lengths: Lengths | None, target: Target, wanted: Target, smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy of the wanted tokens; -100 marks those that do not count."""
        return self.output.loss(self.hidden(source, lengths, target), wanted, smoothing)

    def hidden(self, source: Tokens, lengths: Lengths | None, target: Target) -> Float[Tensor, "batch places hidden"]:
        """What the output layer reads, for a known target."""
        memory = self.encode(source, lengths)
        check_pair(source, target)
        x = self.dropout(self.target_words(target))
        return self.dropout(self.decoder.run(x, memory.states, memory.padding, self.bridge(memory.last)))

    def encode(self, source: Tokens, lengths: Lengths | None = None) -> RecurrentMemory:
        """Read the source; `lengths` are the true lengths of a padded batch."""
        check_axes("source", source, "batch length")
        padding = as_padding(lengths, *source.shape)
        states, last = self.encoder(self.dropout(self.source_words(source)), lengths)
        return RecurrentMemory(states, padding, last)

    def bridge(self, last: Carried) -> Carried:
        """From the encoder's last states, of both directions, to the decoder's first."""
        h, c = (rearrange(x, "(l d) b h -> l b (d h)", d=self.config.directions) for x in last)
        h = torch.tanh(self.bridge_h(h))
        return Carried(h, h if self.bridge_c is None else self.bridge_c(c))

    def start(self, memory: RecurrentMemory) -> RecurrentState:
        """The state before the first token."""
        require(isinstance(memory, RecurrentMemory), f"start takes what encode returned: got {type(memory).__name__}")
        return self.decoder.start(memory.states, memory.padding, self.bridge(memory.last))

    def step(
        self, tokens: Int[Tensor, " batch"], state: RecurrentState
    ) -> tuple[Float[Tensor, "batch vocab"], RecurrentState]:
        """The scores of every next token after these, and the state that leads on."""
        check_step(tokens, state.batch)
        readout, state = self.decoder.step(self.dropout(self.target_words(tokens)), state)
        return self.output(self.dropout(readout)), state


def _decoder(config: Seq2SeqConfig) -> PlainDecoder:
    """The decoder that the configuration describes."""
    sizes = (config.cell, config.width, config.hidden, config.depth)
    if config.attention == "no":
        return PlainDecoder(*sizes, dropout=config.dropout)
    known = dict.fromkeys(("dim", "dim_q", "dim_k"), config.hidden) | {"heads": 1, "max_keys": config.length}
    score = parse("score", config.score, known, hidden=config.hidden)
    if config.attention == "bahdanau":
        return BahdanauDecoder(*sizes, score, dropout=config.dropout)
    return LuongDecoder(*sizes, score, config.reach, config.half, config.feeding, config.dropout)
