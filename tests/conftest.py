"""Settings that must be made before torch and keras are imported."""

import os
from collections.abc import Iterator

# a CPU may announce AMX and then refuse it to the process; bf16 products would end it with an illegal instruction
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ.setdefault("KERAS_BACKEND", "torch")

import pytest
import torch


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(7)


@pytest.fixture(autouse=True, scope="module")
def _threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """One thread where models are tiny: two would wait for each other most of the time."""
    before = torch.get_num_threads()
    if {"models", "layers", "decoding", "parity", "tasks", "training", "cli"} & set(request.path.parts):
        torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
