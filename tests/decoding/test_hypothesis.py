"""Looks of several lengths in one matrix."""

import torch
from torch.testing import assert_close

from mirada.decoding.search import stacked


def test_looks_are_stacked():
    looks = random = torch.rand(3, 5)
    assert_close(stacked(list(looks)), random, rtol=0, atol=0)


def test_longer_ones_come_later():
    looks = [torch.ones(length) for length in (2, 3, 5)]
    assert stacked(looks).sum(1).tolist() == [2, 3, 5]
    assert stacked(looks)[0].tolist() == [1, 1, 0, 0, 0]


def test_the_matrix_is_an_ordinary_tensor():
    with torch.inference_mode():
        matrix = stacked([torch.ones(2), torch.ones(3)])
    assert not matrix.is_inference()
    assert not matrix.requires_grad
