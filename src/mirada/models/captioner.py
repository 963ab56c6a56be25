"""The captioner: look at a picture and write what is there, word by word, each with its own look.

picture -> convolutions, or patches and encoder layers -> cells (the memory) ----.
                                     | mean                                      v
words -> LSTM that looks at the cells (soft or hard), or decoder layers -> output
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from mirada.attention.heads import linear
from mirada.attention.normalizers import Hard, draws
from mirada.attention.scores import Additive
from mirada.errors import require
from mirada.layers.block import BlockConfig, input_position
from mirada.layers.convolution import Stem2d
from mirada.layers.dropout import Dropout
from mirada.layers.embed import AddPosition, Patches, TokenEmbedding
from mirada.layers.model import StepModel, check_pair, check_step
from mirada.layers.norm import LayerNorm
from mirada.layers.output import IGNORED, Output
from mirada.layers.parse import parse
from mirada.layers.recurrent import BahdanauDecoder, Carried, RecurrentState
from mirada.layers.stack import Decoder, DecoderState, Encoder
from mirada.shapes import check_pictures, show

Pictures = Float[Tensor, "batch channels height width"]
Cells = Float[Tensor, "batch cells features"]  # width is a side of a picture
Tokens = Int[Tensor, "batch length"]
Readout = Float[Tensor, "batch length width"]
Real = Bool[Tensor, "batch length"]


@dataclass(frozen=True, kw_only=True)
class CaptionerConfig(BlockConfig):
    """`encoder` is convolution (`depth` layers, each halving the sides), coordinates (the same, with the place of every
    pixel as input) or patches; `decoder` is lstm or transformer.

    Of the LSTM, `gaze` makes attention soft (softmax) or hard (hard:0.5), and `penalty` is the price of not having attended
    to all cells equally: penalty * sum over cells of (1 - sum over words of alpha)^2, per word of a caption.

    Args:
        vocab: how many tokens there are.
        channels: numbers in a pixel.
        patch: pixels on a side of a patch.
        depth: layers of the encoder.
        encoder: convolution, coordinates or patches.
        decoder: lstm or transformer.
        decoder_depth: layers of the decoder.
        gaze: the LSTM's normalizer: softmax, hard or hard:0.5.
        penalty: the price of uneven attention.
        and the fields of `BlockConfig`.

    >>> CaptionerConfig(encoder="patches", decoder="transformer", patch=4).has_blocks
    True
    """

    vocab: int = 2000
    channels: int = 3
    patch: int = 8
    depth: int = 3
    encoder: str = "convolution"
    decoder: str = "lstm"
    decoder_depth: int = 1
    gaze: str = "softmax"
    penalty: float = 1.0
    small: ClassVar = {"vocab": 13, "depth": 2, "patch": 4}

    def check(self) -> None:
        super().check()
        self.at_least(1, "vocab", "channels", "patch", "depth", "decoder_depth")
        self.at_least(0, "penalty")
        self.one_of("encoder", *ENCODERS)
        self.one_of("decoder", "lstm", "transformer")
        parse("normalizer", self.gaze)
        if self.decoder == "transformer":
            self.check_decoder()

    @property
    def has_blocks(self) -> bool:
        return self.encoder == "patches" or self.decoder == "transformer"


class PictureMemory(NamedTuple):
    """What the encoder made of a picture."""

    cells: Cells


class Captioner(StepModel[CaptionerConfig]):
    """Show, attend and tell.

    Args:
        config: sizes and parts, as a `CaptionerConfig`.

    >>> model = Captioner(CaptionerConfig.tiny())
    >>> model(torch.zeros(2, 3, 16, 16), torch.tensor([[0, 4, 5], [0, 2, 1]])).shape
    torch.Size([2, 3, 13])

    Xu et al. (2015), arXiv:1502.03044.
    """

    Config = CaptionerConfig

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__(config)
        self.encoder = ENCODERS[config.encoder](config)
        self.words = TokenEmbedding(config.vocab, config.width, scaled=True)
        self.decoder = LSTMCaptionDecoder(config) if config.decoder == "lstm" else TransformerCaptionDecoder(config)
        self.dropout = Dropout(config.dropout)
        self.output = Output(config.width, config.vocab)

    def forward(self, pictures: Pictures, target: Tokens) -> Float[Tensor, "batch length vocab"]:
        """The scores of every next word: logits[:, t] follow target[:, :t + 1]."""
        cells = self.encode(pictures).cells
        check_pair(pictures, target)
        return self.output(self.dropout(self.decoder.run(self.words(target), cells)))

    def loss(self, pictures: Pictures, target: Tokens, wanted: Tokens, smoothing: float = 0.0) -> Float[Tensor, ""]:
        """The mean cross-entropy of the wanted words (-100: does not count), and the price of uneven attention per picture."""
        cells, real = self.encode(pictures).cells, wanted != IGNORED
        check_pair(pictures, target)
        require(wanted.shape == target.shape, f"wanted must fit the target {show(target)}: got {show(wanted)}")
        if not self.config.penalty or self.config.decoder == "transformer":
            return self.output.loss(self.dropout(self.decoder.run(self.words(target), cells, real)), wanted, smoothing)
        readout, weights = self.decoder.run_with_weights(self.words(target), cells)
        total = self.output.loss(self.dropout(readout), wanted, smoothing)
        counted = real.unsqueeze(-1)
        looks = (weights * counted).sum(1)
        words = counted.sum() / max(1, len(wanted))  # of a caption: the cross-entropy is a mean over them
        return total + self.config.penalty * ((1 - looks) ** 2).sum(1).mean() / words.clamp(min=1)

    @torch.no_grad()
    def drawn_shares(
        self, pictures: Pictures, target: Tokens, count: int, seed: int = 0
    ) -> Float[Tensor, "batch length cells"]:
        """How often hard attention draws each cell, word by word, in `count` passes with draws as in training."""
        hard = [layer for layer in self.modules() if isinstance(layer, Hard)]
        require(bool(hard), f"only hard looks are drawn: this captioner has gaze={self.config.gaze!r}")
        before = [layer.training for layer in hard]
        pictures, target = pictures.repeat(count, 1, 1, 1), target.repeat(count, 1)
        for layer in hard:
            layer.train()
        with torch.random.fork_rng(), draws() as drawn:
            torch.manual_seed(seed)
            cells = self.encode(pictures).cells
            self.decoder.run(self.words(target), cells)
        for layer, was in zip(hard, before, strict=True):
            layer.train(was)
        index = torch.stack([draw.index[:, 0, 0] for draw in drawn], dim=1)
        return rearrange(one_hot(index, cells.shape[1]).float(), "(n b) t c -> n b t c", n=count).mean(0)

    def encode(self, pictures: Pictures) -> PictureMemory:
        """A vector for every cell of the picture, row by row."""
        return PictureMemory(self.encoder(pictures))

    def start(self, memory: PictureMemory) -> Any:
        """The state before the first token."""
        require(isinstance(memory, PictureMemory), f"start takes what encode returned: got {type(memory).__name__}")
        return self.decoder.start(memory.cells)

    def step(self, tokens: Int[Tensor, " batch"], state: Any) -> tuple[Float[Tensor, "batch vocab"], Any]:
        """The scores of every next token after these, and the state that leads on."""
        check_step(tokens, state.batch)
        readout, state = self.decoder.step(self.words(tokens.unsqueeze(1)), state)
        return self.output(self.dropout(readout)), state


class PictureConvolutionEncoder(nn.Module):
    """Cells from convolutions."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        self.stem = Stem2d(config.channels, config.width, config.depth)

    def forward(self, pictures: Pictures) -> Cells:
        """A vector per cell."""
        return self.stem(pictures)


