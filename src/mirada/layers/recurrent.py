"""Recurrent decoders: without attention, and looking at a memory as Bahdanau's and as Luong's do.

All have the same interface: `run` reads a whole target (teacher forcing), `start` and `step` decode token by token. Their
outputs are read by an output layer. The memory they attend to has their own width, `hidden`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from mirada.attention.cache import entries
from mirada.attention.equation import Attention
from mirada.attention.heads import Split, linear
from mirada.attention.memory import Memory
from mirada.attention.neighborhoods import Monotonic, Neighborhood, Padding
from mirada.attention.normalizers import Normalizer
from mirada.attention.positions import LocalGaussian, Position
from mirada.attention.scores import Score
from mirada.errors import require, require_known
from mirada.layers.dropout import Dropout
from mirada.layers.model import check_state
from mirada.shapes import check_axes, check_dtype, check_integers, show

# Recurrent layers: plain, GRU and LSTM, in one or two directions, over padded batches or one step at a time.


GATES = {"rnn": 1, "gru": 3, "lstm": 4}


class Carried(NamedTuple):
    """What is carried from step to step, for every layer and direction: the states and, of an LSTM, the cells."""

    h: Float[Tensor, "layers batch hidden"]
    c: Float[Tensor, "layers batch hidden"]  # of other cells: the states again

    def reorder(self, index: Int[Tensor, " batch"]) -> "Carried":
        """Let entry b continue from entry index[b]."""
        return Carried(*(x.index_select(1, index) for x in self))


class Recurrent(nn.Module):
    """Layers of a recurrent net, each reading the outputs of the one below.

    rnn:   h_t = tanh(W h + U x + b)
    gru:   r, z = sigmoid(..);  n = tanh(U x + b + r * (W h));  h_t = (1 - z) * n + z * h
    lstm:  i, f, o = sigmoid(..), g = tanh(..);  c_t = f * c + i * g;  h_t = o * tanh(c_t)

    Every gate has one bias. With two directions the outputs are concatenated, each `hidden / 2` wide, so that the width
    of the output is `hidden` either way. Outputs at padded places are 0, and a backward direction starts at a
    sample's true end.

    Args:
        cell: rnn, gru or lstm.
        width: numbers in an input.
        hidden: numbers in a state.
        depth: how many layers there are.
        directions: 1, or 2 to read backward too.
        dropout: the share of numbers dropped between layers.

    >>> states, last = Recurrent("lstm", 3, hidden=8, directions=2)(torch.zeros(2, 5, 3), torch.tensor([5, 2]))
    >>> states.shape, last.h.shape
    (torch.Size([2, 5, 8]), torch.Size([2, 2, 4]))

    Hochreiter and Schmidhuber (1997); Cho et al. (2014), arXiv:1406.1078.
    """

    def __init__(
        self, cell: str, width: int, hidden: int, depth: int = 1, directions: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        require_known("cell", cell, GATES)
        require(min(width, hidden, depth) >= 1, f"sizes must be at least 1: got {width}, {hidden}, depth={depth}")
        message = f"hidden must be divisible by directions (1 or 2): got hidden={hidden}, directions={directions}"
        require(directions in (1, 2) and hidden % directions == 0, message)
        self.cell, self.width, self.hidden, self.depth, self.directions = cell, width, hidden, depth, directions
        self.dropout = Dropout(dropout)
        size, gates = hidden // directions, GATES[cell]
        bound = 1 / math.sqrt(size)
        self.read, self.carry, self.bias = nn.ParameterList(), nn.ParameterList(), nn.ParameterList()
        for layer in range(depth):
            for _ in range(directions):
                self.read.append(torch.empty(gates * size, hidden if layer else width).uniform_(-bound, bound))
                self.carry.append(torch.empty(gates * size, size).uniform_(-bound, bound))
                self.bias.append(torch.zeros(gates * size))

    def forward(
        self,
        x: Float[Tensor, "batch length width"],
        lengths: Int[Tensor, " batch"] | None = None,
        carried: Carried | None = None,
    ) -> tuple[Float[Tensor, "batch length hidden"], Carried]:
        """The states at every place, and what is carried on from the (true) end."""
        check_axes("x", x, "batch length width", width=self.width)
        check_dtype("x", x, self.read[0])
        batch, length, _ = x.shape
        require(length > 0, "a recurrent layer needs at least one place: got length=0")
        carried = self.start(batch, x) if carried is None else carried
        if lengths is not None and not torch.compiler.is_exporting():
            lengths = _check_lengths(lengths, batch, length)
        ends: list[Carried] = []
        for layer in range(self.depth):
            if layer:
                x = self.dropout(x)
            rows = slice(layer * self.directions, (layer + 1) * self.directions)
            x, end = self.layer(layer, x, lengths, Carried(carried.h[rows], carried.c[rows]))
            ends.append(end)
        return x, Carried(*(torch.cat(parts) for parts in zip(*ends, strict=True)))

    def start(self, batch: int, like: Tensor) -> Carried:
        """Zeros: what is carried into the first step."""
        zeros = like.new_zeros(self.depth * self.directions, batch, self.hidden // self.directions)
        return Carried(zeros, zeros)

    def step(self, x: Float[Tensor, "batch width"], carried: Carried) -> tuple[Float[Tensor, "batch hidden"], Carried]:
        """One step of a net with one direction."""
        message = "a net that reads backward too cannot go step by step: build it with directions=1"
        require(self.directions == 1, message)
        h, c = list(carried.h.unbind()), list(carried.c.unbind())
        for layer in range(self.depth):
            x = self.dropout(x) if layer else x
            x, c[layer] = self._cell(x, (h[layer], c[layer]), self._weights(layer))
            h[layer] = x
        return x, Carried(torch.stack(h), torch.stack(c))

    def layer(self, number: int, x: Tensor, lengths: Tensor | None, before: Carried) -> tuple[Tensor, Carried]:
        """One layer in all its directions, by PyTorch's own loop."""
        rows = range(number * self.directions, (number + 1) * self.directions)
        if torch.compiler.is_exporting():
            return self._traced(rows, x, lengths, before)
        weights = [weight for row in rows for weight in self._weights(row)]
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

    def _traced(self, rows: range, x: Tensor, lengths: Tensor | None, before: Carried) -> tuple[Tensor, Carried]:
        """One layer as a loop that a program keeps: PyTorch's own is unrolled, for the length that is traced."""
        batch, length, _ = x.shape
        real = torch.ones(batch, length, dtype=torch.bool, device=x.device)
        real = real if lengths is None else torch.arange(length, device=x.device) < lengths.unsqueeze(1)
        inputs, kept = x.transpose(0, 1), real.transpose(0, 1).unsqueeze(-1)
        states, ends = [], []
        for row, start in zip(rows, zip(*before, strict=True), strict=True):
            backward = row % 2 == 1 and self.directions == 2
            weights = self._weights(row)

            def one(carried: tuple[Tensor, ...], place: tuple[Tensor, ...], weights: Any = weights) -> Any:
                made = self._cell(place[0], carried, weights)
                new = tuple(torch.where(place[1], n, old) for n, old in zip(made, carried, strict=True))
                return new, new[0] * place[1]

            h, c = start
            end, out = scan(one, (h.clone(), c.clone()), (inputs, kept), reverse=backward)
            states.append(out.transpose(0, 1))
            ends.append(end)
        return torch.cat(states, dim=-1), Carried(*(torch.stack(parts) for parts in zip(*ends, strict=True)))

    def _cell(self, x: Tensor, carried: tuple[Tensor, ...], weights: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """The next state and cell of one layer; of other cells than an LSTM's, the state twice."""
        h, c = carried
        if self.cell == "lstm":
            return torch.lstm_cell(x, (h, c), *weights)
        new = (torch.gru_cell if self.cell == "gru" else torch.rnn_tanh_cell)(x, h, *weights)
        return new, new.clone() if torch.compiler.is_exporting() else new

    def _weights(self, row: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The parameters of a layer in one direction as PyTorch takes them: with a second bias, of zeros."""
        return self.read[row], self.carry[row], self.bias[row], torch.zeros_like(self.bias[row])

    def extra_repr(self) -> str:
        return f"{self.cell!r}, {self.width}, hidden={self.hidden}, depth={self.depth}, directions={self.directions}"


def _check_lengths(lengths: Int[Tensor, " batch"], batch: int, length: int) -> Int[Tensor, " batch"] | None:
    """Require a true length of at least 1 for every sample; None comes back where nothing is padded."""
    require(lengths.shape == (batch,), f"lengths must be one number per sample: got {show(lengths)} for batch={batch}")
    check_integers("lengths", lengths)
    if not batch:
        return None
    low, high = (int(bound) for bound in lengths.aminmax())
    message = f"a recurrent layer reads lengths of 1 to {length}: got {low} to {high}. Leave empty samples out."
    require(low >= 1 and high <= length, message)
    return None if low == length else lengths


Input = Float[Tensor, "batch length width"]
States = Float[Tensor, "batch keys hidden"]
Readout = Float[Tensor, "batch length hidden"]


@dataclass(frozen=True, eq=False)
class RecurrentState:
    """The state of a recurrent decoder: what it carries, its last readout, and the memory it attends to."""

    owner: nn.Module  # the decoder that made it: the memory is projected with its weights
    carried: Carried
    memory: Memory | None = None
    fed: Tensor | None = None  # Luong's attentional state, where it is fed back
    asked: Tensor | None = None  # the last input of the attention
    drawn: Tensor | None = None  # the weights of the last step, if computing them again would draw anew
    time: int | Tensor = 0  # in the loop of a program, a tensor

    @property
    def batch(self) -> int:
        """How many sequences are decoded at once."""
        return self.carried.h.shape[1]

    def reorder(self, index: Int[Tensor, " batch"]) -> "RecurrentState":
        """Let entry b continue from entry index[b], with everything that is fed back."""
        index = entries(index, self.carried.h[0])
        kept = (self.fed, self.asked, self.drawn)
        fed, asked, drawn = (None if x is None else x.index_select(0, index) for x in kept)
        memory = None if self.memory is None else self.memory.reorder(index)
        return replace(self, carried=self.carried.reorder(index), memory=memory, fed=fed, asked=asked, drawn=drawn)


class PlainDecoder(nn.Module):
    """A recurrent decoder without attention: it starts from the encoder's last state and reads nothing else of the source.

    s_t = cell(y_{t-1}, s_{t-1}), and s_t is what the output layer reads

    Sutskever, Vinyals and Le (2014), arXiv:1409.3215: the baseline of the lectures.

    Args:
        cell: rnn, gru or lstm.
        width: numbers in an input.
        hidden: numbers in a state.
        depth: how many layers there are.
        dropout: the share of numbers dropped between layers.

    >>> decoder = PlainDecoder("gru", width=3, hidden=4)
    >>> states, last = Recurrent("gru", 3, hidden=4)(torch.zeros(2, 5, 3))
    >>> readout, state = decoder.step(torch.zeros(2, 3), decoder.start(states, None, last))
    >>> readout.shape, state.time
    (torch.Size([2, 4]), 1)
    """

    def __init__(self, cell: str, width: int, hidden: int, depth: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.cell = Recurrent(cell, width, hidden, depth, dropout=dropout)

    def start(self, states: States, padding: Padding | None, carried: Carried) -> RecurrentState:
        """The state before the first step."""
        return RecurrentState(self, carried)

    def step(self, x: Float[Tensor, "batch width"], state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """What the output layer reads after one more input."""
        check_state(state, RecurrentState, self)
        s, carried = self.cell.step(x, state.carried)
        return s, replace(state, carried=carried, time=state.time + 1)

    def run(self, x: Input, states: States, padding: Padding | None, carried: Carried) -> Readout:
        """What the output layer reads at every place of a known target."""
        return self.cell(x, carried=carried)[0]

    def alignment(self, state: RecurrentState) -> Float[Tensor, "batch keys"]:
        """The weights of the last step over the memory."""
        raise ValueError("a decoder without attention has no alignment")


class LookingDecoder(PlainDecoder):
    """What Bahdanau's and Luong's decoders share: an attention over the memory, whose query is a state."""

    attention: Attention

    def look(self, s: Float[Tensor, "batch hidden"], state: RecurrentState) -> Float[Tensor, "batch context"]:
        """The context of a state."""
        return self.attention(s.unsqueeze(1), memory=state.memory, positions=self.now(state.time, s))[:, 0]

    def now(self, time: int | Tensor, like: Tensor) -> Int[Tensor, " 1"] | None:
        """The position of a step, where the attention depends on it."""
        if not isinstance(self.attention.where, Monotonic):
            return None
        return time.view(1) if isinstance(time, Tensor) else torch.tensor([time], device=like.device)

    def steps(self, x: Input, state: RecurrentState, step: Callable[..., tuple[Any, ...]]) -> tuple[Tensor, ...]:
        """What `step` returns before its next state, for all places of a known target."""
        if torch.compiler.is_exporting():
            return self._traced_steps(x, state, step)
        made = []
        for inputs in x.unbind(1):
            *parts, state = step(inputs, state)
            made.append(parts)
        return tuple(torch.stack(parts, dim=1) for parts in zip(*made, strict=True))

    def _traced_steps(
        self, x: Input, state: RecurrentState, step: Callable[..., tuple[Any, ...]]
    ) -> tuple[Tensor, ...]:
        """The same as a loop that a program keeps, for targets of any length."""
        feeding, memory = state.fed is not None, state.memory
        if memory is not None and memory.values is not None:  # a loop takes no tensor twice
            memory = replace(memory, values=memory.values.clone())

        def one(carried: tuple[Tensor, ...], place: tuple[Tensor, Tensor]) -> Any:
            fed = carried[2] if feeding else None
            here = replace(state, carried=Carried(carried[0], carried[1]), fed=fed, time=place[1], memory=memory)
            *parts, after = step(place[0], here)
            new = (*after.carried, *(() if after.fed is None else (after.fed,)))
            return tuple(x.clone() for x in new), tuple(x.clone() for x in parts)

        start = (*state.carried, *(() if state.fed is None else (state.fed,)))
        times = torch.arange(x.shape[1], device=x.device)
        _, parts = scan(one, tuple(x.clone() for x in start), (x.transpose(0, 1), times))
        return tuple(part.transpose(0, 1) for part in parts)

    def start(self, states: States, padding: Padding | None, carried: Carried) -> RecurrentState:
        return RecurrentState(self, carried, self.attention.remember(states, padding=padding))

    def alignment(self, state: RecurrentState) -> Float[Tensor, "batch keys"]:
        check_state(state, RecurrentState, self)
        if state.asked is None:
            raise ValueError("there is no alignment before the first step")
        if state.drawn is not None:
            return state.drawn
        positions = self.now(state.time - 1, state.asked)
        return self.attention.weights(state.asked.unsqueeze(1), memory=state.memory, positions=positions)[:, 0, 0]


class BahdanauDecoder(LookingDecoder):
    """Attend first, with the previous state; the context goes into the cell.

    c_t = attend(s_{t-1}, memory);  s_t = cell([y_{t-1}; c_t], s_{t-1});  readout = tanh(W [s_t; y_{t-1}; c_t])

    With `gate`, the context is first scaled by sigmoid(w . s_{t-1}), one number per step: how much the picture matters for
    this word (Show, Attend and Tell).

    Bahdanau, Cho and Bengio (2015), arXiv:1409.0473; Xu et al. (2015), arXiv:1502.03044, 4.2.1.

    Args:
        cell: rnn, gru or lstm.
        width: numbers in an input.
        hidden: numbers in a state.
        depth: how many layers there are.
        score: how alike a state and a place of the memory are.
        normalizer: how scores become weights; softmax by default.
        gate: whether the context is scaled.
        dropout: the share of numbers dropped between layers.

    >>> from mirada.attention.scores import Additive
    >>> decoder = BahdanauDecoder("gru", width=3, hidden=4, depth=1, score=Additive(4, 4, hidden=8))
    >>> states, last = Recurrent("gru", 3, hidden=4)(torch.zeros(2, 5, 3))
    >>> readout, state = decoder.step(torch.zeros(2, 3), decoder.start(states, None, last))
    >>> readout.shape, decoder.alignment(state).shape
    (torch.Size([2, 4]), torch.Size([2, 5]))
    """

    def __init__(
        self,
        cell: str,
        width: int,
        hidden: int,
        depth: int,
        score: Score,
        normalizer: Normalizer | None = None,
        gate: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(cell, width + hidden, hidden, depth, dropout)
        self.attention = Attention(Split(hidden, heads=1), score=score, normalizer=normalizer)
        self.gate = linear(hidden, 1, bias=True) if gate else None
        self.readout = linear(hidden + width + hidden, hidden, bias=True)

    def start(self, states: States, padding: Padding | None, carried: Carried) -> RecurrentState:
        if self.attention.normalizer.chooses:  # the drawn weights are read in the step itself
            return self.start_with_weights(states, padding, carried)
        return super().start(states, padding, carried)

    def step(self, x: Float[Tensor, "batch width"], state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        check_state(state, RecurrentState, self)
        joined, weights, state = self.advance(x, state)
        drawn = weights.detach() if weights.shape[-1] else None
        return torch.tanh(self.readout(joined)), replace(state, drawn=drawn)

    def run(self, x: Input, states: States, padding: Padding | None, carried: Carried) -> Readout:
        return self.loop(x, super().start(states, padding, carried))[0]

    def run_with_weights(
        self, x: Input, states: States, padding: Padding | None, carried: Carried
    ) -> tuple[Readout, Float[Tensor, "batch length keys"]]:
        """As `run`, and the weights of every step, with their gradients."""
        return self.loop(x, self.start_with_weights(states, padding, carried))

    def start_with_weights(self, states: States, padding: Padding | None, carried: Carried) -> RecurrentState:
        """A start with unit vectors appended to the values. They read the weights: sum_j alpha_j e_j = alpha."""
        units = torch.eye(states.shape[1], dtype=states.dtype, device=states.device).expand(len(states), -1, -1)
        memory = self.attention.remember(states, torch.cat([states, units], dim=-1), padding)
        return RecurrentState(self, carried, memory)

    def loop(self, x: Input, state: RecurrentState) -> tuple[Readout, Float[Tensor, "batch length keys"]]:
        """All steps of a known target. The readouts are computed together, at the end."""
        require(x.shape[1] > 0, "a target needs at least one place: got length=0")
        joined, weights = self.steps(x, state, self.advance)
        return torch.tanh(self.readout(joined)), weights

    def advance(self, x: Float[Tensor, "batch width"], state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        """One step: the input of the readout, the weights (if unit vectors are among the values), the next state."""
        previous = state.carried.h[-1]
        seen = self.look(previous, state)
        context, weights = seen[:, : self.cell.hidden], seen[:, self.cell.hidden :]
        if self.gate is not None:
            context = torch.sigmoid(self.gate(previous)) * context
        s, carried = self.cell.step(torch.cat([x, context], dim=-1), state.carried)
        state = replace(state, carried=carried, asked=previous, time=state.time + 1)
        return torch.cat([s, x, context], dim=-1), weights, state


class LuongDecoder(LookingDecoder):
    """Step first, then attend with the current state.

    s_t = cell(y_{t-1}, s_{t-1});  c_t = attend(s_t, memory);  readout h~_t = tanh(W [c_t; s_t])

    `reach` is how much of the memory a step may see: global, local-m (around its own place in time) or local-p (around a
    place that it predicts), `half` places to each side. With `feeding`, the cell also reads h~_{t-1}, which starts as zeros;
    then steps are sequential. Without it a whole target is computed in parallel.

    Luong, Pham and Manning (2015), arXiv:1508.04025.

    Args:
        cell: rnn, gru or lstm.
        width: numbers in an input.
        hidden: numbers in a state.
        depth: how many layers there are.
        score: how alike a state and a place of the memory are.
        reach: global, local-m or local-p.
        half: places on each side, where the reach is local.
        feeding: whether a readout goes into the next step.
        dropout: the share of numbers dropped between layers.

    >>> from mirada.attention.scores import Dot
    >>> decoder = LuongDecoder("gru", width=3, hidden=4, depth=1, score=Dot(), feeding=True)
    >>> states, last = Recurrent("gru", 3, hidden=4)(torch.zeros(2, 5, 3))
    >>> decoder.run(torch.zeros(2, 7, 3), states, None, last).shape
    torch.Size([2, 7, 4])
    """

    def __init__(
        self,
        cell: str,
        width: int,
        hidden: int,
        depth: int,
        score: Score,
        reach: str = "global",
        half: int = 10,
        feeding: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(cell, width + hidden * feeding, hidden, depth, dropout)
        require_known("reach", reach, ["global", "local-m", "local-p"])
        where: Neighborhood | None = Monotonic(half) if reach == "local-m" else None
        position: Position | None = LocalGaussian(hidden, half) if reach == "local-p" else None
        self.attention = Attention(Split(hidden, heads=1), score=score, where=where, position=position)
        self.feeding = feeding
        self.combine = linear(2 * hidden, hidden, bias=False)

    def start(self, states: States, padding: Padding | None, carried: Carried) -> RecurrentState:
        state = super().start(states, padding, carried)
        return replace(state, fed=torch.zeros_like(carried.h[-1])) if self.feeding else state

    def step(self, x: Float[Tensor, "batch width"], state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        check_state(state, RecurrentState, self)
        inputs = x if state.fed is None else torch.cat([x, state.fed], dim=-1)
        s, carried = self.cell.step(inputs, state.carried)
        readout = torch.tanh(self.combine(torch.cat([self.look(s, state), s], dim=-1)))
        fed = readout if self.feeding else None
        return readout, replace(state, carried=carried, fed=fed, asked=s, time=state.time + 1)

    def run(self, x: Input, states: States, padding: Padding | None, carried: Carried) -> Readout:
        if not self.feeding:
            s, _ = self.cell(x, carried=carried)
            return torch.tanh(self.combine(torch.cat([self.attention(s, memory=states, where=padding), s], dim=-1)))
        require(x.shape[1] > 0, "a target needs at least one place: got length=0")
        return self.steps(x, self.start(states, padding, carried), self.step)[0]
