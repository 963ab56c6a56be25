"""The transcriber: sound in, text out.

log-mel frames -> two convolutions (a quarter of the frames) -> encoder layers, or a recurrent net ----.
                                                                                                       v
words -> decoder layers, or a recurrent decoder with Luong's attention -> output
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mirada.attention.heads import linear
from mirada.attention.neighborhoods import Padding
from mirada.attention.positions import Sinusoidal, frequencies
from mirada.attention.scores import Bilinear
from mirada.errors import require
from mirada.layers.block import BlockConfig, input_position
from mirada.layers.convolution import Stem1d
from mirada.layers.dropout import Dropout
from mirada.layers.embed import AddPosition, TokenEmbedding
from mirada.layers.model import StepModel, as_padding, check_pair, check_step, real_places
from mirada.layers.output import IGNORED, Output
from mirada.layers.recurrent import Carried, LuongDecoder, Recurrent, RecurrentState
from mirada.layers.stack import Decoder, DecoderState, Encoder
from mirada.shapes import check_axes, check_floating, readable

Frames = Float[Tensor, "batch frames mels"]
Tokens = Int[Tensor, "batch length"]
Lengths = Int[Tensor, " batch"]
Vectors = Float[Tensor, "batch length width"]


@dataclass(frozen=True, kw_only=True)
class TranscriberConfig(BlockConfig):
    """`kind` is transformer or luong (recurrent, with input feeding); `mels` are the numbers per frame.

    `ctc` is the weight of a second loss in training: from every place of the encoder alone, the text must be predicted as well,
    in its order, so that the encoder learns the sounds before the decoder learns where to attend. `pace` is the usual number of
    encoder places per token, for the transformer: token t and place t x pace then start with similar positions.

    Args:
        vocab: how many tokens there are.
        mels: numbers in a frame.
        depth: how many layers there are.
        kind: transformer or luong.
        ctc: the weight of the second loss; 0 for none.
        pace: places of the encoder per token; 0 if they are not known.
        and the fields of `BlockConfig`.

    >>> TranscriberConfig(kind="luong", width=64, ctc=0.3).has_blocks
    False
    """

    activation: str = "gelu"
    vocab: int = 64
    mels: int = 40
    depth: int = 2
    kind: str = "transformer"
    ctc: float = 0.0
    pace: float = 0.0
    small: ClassVar = {"vocab": 13, "mels": 5, "depth": 1, "length": 64}

    def check(self) -> None:
        super().check()
        self.at_least(1, "vocab", "mels", "depth")
        self.at_least(0, "ctc", "pace")
        self.one_of("kind", "transformer", "luong")
        self.check_decoder()
        if self.kind == "luong" and self.width % 2:
            raise ValueError(f"kind='luong' reads in two directions and needs an even width: got width={self.width}")

    @property
    def has_blocks(self) -> bool:
        return self.kind == "transformer"


class SoundMemory(NamedTuple):
    """What the encoder made of a recording."""

    states: Float[Tensor, "batch shorter width"]
    padding: Padding | None
    last: Carried | None


class Transcriber(StepModel[TranscriberConfig]):
    """Listen, then write, looking back at the sound for every token.

    Args:
        config: sizes and parts, as a `TranscriberConfig`.

    >>> model = Transcriber(TranscriberConfig.tiny())
    >>> model(torch.zeros(2, 20, 5), torch.tensor([20, 13]), torch.tensor([[0, 4, 5], [0, 2, 1]])).shape
    torch.Size([2, 3, 13])

    Dong, Xu and Xu (2018), "Speech-Transformer"; Chan et al. (2016), arXiv:1508.01211.
    """

    Config = TranscriberConfig

    def __init__(self, config: TranscriberConfig) -> None:
        super().__init__(config)
        self.stem = Stem1d(config.mels, config.width, depth=2, stride=2, activation="gelu")
        self.words = TokenEmbedding(config.vocab, config.width, scaled=True)
        self.body = TransformerBody(config) if config.kind == "transformer" else LuongBody(config)
        self.output = Output(config.width, config.vocab)
        self.heard = Output(config.width, config.vocab + 1) if config.ctc else None  # the last class is blank

    def forward(self, frames: Frames, lengths: Lengths | None, target: Tokens) -> Float[Tensor, "batch length vocab"]:
        """The scores of every next token: logits[:, t] follow target[:, :t + 1]."""
        return self.output(self.hidden(frames, lengths, target))

    def loss(
        self, frames: Frames, lengths: Lengths | None, target: Tokens, wanted: Tokens, smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy of the wanted tokens; -100 marks those that do not count. In training, plus that of CTC."""
        memory = self.encode(frames, lengths)
        check_pair(frames, target)
        loss = self.output.loss(self.body.decode(self.words(target), memory, wanted != IGNORED), wanted, smoothing)
        second = self.training and self.heard is not None
        return loss + self.config.ctc * self.ctc_loss(memory, wanted) if second else loss

    def ctc_loss(self, memory: SoundMemory, wanted: Tokens) -> Float[Tensor, ""]:
        """The CTC loss per token of the text without its end: every place of the encoder predicts a token or blank, in order.

        Graves et al. (2006), "Connectionist temporal classification"; Watanabe et al. (2017), "Hybrid CTC/attention".
        """
        assert self.heard is not None
        batch, places, _ = memory.states.shape
        scores = rearrange(self.heard(memory.states).log_softmax(-1), "b n v -> n b v")
        lengths = memory.padding.lengths if memory.padding else torch.full((batch,), places, device=scores.device)
        spoken = F.pad(wanted[:, 1:] != IGNORED, (0, 1))  # the last token of a text is its end, which is not spoken
        counts, blank = spoken.sum(1), self.config.vocab
        total = F.ctc_loss(scores, wanted[spoken], lengths, counts, blank, reduction="sum", zero_infinity=True)
        return total / (wanted != IGNORED).sum()

    def hidden(self, frames: Frames, lengths: Lengths | None, target: Tokens) -> Vectors:
        """What the output layer reads, for a known text."""
        memory = self.encode(frames, lengths)
        check_pair(frames, target)
        return self.body.decode(self.words(target), memory, None)

    def encode(self, frames: Frames, lengths: Lengths | None = None) -> SoundMemory:
        """Listen; `lengths` are the true numbers of frames of a padded batch."""
        check_axes("frames", frames, "batch frames mels", mels=self.config.mels)
        check_floating("frames", frames)
        require(frames.shape[1] > 0, "a recording needs at least one frame: got none")
        as_padding(lengths, *frames.shape[:2])
        if lengths is not None and lengths.shape[0] and readable(lengths):
            require(int(lengths.min()) > 0, "a recording needs at least one frame: got lengths with 0. Leave it out.")
        x, lengths = self.stem(frames, lengths)
        return self.body.encode(x, as_padding(lengths, *x.shape[:2]))

    def start(self, memory: SoundMemory) -> Any:
        """The state before the first token."""
        require(isinstance(memory, SoundMemory), f"start takes what encode returned: got {type(memory).__name__}")
        return self.body.start(memory)

    def step(self, tokens: Int[Tensor, " batch"], state: Any) -> tuple[Float[Tensor, "batch vocab"], Any]:
        """The scores of every next token after these, and the state that leads on."""
        check_step(tokens, state.batch)
        readout, state = self.body.step(self.words(tokens.unsqueeze(1)), state)
        return self.output(readout), state

    def alignment(self, state: Any) -> Float[Tensor, "batch keys"]:
        """Where the model looked in the last step: weights over the places of the source."""
        return self.body.decoder.alignment(state)


