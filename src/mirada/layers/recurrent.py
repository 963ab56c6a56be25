"""Recurrent layers: plain, GRU and LSTM, in one or two directions, over padded batches or one step at a time."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from mirada.errors import require, unknown
from mirada.layers.dropout import Dropout
from mirada.shapes import check_axes, check_dtype, check_integers, check_size, show

GATES = {"rnn": 1, "gru": 3, "lstm": 4}


class Carried(NamedTuple):
    """What is carried from step to step, for every layer and direction: the states and, of an LSTM, the cells."""

    h: Float[Tensor, "layers batch hidden"]
    c: Float[Tensor, "layers batch hidden"]  # of other cells: the states again

    def reorder(self, index: Int[Tensor, " batch"]) -> "Carried":
        """Let entry b go on from what entry index[b] has."""
        return Carried(*(x.index_select(1, index) for x in self))


class Recurrent(nn.Module):
    """Layers of a recurrent net, each reading the outputs of the one below.

    rnn:   h_t = tanh(W h + U x + b)
    gru:   r, z = sigmoid(..);  n = tanh(U x + b + r * (W h));  h_t = (1 - z) * n + z * h
    lstm:  i, f, o = sigmoid(..), g = tanh(..);  c_t = f * c + i * g;  h_t = o * tanh(c_t)

    Every gate has one bias. With two directions the outputs stand side by side, each `hidden / 2` wide, so that the width
    of the output is `hidden` either way. Outputs at padded places are 0, and a backward direction starts at a
    sample's true end.

    >>> states, last = Recurrent("lstm", 3, hidden=8, directions=2)(torch.zeros(2, 5, 3), torch.tensor([5, 2]))
    >>> states.shape, last.h.shape
    (torch.Size([2, 5, 8]), torch.Size([2, 2, 4]))

    Hochreiter and Schmidhuber (1997); Cho et al. (2014), arXiv:1406.1078.
    """

    def __init__(
        self, cell: str, width: int, hidden: int, depth: int = 1, directions: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if cell not in GATES:
            raise unknown("cell", cell, GATES)
        require(min(width, hidden, depth) >= 1, f"sizes must be at least 1: got {width}, {hidden}, depth={depth}")
        require(
            directions in (1, 2) and hidden % directions == 0,
            f"hidden must be divisible by directions (1 or 2): got hidden={hidden}, directions={directions}",
        )
        self.cell, self.width, self.hidden, self.depth, self.directions = cell, width, hidden, depth, directions
        self.dropout = Dropout(dropout)
        size, gates = hidden // directions, GATES[cell]
        bound = 1 / math.sqrt(size)
        self.read, self.carry, self.bias = nn.ParameterList(), nn.ParameterList(), nn.ParameterList()
        for layer in range(depth):
            for _ in range(directions):
                inputs = hidden if layer else width
                self.read.append(torch.empty(gates * size, inputs).uniform_(-bound, bound))
                self.carry.append(torch.empty(gates * size, size).uniform_(-bound, bound))
                self.bias.append(torch.zeros(gates * size))

    def forward(
        self,
        x: Float[Tensor, "batch length width"],
        lengths: Int[Tensor, " batch"] | None = None,
        carried: Carried | None = None,
    ) -> tuple[Float[Tensor, "batch length hidden"], Carried]:
        """The states at every place, and what is carried on from the (true) end."""
        check_axes("x", x, "batch length width")
        check_size("x", x, 2, "width", self.width)
        check_dtype("x", x, self.read[0])
        batch, length, _ = x.shape
        require(length > 0, "a recurrent layer needs at least one place: got length=0")
        carried = self.start(batch, x) if carried is None else carried
        if lengths is not None:
            lengths = check_lengths(lengths, batch, length)
        ends: list[Carried] = []
        for layer in range(self.depth):
            if layer:
                x = self.dropout(x)
            rows = slice(layer * self.directions, (layer + 1) * self.directions)
            before = Carried(carried.h[rows], carried.c[rows])
            x, end = self.layer(layer, x, lengths, before)
            ends.append(end)
        return x, Carried(*(torch.cat(parts) for parts in zip(*ends, strict=True)))

    def start(self, batch: int, like: Tensor) -> Carried:
        """Zeros: what is carried into the first step."""
        zeros = like.new_zeros(self.depth * self.directions, batch, self.hidden // self.directions)
        return Carried(zeros, zeros)

    def step(self, x: Float[Tensor, "batch width"], carried: Carried) -> tuple[Float[Tensor, "batch hidden"], Carried]:
        """One step of a net with one direction."""
        require(
            self.directions == 1, "a net that reads backward too cannot go step by step: build it with directions=1"
        )
        h, c = list(carried.h.unbind()), list(carried.c.unbind())
        for layer in range(self.depth):
            x = self.dropout(x) if layer else x
            weights = (self.read[layer], self.carry[layer], self.bias[layer], torch.zeros_like(self.bias[layer]))
            if self.cell == "lstm":
                h[layer], c[layer] = torch.lstm_cell(x, (h[layer], c[layer]), *weights)
            else:
                one_step = torch.gru_cell if self.cell == "gru" else torch.rnn_tanh_cell
                h[layer] = c[layer] = one_step(x, h[layer], *weights)
            x = h[layer]
        return x, Carried(torch.stack(h), torch.stack(c))

    def layer(self, number: int, x: Tensor, lengths: Tensor | None, before: Carried) -> tuple[Tensor, Carried]:
        """One layer in all its directions, by PyTorch's own loop."""
        rows = range(number * self.directions, (number + 1) * self.directions)
        weights = [
            weight
            for row in rows
            for weight in (self.read[row], self.carry[row], self.bias[row], torch.zeros_like(self.bias[row]))
        ]
        run = {"rnn": torch.rnn_tanh, "gru": torch.gru, "lstm": torch.lstm}[self.cell]
        settings = (weights, True, 1, 0.0, self.training, self.directions == 2)
        if lengths is None:
            start = tuple(before) if self.cell == "lstm" else before.h
            x, *end = run(x.contiguous(), start, *settings, True)  # type: ignore[operator]
            return x, Carried(end[0], end[-1])
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        order, back = packed.sorted_indices, packed.unsorted_indices
        assert order is not None
        assert back is not None
        sorted_before = before.reorder(order)
        start = tuple(sorted_before) if self.cell == "lstm" else sorted_before.h
        data, *end = run(packed.data, packed.batch_sizes, start, *settings)  # type: ignore[operator]
        packed = PackedSequence(data, packed.batch_sizes, order, back)
        x, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
        return x, Carried(end[0], end[-1]).reorder(back)

    def extra_repr(self) -> str:
        return f"{self.cell!r}, {self.width}, hidden={self.hidden}, depth={self.depth}, directions={self.directions}"


def check_lengths(lengths: Int[Tensor, " batch"], batch: int, length: int) -> Int[Tensor, " batch"] | None:
    """Require a true length of at least 1 for every sample; None comes back where nothing is padded."""
    require(lengths.shape == (batch,), f"lengths must be one number per sample: got {show(lengths)} for batch={batch}")
    check_integers("lengths", lengths)
    if not batch:
        return None
    low, high = (int(bound) for bound in lengths.aminmax())
    require(
        low >= 1 and high <= length,
        f"a recurrent layer reads lengths of 1 to {length}: got {low} to {high}. Leave empty samples out.",
    )
    return None if low == length else lengths
