"""Low-rank adapters: what is learned beside a weight, and what merging gives."""

import pytest
import torch
from torch import nn

from mirada.engine import fast
from mirada.layers.lora import LowRank, adapt, merge
from mirada.models.gpt import GPT, GPTConfig


@pytest.mark.parametrize("bias", [True, False])
def test_it_is_the_formula_and_merged_the_same(bias: bool) -> None:
    torch.manual_seed(0)
    layer = LowRank(nn.Linear(7, 5, bias=bias), rank=3)
    x = torch.randn(2, 11, 7)
    torch.testing.assert_close(layer(x), layer.base(x))  # U begins with zeros
    nn.init.normal_(layer.up)
    wanted = x @ (layer.base.weight + 2 * layer.up @ layer.down).T + (layer.base.bias if bias else 0)
    torch.testing.assert_close(layer(x), wanted)
    torch.testing.assert_close(layer.merged()(x), layer(x), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("every", [False, True])
def test_a_merged_model_equals_the_adapted_one_and_has_an_engine(every: bool) -> None:
    torch.manual_seed(0)
    model = GPT(GPTConfig.tiny()).eval()
    names = set(model.state_dict())
    assert len(adapt(model, rank=2, every=every)) == GPTConfig.tiny().depth * (6 if every else 2)
    for name, parameter in model.named_parameters():
        if name.endswith(".up"):
            nn.init.normal_(parameter, std=0.3)
    tokens = torch.tensor([[1, 2, 3, 4, 5]])
    before = model(tokens)
    assert fast(model).reason is not None
    merge(model)
    assert set(model.state_dict()) == names
    torch.testing.assert_close(model(tokens), before, atol=1e-5, rtol=1e-5)
    assert fast(model).reason is None


def test_a_table_that_is_shared_is_left_alone() -> None:
    model = nn.Module()
    model.table = nn.Embedding(7, 5)
    model.query = nn.Linear(5, 7)
    model.query.weight = model.table.weight
    assert adapt(model, rank=2) == []


def test_a_rank_is_at_least_one() -> None:
    with pytest.raises(ValueError, match="at least 1: got 0"):
        LowRank(nn.Linear(3, 3), rank=0)
