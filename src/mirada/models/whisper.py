"""Whisper: sound in, text out, from windows of one length.

log-mel frames -> two convolutions (half of the frames) + position -> encoder layers -.
                                                                                      v
words + position -> decoder layers (self, then cross over the sound) -> output
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mirada.attention.positions import Learned
from mirada.errors import require
from mirada.layers.block import BlockConfig, input_position
from mirada.layers.convolution import Stem1d
from mirada.layers.embed import AddPosition, TokenEmbedding
from mirada.layers.model import StepModel, check_pair, check_step
from mirada.layers.output import IGNORED, Output
from mirada.layers.stack import Decoder, DecoderState, Encoder
from mirada.shapes import check_axes, check_floating

Frames = Float[Tensor, "batch frames mels"]
Tokens = Int[Tensor, "batch length"]
HALVED = 2  # frames that the second convolution makes one place of


@dataclass(frozen=True, kw_only=True)
class WhisperConfig(BlockConfig):
    """A window of `places` encoder places, twice as many frames, and texts of up to `length` tokens, the prompt included.

    Args:
        vocab: how many tokens there are.
        mels: numbers in a frame.
        places: places of the encoder, each of two frames.
        depth: how many layers the encoder has.
        decoder_depth: how many layers the decoder has; 0: as many as the encoder.
        and the fields of `BlockConfig`.

    >>> WhisperConfig().projection  # keys have no bias: softmax would not see it
    'multihead:bias=qvo'
    """

    activation: str = "gelu"
    position: str = "learned"
    projection: str = "multihead:bias=qvo"
    length: int = 448
    vocab: int = 64
    mels: int = 80
    places: int = 1500
    depth: int = 4
    decoder_depth: int = 0
    small: ClassVar = {"vocab": 13, "mels": 5, "places": 11, "depth": 1}

    def check(self) -> None:
        super().check()
        self.at_least(1, "vocab", "mels", "places", "depth")
        self.at_least(0, "decoder_depth")
        self.check_decoder()


class WindowMemory(NamedTuple):
    """What the encoder made of a window of sound."""

    states: Float[Tensor, "batch places width"]


class Whisper(StepModel[WhisperConfig]):
    """Hear a window of sound whole, then write, looking back at it for every token.

    The positions of the encoder start as sines and cosines. They are weights all the same, as in the checkpoints.

    Args:
        config: sizes and parts, as a `WhisperConfig`.

    >>> model = Whisper(WhisperConfig.tiny())
    >>> model(torch.zeros(2, 22, 5), torch.tensor([[0, 4, 5], [0, 2, 1]])).shape
    torch.Size([2, 3, 13])

    Radford et al. (2022), "Robust Speech Recognition via Large-Scale Weak Supervision", arXiv:2212.04356.
    """

    Config = WhisperConfig

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__(config)
        width = config.width
        self.stem = Stem1d(config.mels, width, activation="gelu")
        self.halving = Stem1d(width, width, stride=HALVED, activation="gelu")
        of_places = input_position(replace(config, length=config.places))
        if isinstance(of_places, Learned):
            of_places.table.data[of_places.offset :].copy_(_waves(config.places, width))
        self.source_place = AddPosition(of_places, config.dropout)
        self.encoder = Encoder(config, config.depth)
        self.words = TokenEmbedding(config.vocab, width)
        self.target_place = AddPosition(input_position(config), config.dropout)
        self.decoder = Decoder(config, config.decoder_depth or config.depth)
        self.output = Output(width, config.vocab, bias=False, tied=self.words.weight)

    def forward(self, frames: Frames, target: Tokens) -> Float[Tensor, "batch length vocab"]:
        """The scores of every next token: logits[:, t] follow target[:, :t + 1]."""
        return self.output(self.hidden(frames, target))

    def loss(self, frames: Frames, target: Tokens, wanted: Tokens, smoothing: float = 0.0) -> Float[Tensor, ""]:
        """The mean cross-entropy of the wanted tokens; -100 marks those that do not count."""
        return self.output.loss(self.hidden(frames, target, wanted != IGNORED), wanted, smoothing)

    def hidden(
        self, frames: Frames, target: Tokens, real: Bool[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "batch length width"]:
        """What the output layer reads, for a known text."""
        memory = self.encode(frames)
        check_pair(frames, target)
        return self.decoder(self.target_place(self.words(target)), memory.states, None, real)

    def encode(self, frames: Frames) -> WindowMemory:
        """Hear windows of equal length: as a checkpoint was trained, whole ones of twice `places` frames."""
        check_axes("frames", frames, "batch frames mels", mels=self.config.mels)
        check_floating("frames", frames)
        count, most = frames.shape[1], HALVED * self.config.places
        require(
            0 < count <= most, f"a window must have 1 to {most} frames: got {count}. Cut the recording into windows."
        )
        x, _ = self.stem(frames)
        x, _ = self.halving(x)
        return WindowMemory(self.encoder(self.source_place(x)))

    def start(self, memory: WindowMemory) -> DecoderState:
        """The state before the first token."""
        require(isinstance(memory, WindowMemory), f"start takes what encode returned: got {type(memory).__name__}")
        return self.decoder.start(memory.states)

    def step(
        self, tokens: Int[Tensor, " batch"], state: DecoderState
    ) -> tuple[Float[Tensor, "batch vocab"], DecoderState]:
        """The scores of every next token after these, and the state that leads on."""
        check_step(tokens, state.batch)
        x = self.target_place(self.words(tokens.unsqueeze(1)), start=state.filled)
        h, state = self.decoder.step(x, state)
        return self.output(h[:, -1]), state


def _waves(places: int, width: int) -> Float[Tensor, "places width"]:
    """Sines in one half and cosines in the other, whose wavelengths grow from 2 pi to 20,000 pi.

    >>> _waves(2, 4)[0].tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    half = (width + 1) // 2
    rates = torch.exp(torch.arange(half) * (-math.log(10_000) / max(1, half - 1)))
    angles = torch.arange(places).unsqueeze(1) * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :width]
