"""The forecaster: from series to series, for example the price of one company from those of others.

encoder-decoder:  numbers + position -> encoder layers ---.
                                                          v
                  values so far -> decoder layers -> next value
lstm:             the same with recurrent nets and Luong's attention
patches:          numbers in patches + position -> encoder layers -> all values at once

All of them predict how far a value lies from the last known one, so that predicting nothing repeats it.
"""

from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from mirada.attention.heads import linear
from mirada.attention.scores import Bilinear
from mirada.errors import require
from mirada.layers.block import BlockConfig, input_position
from mirada.layers.embed import Numbers, Placed
from mirada.layers.model import Model
from mirada.layers.recurrent import Recurrent
from mirada.layers.recurrent_decoder import LuongDecoder, RecurrentState
from mirada.layers.stack import Decoder, DecoderState, Encoder
from mirada.shapes import check_axes, check_floating, check_size, show

Series = Float[Tensor, "batch time features"]
Values = Float[Tensor, "batch horizon targets"]
First = Float[Tensor, "batch targets"]


@dataclass(frozen=True, kw_only=True)
class ForecasterConfig(BlockConfig):
    """`features` numbers per step in, `targets` out, `horizon` steps ahead; `kind` is encoder-decoder, lstm or patches.

    Patches cut `length` steps of input into pieces of `patch`.
    """

    activation: str = "gelu"
    length: int = 96
    features: int = 1
    targets: int = 1
    horizon: int = 24
    patch: int = 8
    depth: int = 2
    kind: str = "encoder-decoder"

    def check(self) -> None:
        super().check()
        self.at_least(1, "features", "targets", "horizon", "patch", "depth")
        self.one_of("kind", "encoder-decoder", "lstm", "patches")
        if self.kind == "encoder-decoder":
            self.check_decoder()
            if self.position == "learned" and self.horizon > self.length:
                raise ValueError(
                    f"a learned position needs a row per step: got horizon={self.horizon}, length={self.length}. "
                    "Give a longer length."
                )
        if self.kind == "patches" and self.length % self.patch:
            raise ValueError(
                f"length must divide into patches: got length={self.length}, patch={self.patch}. Change one of them."
            )

    @property
    def has_blocks(self) -> bool:
        return self.kind != "lstm"

    @classmethod
    def tiny(cls) -> Self:
        return cls(
            width=16, heads=2, hidden=32, depth=2, dropout=0.0, length=12, features=3, targets=2, horizon=5, patch=4
        )


class Forecaster(Model[ForecasterConfig]):
    """What comes next, from what was measured.

    >>> model = Forecaster(ForecasterConfig.tiny())
    >>> model(torch.zeros(2, 12, 3), first=torch.zeros(2, 2)).shape
    torch.Size([2, 5, 2])

    Vaswani et al. (2017), arXiv:1706.03762; patches: Nie et al. (2023), arXiv:2211.14730.
    """

    Config = ForecasterConfig

    def __init__(self, config: ForecasterConfig) -> None:
        super().__init__(config)
        self.body = BODIES[config.kind](config)

    def forward(self, series: Series, first: First) -> Values:
        """The next `horizon` values, each predicted from the ones before it. `first` is the last known value."""
        self._check(series, first)
        return first.unsqueeze(1) + self.body.generate(series, self.config.horizon)

    def teacher_forced(self, series: Series, first: First, wanted: Values) -> Values:
        """The same with the true values in place of the predicted ones: teacher forcing."""
        self._check(series, first)
        require(isinstance(wanted, Tensor), f"wanted must be a tensor of values: got {type(wanted).__name__}")
        shape = (len(series), self.config.horizon, self.config.targets)
        require(wanted.shape == shape, f"wanted must have shape {shape}: got {show(wanted)}")
        moved = wanted - first.unsqueeze(1)
        before = torch.cat([torch.zeros_like(moved[:, :1]), moved[:, :-1]], dim=1)
        return first.unsqueeze(1) + self.body.next_values(series, before)

    def loss(self, series: Series, first: First, wanted: Values) -> Float[Tensor, ""]:
        """The mean squared error of the wanted values."""
        return F.mse_loss(self.teacher_forced(series, first, wanted), wanted)

    def _check(self, series: Series, first: First) -> None:
        check_axes("series", series, "batch time features")
        check_size("series", series, 2, "features", self.config.features)
        check_axes("first", first, "batch targets")
        check_size("first", first, 1, "targets", self.config.targets)
        check_size("first", first, 0, "batch", len(series))
        check_floating("series", series)
        require(series.shape[1] > 0, "a forecast needs at least one time step of input: got none")