class PacedPositions(nn.Module):
    """Sinusoids along the encoder's places at the pace of the text: place n has the position of token n / pace.

    PE(n, 2i) = sin(n / (pace base^(2i / width))),  PE(n, 2i + 1) = cos(n / (pace base^(2i / width)))

    Equal positions are similar vectors, so a first look along the diagonal is a small step to learn.

    >>> PacedPositions(4, pace=2.0)(torch.zeros(1, 3, 4))[0, 2].tolist() == Sinusoidal(4)(torch.tensor(1)).tolist()
    True

    Ping et al. (2018), arXiv:1710.07654, 3.4.
    """

    def __init__(self, width: int, pace: float) -> None:
        super().__init__()
        self.width, self.pace = width, pace

    def forward(self, x: Vectors) -> Vectors:
        """x with the positions added."""
        rates = frequencies((self.width + 1) // 2, self.width, 10000, x.device) / self.pace
        angles = torch.arange(x.shape[1], device=x.device).unsqueeze(-1) * rates
        pairs = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
        return x + pairs[:, : self.width].to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.width}, pace={self.pace:g}"


class TransformerBody(nn.Module):
    """Encoder layers listen, decoder layers write."""

    def __init__(self, config: TranscriberConfig) -> None:
        super().__init__()
        position = input_position(config)
        of_tokens = position or (Sinusoidal(config.width) if config.pace else None)
        self.source_place = AddPosition(position, config.dropout)
        self.target_place = AddPosition(of_tokens, config.dropout)
        self.encoder = Encoder(config, config.depth)
        self.paced = PacedPositions(config.width, config.pace) if config.pace else None
        self.decoder = Decoder(config, config.depth)

    def encode(self, x: Vectors, padding: Padding | None) -> SoundMemory:
        """What was heard."""
        states = self.encoder(self.source_place(x), padding, real_places(padding, x.shape[1]))
        return SoundMemory(states if self.paced is None else self.paced(states), padding, None)

    def decode(self, x: Vectors, memory: SoundMemory, real: Bool[Tensor, "batch length"] | None) -> Vectors:
        """What the output layer reads at every place of a known text."""
        return self.decoder(self.target_place(x), memory.states, memory.padding, real)

    def start(self, memory: SoundMemory) -> DecoderState:
        """The state before the first token."""
        return self.decoder.start(memory.states, memory.padding)

    def step(self, x: Vectors, state: DecoderState) -> tuple[Float[Tensor, "batch width"], DecoderState]:
        """What the output layer reads after one more token, and the next state."""
        h, state = self.decoder.step(self.target_place(x, start=state.filled), state)
        return h[:, -1], state


