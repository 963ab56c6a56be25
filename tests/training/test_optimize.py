import pytest
import torch
from torch import nn

from mirada.training.optimizer import adam, clip, named_state, penalize, restore_state, set_rate


def model() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.Linear(5, 2))


def step(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    net(torch.ones(2, 3)).pow(2).sum().backward()
    optimizer.step()


def test_the_first_step_of_adam_by_hand() -> None:
    """Both moments are the gradient's after one step, so every number moves by the learning rate, against its gradient."""
    weight = nn.ParameterList([nn.Parameter(torch.tensor([[1.0, -2.0]]))])
    optimizer = adam(weight, lr=0.1)
    weight[0].grad = torch.tensor([[3.0, -0.5]])
    optimizer.step()
    torch.testing.assert_close(weight[0].detach(), torch.tensor([[0.9, -1.9]]))


def test_decay_spares_vectors() -> None:
    net = model()
    groups = adam(net, 1e-3, decay=0.1).param_groups
    assert {p.ndim for p in groups[0]["params"]} == {2}
    assert groups[0]["weight_decay"] == 0.1
    assert {p.ndim for p in groups[1]["params"]} == {1}
    assert groups[1]["weight_decay"] == 0.0


def test_clipping_keeps_the_direction_and_tells_the_norm() -> None:
    a, b = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))
    a.grad, b.grad = torch.tensor([2.0, 3.0]), torch.tensor([6.0])
    assert clip([a, b], 3.5) == pytest.approx(7.0)
    torch.testing.assert_close(torch.cat([a.grad, b.grad]), torch.tensor([1.0, 1.5, 3.0]))
    assert clip([a, b], 100.0) == pytest.approx(3.5)
    torch.testing.assert_close(a.grad, torch.tensor([1.0, 1.5]))
    assert clip([a, b], 0.0) == pytest.approx(3.5)
    assert clip([nn.Parameter(torch.zeros(2))], 1.0) == 0.0


def test_a_state_comes_back_to_the_bit() -> None:
    first, second = model(), model()
    ours, theirs = adam(first, 1e-2), adam(second, 1e-2)
    for _ in range(3):
        step(first, ours)
    second.load_state_dict(first.state_dict())
    restore_state(second, theirs, named_state(first, ours))
    for _ in range(3):
        step(first, ours)
        step(second, theirs)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def test_half_a_state_is_refused() -> None:
    net = model()
    optimizer = adam(net, 1e-2)
    step(net, optimizer)
    tensors = {name: value for name, value in named_state(net, optimizer).items() if "exp_avg_sq" not in name}
    with pytest.raises(ValueError, match=r"no exp_avg_sq for 0\.weight"):
        restore_state(net, optimizer, tensors)


def test_the_rate_is_set_for_all_parameters() -> None:
    optimizer = adam(model(), 1e-2)
    set_rate(optimizer, 0.5)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.5]


def test_a_penalty_is_the_gradient_of_the_squared_weights() -> None:
    plain, penalized = model(), model()
    for net, penalty in ((plain, 0.3), (penalized, 0.0)):
        loss = net(torch.ones(2, 3)).pow(2).sum()
        loss = loss if penalty else loss + 0.3 / 2 * sum(p.pow(2).sum() for p in net.parameters())
        loss.backward()
        penalize(net.parameters(), penalty)
    for mine, wanted in zip(plain.parameters(), penalized.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, wanted.grad)
    assert plain[0].weight.grad.abs().sum() > 0


def test_a_penalty_spares_what_has_no_gradient() -> None:
    net = model()
    penalize(net.parameters(), 0.5)
    assert all(p.grad is None for p in net.parameters())


STRANGE = {
    "too short": ("exp_avg", lambda x: x[:1].clone()),
    "too long": ("exp_avg_sq", lambda x: torch.cat([x, x])),
    "turned": ("exp_avg", lambda x: x.t().contiguous()),
    "flat": ("exp_avg", lambda x: x.flatten()),
    "empty": ("exp_avg_sq", lambda x: x[:0].clone()),
    "halves": ("exp_avg", lambda x: x.half()),
    "doubles": ("exp_avg_sq", lambda x: x.double()),
    "whole numbers": ("exp_avg", lambda x: x.long()),
    "several steps": ("step", lambda x: x.expand(3).clone()),
    "no step": ("step", lambda x: torch.zeros(0)),
    "a whole step": ("step", lambda x: x.long()),
    "half a step": ("step", lambda x: x.half()),
    "a step before the first": ("step", lambda x: x * 0 - 1),
    "no number of steps": ("step", lambda x: x * torch.nan),
    "steps without end": ("step", lambda x: x * torch.inf),
}


@pytest.mark.parametrize("strange", STRANGE)
def test_moments_that_do_not_fit_are_refused_and_named(strange: str) -> None:
    """The fused optimizer writes through them as if they did."""
    net = model()
    optimizer = adam(net, 1e-2)
    step(net, optimizer)
    key, change = STRANGE[strange]
    name = f"optimizer.{key}.0.weight"
    tensors = named_state(net, optimizer)
    with pytest.raises(ValueError, match=r"x\.safetensors is not a checkpoint of this run: .*Restore a copy"):
        restore_state(net, adam(net, 1e-2), tensors | {name: change(tensors[name])}, "x.safetensors")