class PictureCoordinatesEncoder(nn.Module):
    """Cells from convolutions over pixels and their coordinates; each cell is centered on its receptive field.

    Two more channels hold the place of every pixel, from -1 to 1 across and down: a convolution sees the same everywhere,
    and could not tell left from right of things that are far apart. A last convolution lets every cell see its neighbors:
    in the middle of a large thing there is no edge.

    Liu et al. (2018), arXiv:1807.03247.
    """

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        self.channels, width = config.channels, config.width
        widths = [config.channels + 2] + [width] * (config.depth - 1)
        self.layers = nn.ModuleList(nn.Conv2d(inputs, width, 3, stride=2) for inputs in widths)
        self.around = nn.Conv2d(width, width, 3, padding=1)
        self.norm = LayerNorm(width)
        for layer in (*self.layers, self.around):  # PyTorch's own start lets a signal fade from layer to layer
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)

    def forward(self, pictures: Pictures) -> Cells:
        """A vector per cell."""
        check_pictures(pictures, self.channels)
        x = torch.cat([pictures, _coordinates(pictures)], dim=1)
        for number, layer in enumerate(self.layers, 1):
            # with a margin on the left, cell i is centered at the left border of what it stands for: at the end, half a
            # cell is made up for by a margin on the right
            before = 0 if number == len(self.layers) else 1
            high, wide = (side % 2 + 1 - before for side in x.shape[2:])
            x = torch.relu(layer(pad(x, (before, wide, before, high))))
        x = x + torch.relu(self.around(x))
        return self.norm(rearrange(x, "b c h w -> b (h w) c"))


