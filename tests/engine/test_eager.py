"""Steps in plain PyTorch."""

import torch

from mirada.engine.stepper import neighbors


def test_neighbors_share_a_source() -> None:
    assert neighbors(torch.tensor([1, 1, 0, 0])) == 2
    assert neighbors(torch.tensor([1, 1, 1])) == 3
    assert neighbors(torch.tensor([1, 1, 0, 1])) == 1
    assert neighbors(torch.tensor([4])) == 1
