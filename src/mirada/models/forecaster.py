"""The forecaster: from series to series, for example the price of one company from those of others.

encoder-decoder:  numbers + position -> encoder layers ---.
                                                          v
                  values so far -> decoder layers -> next value
lstm:             the same with recurrent nets and Luong's attention
patches:          numbers in patches + position -> encoder layers -> all values at once; a patch is of all columns (mixed),
                  or of one, which looks at its own column only (apart) or at all of them (across)

All of them predict how far a value lies from the last known one, so that predicting nothing repeats it.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.heads import linear
from mirada.attention.scores import Bilinear
from mirada.errors import require
from mirada.layers.block import BlockConfig, input_position
from mirada.layers.dropout import Dropout
from mirada.layers.embed import AddPosition, SeriesEmbedding, TokenEmbedding
from mirada.layers.model import Model
from mirada.layers.recurrent import LuongDecoder, Recurrent, RecurrentState
from mirada.layers.stack import Decoder, DecoderState, Encoder
from mirada.shapes import check_axes, check_floating, check_size, show

Series = Float[Tensor, "batch time features"]
Codes = Int[Tensor, "batch steps kinds"]
Context = Float[Tensor, "batch time width"]
PatchContext = Float[Tensor, "batch patches width"]
Values = Float[Tensor, "batch horizon targets"]
First = Float[Tensor, "batch targets"]


@dataclass(frozen=True, kw_only=True)
class ForecasterConfig(BlockConfig):
    """`features` numbers per step in, `targets` out, `horizon` steps ahead; `kind` is encoder-decoder, lstm or patches.

    The first `own` columns of the input are the past of the first targets. With `relative`, every column is read as its
    distance from its last value. Patches cut `length` steps into pieces of `patch`, of all columns together (`channels` is
    mixed) or of each by itself: it sees its own column (apart) or all of them (across); auto is apart where the columns are
    the targets and across where there are others.

    Args:
        features: numbers in a time step of the input.
        targets: numbers in a time step of the output.
        horizon: how many steps are predicted.
        own: how many of the first columns are the past of the first targets.
        relative: whether columns are read as distances from their last values.
        patch: steps in a patch.
        channels: mixed, apart, across or auto.
        depth: how many layers there are.
        kind: encoder-decoder, lstm or patches.
        codes: rows of the table of what is known beside the numbers, such as weekdays; 0: nothing is.
        and the fields of `BlockConfig`.

    >>> ForecasterConfig(features=3, targets=1, horizon=12, kind="patches", channels="auto").across
    True
    """

    activation: str = "gelu"
    length: int = 96
    features: int = 1
    targets: int = 1
    horizon: int = 24
    own: int = 1
    relative: bool = False
    patch: int = 8
    channels: str = "mixed"
    depth: int = 2
    kind: str = "encoder-decoder"
    codes: int = 0
    small: ClassVar = {"depth": 2, "length": 12, "features": 3, "targets": 2, "horizon": 5, "patch": 4}

    def check(self) -> None:
        super().check()
        self.at_least(1, "features", "targets", "horizon", "patch", "depth")
        self.at_least(0, "own", "codes")
        self.one_of("kind", "encoder-decoder", "lstm", "patches")
        self.one_of("channels", "mixed", "apart", "across", "auto")
        if self.own > min(self.features, self.targets):
            raise ValueError(
                f"own counts the targets among the features: got own={self.own}, features={self.features}, "
                f"targets={self.targets}"
            )
        if self.kind == "encoder-decoder":
            self.check_decoder()
            if self.position == "learned" and self.horizon > self.length:
                raise ValueError(
                    f"a learned position needs a row per step: got horizon={self.horizon}, length={self.length}. "
                    "Give a longer length."
                )
        if self.kind == "patches" and self.channels == "apart":
            message = f"a column by itself needs its own past: got own={self.own}, targets={self.targets}."
            require(self.own >= self.targets, f"{message} Use channels=across.")
        if self.kind == "patches" and self.channels == "mixed":
            message = (
                f"length must divide into patches: got length={self.length}, patch={self.patch}. Change one of them."
            )
            require(self.length % self.patch == 0, message)

    @property
    def has_blocks(self) -> bool:
        return self.kind != "lstm"

    @property
    def across(self) -> bool:
        """Whether a patch of one column looks at the patches of others."""
        alone = self.own == self.targets == self.features
        return self.channels == "across" or (self.channels == "auto" and not alone)


class Forecaster(Model[ForecasterConfig]):
    """What comes next, from what was measured.

    Args:
        config: sizes and parts, as a `ForecasterConfig`.

    >>> model = Forecaster(ForecasterConfig.tiny())
    >>> model(torch.zeros(2, 12, 3), first=torch.zeros(2, 2)).shape
    torch.Size([2, 5, 2])

    Vaswani et al. (2017), arXiv:1706.03762; patches: Nie et al. (2023), arXiv:2211.14730.
    """

    Config = ForecasterConfig

    def __init__(self, config: ForecasterConfig) -> None:
        super().__init__(config)
        kinds = {"encoder-decoder": EncoderDecoderBody, "lstm": LSTMBody, "patches": PatchBody}
        by_column = config.kind == "patches" and config.channels != "mixed"
        self.body: Any = (ColumnBody if by_column else kinds[config.kind])(config)
        self.beside = StepCodes(config) if config.codes else None

    def forward(self, series: Series, first: First, codes: Codes | None = None) -> Values:
        """The next `horizon` values, each predicted from the ones before it. `first` is the last known value.

        `codes` are what is known beside the numbers, of every step read and to come; patches read the former, too.
        """
        self._check(series, first)
        x, body, config = self._read(series), self.body, self.config
        if self.beside is not None:
            context, moved = self.beside(codes, series.shape[1])
            first = first.unsqueeze(1) + moved
        else:
            require(codes is None, "this forecaster reads no codes: build it with codes=")
            context, first = None, first.unsqueeze(1)
        if isinstance(body, PatchBody | ColumnBody):
            return first + body.next_values(x, context=context)
        state, value, values = body.start(x), x.new_zeros(x.shape[0], config.targets), []
        for _ in range(config.horizon):
            value, state = body.step(value, state)
            values.append(value)
        return first + torch.stack(values, dim=1)

    def teacher_forced(self, series: Series, first: First, wanted: Values) -> Values:
        """The same with the true values in place of the predicted ones: teacher forcing. Nothing is known beside the numbers."""
        self._check(series, first)
        require(self.beside is None, "teacher forcing takes no codes: call the model itself")
        require(isinstance(wanted, Tensor), f"wanted must be a tensor of values: got {type(wanted).__name__}")
        shape = (len(series), self.config.horizon, self.config.targets)
        require(wanted.shape == shape, f"wanted must have shape {shape}: got {show(wanted)}")
        moved = wanted - first.unsqueeze(1)
        before = torch.cat([torch.zeros_like(moved[:, :1]), moved[:, :-1]], dim=1)
        return first.unsqueeze(1) + self.body.next_values(self._read(series), before)

    def loss(self, series: Series, first: First, wanted: Values) -> Float[Tensor, ""]:
        """The mean squared error of the wanted values."""
        return F.mse_loss(self.teacher_forced(series, first, wanted), wanted)

    def _read(self, series: Series) -> Series:
        return series - series[:, -1:] if self.config.relative else series

    def _check(self, series: Series, first: First) -> None:
        check_axes("series", series, "batch time features", features=self.config.features)
        check_axes("first", first, "batch targets", targets=self.config.targets, batch=series.shape[0])
        check_floating("series", series)
        require(series.shape[1] > 0, "a forecast needs at least one time step of input: got none")


class StepCodes(nn.Module):
    """What is known beside the numbers of every step: a vector for each code, and what it changes in the steps to come.

    e = sum of table[code] over the codes above 0
    change of step h = W gelu(A e[h] + B e[last])

    Args:
        config: sizes; `codes` are the rows of the table.

    >>> codes = torch.tensor([[[1, 3], [2, 0], [1, 0]]])
    >>> context, moved = StepCodes(ForecasterConfig(width=8, codes=4, horizon=1))(codes, read=2)
    >>> context.shape, moved.shape
    (torch.Size([1, 2, 8]), torch.Size([1, 1, 1]))
    """

    def __init__(self, config: ForecasterConfig) -> None:
        super().__init__()
        self.horizon, self.kinds = config.horizon, TokenEmbedding(config.codes, config.width, of="code")
        self.coming = linear(config.width, config.hidden, bias=True)
        self.last = linear(config.width, config.hidden, bias=False)
        self.dropout = Dropout(config.dropout)
        self.output = linear(config.hidden, config.targets, bias=True)
        nn.init.zeros_(self.output.weight)  # a model that learned nothing repeats the last value

    def forward(self, codes: Codes | None, read: int) -> tuple[Context, Values]:
        """A vector for every step that is read, and what is added to the forecast of every step to come."""
        if codes is None:
            raise ValueError("this forecaster reads codes of what is known beside the numbers: give codes=")
        check_axes("codes", codes, "batch steps kinds", steps=read + self.horizon)
        e = (self.kinds(codes) * (codes > 0).unsqueeze(-1)).sum(2)
        h = F.gelu(self.coming(e[:, read:]) + self.last(e[:, read - 1 : read]))
        return e[:, :read], self.output(self.dropout(h))


def in_patches(context: Context, patch: int) -> PatchContext:
    """The mean vector of every patch of steps; the first patch may have fewer of them, of which the first is repeated."""
    missing = -context.shape[1] % patch
    context = torch.cat([context[:, :1].expand(-1, missing, -1), context], dim=1) if missing else context
    return rearrange(context, "b (n p) w -> b n p w", p=patch).mean(2)


class EncoderDecoderBody(nn.Module):
    """Encoder layers read the series, decoder layers generate value by value."""

    def __init__(self, config: ForecasterConfig) -> None:
        super().__init__()
        self.source_numbers = SeriesEmbedding(config.features, config.width)
        self.target_numbers = SeriesEmbedding(config.targets, config.width)
        self.source_place = AddPosition(input_position(config), config.dropout)
        self.target_place = AddPosition(input_position(config), config.dropout)
        self.encoder = Encoder(config, config.depth)
        self.decoder = Decoder(config, config.depth)
        self.output = linear(config.width, config.targets, bias=True)

    def encode(self, series: Series) -> Float[Tensor, "batch time width"]:
        """A vector per time step."""
        return self.encoder(self.source_place(self.source_numbers(series)))

    def next_values(self, series: Series, before: Values) -> Values:
        """The value after each of those before."""
        return self.output(self.decoder(self.target_place(self.target_numbers(before)), self.encode(series)))

    def start(self, series: Series) -> DecoderState:
        """The state before the first value."""
        return self.decoder.start(self.encode(series))

    def step(self, value: First, state: DecoderState) -> tuple[First, DecoderState]:
        """The next value, and the state that leads on."""
        x = self.target_place(self.target_numbers(value.unsqueeze(1)), start=state.filled)
        h, state = self.decoder.step(x, state)
        return self.output(h[:, -1]), state


class LSTMBody(nn.Module):
    """A recurrent net reads the series, another generates and attends to it at every step."""

    def __init__(self, config: ForecasterConfig) -> None:
        super().__init__()
        width = config.width
        self.encoder = Recurrent("lstm", config.features, width, config.depth, dropout=config.dropout)
        score = Bilinear(width, width, scale=None)
        self.decoder = LuongDecoder("lstm", config.targets, width, config.depth, score, dropout=config.dropout)
        self.dropout = Dropout(config.dropout)  # the recurrent nets have theirs between layers only
        self.output = linear(width, config.targets, bias=True)

    def next_values(self, series: Series, before: Values) -> Values:
        """The value after each of those before."""
        states, last = self.encoder(series)
        return self.output(self.dropout(self.decoder.run(before, self.dropout(states), None, last)))

    def start(self, series: Series) -> RecurrentState:
        """The state before the first value."""
        states, last = self.encoder(series)
        return self.decoder.start(self.dropout(states), None, last)

    def step(self, value: First, state: RecurrentState) -> tuple[First, RecurrentState]:
        """The next value, and the state that leads on."""
        readout, state = self.decoder.step(value, state)
        return self.output(self.dropout(readout)), state


class PatchBody(nn.Module):
    """Encoder layers over patches of time, all columns in one; all values at once, from everything seen."""

    def __init__(self, config: ForecasterConfig) -> None:
        super().__init__()
        self.patch, self.length, self.targets = config.patch, config.length, config.targets
        self.numbers = SeriesEmbedding(config.features * config.patch, config.width)
        self.place = AddPosition(input_position(config), config.dropout)
        self.encoder = Encoder(config, config.depth)
        self.output = linear(config.length // config.patch * config.width, config.horizon * config.targets, bias=True)

    def next_values(self, series: Series, before: Values | None = None, context: Context | None = None) -> Values:
        """All values at once: none depends on those `before` it."""
        check_size("series", series, 1, "time", self.length)
        x = self.numbers(rearrange(series, "b (n p) f -> b n (p f)", p=self.patch))
        h = self.encoder(self.place(x if context is None else x + in_patches(context, self.patch)))
        return rearrange(self.output(h.flatten(1)), "b (h t) -> b h t", t=self.targets)


class ColumnBody(nn.Module):
    """Encoder layers over patches of single columns; all values of a target at once, from the patches of its column.

    Apart, every column is a sequence of its own, and one set of weights reads them all. Across, the patches of all columns
    are one sequence, each with a vector of its column; the patches of a target that is not read have nothing but that vector.

    >>> config = ForecasterConfig(length=10, features=3, targets=1, horizon=5, patch=4, kind="patches", channels="auto")
    >>> config.across, ColumnBody(config).next_values(torch.zeros(2, 10, 3)).shape
    (True, torch.Size([2, 5, 1]))

    Nie et al. (2023), arXiv:2211.14730.
    """

    def __init__(self, config: ForecasterConfig) -> None:
        super().__init__()
        self.patch, self.length, self.own, self.targets = config.patch, config.length, config.own, config.targets
        self.unread = config.targets - config.own
        self.places = -(-config.length // config.patch)  # of a column, whose first patch repeats its first value
        self.numbers = SeriesEmbedding(config.patch, config.width)
        self.place = AddPosition(input_position(config), config.dropout)
        columns = config.features + self.unread
        self.columns = TokenEmbedding(columns, config.width, of="column") if config.across else None
        self.encoder = Encoder(config, config.depth)
        self.dropout = Dropout(config.dropout)
        self.output = linear(self.places * config.width, config.horizon, bias=True)
        nn.init.zeros_(self.output.weight)  # a model that learned nothing repeats the last value

    def next_values(self, series: Series, before: Values | None = None, context: Context | None = None) -> Values:
        """All values at once: none depends on those `before` it."""
        check_size("series", series, 1, "time", self.length)
        missing = self.places * self.patch - self.length
        series = torch.cat([series[:, :1].expand(-1, missing, -1), series], dim=1) if missing else series
        beside = None if context is None else in_patches(context, self.patch)
        h = self.across(series, self.columns, beside) if self.columns is not None else self.apart(series, beside)
        return rearrange(self.output(self.dropout(h)), "b c h -> b h c")

    def apart(self, series: Series, beside: PatchContext | None) -> Float[Tensor, "batch targets read"]:
        """What is known of every target from its own column."""
        x = self.numbers(rearrange(series[:, :, : self.own], "b (n p) c -> (b c) n p", p=self.patch))
        x = x if beside is None else x + beside.repeat_interleave(self.own, dim=0)
        return rearrange(self.encoder(self.place(x)), "(b c) n w -> b c (n w)", c=self.own)

    def across(
        self, series: Series, columns: TokenEmbedding, beside: PatchContext | None
    ) -> Float[Tensor, "batch targets read"]:
        """What is known of every target from all columns."""
        count = series.shape[2]
        patches = self.numbers(rearrange(series, "b (n p) c -> (b c) n p", p=self.patch))
        patches = patches if beside is None else patches + beside.repeat_interleave(count, dim=0)
        x = rearrange(patches, "(b c) n w -> b c n w", c=count)
        x = torch.cat([x, x.new_zeros(x.shape[0], self.unread, *x.shape[2:])], dim=1)
        x = x + columns(torch.arange(x.shape[1], device=x.device)).unsqueeze(1)
        x = self.place(rearrange(x, "b c n w -> (b c) n w"))
        time = torch.arange(self.places, device=x.device).repeat(count + self.unread)
        h = self.encoder(rearrange(x, "(b c) n w -> b (c n) w", c=count + self.unread), positions=time)
        h = rearrange(h, "b (c n) w -> b c (n w)", n=self.places)
        return torch.cat([h[:, : self.own], h[:, count:]], dim=1)
