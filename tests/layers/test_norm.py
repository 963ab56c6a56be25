"""Norms against torch's own, and batch norm without the padding."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from mirada.layers.norm import NORMS, BatchNorm, LayerNorm, NoNorm, RMSNorm

BATCH, LENGTH, WIDTH = 3, 7, 5


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def seeded(norm: nn.Module) -> nn.Module:
    """The norm in float64 with random weights."""
    norm = norm.double()
    for place, parameter in enumerate(norm.parameters()):
        parameter.data.copy_(numbers(*parameter.shape, seed=100 + place))
    return norm


def same_parameters(theirs: nn.Module, ours: nn.Module) -> nn.Module:
    theirs = theirs.double()
    for name, parameter in ours.named_parameters():
        getattr(theirs, name).data.copy_(parameter.data)
    return theirs


def assert_same_gradients(ours: nn.Module, theirs: nn.Module) -> None:
    for name, parameter in ours.named_parameters():
        assert_close(parameter.grad, getattr(theirs, name).grad)


@pytest.mark.parametrize(("norm", "torchs"), [(LayerNorm, nn.LayerNorm), (RMSNorm, nn.RMSNorm)])
@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_norms_of_a_place_are_those_of_torch(norm: type, torchs: type, eps: float) -> None:
    ours = seeded(norm(WIDTH, eps=eps))
    theirs = same_parameters(torchs(WIDTH, eps=eps), ours)
    x, twin = (numbers(BATCH, LENGTH, WIDTH).requires_grad_() for _ in range(2))
    gradient = numbers(BATCH, LENGTH, WIDTH, seed=1)
    y, wanted = ours(x), theirs(twin)
    assert_close(y, wanted)
    (y * gradient).sum().backward()
    (wanted * gradient).sum().backward()
    assert_close(x.grad, twin.grad)
    assert_same_gradients(ours, theirs)


def test_layer_norm_by_hand() -> None:
    norm, x = seeded(LayerNorm(WIDTH, eps=0.3)), numbers(BATCH, LENGTH, WIDTH)
    row = x[1, 2]
    mean = sum(row) / WIDTH
    variance = sum((number - mean) ** 2 for number in row) / WIDTH
    assert_close(norm(x)[1, 2], (row - mean) / (variance + 0.3) ** 0.5 * norm.weight + norm.bias)


def test_rms_norm_by_hand() -> None:
    norm, x = seeded(RMSNorm(WIDTH, eps=0.3)), numbers(BATCH, LENGTH, WIDTH)
    row = x[1, 2]
    assert_close(norm(x)[1, 2], row / (sum(number**2 for number in row) / WIDTH + 0.3) ** 0.5 * norm.weight)


@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])
def test_norms_of_a_place_see_no_other_place(norm: type) -> None:
    norm, x = seeded(norm(WIDTH)), numbers(BATCH, LENGTH, WIDTH)
    real = torch.arange(LENGTH) < torch.tensor([[7], [2], [5]])
    assert_close(norm(x, real), norm(x))
    assert_close(norm(x)[1, 2], norm(x[1:2, 2:3])[0, 0])


# BatchNorm


def torch_batch_norm(ours: BatchNorm, **options: float) -> nn.Module:
    return same_parameters(nn.BatchNorm1d(WIDTH, **options), ours)


def test_batch_norm_is_that_of_torch_step_by_step() -> None:
    ours = seeded(BatchNorm(WIDTH, eps=0.01, momentum=0.3))
    theirs = torch_batch_norm(ours, eps=0.01, momentum=0.3)
    for step in range(3):
        x, twin = ((numbers(BATCH, LENGTH, WIDTH, seed=step) + step).requires_grad_() for _ in range(2))
        gradient = numbers(BATCH, LENGTH, WIDTH, seed=9)
        y, wanted = ours(x), theirs(twin.transpose(1, 2)).transpose(1, 2)
        assert_close(y, wanted)
        (y * gradient).sum().backward()
        (wanted * gradient).sum().backward()
        assert_close(x.grad, twin.grad)
        assert_same_gradients(ours, theirs)
        assert_close(ours.mean, theirs.running_mean)
        assert_close(ours.variance, theirs.running_var)
    x = numbers(BATCH, LENGTH, WIDTH, seed=8)
    assert_close(ours.eval()(x), theirs.eval()(x.transpose(1, 2)).transpose(1, 2))


def test_batch_norm_defaults_are_those_of_torch() -> None:
    ours, theirs, x = BatchNorm(WIDTH), nn.BatchNorm1d(WIDTH), torch.randn(BATCH, LENGTH, WIDTH)
    assert_close(ours(x), theirs(x.transpose(1, 2)).transpose(1, 2))
    assert_close(ours.mean, theirs.running_mean)
    assert_close(ours.variance, theirs.running_var)


@pytest.mark.parametrize("correction", [0, 1])
def test_padding_does_not_count_in_the_statistics_of_a_batch(correction: int) -> None:
    x, lengths = numbers(BATCH, LENGTH, WIDTH), (7, 2, 5)
    real = torch.arange(LENGTH) < torch.tensor(lengths).unsqueeze(1)
    rows = torch.cat([x[sample, :length] for sample, length in enumerate(lengths)])
    padded, alone = (seeded(BatchNorm(WIDTH, correction)) for _ in range(2))
    for garbage in (0.0, 1e6, torch.nan):
        y = padded(x.masked_fill(~real.unsqueeze(-1), garbage), real)
        assert_close(y[real], alone(rows.unsqueeze(0))[0])
        assert_close(padded.mean, alone.mean)
        assert_close(padded.variance, alone.variance)


def test_a_mask_without_padding_changes_nothing() -> None:
    x, one, other = numbers(BATCH, LENGTH, WIDTH), seeded(BatchNorm(WIDTH)), seeded(BatchNorm(WIDTH))
    assert_close(one(x, torch.ones(BATCH, LENGTH, dtype=torch.bool)), other(x))
    assert_close(one.variance, other.variance)


def test_padding_gets_no_gradient_from_what_is_real() -> None:
    x = numbers(BATCH, LENGTH, WIDTH).requires_grad_()
    real = torch.arange(LENGTH) < torch.tensor([[7], [2], [5]])
    (seeded(BatchNorm(WIDTH))(x, real)[real] ** 3).sum().backward()
    assert_close(x.grad[~real], torch.zeros_like(x.grad[~real]))
    assert (x.grad[real] != 0).all()


@pytest.mark.parametrize("correction", [0, 1])
def test_batch_norm_by_hand_as_the_lectures_write_it(correction: int) -> None:
    """mean = 1/N sum x, variance = 1/(N - correction) sum (x - mean)^2, channel by channel."""
    norm, x = seeded(BatchNorm(WIDTH, correction, eps=0.01, momentum=0.2)), numbers(BATCH, LENGTH, WIDTH)
    y, count = norm(x), BATCH * LENGTH
    for channel in range(WIDTH):
        found = x[:, :, channel].flatten().tolist()
        mean = sum(found) / count
        squares = sum((number - mean) ** 2 for number in found)
        expected = (x[:, :, channel] - mean) / (squares / (count - correction) + 0.01) ** 0.5
        assert_close(y[:, :, channel], expected * norm.weight[channel] + norm.bias[channel])
        assert_close(norm.mean[channel].item(), 0.2 * mean)
        assert_close(norm.variance[channel].item(), 0.8 + 0.2 * squares / (count - 1))


@pytest.mark.parametrize("correction", [0, 1])
def test_gradients_go_through_the_statistics(correction: int) -> None:
    norm, x = seeded(BatchNorm(2, correction)), numbers(2, 3, 2).requires_grad_()
    real = torch.tensor([[True, True, True], [True, True, False]])
    assert torch.autograd.gradcheck(lambda t: norm(t, real)[real], x)


def test_in_evaluation_a_sample_does_not_depend_on_its_neighbors() -> None:
    norm = seeded(BatchNorm(WIDTH))
    norm(numbers(BATCH, LENGTH, WIDTH) * 3 + 1)
    norm.eval()
    mean, variance, x = norm.mean.clone(), norm.variance.clone(), numbers(BATCH, LENGTH, WIDTH, seed=4)
    assert_close(norm(x)[1:2], norm(x[1:2]))
    assert_close(norm(x), (x - mean) / (variance + 1e-5).sqrt() * norm.weight + norm.bias)
    assert_close((norm.mean, norm.variance), (mean, variance), rtol=0, atol=0)


def test_running_statistics_are_saved() -> None:
    norm, other = seeded(BatchNorm(WIDTH)), seeded(BatchNorm(WIDTH))
    norm(numbers(BATCH, LENGTH, WIDTH))
    other.load_state_dict(norm.state_dict())
    assert set(norm.state_dict()) == {"weight", "bias", "mean", "variance"}
    assert_close(other.variance, norm.variance, rtol=0, atol=0)
    assert not norm.mean.requires_grad


def test_norms_that_cannot_be_are_refused() -> None:
    for norm in NORMS.values():
        with pytest.raises(ValueError, match="a norm needs width >= 1 and eps > 0: got width=0"):
            norm(0)
        with pytest.raises(ValueError, match=r"a norm needs width >= 1 and eps > 0: got width=5, eps=0\.0"):
            norm(5, eps=0.0)
    with pytest.raises(ValueError, match="correction must be 0 or 1: got 2"):
        BatchNorm(5, correction=2)


def test_a_batch_without_enough_places_is_refused() -> None:
    x, nobody = torch.zeros(2, 3, 5), torch.zeros(2, 3, dtype=torch.bool)
    with pytest.raises(ValueError, match="batch norm needs more than 0 real places"):
        BatchNorm(5)(x, nobody)
    with pytest.raises(ValueError, match="batch norm needs more than 1 real places"):
        BatchNorm(5, correction=1)(x[:1, :1])
    assert BatchNorm(5).eval()(x, nobody).shape == (2, 3, 5)


def test_they_print_what_they_were_made_of() -> None:
    assert [repr(norm(7)) for norm in NORMS.values()] == [
        "LayerNorm(7, eps=1e-05)",
        "RMSNorm(7, eps=1e-06)",
        "BatchNorm(7, eps=1e-05)",
    ]


def test_a_layer_norm_without_a_bias_is_torchs_and_no_norm_is_the_input() -> None:
    ours, x = seeded(LayerNorm(WIDTH, bias=False)), numbers(BATCH, LENGTH, WIDTH)
    assert_close(ours(x), same_parameters(nn.LayerNorm(WIDTH, bias=False), ours)(x))
    assert [name for name, _ in ours.named_parameters()] == ["weight"]
    assert NoNorm(WIDTH)(x) is x
