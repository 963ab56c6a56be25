"""A checkpoint whose facts cannot be those of a run is refused, and named."""

from pathlib import Path

import pytest
import torch

from mirada.training.state import read_checkpoint, write_checkpoint
from tests.training.toy import toy_training

SCALER = {"scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000, "_growth_tracker": 3}
WRONG = [
    {"step": "x"}, {"step": 0}, {"step": -1}, {"step": 2**70}, {"step": 1.5}, {"step": True}, {"steps": 0}, {"steps": "9"},
    {"kept": [1, "a"]}, {"kept": None}, {"kept": [99]}, {"best": "low"}, {"best": None}, {"every": -3}, {"finished": "no"},
    {"scaler": 3}, {"strange": 1}, {"log_size": -5}, {"log_size": 2**70}, {"seconds": []}, {"share": float("nan")},
    {"share": 0.0}, {"loss_sum": None}, {"best_step": 2**65}, {"best_step": 41}, {"ended": 7},
    {"seconds": 10**400}, {"model_checksum": 7}, {"scaler": {"scale": 1.0}},
    {"scaler": SCALER | {"scale": "1"}}, {"scaler": SCALER | {"scale": 0.0}}, {"scaler": SCALER | {"growth_interval": 1.5}},
    {"scaler": SCALER | {"more": 1}},
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    toy_training(folder).run()
    return folder


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_facts_of_no_run(folder: Path, wrong: dict) -> None:
    path = folder / "checkpoints" / "last.safetensors"
    whole = path.read_bytes()
    tensors, facts = read_checkpoint(path)
    write_checkpoint(path, tensors, facts | wrong)
    with pytest.raises(ValueError, match=r"last\.safetensors is not a checkpoint of this run: .*Restore a copy"):
        toy_training(folder, resume=True).run()
    path.write_bytes(whole)
    assert toy_training(folder, resume=True).run().finished


def test_a_fact_that_is_missing(folder: Path) -> None:
    path = folder / "checkpoints" / "last.safetensors"
    tensors, facts = read_checkpoint(path)
    write_checkpoint(path, tensors, {name: value for name, value in facts.items() if name != "step"})
    with pytest.raises(ValueError, match="it has no step"):
        toy_training(folder, resume=True).run()


def test_the_scaler_of_float16_is_restored(tmp_path: Path) -> None:
    toy_training(tmp_path).run()
    path = tmp_path / "checkpoints" / "last.safetensors"
    tensors, facts = read_checkpoint(path)
    write_checkpoint(path, tensors, facts | {"scaler": SCALER})
    training = toy_training(tmp_path, resume=True)
    training.scaler = torch.amp.GradScaler("cpu", enabled=True)
    training.start()
    assert training.scaler.state_dict() == SCALER
