"""Settings that must be made before torch and keras are imported."""

import os

# a CPU may announce AMX and then refuse it to the process; bf16 products would end it with an illegal instruction
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ.setdefault("KERAS_BACKEND", "torch")

import pytest
import torch


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(7)
