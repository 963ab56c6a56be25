"""Weights in files: what is written is read again, damage is found, and models without weights are filled."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from mirada.files import BLOCK, damage
from mirada.layers.weights import Stored, built_empty, fill, tensors_of, without_weights, write_tensors

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool)


def written(path: Path) -> dict[str, torch.Tensor]:
    """A file of tensors of many dtypes and sizes, one of them of more than a piece."""
    made = {f"{dtype}.{size}": torch.randn(size).to(dtype) for dtype in DTYPES for size in (0, 1, 7)}
    made |= {"scalar": torch.tensor(2.5), "large": torch.randn(BLOCK // 4 + 3)}
    tensors = [Stored(name, one.dtype, one.shape, lambda one=one: one) for name, one in made.items()]  # type: ignore[misc]
    write_tensors(path, tensors, {"about": "this"})
    return made


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    made = written(path)
    found = load_file(path)
    assert found.keys() == made.keys()
    assert all(torch.equal(found[name], one) and found[name].dtype == one.dtype for name, one in made.items())
    assert damage(path) == ""


def test_any_changed_byte_is_found(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    written(path)
    content = path.read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    for place in (9, length, length + 8, length + 5000, len(content) - 1):
        changed = bytearray(content)
        changed[place] ^= 4
        path.write_bytes(changed)
        assert place < length or "its checksum is sums" in damage(path)
    words = bytearray(content)
    words[length : length + 16] = content[length + 8 : length + 16] + content[length : length + 8]
    path.write_bytes(words)
    assert "its checksum is" in damage(path)
    path.write_bytes(content + b"x")
    assert "its checksum is" in damage(path)
    path.write_bytes(content[:-1])
    assert "its checksum is" in damage(path)


def test_a_value_of_another_shape_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    with pytest.raises(ValueError, match=r"w must be torch.float32 \(3,\): got torch.float32"):
        write_tensors(path, [Stored("w", torch.float32, (3,), lambda: torch.ones(2))])
    assert list(tmp_path.iterdir()) == []


def test_tensors_of_a_file_are_copied_by_the_system(tmp_path: Path) -> None:
    made = torch.randn(1001)
    source = tmp_path / "numbers"
    source.write_bytes(b"12345" + made.numpy().tobytes())
    one = Stored("w", torch.float32, (1001,), lambda: made)
    write_tensors(tmp_path / "a.safetensors", [one], located=lambda tensor: (source, 5))
    write_tensors(tmp_path / "b.safetensors", [one])
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


class Tied(nn.Module):
    """A table that has two names, and one that is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.out.weight = self.words.weight
        self.register_buffer("table", torch.arange(4.0), persistent=False)


def test_a_model_without_weights_is_filled(tmp_path: Path) -> None:
    model = built_empty(Tied)
    assert model.words.weight.is_meta
    assert model.table.tolist() == [0.0, 1.0, 2.0, 3.0]
    filled = fill(model, {"out.weight": torch.ones(5, 3, dtype=torch.float16)})
    assert filled.words.weight is filled.out.weight
    assert filled.words.weight.dtype == torch.float32


def test_what_does_not_fit_is_named() -> None:
    for tensors, message in (
        ({}, "it lacks 1 tensor of the model: words.weight"),
        ({"words.weight": torch.ones(5, 3), "more": torch.ones(1)}, "it has 1 tensor that the model has not: more"),
        ({"words.weight": torch.ones(5, 3), "out.weight": torch.ones(5, 3)}, "one tensor under several names"),
        (
            {"words.weight": torch.ones(5, 4)},
            r"words.weight must be torch.float32 \(5, 3\): got torch.float32 \(5, 4\)",
        ),
        ({"words.weight": torch.ones(5, 3).long()}, "got torch.int64"),
    ):
        with pytest.raises(ValueError, match=message):
            fill(built_empty(Tied), tensors)


def test_a_model_that_needs_its_numbers_is_built_as_ever() -> None:
    def build() -> nn.Linear:
        layer = nn.Linear(2, 2)
        layer.scale = float(layer.weight.detach().sum())  # type: ignore[assignment]
        return layer

    assert not built_empty(build).weight.is_meta
    with without_weights():
        assert nn.Linear(2, 2).weight.is_meta
    assert not nn.Linear(2, 2).weight.is_meta


def test_a_small_file_is_read_not_mapped(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_tensors(path, [Stored("w", torch.float32, (2,), lambda: torch.ones(2))])
    found = tensors_of(path)["w"]
    path.write_bytes(b"")
    assert found.tolist() == [1.0, 1.0]
