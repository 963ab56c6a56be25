from pathlib import Path

import pytest
import torch
from torch import nn

from mirada.files import write_whole
from mirada.training.state import check_room, put_weights, read_checkpoint, save_weights, weights, write_checkpoint


def test_tensors_and_facts_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    tensors = {"x": torch.arange(6.0).view(2, 3), "n": torch.tensor(7)}
    write_checkpoint(path, tensors, {"step": 3, "best": 0.1, "kept": [1, 2], "name": "ñ"})
    found, facts = read_checkpoint(path)
    assert facts == {"step": 3, "best": 0.1, "kept": [1, 2], "name": "ñ"}
    assert set(found) == {"x", "n"}
    assert torch.equal(found["x"], tensors["x"])


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    write_whole(path, b"old")

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mirada.files.os.fsync", full)
    with pytest.raises(ValueError, match=r"cannot be written: No space left on device.*untouched"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_part_of_a_checkpoint_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "a.safetensors"
    write_checkpoint(path, {"x": torch.zeros(100)}, {})
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(ValueError, match="is not a whole checkpoint"):
        read_checkpoint(path)


def test_a_missing_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a whole checkpoint"):
        read_checkpoint(tmp_path / "nothing")


def test_room_is_requested(tmp_path: Path) -> None:
    check_room(tmp_path / "new" / "deep", 1)
    assert (tmp_path / "new" / "deep").is_dir()
    assert list((tmp_path / "new" / "deep").iterdir()) == []
    with pytest.raises(ValueError, match=r"needs about 1,000,000,000.0 GB"):
        check_room(tmp_path, 10**18)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(3, 2)
        self.output = nn.Linear(2, 3, bias=False)
        self.output.weight = self.words.weight
        self.norm = nn.BatchNorm1d(2)


def test_shared_weights_are_written_once_and_buffers_too(tmp_path: Path) -> None:
    model, other = Tied(), Tied()
    assert set(weights(model)) == {
        "words.weight", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked",
    }  # fmt: skip
    model.norm.running_mean.fill_(3.0)
    put_weights(other, weights(model))
    assert torch.equal(other.output.weight, model.words.weight)
    assert other.norm.running_mean.tolist() == [3.0, 3.0]
    save_weights(tmp_path / "m.safetensors", weights(model))
    assert (tmp_path / "m.safetensors").exists()


def test_weights_of_another_model_are_refused() -> None:
    with pytest.raises(ValueError, match=r"does not fit the model: words\.weight"):
        put_weights(Tied(), weights(nn.Linear(2, 2)))
