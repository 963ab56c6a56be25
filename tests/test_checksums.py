"""No bit of a file can change unseen."""

import json
import random
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save

from mirada.files import checksum_in, damage, json_checksum, with_checksum

TENSORS = {"a": torch.arange(7.0), "b": torch.tensor([[1, -2]], dtype=torch.int32), "c": torch.zeros(0)}


@pytest.fixture
def content() -> bytes:
    return with_checksum(save(TENSORS, metadata={"format": "pt", "facts": '{"step": 3, "ñ": "\\u202e"}'}))


def test_the_tensors_are_the_same(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    found = load_file(tmp_path / "x")
    assert {name: value.tolist() for name, value in found.items()} == {n: v.tolist() for n, v in TENSORS.items()}
    assert damage(tmp_path / "x") == ""


def test_equal_contents_make_equal_files(content: bytes) -> None:
    """The library writes metadata in any order."""
    again = [
        with_checksum(save(TENSORS, metadata={"facts": '{"step": 3, "ñ": "\\u202e"}', "format": "pt"}))
        for _ in range(9)
    ]
    assert {*again} == {content}


def readable(path: Path) -> bool:
    """Whether the file loads and has no damage."""
    try:
        load_file(path)
    except Exception:
        return False
    return damage(path) == ""


def test_every_flipped_bit_is_found_or_changes_nothing(tmp_path: Path, content: bytes) -> None:
    """A bit of the name `checksum` itself only makes the file one without a checksum."""
    path, dice, found = tmp_path / "x", random.Random(5), 0
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << dice.randrange(8)
        path.write_bytes(changed)
        if readable(path):
            assert {n: v.tolist() for n, v in load_file(path).items()} == {n: v.tolist() for n, v in TENSORS.items()}
        else:
            found += 1
    assert found > len(content) - 20


def test_a_cut_file_and_what_is_no_such_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        assert not readable(path)
    path.write_bytes(save(TENSORS))
    assert readable(path), "without a checksum it is not checked"


def test_the_layout_of_json_does_not_matter_and_its_values_do() -> None:
    described = {"a": {"x": 1, "y": [1.5, "ñ"]}, "b": None}
    checksum = json_checksum(described)
    assert json_checksum(json.loads(json.dumps({"b": None, "a": {"y": [1.5, "ñ"], "x": 1}}, indent=7))) == checksum
    assert json_checksum(described | {"checksum": checksum}) == checksum
    for other in ({"a": {"x": 1, "y": [1.5, "n"]}, "b": None}, {"a": {"x": 1, "y": [1.5, "ñ"]}}, {**described, "b": 0}):
        assert json_checksum(other) != checksum


def test_a_header_that_would_fill_the_memory_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    header = b'{"__metadata__":{"checksum":"' + b"," * 5_000_001 + b'"}}'
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    assert damage(path) == "its header has more than 5,000,000 values, which do not fit into memory"
    path.write_bytes(struct.pack("<Q", 99_000_000) + b"{")
    assert "at most 67,108,864 are read" in damage(path)


def test_a_file_with_another_checksum_than_is_wanted(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    assert damage(tmp_path / "x", checksum_in(content)) == ""
    assert "together with weights with 0123" in damage(tmp_path / "x", "0123")
    (tmp_path / "x").write_bytes(save(TENSORS))
    assert "its checksum is None" in damage(tmp_path / "x", checksum_in(content))
