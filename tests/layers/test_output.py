"""The output layer, and a cross-entropy in chunks against torch's of all logits at once."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from mirada.layers import output
from mirada.layers.embed import TokenEmbedding
from mirada.layers.output import IGNORED, Output, cross_entropy
from tests.ways import take

WIDTH, VOCAB = 5, 11


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def words(*shape: int, vocab: int = VOCAB, seed: int = 0) -> Tensor:
    return torch.randint(vocab, shape, generator=torch.Generator().manual_seed(seed))


def torchs(h: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    logits = F.linear(h, weight, bias)
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), label_smoothing=smoothing)


def both(
    h: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float = 0.0, factor: float = 1.0
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The value and the gradients of rows, weight and bias: ours, and torch's."""
    found = []
    for loss in (cross_entropy, torchs):
        inputs = [x.clone().requires_grad_() for x in (h, weight, bias) if x is not None]
        rows, table, *rest = inputs
        value = loss(rows, table, rest[0] if rest else None, targets, smoothing)
        found.append((value.detach(), *torch.autograd.grad(value * factor, inputs)))
    return found[0], found[1]


@pytest.fixture(autouse=True, params=["in chunks", "in chunks by torch", "at once"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Few logits are made at once, many in chunks, by C where it can be had: every test is one of each."""
    monkeypatch.setattr(output, "SMALL", 2**30 if request.param == "at once" else 0)
    if request.param == "in chunks by torch":
        take("torch", monkeypatch)
    return request.param


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "ROWS_AT_ONCE", 3)


# Equal to torch's


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("ignored", [0, 4])
@pytest.mark.parametrize("factor", [1.0, -2.5])
def test_value_and_gradients_are_those_of_all_logits_at_once(
    smoothing: float, with_bias: bool, ignored: int, factor: float
) -> None:
    h, weight = numbers(2, 7, WIDTH), numbers(VOCAB, WIDTH, seed=1)
    bias, targets = numbers(VOCAB, seed=2) if with_bias else None, words(2, 7)
    targets.view(-1)[:ignored] = IGNORED
    assert_close(*both(h, weight, bias, targets, smoothing, factor))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 6, 7])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.usefixtures("small_chunks")
def test_more_rows_than_a_chunk(rows: int, smoothing: float) -> None:
    h, weight, bias = numbers(rows, WIDTH), numbers(VOCAB, WIDTH, seed=1), numbers(VOCAB, seed=2)
    assert_close(*both(h, weight, bias, words(rows), smoothing, factor=3.0))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_more_rows_than_a_real_chunk_in_float32(smoothing: float) -> None:
    rows = 2 * output.ROWS_AT_ONCE + 3
    h, weight, bias = numbers(rows, WIDTH).float(), numbers(VOCAB, WIDTH, seed=1).float(), numbers(VOCAB).float()
    targets = words(rows)
    targets[::7] = IGNORED
    assert_close(*both(h, weight, bias, targets, smoothing), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.usefixtures("small_chunks")
def test_gradients_by_differences(smoothing: float, with_bias: bool) -> None:
    targets = words(7)
    targets[2] = IGNORED
    inputs = [numbers(7, 2), numbers(VOCAB, 2, seed=1), *([numbers(VOCAB, seed=2)] if with_bias else [])]

    def loss(h: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return cross_entropy(h, weight, bias, targets, smoothing)

    assert torch.autograd.gradcheck(loss, [x.requires_grad_() for x in inputs])


def test_by_hand() -> None:
    h, weight = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    bias, smoothing = torch.tensor([0.5, 0.0, -1.0]), 0.3
    logits = [0.5, 1.0, 1.0]
    total = math.log(sum(math.exp(x) for x in logits))
    logs = [x - total for x in logits]
    value = cross_entropy(h, weight, bias, torch.tensor([1]), smoothing)
    assert_close(value.item(), -0.7 * logs[1] - 0.3 * sum(logs) / 3)


def test_any_axes_before_the_width() -> None:
    h, weight, targets = numbers(2, 3, 7, WIDTH), numbers(VOCAB, WIDTH, seed=1), words(2, 3, 7)
    assert_close(
        cross_entropy(h, weight, None, targets), cross_entropy(h.flatten(0, 2), weight, None, targets.flatten())
    )
    assert_close(
        cross_entropy(h[0, 0, 0], weight, None, targets[0, 0, 0]), torchs(h[:1, 0, 0], weight, None, targets[:1, 0, 0])
    )


def test_rows_that_are_not_contiguous() -> None:
    h, weight, targets = numbers(7, 2, WIDTH).transpose(0, 1), numbers(WIDTH, VOCAB, seed=1).T, words(7, 2).T
    assert_close(*both(h, weight, None, targets, 0.1))


def test_targets_may_be_small_integers() -> None:
    h, weight, targets = numbers(7, WIDTH), numbers(VOCAB, WIDTH, seed=1), words(7)
    wanted = cross_entropy(h, weight, None, targets)
    assert_close(cross_entropy(h, weight, None, targets.int()), wanted)


@pytest.mark.parametrize("needs", [(True, False, False), (False, True, False), (False, False, True)])
def test_gradients_only_on_request(needs: tuple[bool, ...]) -> None:
    inputs = [numbers(7, WIDTH), numbers(VOCAB, WIDTH, seed=1), numbers(VOCAB, seed=2)]
    wanted = both(*inputs, words(7))[1][1:]
    for x, needed in zip(inputs, needs, strict=True):
        x.requires_grad_(needed)
    cross_entropy(*inputs, words(7)).backward()
    for x, needed, grad in zip(inputs, needs, wanted, strict=True):
        assert (x.grad is not None) == needed
        if needed:
            assert_close(x.grad, grad)


def test_the_value_is_the_same_without_gradients() -> None:
    h, weight = numbers(7, WIDTH).requires_grad_(), numbers(VOCAB, WIDTH, seed=1).requires_grad_()
    tracked = cross_entropy(h, weight, None, words(7), 0.1)
    with torch.no_grad():
        untracked = cross_entropy(h, weight, None, words(7), 0.1)
    with torch.inference_mode():
        inferred = cross_entropy(h, weight, None, words(7), 0.1)
    assert not untracked.requires_grad
    assert_close((untracked, inferred), (tracked.detach(), tracked.detach()), rtol=0, atol=0)


def test_the_inputs_stay_as_they_are() -> None:
    inputs = [numbers(7, WIDTH).requires_grad_(), numbers(VOCAB, WIDTH, seed=1).requires_grad_(), numbers(VOCAB)]
    before = [x.detach().clone() for x in inputs]
    cross_entropy(*inputs, words(7), 0.1).backward()
    assert_close([x.detach() for x in inputs], before, rtol=0, atol=0)


def test_backward_as_often_as_one_likes() -> None:
    h, weight = numbers(7, WIDTH), numbers(VOCAB, WIDTH, seed=1)
    grads = both(h, weight, None, words(7))[1][1:]
    loss = cross_entropy(h.requires_grad_(), weight.requires_grad_(), None, words(7))
    for times in (1, 2, 3):
        loss.backward(retain_graph=True)
        assert_close((h.grad, weight.grad), tuple(times * grad for grad in grads))


def test_a_gradient_may_be_changed_before_the_next_backward() -> None:
    h, weight = numbers(7, WIDTH), numbers(VOCAB, WIDTH, seed=1)
    grads = both(h, weight, None, words(7))[1][1:]
    loss = cross_entropy(h.requires_grad_(), weight.requires_grad_(), None, words(7))
    loss.backward(retain_graph=True)
    torch.nn.utils.clip_grad_norm_([h, weight], 1e-3)
    h.grad.zero_()
    weight.grad.zero_()
    loss.backward()
    assert_close((h.grad, weight.grad), grads)


def test_a_gradient_that_was_handed_out_stays_as_it_is() -> None:
    h, weight = numbers(7, WIDTH).requires_grad_(), numbers(VOCAB, WIDTH, seed=1).requires_grad_()
    loss = cross_entropy(h, weight, None, words(7))
    grads = torch.autograd.grad(loss, (h, weight), retain_graph=True)
    before = tuple(grad.clone() for grad in grads)
    loss.backward()
    h.grad.zero_()
    weight.grad.zero_()
    assert_close(grads, before, rtol=0, atol=0)


@pytest.mark.usefixtures("small_chunks")
def test_many_logits_never_exist_at_once(way: str) -> None:
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            if isinstance(out, Tensor):
                largest = max(largest, out.numel())
            return out

    h, weight = numbers(101, WIDTH).requires_grad_(), numbers(VOCAB, WIDTH, seed=1).requires_grad_()
    with Watch():
        cross_entropy(h, weight, None, words(101), 0.1).backward()
    assert largest == (101 * VOCAB if way == "at once" else 101 * WIDTH)  # the rows' own gradient, or all logits


# In float32, where C does the work


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("size", [0.1, 3.0, 30.0])
@pytest.mark.parametrize("vocab", [2, 15, 16, 17, 1003])
def test_float32_is_as_exact_as_torchs(smoothing: float, with_bias: bool, size: float, vocab: int) -> None:
    h, weight, targets = numbers(601, 8), size * numbers(vocab, 8, seed=1), words(601, vocab=vocab)
    bias = numbers(vocab, seed=2) if with_bias else None
    exact = both(h, weight, bias, targets, smoothing)[1]
    ours, theirs = both(h.float(), weight.float(), None if bias is None else bias.float(), targets, smoothing)
    for found, torch_has, wanted in zip(ours, theirs, exact, strict=True):
        off, usual = ((x.double() - wanted).abs().amax() for x in (found, torch_has))
        assert off <= 4 * usual + 1e-6 * (1 + wanted.abs().amax())


def test_float32_words_that_cannot_come() -> None:
    h, weight, bias = numbers(7, WIDTH).float(), numbers(VOCAB, WIDTH, seed=1).float(), numbers(VOCAB, seed=2).float()
    bias[VOCAB - 1] = -math.inf
    ours, theirs = both(h, weight, bias, words(7, vocab=VOCAB - 1))
    assert_close(ours, theirs)
    impossible = cross_entropy(h, weight, bias, torch.full((7,), VOCAB - 1))
    assert impossible == math.inf


def test_float32_shows_what_is_not_a_number() -> None:
    h, weight = numbers(7, WIDTH).float(), numbers(VOCAB, WIDTH, seed=1).float()
    for bad in (math.nan, math.inf):
        broken = weight.clone()
        broken[3, 2] = bad
        assert cross_entropy(h, broken, None, words(7)).isnan()


def test_one_thread_finds_what_several_find() -> None:
    inputs = [numbers(700, WIDTH).float(), numbers(1003, WIDTH, seed=1).float(), numbers(1003, seed=2).float()]
    threads = torch.get_num_threads()
    found = []
    for count in (1, 2):
        torch.set_num_threads(count)
        found.append(both(*inputs, words(700, vocab=1003), 0.1)[0])
    torch.set_num_threads(threads)
    assert_close(found[0], found[1], rtol=1e-5, atol=1e-7)


# What does not count, and what cannot be


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(2, 7), (0,), (3, 0)], ids=str)
def test_without_a_target_the_loss_is_zero(shape: tuple[int, ...], smoothing: float) -> None:
    inputs = [numbers(*shape, WIDTH), numbers(VOCAB, WIDTH, seed=1), numbers(VOCAB, seed=2)]
    inputs = [x.requires_grad_() for x in inputs]
    loss = cross_entropy(*inputs, torch.full(shape, IGNORED), smoothing)
    assert_close(loss.item(), 0.0)
    loss.backward()
    assert_close([x.grad for x in inputs], [torch.zeros_like(x) for x in inputs], rtol=0, atol=0)


def test_what_is_ignored_gets_no_gradient_even_where_it_is_not_a_number() -> None:
    h, weight, targets = numbers(7, WIDTH), numbers(VOCAB, WIDTH, seed=1).requires_grad_(), words(7)
    targets[[1, 4]] = IGNORED
    h[[1, 4]] = torch.nan
    h.requires_grad_()
    loss = cross_entropy(h, weight, None, targets)
    loss.backward()
    assert loss.isfinite()
    assert weight.grad.isfinite().all()
    assert_close(h.grad[[1, 4]], torch.zeros(2, WIDTH, dtype=torch.float64))


@pytest.mark.parametrize("target", [VOCAB, -1, -99, 10**6])
def test_targets_out_of_the_vocabulary_are_named(target: int) -> None:
    targets = torch.tensor([3, target, 5, IGNORED])
    low, high = min(3, target), max(5, target)
    message = rf"targets must lie in 0\.\.10 or be -100: got {low} to {high}"
    with pytest.raises(ValueError, match=message):
        cross_entropy(torch.zeros(4, WIDTH), torch.zeros(VOCAB, WIDTH), None, targets)


def test_targets_are_integers() -> None:
    with pytest.raises(ValueError, match="integers"):
        cross_entropy(torch.zeros(3, WIDTH), torch.zeros(VOCAB, WIDTH), None, torch.zeros(3))


def test_shapes_and_rates_that_do_not_fit_are_refused() -> None:
    h, weight = torch.zeros(2, 7, WIDTH), torch.zeros(VOCAB, WIDTH)
    with pytest.raises(ValueError, match=r"a target for every vector: got h \(2, 7, 5\), targets \(7, 2\)"):
        cross_entropy(h, weight, None, words(7, 2))
    for smoothing in (1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match=r"smoothing must lie in \[0, 1\): got "):
            cross_entropy(h, weight, None, words(2, 7), smoothing)


# Numbers


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_huge_logits_stay_finite(dtype: torch.dtype) -> None:
    h = torch.tensor([[1e4, -1e4], [-1e4, 1e4], [1e4, 1e4]], dtype=dtype).requires_grad_()
    weight = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], dtype=dtype).requires_grad_()
    targets = torch.tensor([0, 0, 2])
    loss = cross_entropy(h, weight, None, targets)
    loss.backward()
    assert_close(loss.float(), torch.tensor((0 + 2e4 + 3e4) / 3), rtol=1e-2, atol=0)
    assert h.grad.isfinite().all()
    assert weight.grad.isfinite().all()


def test_words_that_cannot_come_have_no_gradient() -> None:
    """A bias of -inf takes a word out of the vocabulary."""
    h, weight, bias = numbers(7, WIDTH), numbers(VOCAB, WIDTH, seed=1), numbers(VOCAB, seed=2)
    bias[VOCAB - 1] = -math.inf
    ours, theirs = both(h, weight, bias, words(7, vocab=VOCAB - 1))
    assert_close(ours, theirs)
    assert_close(ours[3][-1].item(), 0.0)


@pytest.mark.parametrize("shift", [1e2, 1e4])
def test_a_number_added_to_all_logits_changes_nothing(shift: float) -> None:
    """The logits are whole numbers, so nothing is rounded before the loss."""
    logits, targets = words(512, VOCAB, vocab=9).float() + shift, words(512)
    ours = cross_entropy(logits, torch.eye(VOCAB), None, targets)
    assert_close(F.cross_entropy(logits, targets), F.cross_entropy(logits.double(), targets).float())
    assert_close(ours, F.cross_entropy(logits, targets))


def test_weights_may_be_more_precise_than_rows() -> None:
    h, weight = numbers(7, WIDTH).bfloat16().requires_grad_(), numbers(VOCAB, WIDTH, seed=1).float().requires_grad_()
    loss = cross_entropy(h, weight, None, words(7))
    loss.backward()
    exact = torchs(h.float(), weight, None, words(7))
    assert_close(loss.float(), exact, rtol=2e-2, atol=0)
    assert (h.grad.dtype, weight.grad.dtype) == (torch.bfloat16, torch.float32)


def test_in_half_precision_the_loss_is_summed_in_float32() -> None:
    h, weight = numbers(700, WIDTH).bfloat16(), numbers(VOCAB, WIDTH, seed=1).bfloat16()
    ours, theirs = both(h, weight, None, words(700))
    exact = torchs(h.float(), weight.float(), None, words(700))
    assert ours[0].dtype == torch.float32
    assert_close(ours[0], exact, rtol=5e-3, atol=0)
    assert [x.dtype for x in ours[1:]] == [torch.bfloat16, torch.bfloat16]
    assert_close(ours[1:], theirs[1:], rtol=5e-2, atol=1e-3)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_under_autocast(smoothing: float) -> None:
    inputs = [numbers(700, WIDTH).float(), numbers(VOCAB, WIDTH, seed=1).float(), numbers(VOCAB, seed=2).float()]
    exact = both(*inputs, words(700), smoothing)[1]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours, theirs = both(*inputs, words(700), smoothing)
    assert [x.dtype for x in ours] == [torch.float32] * 4
    for found, wanted, reference in zip(ours, theirs, exact, strict=True):
        assert_close(found, reference, rtol=2e-2, atol=1e-3)
        assert (found - reference).abs().amax() <= 2 * (wanted - reference).abs().amax() + 1e-4


# The layer


def test_logits_are_a_linear_layer() -> None:
    layer, h = Output(WIDTH, VOCAB), torch.randn(2, 3, WIDTH)
    torch.nn.init.normal_(layer.bias)
    assert_close(layer(h)[1, 2, 7], layer.weight[7] @ h[1, 2] + layer.bias[7])
    assert layer(h).shape == (2, 3, VOCAB)
    assert Output(WIDTH, VOCAB, bias=False).bias is None


@pytest.mark.parametrize("bias", [True, False])
def test_the_loss_of_a_layer_is_that_of_its_logits(bias: bool) -> None:
    layer, h, targets = Output(WIDTH, VOCAB, bias).double(), numbers(2, 7, WIDTH), words(2, 7)
    targets[1, 3:] = IGNORED
    wanted = F.cross_entropy(layer(h).flatten(0, 1), targets.flatten(), label_smoothing=0.1)
    assert_close(layer.loss(h, targets, smoothing=0.1), wanted)
    assert_close(layer.loss(h, targets), F.cross_entropy(layer(h).flatten(0, 1), targets.flatten()))


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_a_tied_table_gets_the_gradients_of_both_its_uses(factor: float) -> None:
    embed = TokenEmbedding(VOCAB, WIDTH, scaled=True).double()
    layer = Output(WIDTH, VOCAB, bias=False, tied=embed.weight)
    assert layer.weight is embed.weight
    tokens, targets = words(2, 7), words(2, 7, seed=1)
    (factor * layer.loss(embed(tokens), targets)).backward()
    table = embed.weight.detach().clone().requires_grad_()
    logits = F.linear(F.embedding(tokens, table) * math.sqrt(WIDTH), table)
    (factor * F.cross_entropy(logits.flatten(0, 1), targets.flatten())).backward()
    assert_close(embed.weight.grad, table.grad)


def test_a_frozen_table_lets_the_gradient_through() -> None:
    embed, h = TokenEmbedding(VOCAB, WIDTH), torch.randn(7, WIDTH, requires_grad=True)
    embed.copy_vectors(torch.randn(VOCAB, WIDTH), frozen=True)
    layer = Output(WIDTH, VOCAB, tied=embed.weight)
    layer.loss(h, words(7)).backward()
    assert embed.weight.grad is None
    assert h.grad.any()
    assert layer.bias.grad.any()


def test_a_table_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a tied output needs a table of \(11, 5\): got \(5, 11\)"):
        Output(WIDTH, VOCAB, tied=torch.nn.Parameter(torch.zeros(WIDTH, VOCAB)))


def test_it_prints_what_it_was_made_of() -> None:
    assert repr(Output(WIDTH, VOCAB)) == "Output(5, vocab=11, bias=True)"
    assert repr(Output(WIDTH, VOCAB, bias=False)) == "Output(5, vocab=11, bias=False)"


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_a_second_derivative_in_chunks_is_the_plain_one(smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    h, weight, bias = (torch.randn(*shape, requires_grad=True) for shape in ((7, 5), (11, 5), (11,)))
    targets = torch.tensor([3, -100, 0, 10, 10, 2, -100])

    def second() -> tuple[Tensor, ...]:
        loss = cross_entropy(h, weight, bias, targets, smoothing)
        first = torch.autograd.grad(loss, (h, weight, bias), create_graph=True)
        return torch.autograd.grad(sum(x.square().sum() for x in first), (h, weight, bias))

    expected = second()
    monkeypatch.setattr("mirada.layers.output.SMALL", 0)
    assert_close(second(), expected)


def test_many_places_in_half_precision_keep_their_gradients(monkeypatch):
    """The division by the number of places comes last: before the products it would be lost in half precision."""
    monkeypatch.setattr("mirada.layers.output.SMALL", 0)
    h, weight = torch.randn(4099, 5), torch.randn(1009, 5)
    targets = torch.randint(0, 1009, (4099,))
    grads = []
    for dtype in (torch.float32, torch.float16):
        rows, table = (x.detach().to(dtype).clone().requires_grad_() for x in (h, weight))
        (cross_entropy(rows, table, None, targets) * 65536).backward()
        grads.append((rows.grad.float(), table.grad.float()))
    for exact, half in zip(*grads, strict=True):
        assert (exact - half).norm() < 0.01 * exact.norm()


@pytest.mark.parametrize("size", [0, 1, VOCAB - 1, VOCAB + 1])
def test_a_bias_of_another_size_is_refused(size: int) -> None:
    h, weight = torch.randn(7, WIDTH), torch.randn(VOCAB, WIDTH)
    with pytest.raises(ValueError, match=rf"a bias for every word: got weight \(11, 5\), bias \({size},\)"):
        cross_entropy(h, weight, torch.zeros(size), words(7))


def test_a_weight_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match=r"vectors of that width: got h \(7, 5\), weight \(11, 6\)"):
        cross_entropy(torch.randn(7, WIDTH), torch.randn(VOCAB, WIDTH + 1), None, words(7))


def test_the_default_dtype_decides_nothing() -> None:
    h, weight, bias = torch.randn(7, WIDTH), torch.randn(VOCAB, WIDTH), torch.randn(VOCAB)
    expected = cross_entropy(h, weight, bias, words(7), 0.1)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        found = cross_entropy(h, weight, bias, words(7), 0.1)
    finally:
        torch.set_default_dtype(before)
    assert_close(found, expected, rtol=0, atol=0)