class EncoderDecoderBody(nn.Module):
    """Encoder layers read the series, decoder layers generate value by value."""

    def __init__(self, config: ForecasterConfig) -> None:
        super().__init__()
        self.source_numbers = Numbers(config.features, config.width)
        self.target_numbers = Numbers(config.targets, config.width)
        self.source_place = Placed(input_position(config), config.dropout)
        self.target_place = Placed(input_position(config), config.dropout)
        self.encoder = Encoder(config, config.depth)
        self.decoder = Decoder(config, config.depth)
        self.output = linear(config.width, config.targets, bias=True)

    def encode(self, series: Series) -> Float[Tensor, "batch time width"]:
        return self.encoder(self.source_place(self.source_numbers(series)))

    def next_values(self, series: Series, before: Values) -> Values:
        """The value after each of those before."""
        return self.output(self.decoder(self.target_place(self.target_numbers(before)), self.encode(series)))

    def start(self, series: Series) -> DecoderState:
        return self.decoder.start(self.encode(series))

    def step(self, value: First, state: DecoderState) -> tuple[First, DecoderState]:
        x = self.target_place(self.target_numbers(value.unsqueeze(1)), start=state.filled)
        h, state = self.decoder.step(x, state)
        return self.output(h[:, -1]), state

    def generate(self, series: Series, horizon: int) -> Values:
        return generate(self, series, horizon, self.output.out_features)


class LSTMBody(nn.Module):
    """A recurrent net reads the series, another generates and looks back at every step."""

    def __init__(self, config: ForecasterConfig) -> None:
        super().__init__()
        width = config.width
        self.encoder = Recurrent("lstm", config.features, width, config.depth, dropout=config.dropout)
        self.decoder = LuongDecoder(
            "lstm", config.targets, width, config.depth, Bilinear(width, width), dropout=config.dropout
        )
        self.output = linear(width, config.targets, bias=True)

    def next_values(self, series: Series, before: Values) -> Values:
        """The value after each of those before."""
        states, last = self.encoder(series)
        return self.output(self.decoder.run(before, states, None, last))

    def start(self, series: Series) -> RecurrentState:
        states, last = self.encoder(series)
        return self.decoder.start(states, None, last)

    def step(self, value: First, state: RecurrentState) -> tuple[First, RecurrentState]:
        readout, state = self.decoder.step(value, state)
        return self.output(readout), state

    def generate(self, series: Series, horizon: int) -> Values:
        return generate(self, series, horizon, self.output.out_features)


class PatchBody(nn.Module):
    """Encoder layers over patches of time; all values at once, from everything seen."""

    def __init__(self, config: ForecasterConfig) -> None:
        super().__init__()
        self.patch, self.length, self.shape = config.patch, config.length, (config.horizon, config.targets)
        self.numbers = Numbers(config.features * config.patch, config.width)
        self.place = Placed(input_position(config), config.dropout)
        self.encoder = Encoder(config, config.depth)
        self.output = linear(config.length // config.patch * config.width, config.horizon * config.targets, bias=True)

    def next_values(self, series: Series, before: Values) -> Values:
        """All values; they do not depend on each other, so what came before them does not matter."""
        check_size("series", series, 1, "time", self.length)
        patches = rearrange(series, "b (n p) f -> b n (p f)", p=self.patch)
        h = self.encoder(self.place(self.numbers(patches)))
        horizon, targets = self.shape
        return rearrange(self.output(h.flatten(1)), "b (h t) -> b h t", h=horizon, t=targets)

    def generate(self, series: Series, horizon: int) -> Values:
        return self.next_values(series, series.new_zeros(len(series), *self.shape))


def generate(body: EncoderDecoderBody | LSTMBody, series: Series, horizon: int, targets: int) -> Values:
    """Predict step by step, each value from the ones predicted before."""
    state, value, values = body.start(series), series.new_zeros(len(series), targets), []
    for _ in range(horizon):
        value, state = body.step(value, state)  # type: ignore[arg-type]
        values.append(value)
    return torch.stack(values, dim=1)


BODIES: dict[str, type[EncoderDecoderBody] | type[LSTMBody] | type[PatchBody]] = {
    "encoder-decoder": EncoderDecoderBody,
    "lstm": LSTMBody,
    "patches": PatchBody,
}
