"""Every normalizer against plain numbers; what is drawn at random against its probabilities, with seeds and stated bounds."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada.attention.equation import attend
from mirada.attention.normalizers import (
    Draw,
    Gumbel,
    Hard,
    Identity,
    Normalizer,
    Softmax,
    Sparsemax,
    StraightThrough,
    draws,
    masked_softmax,
)

BATCH, HEADS, QUERIES, KEYS = 2, 3, 5, 7


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def scores() -> Tensor:
    return 2 * numbers(BATCH, HEADS, QUERIES, KEYS, seed=1)


def mask() -> Tensor:
    """About half of all pairs; the first query of every head sees nothing, the second one key only."""
    seen = numbers(BATCH, HEADS, QUERIES, KEYS, seed=2) > 0
    seen[:, :, 0] = False
    seen[:, :, 1] = torch.arange(KEYS) == 3
    return seen


def softmax(row: list[float]) -> list[float]:
    powers = [math.exp(x - max(row)) for x in row]
    return [power / sum(powers) for power in powers]


def simplex_projection(row: list[float]) -> list[float]:
    """The nearest point of the simplex: max(x - tau, 0), with tau found by bisection of the sum."""
    low, high = min(row) - 1, max(row)
    for _ in range(200):
        tau = (low + high) / 2
        low, high = (tau, high) if sum(max(x - tau, 0) for x in row) > 1 else (low, tau)
    return [max(x - tau, 0) for x in row]


def row_by_row(formula, scores: Tensor, mask: Tensor) -> Tensor:
    """formula(the scores that are seen) put back in their places, zeros elsewhere."""
    weights = torch.zeros_like(scores)
    for place in product(*(range(size) for size in scores.shape[:3])):
        seen = [j for j in range(scores.shape[3]) if mask.expand_as(scores)[place][j]]
        if seen:
            values = formula([scores[place][j].item() for j in seen])
            weights[place][seen] = torch.tensor(values, dtype=scores.dtype)
    return weights


SMOOTH = {
    "softmax": (Softmax(), softmax),
    "sparsemax": (Sparsemax(), simplex_projection),
    "identity": (Identity(), list),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_weights_of_every_row(name):
    normalizer, formula = SMOOTH[name]
    assert_close(normalizer(scores(), mask()), row_by_row(formula, scores(), mask()))
    everything = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    assert_close(normalizer(scores()), row_by_row(formula, scores(), everything))


@pytest.mark.parametrize("name", SMOOTH)
def test_weights_are_zero_where_masked_and_in_empty_rows(name):
    weights = SMOOTH[name][0](scores(), mask())
    assert_close(weights[~mask()], torch.zeros_like(weights[~mask()]), rtol=0, atol=0)
    if name != "identity":
        assert_close(weights.sum(-1), mask().any(-1).double())


@pytest.mark.parametrize("stored", [0.0, 1e30, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("name", SMOOTH)
def test_what_is_stored_where_masked_reaches_neither_weights_nor_gradients(name, stored):
    normalizer = SMOOTH[name][0]
    clean, dirty = scores().requires_grad_(), scores().masked_fill(~mask(), stored).requires_grad_()
    upstream = numbers(BATCH, HEADS, QUERIES, KEYS, seed=3)
    (normalizer(clean, mask()) * upstream).sum().backward()
    weights = normalizer(dirty, mask())
    (weights * upstream).sum().backward()
    assert_close(weights, normalizer(clean, mask()))
    assert_close(dirty.grad, clean.grad)
    assert_close(dirty.grad[~mask()], torch.zeros_like(dirty.grad[~mask()]), rtol=0, atol=0)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_those_of_finite_differences(name):
    normalizer, some = SMOOTH[name][0], scores()[:1, :1].requires_grad_()
    assert torch.autograd.gradcheck(lambda x: normalizer(x, mask()[:1, :1]), some)


@pytest.mark.parametrize(
    "normalizer", [Softmax(), Sparsemax(), Identity(), Hard(), StraightThrough(), Gumbel()], ids=repr
)
def test_no_keys_at_all(normalizer):
    nothing = torch.zeros(BATCH, HEADS, QUERIES, 0)
    assert normalizer(nothing).shape == (BATCH, HEADS, QUERIES, 0)
    assert normalizer(nothing, torch.zeros(1, 1, QUERIES, 0, dtype=torch.bool)).shape == (BATCH, HEADS, QUERIES, 0)


# Softmax


def test_softmax_by_hand():
    row, seen = torch.tensor([[[[0.0, math.log(2), math.log(5), 9.0]]]]), torch.tensor([[[[True, True, True, False]]]])
    assert_close(Softmax()(row, seen), torch.tensor([[[[1 / 8, 2 / 8, 5 / 8, 0.0]]]]))


def test_softmax_of_an_empty_row_is_zeros_with_a_finite_gradient():
    row = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]], requires_grad=True)
    seen = torch.tensor([[[[False, False], [True, True]]]])
    weights = masked_softmax(row, seen)
    assert weights[0, 0, 0].tolist() == [0.0, 0.0]
    (weights * torch.tensor([7.0, 11.0])).sum().backward()
    a, b = softmax([3.0, 4.0])
    assert_close(row.grad, torch.tensor([[[[0.0, 0.0], [a * b * (7 - 11), a * b * (11 - 7)]]]]))


@pytest.mark.parametrize("name", SMOOTH)
def test_an_empty_row_makes_no_nan_even_on_the_way(name):
    """A NaN that a later step hides would still stop a training with anomaly detection."""
    some = scores().requires_grad_()
    with torch.autograd.set_detect_anomaly(True):
        (SMOOTH[name][0](some, mask()) * numbers(KEYS)).sum().backward()
    assert some.grad.isfinite().all()


def test_softmax_of_large_scores_does_not_overflow():
    weights = Softmax()(torch.tensor([[[[1e30, 0.0, 1e30]]]]))
    assert weights.flatten().tolist() == [0.5, 0.0, 0.5]


def test_dropout_drops_weights_in_training_only():
    weights = torch.full((1, 1, 101, 103), 0.25)
    assert_close(Softmax(dropout=0.3).eval().drop(weights), weights)
    assert_close(Softmax().drop(weights), weights)
    torch.manual_seed(0)
    dropped = Softmax(dropout=0.3).drop(weights)
    kept = dropped != 0
    rate = 77 / 256  # the nearest that a random byte can decide
    assert_close(dropped[kept], torch.full_like(dropped[kept], 0.25 / (1 - rate)))
    # 10403 coins of probability 0.7: a standard deviation of 0.0045, here five of them
    assert_close(kept.double().mean().item(), 0.7, rtol=0, atol=0.0225)


def test_dropout_does_not_change_the_weights_that_are_reported():
    normalizer = Softmax(dropout=0.9)
    assert_close(normalizer(scores(), mask()), Softmax()(scores(), mask()))


def test_dropout_meets_the_values_in_attend():
    q = k = torch.zeros(1, 1, 11, 3)
    v = torch.eye(11)[None, None]
    torch.manual_seed(0)
    out = attend(q, k, v, normalizer=Softmax(dropout=0.5))  # the values are a unit matrix: out is the weights
    assert_close(out.unique().tolist(), [0.0, 2 / 11])
    assert_close(attend(q, k, v, normalizer=Softmax(dropout=0.5).eval()), torch.full_like(out, 1 / 11))


def test_softmax_errors():
    for dropout in (-0.1, 1.0):
        with pytest.raises(ValueError, match=rf"dropout must lie in \[0, 1\): got {dropout}"):
            Softmax(dropout)


# Sparsemax


def test_sparsemax_by_hand():
    rows = torch.tensor([[[[1.0, 0.9, -3.0], [5.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.6, 0.2, -0.1]]]])
    # two equal shares of what is left over, one winner, a tie, and tau = -0.1 exactly
    expected = [[0.55, 0.45, 0.0], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.7, 0.3, 0.0]]
    assert_close(Sparsemax()(rows), torch.tensor([[expected]]))


def test_sparsemax_of_wide_rows_has_exact_zeros():
    wide = 2 * numbers(1, 2, 3, 211, seed=4)
    weights = Sparsemax()(wide)
    assert_close(weights, row_by_row(simplex_projection, wide, torch.ones(1, 1, 1, 1, dtype=torch.bool)))
    assert ((weights == 0).sum(-1) > 150).all()


def test_sparsemax_does_not_change_with_a_constant():
    assert_close(Sparsemax()(scores() + 1000, mask()), Sparsemax()(scores(), mask()))


# Identity


def test_identity_by_hand():
    row, seen = torch.tensor([[[[2.0, -3.0, math.inf]]]]), torch.tensor([[[[True, True, False]]]])
    assert Identity()(row, seen).flatten().tolist() == [2.0, -3.0, 0.0]


# Hard


def hard(normalizer: Normalizer, scores: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Draw]:
    mask = torch.ones(1, 1, 1, 1, dtype=torch.bool) if mask is None else mask
    weights, draw = normalizer.normalize(scores, mask)
    return weights, draw


@pytest.mark.parametrize("normalizer", [Hard(), Hard(soft=0.5), StraightThrough(), Gumbel()], ids=repr)
def test_hard_takes_the_likeliest_key_in_evaluation(normalizer):
    weights, draw = hard(normalizer.eval(), scores(), mask())
    likeliest = scores().masked_fill(~mask(), -math.inf).argmax(-1).masked_fill(~mask().any(-1), -1)
    assert_close(draw.index, likeliest)
    assert_close(weights, row_by_row(lambda row: [float(x == max(row)) for x in row], scores(), mask()))
    assert not draw.soft.any()
    normalizer.train()


@pytest.mark.parametrize("normalizer", [Hard(), StraightThrough(), Gumbel(0.3)], ids=repr)
def test_hard_gives_one_hot_rows_in_training(normalizer):
    torch.manual_seed(0)
    for _ in range(7):
        weights, draw = hard(normalizer, scores(), mask())
        rows = mask().any(-1)
        assert_close(weights.detach()[rows].amax(-1), torch.ones(int(rows.sum()), dtype=torch.float64))
        assert_close(weights.sum(-1), rows.double())
        assert ((weights.detach() > 0.5) <= mask()).all()
        assert_close(draw.index == -1, ~rows)
        assert_close(draw.one_hot(KEYS, torch.float64), weights.detach())


@pytest.mark.parametrize("normalizer", [Hard(), StraightThrough(), Gumbel(1.0), Gumbel(0.2)], ids=repr)
def test_hard_draws_with_the_probabilities_of_the_softmax(normalizer):
    torch.manual_seed(0)
    row, seen = [0.0, 1.0, -1.0, 9.0, 0.5], [True, True, True, False, True]
    many = 40009
    weights = normalizer(torch.tensor(row).expand(many, 1, 1, 5), torch.tensor(seen).view(1, 1, 1, 5))
    expected = softmax([0.0, 1.0, -1.0, 0.5])
    expected.insert(3, 0.0)
    # a frequency has a standard deviation of at most 1 / (2 sqrt(40009)) = 0.0025, here five of them
    assert_close(weights.mean((0, 1, 2)).tolist(), expected, rtol=0, atol=0.0125)
    assert weights[..., 3].amax() == 0


def test_hard_draws_every_row_on_its_own():
    torch.manual_seed(0)
    weights = Hard()(torch.zeros(1, 2, 20011, 2))
    first, second = weights[0, :, :, 0].bool()
    # two independent coins agree half of the time, within five standard deviations of 0.0035
    assert_close((first == second).double().mean().item(), 0.5, rtol=0, atol=0.0177)


def test_hard_has_no_gradient_of_its_own():
    some = scores().requires_grad_()
    (Hard()(some, mask()) * numbers(KEYS)).sum().backward()
    assert_close(some.grad, torch.zeros_like(some), rtol=0, atol=0)


@pytest.mark.parametrize("normalizer", [Hard(), Hard(soft=0.5), StraightThrough(), Gumbel()], ids=repr)
def test_hard_of_a_query_that_sees_nothing(normalizer):
    some = scores().requires_grad_()
    weights, draw = hard(normalizer, some, mask())
    assert (draw.index[:, :, 0] == -1).all()
    assert_close(weights[:, :, 0], torch.zeros(BATCH, HEADS, KEYS, dtype=torch.float64))
    assert_close(draw.log_probability[:, :, 0], torch.zeros(BATCH, HEADS, dtype=torch.float64))
    assert_close(draw.entropy[:, :, 0], torch.zeros(BATCH, HEADS, dtype=torch.float64))
    (draw.log_probability.sum() + draw.entropy.sum() + (weights * numbers(KEYS)).sum()).backward()
    assert some.grad.isfinite().all()
    assert_close(some.grad[:, :, 0], torch.zeros(BATCH, HEADS, KEYS, dtype=torch.float64))


def test_soft_of_one_keeps_the_soft_weights_in_training_only():
    some = scores().requires_grad_()
    weights, draw = hard(Hard(soft=1.0), some, mask())
    assert draw.soft.all()
    assert_close(weights, row_by_row(softmax, scores(), mask()))
    assert weights.requires_grad
    assert_close(draw.index == -1, ~mask().any(-1))  # a draw is made all the same
    weights, draw = hard(Hard(soft=1.0).eval(), scores(), mask())
    assert not draw.soft.any()
    assert_close(weights.amax(-1), mask().any(-1).double())


def test_soft_is_decided_query_by_query_for_all_heads():
    torch.manual_seed(0)
    many = torch.zeros(10007, 2, 3, 5)
    weights, draw = hard(Hard(soft=0.3), many)
    assert_close(draw.soft, draw.soft[:, :1].expand_as(draw.soft))
    # 10007 coins: five standard deviations of 0.0046
    assert_close(draw.soft[:, 0, 0].double().mean().item(), 0.3, rtol=0, atol=0.0229)
    assert_close(weights[draw.soft], torch.full_like(weights[draw.soft], 1 / 5))
    assert_close(weights[~draw.soft].amax(-1), torch.ones(int((~draw.soft).sum())))


def test_hard_errors():
    with pytest.raises(ValueError, match=r"soft is a probability: got 1\.5"):
        Hard(soft=1.5)
    with pytest.raises(ValueError, match="temperature must be positive: got 0"):
        Gumbel(temperature=0)


def test_straight_through_has_the_gradient_of_the_softmax():
    torch.manual_seed(0)
    upstream = numbers(BATCH, HEADS, QUERIES, KEYS, seed=3)
    ours, theirs = scores().requires_grad_(), scores().requires_grad_()
    (StraightThrough()(ours, mask()) * upstream).sum().backward()
    # d softmax: p (g - p.g)
    p = row_by_row(softmax, scores(), mask())
    assert_close(ours.grad, p * (upstream - (p * upstream).sum(-1, keepdim=True)))
    (Softmax()(theirs, mask()) * upstream).sum().backward()
    assert_close(ours.grad, theirs.grad)
    ours.grad = None
    (StraightThrough().eval()(ours, mask()) * upstream).sum().backward()
    assert_close(ours.grad, torch.zeros_like(ours), rtol=0, atol=0)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_gumbel_has_the_gradient_of_its_own_noisy_softmax(temperature):
    upstream, some = numbers(BATCH, HEADS, QUERIES, KEYS, seed=3), scores().requires_grad_()
    torch.manual_seed(5)
    weights, draw = hard(Gumbel(temperature), some, mask())
    (weights * upstream).sum().backward()
    torch.manual_seed(5)
    noise = -torch.empty_like(scores()).exponential_().log()
    p = row_by_row(lambda row: softmax([x / temperature for x in row]), scores() + noise, mask())
    assert_close(some.grad, p * (upstream - (p * upstream).sum(-1, keepdim=True)) / temperature)
    chosen = (scores() + noise).masked_fill(~mask(), -math.inf).argmax(-1)
    assert_close(draw.index, chosen.masked_fill(~mask().any(-1), -1))


# draws


def test_draws_know_log_probability_and_entropy():
    torch.manual_seed(0)
    _, draw = hard(Hard(), scores(), mask())
    for place in product(range(BATCH), range(HEADS), range(1, QUERIES)):
        seen = [j for j in range(KEYS) if mask()[place][j]]
        if not seen:
            continue
        p = dict(zip(seen, softmax([scores()[place][j].item() for j in seen]), strict=True))
        assert_close(draw.log_probability[place].item(), math.log(p[int(draw.index[place])]))
        assert_close(draw.entropy[place].item(), -sum(x * math.log(x) for x in p.values()))


def test_draws_collect_from_outside_in_order():
    q, k, v = numbers(BATCH, HEADS, QUERIES, 11), numbers(BATCH, HEADS, KEYS, 11), numbers(BATCH, HEADS, KEYS, 13)
    with draws() as d:
        attend(q, k, v, normalizer=Hard())
        attend(q, k, v)  # nothing is drawn by a softmax
        attend(q[:, :1, :2], k[:, :1], v[:, :1], normalizer=Gumbel())
        attend(q, k, v, normalizer=Hard().eval())  # nor in evaluation
    attend(q, k, v, normalizer=Hard())
    assert [draw.index.shape for draw in d] == [(BATCH, HEADS, QUERIES), (BATCH, 1, 2)]
    assert_close(d.log_probability(), d[0].log_probability.sum((1, 2)) + d[1].log_probability.sum((1, 2)))
    assert_close(d.entropy(), d[0].entropy.sum((1, 2)) + d[1].entropy.sum((1, 2)))
    assert d.log_probability().shape == (BATCH,)


def test_draws_may_be_nested():
    q = numbers(1, 1, 2, 3)

    def look() -> None:
        attend(q, q, q, normalizer=Hard())

    with draws() as outer:
        with draws() as first:
            look()
        with draws() as nothing:
            pass
        look()
        with draws() as second:
            look()
    look()
    assert [len(d) for d in (outer, first, nothing, second)] == [3, 1, 0, 1]
    assert outer[0] is first[0]
    assert outer[2] is second[0]


def test_draws_end_with_an_error_too():
    q = numbers(1, 1, 2, 3)
    with pytest.raises(RuntimeError, match="stop"), draws() as d:
        raise RuntimeError("stop")
    attend(q, q, q, normalizer=Hard())
    assert len(d) == 0


def test_draws_are_those_behind_the_output():
    q, k = numbers(BATCH, HEADS, QUERIES, 11), numbers(BATCH, HEADS, KEYS, 11)
    v = torch.eye(KEYS, dtype=torch.float64).expand(BATCH, HEADS, KEYS, KEYS)
    with draws() as d:
        out = attend(q, k, v, normalizer=Hard())  # the values are a unit matrix: out is the weights
    assert_close(d[0].index, out.argmax(-1))


def test_draws_join_and_cut_queries():
    torch.manual_seed(0)
    _, draw = hard(Hard(soft=0.5), scores(), mask())
    again = Draw.join([draw.rows(0, 2), draw.rows(2, 5)])
    assert_close(again.index, draw.index)
    assert_close(again.log_probability, draw.log_probability)
    assert_close(again.entropy, draw.entropy)
    assert_close(again.soft, draw.soft)
    _, draw = hard(Hard(), scores().requires_grad_(), mask())
    assert draw.log_probability.requires_grad
    assert not draw.detach().log_probability.requires_grad


def test_draws_give_the_reinforce_gradient():
    """Two keys with rewards r: d E[r] / d a = p (1 - p) (r_0 - r_1), estimated by the mean of (r - baseline) d log p."""
    torch.manual_seed(0)
    many, reward, baseline = 100003, torch.tensor([3.0, -1.0]), 0.5
    logits = torch.tensor([0.3, -0.4], requires_grad=True)
    q, k = torch.ones(many, 1, 1, 1), logits.view(1, 1, 2, 1).expand(many, 1, 2, 1)
    v = reward.view(1, 1, 2, 1).expand(many, 1, 2, 1)
    with draws() as d:
        earned = attend(q, k, v, normalizer=Hard()).flatten()
    ((earned.detach() - baseline) * d.log_probability()).mean().backward()
    p = 1 / (1 + math.exp(-0.7))
    exact = p * (1 - p) * (3 - -1)
    # one term is (3 - 0.5)(1 - p) = 0.83 or (-1 - 0.5)(-p) = 1.0: a standard deviation of 0.08, of their mean 0.0003
    assert_close(logits.grad.tolist(), [exact, -exact], rtol=0, atol=0.0015)


def test_draws_entropy_has_the_gradient_of_its_formula():
    some = scores()[:1, :1].requires_grad_()

    def entropy(x: Tensor) -> Tensor:
        torch.manual_seed(0)
        return hard(Hard(), x, mask()[:1, :1])[1].entropy

    def log_probability(x: Tensor) -> Tensor:
        torch.manual_seed(0)
        return hard(Hard(), x, mask()[:1, :1])[1].log_probability

    assert torch.autograd.gradcheck(entropy, some)
    assert torch.autograd.gradcheck(log_probability, some)


def test_draws_of_certain_choices_have_finite_gradients():
    some = torch.tensor([[[[0.0, 2000.0, -2000.0]]]], requires_grad=True)
    _, draw = hard(Hard(), some)
    (draw.entropy + draw.log_probability).sum().backward()
    assert draw.index.item() == 1
    assert_close(draw.entropy.item(), 0.0)
    assert some.grad.isfinite().all()


def test_normalizers_print_what_they_were_made_of():
    assert repr(Softmax()) == "Softmax()"
    assert repr(Softmax(0.1)) == "Softmax(dropout=0.1)"
    assert repr(Hard(soft=0.5)) == "Hard(soft=0.5)"
    assert repr(Gumbel(0.5)) == "Gumbel(temperature=0.5)"
    assert [type(n).__name__ for n in (Softmax(), Sparsemax(), Identity(), Hard(), Gumbel()) if n.chooses] == [
        "Hard",
        "Gumbel",
    ]
