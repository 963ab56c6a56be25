"""Rollout is a product of matrices whose rows sum to one."""

import pytest
import torch
from torch.testing import assert_close

from mirada.looking.explain.measures import cross_rollout, rollout


def test_by_hand_and_in_order() -> None:
    first, second = torch.rand(2, 5, 5).softmax(-1), torch.rand(3, 5, 5).softmax(-1)
    a, b = (0.5 * torch.eye(5) + 0.5 * layer.mean(0) for layer in (first, second))
    assert_close(rollout([first, second]), b @ a)
    assert_close(rollout([first, second]).sum(-1), torch.ones(5))


def test_a_row_that_sees_nothing_stays_itself() -> None:
    weights = torch.tensor([[[0.0, 0.0], [0.5, 0.5]]])
    assert_close(rollout([weights])[0], torch.tensor([1.0, 0.0]))


def test_cross_looks_through_the_encoder() -> None:
    cross, encoder = torch.rand(2, 3, 5).softmax(-1), torch.rand(2, 5, 5).softmax(-1)
    expected = cross.mean(0) @ (0.5 * torch.eye(5) + 0.5 * encoder.mean(0))
    assert_close(cross_rollout([cross, cross], [encoder]), expected)


def test_no_layers() -> None:
    with pytest.raises(ValueError, match="at least one layer"):
        rollout([])
