"""Several processes train as one does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mirada.training.distributed import ProcessGroup, choose_device, process_group
from mirada.training.log import read_metrics
from tests.training.toy import toy_training

ROOT = Path(__file__).parents[2]


def torchrun(processes: int, *words: str) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(processes),
        *words,
    ]
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)


def losses(folder: Path) -> torch.Tensor:
    return torch.tensor([event["loss"] for event in read_metrics(folder / "metrics.jsonl") if "lr" in event])


def test_two_processes_train_as_one_does(tmp_path: Path) -> None:
    """Over 50 steps the losses agree to 1e-5; with dropout too, if one process divides its batches into the same shares.

    With four accumulation steps in each of two processes there are more shares than rows.
    """
    ways = [
        (0.0, 1, 1),
        (0.2, 2, 1),
        (0.0, 1, 4),
    ]  # dropout, and into how many parts one process and each of two divide
    words = [str(word) for n, (dropout, _, each) in enumerate(ways) for word in (tmp_path / f"two-{n}", dropout, each)]
    done = torchrun(2, "tests/training/together.py", *words)
    assert done.returncode == 0, done.stderr
    for n, (dropout, alone, _) in enumerate(ways):
        one, two = tmp_path / f"one-{n}", tmp_path / f"two-{n}"
        toy_training(one, dropout, steps=50, accumulate=alone).run()
        assert len(losses(one)) == 50
        torch.testing.assert_close(losses(two), losses(one), rtol=1e-5, atol=1e-5)
        wanted, got = (load_file(folder / "model.safetensors") for folder in (one, two))
        for name in wanted:
            torch.testing.assert_close(got[name], wanted[name], rtol=1e-4, atol=1e-5)
    assert done.stderr.count("step 50  valid loss") == len(ways)  # only one of them speaks


def test_alone_without_torchrun() -> None:
    with process_group("cpu") as group:
        assert (group.rank, group.world, group.leads) == (0, 1, True)
        assert group.agree(3.0) == 3.0


def test_only_the_first_leads() -> None:
    assert not ProcessGroup(rank=1, world=2).leads


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(ValueError, match=r"device 'cuda:77' cannot be used here.*--device cpu"):
        choose_device("cuda:77")
    with pytest.raises(ValueError, match=r"device 'gpu' cannot be used here"):
        choose_device("gpu")
