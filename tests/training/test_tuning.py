"""What learns: all, the head, adapters; rates by layer; layers that are computed again."""

import pytest
import torch
from torch import nn

from mirada.models.encoder import TextEncoder, TextEncoderConfig
from mirada.models.gat import GAT, GATConfig
from mirada.models.gpt import GPT, GPTConfig
from mirada.training.optimizer import adam, set_rate
from mirada.training.recipe import Recipe, Tuning
from mirada.training.state import weights
from mirada.training.tuning import attach, checkpoint_layers

SIZES = TextEncoderConfig.tiny().to_dict() | {"dropout": 0.3, "head": "classes", "transform": "tanh"}
TOKENS = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]])


def encoder() -> TextEncoder:
    torch.manual_seed(0)
    return TextEncoder(TextEncoderConfig(**SIZES)).train()


def step(model: nn.Module, layer_decay: float = 1.0) -> None:
    torch.manual_seed(1)
    optimizer = adam(model, 1e-2, 0.1, layer_decay)
    model.loss(TOKENS, torch.tensor([0, 1])).backward()
    optimizer.step()


def test_a_head_leaves_the_bits_of_the_body_alone_and_its_dropout() -> None:
    model = encoder()
    attach(model, Tuning("head"))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()
    step(model)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert {"output.weight", "output.bias"} < changed
    assert all(name.startswith(("transform", "output")) for name in changed)
    assert model.training
    assert not any(module.training for name, module in model.encoder.named_modules())
    assert model.transform.training


def test_adapters_learn_with_the_head_and_are_all_that_is_saved() -> None:
    model = encoder()
    attach(model, Tuning("lora", 2))
    learned = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert learned == set(weights(model))
    parts = {name.rpartition(".")[2] for name in learned if not name.startswith(("transform", "output"))}
    assert parts == {"up", "down"}
    before = {name: value.clone() for name, value in model.state_dict().items()}
    step(model)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed <= learned
    assert any(name.endswith(".up") for name in changed)


def test_a_shared_table_is_the_bodys() -> None:
    model = TextEncoder(TextEncoderConfig(**(SIZES | {"head": "mask", "transform": "gelu:norm=yes"})))
    attach(model, Tuning("head"))
    assert not model.words.weight.requires_grad
    assert model.output.bias.requires_grad


def test_models_without_such_parts_say_so() -> None:
    with pytest.raises(ValueError, match="a GPT has no head of its own: take tune=all or tune=lora:8"):
        attach(GPT(GPTConfig.tiny()), Tuning("head"))
    with pytest.raises(
        ValueError, match="a GAT has no linear layers of queries and values: take tune=all, or lora:8:all"
    ):
        attach(GAT(GATConfig.tiny()), Tuning("lora", 2))


def test_lower_layers_learn_more_slowly() -> None:
    model = encoder()
    optimizer = adam(model, 1.0, 0.0, 0.5)
    set_rate(optimizer, 2.0)
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    found = {name: rates[id(p)] for name, p in model.named_parameters()}
    assert found["output.weight"] == 2.0
    assert found["encoder.layers.1.feed.widen.weight"] == 1.0
    assert found["encoder.layers.0.feed.widen.weight"] == 0.5
    assert found["words.weight"] == found["norm.weight"] == 0.25


def test_layers_computed_again_give_the_same_bits() -> None:
    found = []
    for again in (False, True):
        model = encoder()
        if again:
            assert checkpoint_layers(model) == 1
        torch.manual_seed(3)
        loss = model.loss(TOKENS, torch.tensor([0, 1]))
        loss.backward()
        found.append((loss.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]))
    assert torch.equal(found[0][0], found[1][0])
    assert all(torch.equal(a, b) for a, b in zip(found[0][1], found[1][1], strict=True))


@pytest.mark.parametrize("word", ["none", "lora", "lora:0", "lora:99999", "lora:8:some", "heads"])
def test_words_that_are_no_tuning(word: str) -> None:
    with pytest.raises(ValueError, match="tune must be all, head or lora:RANK"):
        Recipe(tune=word)


def test_a_layer_decay_is_a_share() -> None:
    with pytest.raises(ValueError, match=r"layer_decay must lie in \(0, 1\]: got 0"):
        Recipe(layer_decay=0.0)
