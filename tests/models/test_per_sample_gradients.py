"""Gradients of every sample by itself, from one call: vmap(grad(loss)) is what single samples give."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.testing import assert_close

from mirada.layers.output import cross_entropy
from mirada.models.classifier import Classifier, ClassifierConfig
from mirada.models.gpt import GPT, GPTConfig
from tests.models.stirring import words


class Loss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return self.model.loss(*inputs)


IGNORING = words(3, 7, seed=1).index_fill(1, torch.tensor([2, 6]), -100)
CASES = {
    "gpt": (lambda: GPT(GPTConfig.tiny()), (words(3, 7), IGNORING)),
    "classifier": (
        lambda: Classifier(ClassifierConfig.tiny()), (words(3, 7), torch.tensor([7, 3, 5]), torch.tensor([0, 1, 2])),
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", CASES)
def test_gradients_of_every_sample(name: str) -> None:
    make, inputs = CASES[name]
    module = Loss(make().eval())

    def one(weights, *sample):
        return functional_call(module, weights, tuple(x.unsqueeze(0) for x in sample))

    weights = {key: value.detach() for key, value in module.named_parameters()}
    together = vmap(grad(one), in_dims=(None, *(0 for _ in inputs)))(weights, *inputs)
    for sample in range(3):
        module.zero_grad()
        module(*(x[sample : sample + 1] for x in inputs)).backward()
        for key, parameter in module.named_parameters():
            assert_close(together[key][sample], parameter.grad, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("ignored", [0, 2, 5])
def test_targets_that_do_not_count_under_vmap(ignored: int) -> None:
    torch.manual_seed(0)
    h, weight, bias = torch.randn(3, 5, 7), torch.randn(11, 7), torch.randn(11)
    targets = torch.randint(11, (3, 5))
    targets[:, :ignored] = -100
    got = vmap(lambda h, wanted: cross_entropy(h, weight, bias, wanted, 0.1))(h, targets)
    alone = [cross_entropy(h[i], weight, bias, targets[i], 0.1) for i in range(3)]
    assert_close(got, torch.stack(alone))
