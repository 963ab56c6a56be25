"""Recurrent layers against torch's own, and padded batches against each sample alone."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from mirada.layers.recurrent import Carried, Recurrent

BATCH, LENGTH, WIDTH, HIDDEN = 3, 7, 5, 6
TORCH = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
LENGTHS = torch.tensor([4, 7, 1])

every_cell = pytest.mark.parametrize("cell", TORCH)
every_shape = pytest.mark.parametrize(("depth", "directions"), [(1, 1), (2, 1), (1, 2), (2, 2), (3, 2)])


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def seeded(module: nn.Module) -> nn.Module:
    module = module.double()
    for place, parameter in enumerate(module.parameters()):
        parameter.data.copy_(numbers(*parameter.shape, seed=100 + place) * 0.5)
    return module


def as_torch(ours: Recurrent) -> nn.Module:
    """Torch's own module with our weights: its second bias is zero."""
    size = ours.hidden // ours.directions
    theirs = TORCH[ours.cell](
        ours.width, size, ours.depth, batch_first=True, bidirectional=ours.directions == 2
    ).double()  # fmt: skip
    for layer in range(ours.depth):
        for direction in range(ours.directions):
            row, name = layer * ours.directions + direction, f"l{layer}" + "_reverse" * direction
            getattr(theirs, f"weight_ih_{name}").data.copy_(ours.read[row])
            getattr(theirs, f"weight_hh_{name}").data.copy_(ours.carry[row])
            getattr(theirs, f"bias_ih_{name}").data.copy_(ours.bias[row])
            getattr(theirs, f"bias_hh_{name}").data.zero_()
    return theirs


def assert_carried(last: Carried, theirs: Tensor | tuple[Tensor, Tensor]) -> None:
    h, c = theirs if isinstance(theirs, tuple) else (theirs, theirs)
    assert_close(last.h, h)
    assert_close(last.c, c)


def random_carry(net: Recurrent, batch: int = BATCH) -> Carried:
    shape = (net.depth * net.directions, batch, net.hidden // net.directions)
    return Carried(numbers(*shape, seed=5), numbers(*shape, seed=6))


# Parity with torch


@every_cell
@every_shape
def test_it_is_the_net_of_torch(cell: str, depth: int, directions: int) -> None:
    ours = seeded(Recurrent(cell, WIDTH, HIDDEN, depth, directions))
    theirs, x = as_torch(ours), numbers(BATCH, LENGTH, WIDTH)
    states, last = ours(x)
    wanted, end = theirs(x)
    assert states.shape == (BATCH, LENGTH, HIDDEN)
    assert last.h.shape == (depth * directions, BATCH, HIDDEN // directions)
    assert_close(states, wanted)
    assert_carried(last, end)


@every_cell
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "padded"])
def test_what_is_carried_in_is_that_of_torch(cell: str, lengths: Tensor | None) -> None:
    ours = seeded(Recurrent(cell, WIDTH, HIDDEN, depth=2, directions=2))
    theirs, x, before = as_torch(ours), numbers(BATCH, LENGTH, WIDTH), random_carry(ours)
    states, last = ours(x, lengths, before)
    start = tuple(before) if cell == "lstm" else before.h
    if lengths is None:
        wanted, end = theirs(x, start)
    else:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        wanted, end = theirs(packed, start)
        wanted, _ = nn.utils.rnn.pad_packed_sequence(wanted, batch_first=True)
    assert_close(states, wanted)
    assert_carried(last, end)