class LuongBody(nn.Module):
    """An LSTM of two directions listens, another writes and attends to it, with input feeding.

    The score is scaled: without it, all weight goes to one place within some steps and stays there.
    """

    def __init__(self, config: TranscriberConfig) -> None:
        super().__init__()
        width = config.width
        self.encoder = Recurrent("lstm", width, width, config.depth, directions=2, dropout=config.dropout)
        self.bridge_h, self.bridge_c = linear(width, width, bias=True), linear(width, width, bias=True)
        score = Bilinear(width, width, scale=None)
        self.decoder = LuongDecoder("lstm", width, width, config.depth, score, feeding=True, dropout=config.dropout)
        self.dropout = Dropout(config.dropout)

    def encode(self, x: Vectors, padding: Padding | None) -> SoundMemory:
        """What was heard."""
        states, last = self.encoder(self.dropout(x), None if padding is None else padding.lengths)
        h, c = (rearrange(part, "(l d) b h -> l b (d h)", d=2) for part in last)
        return SoundMemory(states, padding, Carried(torch.tanh(self.bridge_h(h)), self.bridge_c(c)))

    def decode(self, x: Vectors, memory: SoundMemory, real: Bool[Tensor, "batch length"] | None) -> Vectors:
        """What the output layer reads at every place of a known text."""
        assert memory.last is not None
        return self.dropout(self.decoder.run(self.dropout(x), memory.states, memory.padding, memory.last))

    def start(self, memory: SoundMemory) -> RecurrentState:
        """The state before the first token."""
        assert memory.last is not None
        return self.decoder.start(memory.states, memory.padding, memory.last)

    def step(self, x: Vectors, state: RecurrentState) -> tuple[Float[Tensor, "batch width"], RecurrentState]:
        """What the output layer reads after one more token, and the next state."""
        readout, state = self.decoder.step(self.dropout(x[:, 0]), state)
        return self.dropout(readout), state
