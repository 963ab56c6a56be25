"""Engines both ways: compiled, and in plain PyTorch."""

from collections.abc import Iterator

import pytest
import torch

from tests.ways import WAYS, take


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to take a step in float32."""
    return take(request.param, monkeypatch)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small models are not worth more, and tests should not depend on the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