@every_cell
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "padded"])
def test_the_gradients_are_those_of_torch(cell: str, lengths: Tensor | None) -> None:
    ours = seeded(Recurrent(cell, WIDTH, HIDDEN, depth=2, directions=2))
    theirs = as_torch(ours)
    x, twin = (numbers(BATCH, LENGTH, WIDTH).requires_grad_() for _ in range(2))
    gradient = numbers(BATCH, LENGTH, HIDDEN, seed=1)
    if lengths is None:
        wanted, _ = theirs(twin)
    else:
        packed = nn.utils.rnn.pack_padded_sequence(twin, lengths, batch_first=True, enforce_sorted=False)
        wanted, _ = nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
    (ours(x, lengths)[0] * gradient).sum().backward()
    (wanted * gradient).sum().backward()
    assert_close(x.grad, twin.grad)
    for row, name in enumerate(("l0", "l0_reverse", "l1", "l1_reverse")):
        assert_close(ours.read[row].grad, getattr(theirs, f"weight_ih_{name}").grad)
        assert_close(ours.carry[row].grad, getattr(theirs, f"weight_hh_{name}").grad)
        assert_close(ours.bias[row].grad, getattr(theirs, f"bias_ih_{name}").grad)


# By hand


def test_a_plain_step_by_hand() -> None:
    net, x, before = seeded(Recurrent("rnn", WIDTH, HIDDEN)), numbers(BATCH, WIDTH), numbers(BATCH, HIDDEN, seed=1)
    y, _ = net.step(x, Carried(before.unsqueeze(0), before.unsqueeze(0)))
    assert_close(y, torch.tanh(before @ net.carry[0].T + x @ net.read[0].T + net.bias[0]))


def test_a_gru_step_by_hand() -> None:
    net, x, h = seeded(Recurrent("gru", WIDTH, HIDDEN)), numbers(BATCH, WIDTH), numbers(BATCH, HIDDEN, seed=1)
    (u_r, u_z, u_n), (w_r, w_z, w_n), (b_r, b_z, b_n) = (p[0].chunk(3) for p in (net.read, net.carry, net.bias))
    r = torch.sigmoid(x @ u_r.T + h @ w_r.T + b_r)
    z = torch.sigmoid(x @ u_z.T + h @ w_z.T + b_z)
    n = torch.tanh(x @ u_n.T + b_n + r * (h @ w_n.T))
    y, _ = net.step(x, Carried(h.unsqueeze(0), h.unsqueeze(0)))
    assert_close(y, (1 - z) * n + z * h)


def test_an_lstm_step_by_hand() -> None:
    net, x = seeded(Recurrent("lstm", WIDTH, HIDDEN)), numbers(BATCH, WIDTH)
    h, c = numbers(BATCH, HIDDEN, seed=1), numbers(BATCH, HIDDEN, seed=2)
    i, f, g, o = (x @ net.read[0].T + h @ net.carry[0].T + net.bias[0]).chunk(4, dim=-1)
    cell = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    y, after = net.step(x, Carried(h.unsqueeze(0), c.unsqueeze(0)))
    assert_close(after.c[0], cell)
    assert_close(y, torch.sigmoid(o) * torch.tanh(cell))
    assert_close(after.h[0], y)


# Padding


@every_cell
@every_shape
def test_a_padded_batch_is_each_sample_alone(cell: str, depth: int, directions: int) -> None:
    net, x = seeded(Recurrent(cell, WIDTH, HIDDEN, depth, directions)), numbers(BATCH, LENGTH, WIDTH)
    before = random_carry(net)
    padded = torch.arange(LENGTH) >= LENGTHS.unsqueeze(1)
    states, last = net(x.masked_fill(padded.unsqueeze(-1), torch.nan), LENGTHS, before)
    for sample, length in enumerate(LENGTHS.tolist()):
        here = slice(sample, sample + 1)
        alone, end = net(x[here, :length], None, Carried(before.h[:, here], before.c[:, here]))
        assert_close(states[here, :length], alone)
        assert_close((last.h[:, here], last.c[:, here]), tuple(end))
    assert_close(states[padded], torch.zeros_like(states[padded]))


@every_cell
def test_padding_longer_than_the_longest_sample_stays(cell: str) -> None:
    net, x = seeded(Recurrent(cell, WIDTH, HIDDEN)), numbers(BATCH, LENGTH, WIDTH)
    lengths = torch.tensor([2, 5, 3])
    states, last = net(x, lengths)
    assert states.shape == (BATCH, LENGTH, HIDDEN)
    cut, end = net(x[:, :5], lengths)
    assert_close(states[:, :5], cut)
    assert_close(states[:, 5:], torch.zeros(BATCH, 2, HIDDEN, dtype=torch.float64))
    assert_close(tuple(last), tuple(end))


