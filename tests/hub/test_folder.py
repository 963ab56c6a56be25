"""Folders of strangers: what is opened, and what is refused in a line."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from mirada.hub.folder import open_folder


def folder(path: Path, **settings: Any) -> Path:
    """A folder with two tensors."""
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({"model_type": "gpt2", **settings}))
    save_file({"a": torch.arange(6.0).view(2, 3), "b": torch.ones(5)}, path / "model.safetensors")
    return path


def sharded(path: Path, named: Any) -> Path:
    """A folder whose tensors are in two files, and an index that says so, or something else."""
    folder(path)
    tensors = load_file(path / "model.safetensors")
    (path / "model.safetensors").unlink()
    for name, tensor in tensors.items():
        save_file({name: tensor}, path / f"{name}.safetensors")
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": named}))
    return path


def test_tensors_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    opened = open_folder(folder(tmp_path / "x"))
    assert sorted(opened.weights) == ["a", "b"]
    assert opened.weights["a"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert opened.weights.stored == (tmp_path / "x" / "model.safetensors").stat().st_size


def test_a_mapped_tensor_is_found_in_its_file(tmp_path: Path) -> None:
    weights = open_folder(folder(tmp_path / "x")).weights
    for name in ("a", "b"):
        tensor = weights[name]
        found = weights.located(tensor)
        assert found is not None
        path, first = found
        assert path.read_bytes()[first : first + tensor.nbytes] == tensor.numpy().tobytes()
    assert weights.located(weights["a"].T.contiguous()) is None


def test_other_files_stand_beside_the_settings(tmp_path: Path) -> None:
    place = folder(tmp_path / "x", generation_config="lies")
    (place / "generation_config.json").write_text('{"max_length": 9}')
    (place / "README.md").write_text("words")
    opened = open_folder(place)
    assert opened.config["generation_config"] == {"max_length": 9}
    assert sorted(opened.files) == ["config.json", "generation_config.json"]


def test_modules_of_sentence_transformers(tmp_path: Path) -> None:
    place = folder(tmp_path / "x")
    modules = [{"path": "", "type": "st.models.Transformer"}, {"path": "1_Pooling", "type": "st.models.Pooling"}]
    (place / "modules.json").write_text(json.dumps(modules))
    (place / "1_Pooling").mkdir()
    (place / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    opened = open_folder(place)
    assert [module["kind"] for module in opened.config["modules"]] == ["Transformer", "Pooling"]
    assert opened.config["modules"][1]["config"] == {"pooling_mode_cls_token": True}
    assert "1_Pooling/config.json" in opened.files
    for wrong in ("../x", "/etc", "a/b", 7):
        (place / "modules.json").write_text(json.dumps([modules[0], {"path": wrong, "type": "st.Pooling"}]))
        with pytest.raises(ValueError, match="which is no folder in it"):
            open_folder(place)


def test_a_cache_of_downloads_may_link_to_its_blobs(tmp_path: Path) -> None:
    place = folder(tmp_path / "models--x" / "snapshots" / "abc")
    blobs = tmp_path / "models--x" / "blobs"
    blobs.mkdir()
    for name in ("config.json", "model.safetensors"):
        os.rename(place / name, blobs / name)
        (place / name).symlink_to(Path("..", "..", "blobs", name))
    assert sorted(open_folder(place).weights) == ["a", "b"]
    (place / "config.json").unlink()
    (place / "config.json").symlink_to("/etc/hostname")
    with pytest.raises(ValueError, match="is a link out of the folder, which is not followed"):
        open_folder(place)
    (blobs / "model.safetensors").unlink()
    (place / "config.json").unlink()
    (place / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="is a link to nothing: the download is not whole"):
        open_folder(place)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"a": "a.safetensors", "b": "../b.safetensors"}, "which is no safetensors file beside it"),
        ({"a": "a.safetensors", "b": "/etc/passwd"}, "which is no safetensors file beside it"),
        ({"a": "a.safetensors", "b": "model.safetensors.index.json"}, "which is no safetensors file beside it"),
        ({"a": "a.safetensors", "b": "c.safetensors"}, "is missing, and model.safetensors.index.json names it"),
        ({"a": "a.safetensors", "b": "a.safetensors"}, "and it is not"),
        ({"a": "a.safetensors", "b": 7}, "must have a weight_map"),
        ({}, "must have a weight_map"),
        ([], "must have a weight_map"),
    ],
)
def test_an_index_that_lies(tmp_path: Path, named: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_folder(sharded(tmp_path / "x", named))


def test_an_index_that_is_right(tmp_path: Path) -> None:
    opened = open_folder(sharded(tmp_path / "x", {"a": "a.safetensors", "b": "b.safetensors"}))
    assert opened.weights["b"].tolist() == [1.0] * 5


def test_a_header_that_lies(tmp_path: Path) -> None:
    place = folder(tmp_path / "x")
    content = (place / "model.safetensors").read_bytes()
    for wrong, message in (
        (content[:20], "is no safetensors file, or only the beginning of one"),
        (content[:-4], "is damaged, or not whole"),
        (content.replace(b'"shape":[5]', b'"shape":[9]'), "is damaged, or not whole"),
        ((2**62).to_bytes(8, "little") + content[8:], "its header has 4,611,686,018,427,387,904 bytes"),
    ):
        (place / "model.safetensors").write_bytes(wrong)
        with pytest.raises(ValueError, match=message):
            open_folder(place)


def test_a_link_to_itself_and_a_header_that_is_too_long_are_named(tmp_path: Path) -> None:
    place = folder(tmp_path / "place")
    (place / "tokenizer.json").symlink_to("tokenizer.json")
    with pytest.raises(ValueError, match=r"tokenizer\.json is a link (that leads to itself|to nothing)"):
        open_folder(place)
    (place / "tokenizer.json").unlink()
    (place / "model.safetensors").write_bytes((2**62).to_bytes(8, "little") + b"{}")
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged: its header has 4,611"):
        open_folder(place)
