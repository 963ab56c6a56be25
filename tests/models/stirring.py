"""What the tests of models share: models away from their neutral start, words, and a measure of equal."""

from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.testing import assert_close

from mirada.layers.norm import BatchNorm

M = TypeVar("M", bound=nn.Module)


def stirred(model: M, dtype: torch.dtype, strength: float = 0.2) -> M:
    """A model in evaluation in which no parameter and no running average has its neutral initial value."""
    model = model.to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(strength * torch.randn_like(parameter))
        for module in model.modules():
            if isinstance(module, BatchNorm):
                module.mean.normal_(std=0.3)
                module.variance.uniform_(0.5, 2)
    return model.eval()


def words(*shape: int, vocab: int = 13, seed: int = 0) -> Tensor:
    """Random token ids."""
    return torch.randint(vocab, shape, generator=torch.Generator().manual_seed(seed))


def assert_near(ours: Tensor, theirs: Tensor) -> None:
    """Equal up to the rounding of a few layers; a batch norm with small variances makes it some times larger."""
    tolerance = 1e-9 if theirs.dtype == torch.float64 else 5e-4
    assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
