"""From a sequence to one vector, by hand, and never from the padding."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada import look
from mirada.layers.convolution import AttentionPool, FirstPool, FlattenPool, MaxPool, MeanPool, Pool, pool

BATCH, LENGTH, WIDTH, HEADS = 3, 5, 6, 2
NAMES = ("mean", "max", "first", "flatten", "attention")
LENGTHS = (5, 2, 1)

every_pool = pytest.mark.parametrize("name", NAMES)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def made(name: str) -> Pool:
    """A pool in float64 with random parameters, the biases too."""
    module = pool(name, WIDTH, HEADS, LENGTH).double()
    for place, parameter in enumerate(module.parameters()):
        parameter.data.copy_(numbers(*parameter.shape, seed=100 + place))
    return module


@pytest.fixture
def x() -> Tensor:
    return numbers(BATCH, LENGTH, WIDTH) - 3  # below zero: a largest number is never a filled-in 0


@pytest.fixture
def real() -> Tensor:
    return torch.arange(LENGTH) < torch.tensor(LENGTHS).unsqueeze(1)


# By hand


def test_the_mean_of_the_real_places(x: Tensor, real: Tensor) -> None:
    y = MeanPool(WIDTH)(x, real)
    assert_close(y[0], sum(x[0]) / 5)
    assert_close(y[1], (x[1, 0] + x[1, 1]) / 2)
    assert_close(y[2], x[2, 0])


def test_the_largest_of_the_real_places(x: Tensor, real: Tensor) -> None:
    y = MaxPool(WIDTH)(x, real)
    for sample, length in enumerate(LENGTHS):
        for channel in range(WIDTH):
            assert y[sample, channel].item() == max(x[sample, place, channel].item() for place in range(length))


def test_the_first_place(x: Tensor, real: Tensor) -> None:
    assert_close(FirstPool(WIDTH)(x, real), x[:, 0], rtol=0, atol=0)
    assert_close(FirstPool(WIDTH)(x), x[:, 0], rtol=0, atol=0)


def test_all_places_side_by_side(x: Tensor, real: Tensor) -> None:
    flatten = FlattenPool(WIDTH, length=7)
    y = flatten(x, real)
    assert y.shape == (BATCH, flatten.out) == (BATCH, 42)
    assert_close(y[1], torch.cat([x[1, 0], x[1, 1], torch.zeros(5 * WIDTH, dtype=torch.float64)]))
    assert_close(flatten(x)[1, :30], x[1].reshape(-1))


def test_the_average_that_attention_chooses(x: Tensor, real: Tensor) -> None:
    attended = made("attention")
    y, heads, dim = attended(x, real), attended.attention.heads, WIDTH // HEADS
    q = attended.query[0, 0] @ heads.query.weight.T + heads.query.bias
    for sample, length in enumerate(LENGTHS):
        places = x[sample, :length]
        k = places @ heads.key.weight.T + heads.key.bias
        v = places @ heads.value.weight.T + heads.value.bias
        found = []
        for head in range(HEADS):
            here = slice(head * dim, (head + 1) * dim)
            found.append(torch.softmax(k[:, here] @ q[here] / dim**0.5, dim=0) @ v[:, here])
        assert_close(y[sample], heads.out(torch.cat(found)))


# Laws


@every_pool
def test_a_padded_batch_is_each_sample_alone(name: str, x: Tensor, real: Tensor) -> None:
    module = made(name)
    for garbage in (0.0, 1e6, torch.nan):
        y = module(x.masked_fill(~real.unsqueeze(-1), garbage), real)
        assert y.shape == (BATCH, module.out)
        for sample, length in enumerate(LENGTHS):
            assert_close(y[sample], module(x[sample : sample + 1, :length])[0])


@every_pool
def test_a_mask_without_padding_changes_nothing(name: str, x: Tensor) -> None:
    module = made(name)
    assert_close(module(x, torch.ones(BATCH, LENGTH, dtype=torch.bool)), module(x))


@every_pool
def test_padding_gets_no_gradient(name: str, x: Tensor, real: Tensor) -> None:
    module, x = made(name), x.masked_fill(~real.unsqueeze(-1), torch.nan).requires_grad_()
    module(x, real).sin().sum().backward()
    assert_close(x.grad[~real], torch.zeros_like(x.grad[~real]))
    assert x.grad[real].isfinite().all()
    assert x.grad[:, 0].any()
    assert all(p.grad.isfinite().all() for p in module.parameters())


@every_pool
def test_a_sample_without_a_place_says_nothing(name: str, x: Tensor, real: Tensor) -> None:
    module = made(name)
    real[1] = False
    x[1] = torch.nan
    x.requires_grad_()
    y = module(x, real)
    # attention over nothing is zero; its output layer adds a bias
    expected = module.attention.heads.out.bias if name == "attention" else torch.zeros_like(y[1])
    assert_close(y[1], expected)
    y.sum().backward()
    assert_close(x.grad[1], torch.zeros_like(x.grad[1]))
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("name", ["mean", "max", "attention"])
def test_the_order_of_places_does_not_matter(name: str, x: Tensor) -> None:
    module = made(name)
    assert_close(module(x[:, [3, 0, 4, 2, 1]]), module(x))


@pytest.mark.parametrize("name", ["mean", "max", "first", "flatten"])
def test_gaps_in_the_middle_are_no_places_either(name: str, x: Tensor) -> None:
    real = torch.tensor([[True, False, True, False, True]]).expand(BATCH, -1)
    y = made(name)(x.masked_fill(~real.unsqueeze(-1), torch.nan), real)
    if name in ("mean", "max"):
        assert_close(y, made(name)(x[:, ::2]))
    assert y.isfinite().all()


@every_pool
def test_the_dtype_stays(name: str) -> None:
    module = pool(name, WIDTH, HEADS, LENGTH).bfloat16()
    real = torch.ones(BATCH, LENGTH, dtype=torch.bool)
    real[0, 3:] = False
    assert module(torch.ones(BATCH, LENGTH, WIDTH, dtype=torch.bfloat16), real).dtype == torch.bfloat16


# Looking and errors


def test_look_shows_where_attention_chose(x: Tensor, real: Tensor) -> None:
    attended = made("attention")
    with look(attended) as seen:
        attended(x, real)
    assert seen.names == ["attention"]
    weights = seen["attention"].weights()
    assert weights.shape == (BATCH, HEADS, 1, LENGTH)
    assert_close(weights.sum(-1), torch.ones(BATCH, HEADS, 1, dtype=torch.float64))
    hidden = (~real).view(BATCH, 1, 1, LENGTH).expand_as(weights)
    assert_close(weights[hidden], torch.zeros_like(weights[hidden]))


def test_names_make_pools() -> None:
    kinds = [type(pool(name, WIDTH, HEADS, LENGTH)) for name in NAMES]
    assert kinds == [MeanPool, MaxPool, FirstPool, FlattenPool, AttentionPool]
    assert [pool(name, WIDTH, HEADS, LENGTH).out for name in NAMES] == [6, 6, 6, 30, 6]
    assert pool("attention", WIDTH, HEADS, LENGTH).attention.heads.heads == HEADS


def test_unknown_names_and_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown pool 'men'; known: attention, .* Did you mean 'mean'\?"):
        pool("men", WIDTH, HEADS, LENGTH)
    with pytest.raises(ValueError, match=r"Flatten has room for length=3: got length=5\. Cut the input\."):
        FlattenPool(WIDTH, length=3)(torch.zeros(BATCH, LENGTH, WIDTH))
    with pytest.raises(ValueError, match="width must be divisible by heads: got width=6, heads=5"):
        pool("attention", WIDTH, 5, LENGTH)