@every_cell
def test_lengths_without_padding_change_nothing(cell: str) -> None:
    net, x = seeded(Recurrent(cell, WIDTH, HIDDEN, depth=2, directions=2)), numbers(BATCH, LENGTH, WIDTH)
    states, last = net(x, torch.full((BATCH,), LENGTH))
    wanted, end = net(x)
    assert_close(states, wanted, rtol=0, atol=0)
    assert_close(tuple(last), tuple(end), rtol=0, atol=0)


def test_padding_gets_no_gradient() -> None:
    net, x = seeded(Recurrent("gru", WIDTH, HIDDEN, directions=2)), numbers(BATCH, LENGTH, WIDTH).requires_grad_()
    net(x, LENGTHS)[0].sum().backward()
    padded = torch.arange(LENGTH) >= LENGTHS.unsqueeze(1)
    assert_close(x.grad[padded], torch.zeros_like(x.grad[padded]))
    assert (x.grad[~padded] != 0).all()


# Step by step


@every_cell
@pytest.mark.parametrize("depth", [1, 2])
def test_step_by_step_is_the_full_pass(cell: str, depth: int) -> None:
    net, x = seeded(Recurrent(cell, WIDTH, HIDDEN, depth)), numbers(BATCH, LENGTH, WIDTH)
    carried, outputs = net.start(BATCH, x), []
    for place in range(LENGTH):
        y, carried = net.step(x[:, place], carried)
        outputs.append(y)
    states, last = net(x)
    assert_close(torch.stack(outputs, dim=1), states)
    assert_close(tuple(carried), tuple(last))


@every_cell
def test_a_sequence_may_be_read_in_pieces(cell: str) -> None:
    net, x = seeded(Recurrent(cell, WIDTH, HIDDEN, depth=2)), numbers(BATCH, LENGTH, WIDTH)
    carried, outputs = None, []
    for first, last in pairwise((0, 2, 3, 7)):
        states, carried = net(x[:, first:last], None, carried)
        outputs.append(states)
    whole, end = net(x)
    assert_close(torch.cat(outputs, dim=1), whole)
    assert_close(tuple(carried), tuple(end))


@every_cell
def test_gradients_reach_through_the_steps(cell: str) -> None:
    net = seeded(Recurrent(cell, 2, 3, depth=2))

    def last(x: Tensor, h: Tensor, c: Tensor) -> Tensor:
        carried = Carried(h, c)
        for place in range(3):
            y, carried = net.step(x[:, place], carried)
        return y

    def whole(x: Tensor, h: Tensor, c: Tensor) -> Tensor:
        return net(x, None, Carried(h, c))[0][:, -1]

    inputs = [numbers(2, 3, 2), numbers(2, 2, 3, seed=1), numbers(2, 2, 3, seed=2)]
    inputs = [x.requires_grad_() for x in inputs]
    one, other = (
        torch.autograd.grad(run(*inputs).sin().sum(), inputs, allow_unused=True, materialize_grads=True)
        for run in (last, whole)
    )
    assert_close(one, other)
    assert torch.autograd.gradcheck(lambda x: last(x, *(t.detach() for t in inputs[1:])), inputs[0])


@every_cell
def test_what_is_carried_can_be_reordered(cell: str) -> None:
    net, x, index = seeded(Recurrent(cell, WIDTH, HIDDEN, 2)), numbers(BATCH, LENGTH, WIDTH), torch.tensor([2, 0, 2])
    _, carried = net(x[:, :4])
    y, _ = net(x[:, 4:], None, carried.reorder(index))
    whole, _ = net(torch.cat([x[index, :4], x[:, 4:]], dim=1))
    assert_close(y, whole[:, 4:])


# The rest