def _coordinates(pictures: Pictures) -> Float[Tensor, "batch 2 height width"]:
    """Where every pixel is: across and down, from -1 to 1.

    >>> _coordinates(torch.zeros(1, 3, 2, 3))[0].tolist()
    [[[-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]], [[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]]]
    """
    batch, _, height, width = pictures.shape
    if torch.compiler.is_exporting():  # sides of any size
        across, down = (
            2 * torch.arange(side, dtype=pictures.dtype, device=pictures.device) / (side - 1) - 1
            for side in (width, height)
        )
        both = torch.stack([across.expand(height, width), down.unsqueeze(1).expand(height, width)])
        return both.expand(batch, -1, -1, -1)
    across, down = (
        torch.linspace(-1.0, 1.0, side, dtype=pictures.dtype, device=pictures.device) for side in (width, height)
    )
    both = torch.stack([across.expand(height, width), down.unsqueeze(1).expand(height, width)])
    return both.expand(batch, -1, -1, -1)


class PicturePatchEncoder(nn.Module):
    """Cells from patches, through encoder layers."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        self.patches = Patches(config.channels, config.patch, config.width)
        self.place = AddPosition(input_position(config), config.dropout)
        self.stack = Encoder(config, config.depth)

    def forward(self, pictures: Pictures) -> Cells:
        """A vector per patch."""
        return self.stack(self.place(self.patches(pictures)))


ENCODERS = {
    "convolution": PictureConvolutionEncoder,
    "coordinates": PictureCoordinatesEncoder,
    "patches": PicturePatchEncoder,
}


class LSTMCaptionDecoder(nn.Module):
    """An LSTM that attends to the cells before every word, through a gate; it starts from their mean."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        width, depth = config.width, config.decoder_depth
        self.begin_h = linear(width, depth * width, bias=True)
        self.begin_c = linear(width, depth * width, bias=True)
        score, gaze = Additive(width, width, hidden=width), parse("normalizer", config.gaze)
        self.cell = BahdanauDecoder("lstm", width, width, depth, score, gaze, gate=True, dropout=config.dropout)

    def initial_state(self, cells: Cells) -> Carried:
        """The first state: two layers of their own on the mean of the cells."""
        mean = cells.mean(1)
        h, c = (torch.tanh(layer(mean)) for layer in (self.begin_h, self.begin_c))
        return Carried(*(torch.stack(x.chunk(self.cell.cell.depth, dim=-1)) for x in (h, c)))

    def run(self, x: Readout, cells: Cells, real: Real | None = None) -> Readout:
        """What the output layer reads at every place."""
        return self.cell.run(x, cells, None, self.initial_state(cells))

    def run_with_weights(self, x: Readout, cells: Cells) -> tuple[Readout, Float[Tensor, "batch length cells"]]:
        """The same, and the weights of every step."""
        return self.cell.run_with_weights(x, cells, None, self.initial_state(cells))

    def start(self, cells: Cells) -> RecurrentState:
        """The state before the first token."""
        return self.cell.start(cells, None, self.initial_state(cells))

    def step(self, x: Readout, state: RecurrentState) -> tuple[Float[Tensor, "batch width"], RecurrentState]:
        """What the output layer reads after one more token, and the next state."""
        return self.cell.step(x[:, 0], state)

    def alignment(self, state: RecurrentState) -> Float[Tensor, "batch cells"]:
        """Where the decoder looked in the last step."""
        return self.cell.alignment(state)


class TransformerCaptionDecoder(nn.Module):
    """Decoder layers over the cells."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        self.place = AddPosition(input_position(config), config.dropout)
        self.stack = Decoder(config, config.decoder_depth)

    def run(self, x: Readout, cells: Cells, real: Real | None = None) -> Readout:
        """What the output layer reads at every place. `real` marks the places that a batch norm counts."""
        return self.stack(self.place(x), cells, real=real)

    def start(self, cells: Cells) -> DecoderState:
        """The state before the first token."""
        return self.stack.start(cells)

    def step(self, x: Readout, state: DecoderState) -> tuple[Float[Tensor, "batch width"], DecoderState]:
        """What the output layer reads after one more token, and the next state."""
        h, state = self.stack.step(self.place(x, start=state.filled), state)
        return h[:, -1], state

    def alignment(self, state: DecoderState) -> Float[Tensor, "batch cells"]:
        """Where the decoder looked in the last step."""
        return self.stack.alignment(state)