def test_dropout_falls_between_the_layers_only() -> None:
    x = numbers(BATCH, LENGTH, WIDTH)
    one = seeded(Recurrent("lstm", WIDTH, HIDDEN, depth=1, dropout=0.5))
    assert_close(one(x)[0], one(x)[0], rtol=0, atol=0)
    two = seeded(Recurrent("lstm", WIDTH, HIDDEN, depth=2, dropout=0.5))
    first, second = two(x), two(x)
    assert not torch.equal(first[0], second[0])
    assert_close(first[1].h[0], second[1].h[0], rtol=0, atol=0)
    two.eval()
    assert_close(two(x)[0], as_torch(two)(x)[0])
    two.train()
    carried = two.start(BATCH, x)
    assert not torch.equal(two.step(x[:, 0], carried)[0], two.step(x[:, 0], carried)[0])


def test_it_starts_with_zeros_of_the_inputs_dtype() -> None:
    start = Recurrent("lstm", WIDTH, HIDDEN, depth=2, directions=2).start(BATCH, torch.empty(0, dtype=torch.bfloat16))
    assert start.h.shape == start.c.shape == (4, BATCH, HIDDEN // 2)
    assert start.h.dtype == torch.bfloat16
    assert not start.h.any()
    assert not start.c.any()


@every_cell
def test_every_gate_has_one_bias(cell: str) -> None:
    gates = {"rnn": 1, "gru": 3, "lstm": 4}[cell]
    net = Recurrent(cell, WIDTH, HIDDEN, depth=2, directions=2)
    assert [tuple(p.shape) for p in net.bias] == [(gates * 3,)] * 4
    assert [tuple(p.shape) for p in net.read] == [(gates * 3, WIDTH)] * 2 + [(gates * 3, HIDDEN)] * 2
    assert [tuple(p.shape) for p in net.carry] == [(gates * 3, 3)] * 4
    assert not any(p.any() for p in net.bias)
    assert max(p.abs().amax() for p in (*net.read, *net.carry)) <= 3**-0.5


def test_it_prints_what_it_was_made_of() -> None:
    printed = repr(Recurrent("gru", WIDTH, HIDDEN, depth=2, directions=2))
    assert "'gru', 5, hidden=6, depth=2, directions=2" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gru2", 5, 6), r"unknown cell 'gru2'; known: gru, lstm, rnn\. Did you mean 'gru'\?"),
        (("gru", 0, 6), "sizes must be at least 1"),
        (("gru", 5, 0), "sizes must be at least 1"),
        (("gru", 5, 6, 0), "sizes must be at least 1: got 5, 6, depth=0"),
        (("gru", 5, 7, 1, 2), "hidden must be divisible by directions .*: got hidden=7, directions=2"),
        (("gru", 5, 6, 1, 3), "hidden must be divisible by directions .*: got hidden=6, directions=3"),
        (("gru", 5, 6, 1, 1, 1.0), r"dropout must lie in \[0, 1\)"),
    ],
)
def test_nets_that_cannot_be_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recurrent(*arguments)


def test_a_sequence_has_at_least_one_place() -> None:
    with pytest.raises(ValueError, match="a recurrent layer needs at least one place: got length=0"):
        Recurrent("gru", WIDTH, HIDDEN)(torch.zeros(BATCH, 0, WIDTH))


@pytest.mark.parametrize("depth", [1, 2])
def test_a_step_needs_one_direction(depth: int) -> None:
    net = Recurrent("gru", HIDDEN // 2, HIDDEN, depth, directions=2)
    with pytest.raises(ValueError, match="direction"):
        net.step(torch.zeros(BATCH, HIDDEN // 2), net.start(BATCH, torch.zeros(1)))


@pytest.mark.parametrize("lengths", [[7, 8, 1], [7, 1, 0], [7, -1, 2], [7, 3], [7, 3, 2, 1]], ids=str)
def test_lengths_that_do_not_fit_are_value_errors(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match=r"lengths?"):
        Recurrent("gru", WIDTH, HIDDEN)(torch.zeros(BATCH, LENGTH, WIDTH), torch.tensor(lengths))


def test_an_input_of_another_width_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="width"):
        Recurrent("gru", WIDTH, HIDDEN)(torch.zeros(BATCH, LENGTH, WIDTH + 1))
