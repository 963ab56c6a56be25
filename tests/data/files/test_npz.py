"""Arrays of npz files: what is damaged, encrypted, packed otherwise or too large is reported with its file."""

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mirada.data.files import npz
from mirada.tasks.label.files import GraphOptions, read_graph
from mirada.tasks.recognize.pictures import read_images
from tests.data.graph_files import arrays

IMAGES, LABELS = np.arange(5 * 4 * 4, dtype=np.uint8).reshape(5, 4, 4), np.array([0, 1, 0, 1, 1])
READERS = {
    "pictures": ({"images": IMAGES, "labels": LABELS}, read_images, "images"),
    "graph": (arrays(), lambda path: read_graph(path, GraphOptions()), "edge_index"),
}


def bytes_of(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def archive(path: Path, contents: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    with zipfile.ZipFile(path, "w", method) as made:
        for name, content in contents.items():
            made.writestr(f"{name}.npy", content)
    return path.read_bytes()


def header(shape: str, kind: str = "'|u1'") -> bytes:
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def encrypted(path: Path, contents: dict[str, bytes]) -> None:
    whole = bytearray(archive(path, contents))
    for sign, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = whole.find(sign)
        whole[at + place] |= 1
    path.write_bytes(whole)


def other_method(path: Path, contents: dict[str, bytes]) -> None:
    whole = bytearray(archive(path, contents))
    for sign, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = whole.find(sign)
        whole[at + place] = 97
    path.write_bytes(whole)


def no_deflate(path: Path, contents: dict[str, bytes]) -> None:
    whole = bytearray(archive(path, contents))
    at = whole.find(b".npy") + 4
    whole[at : at + 9] = b"\xff" * 9
    path.write_bytes(whole)


def other_checksum(path: Path, contents: dict[str, bytes]) -> None:
    whole = bytearray(archive(path, contents, zipfile.ZIP_STORED))
    whole[whole.find(b"NUMPY") + 150] ^= 1
    path.write_bytes(whole)


def packed_by_lzma(path: Path, contents: dict[str, bytes]) -> None:
    archive(path, contents, zipfile.ZIP_LZMA)


def spoiled(made: Callable[[], bytes]) -> Callable[[Path, dict[str, bytes]], None]:
    def make(path: Path, contents: dict[str, bytes]) -> None:
        first = next(iter(contents))
        archive(path, contents | {first: made()})

    return make


DAMAGES = {
    "encrypted": encrypted,
    "another method": other_method,
    "no deflate": no_deflate,
    "another checksum": other_checksum,
    "lzma": packed_by_lzma,
    "a huge shape": spoiled(lambda: header("(1000000, 1000000, 1000000)") + b"x" * 99),
    "a shape past 64 bits": spoiled(lambda: header(f"({2**70},)")),
    "a negative shape": spoiled(lambda: header("(-5, -4, 4)") + b"x" * 80),
    "a shape that is none": spoiled(lambda: header("'x'")),
    "nested deeply": spoiled(lambda: header("(" * 3000 + ")" * 3000)),
    "no dtype": spoiled(lambda: header("(5,)", "'odd'")),
    "no size": spoiled(lambda: header("(1000000000,)", "'<U0'")),
    "objects": spoiled(lambda: bytes_of(np.array([{}], dtype=object))),
    "cut short": spoiled(lambda: bytes_of(IMAGES)[:-3]),
    "a header cut short": spoiled(lambda: bytes_of(IMAGES)[:20]),
    "nothing": spoiled(lambda: b""),
    "another version": spoiled(lambda: b"\x93NUMPY\x09\x00" + b"x" * 99),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_cannot_be_read_is_told_by_its_name(tmp_path: Path, reader: str, damage: str) -> None:
    given, read, first = READERS[reader]
    contents = {first: bytes_of(given[first])} | {name: bytes_of(np.asarray(value)) for name, value in given.items()}
    path = tmp_path / "x.npz"
    DAMAGES[damage](path, contents)
    with pytest.raises(ValueError, match=r"x\.npz: .+\.") as told:
        read(str(path))
    assert len(str(told.value)) < 700


@pytest.mark.parametrize("reader", READERS)
def test_what_claims_more_than_the_memory_is_not_unpacked(
    tmp_path: Path, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, read, _ = READERS[reader]
    path = tmp_path / "x.npz"
    np.savez_compressed(path, **given)
    monkeypatch.setattr(npz, "physical_memory", lambda: 300)
    with pytest.raises(ValueError, match=r"x\.npz: its arrays claim [\d,]+ bytes, and at most 300 are read"):
        read(str(path))
    monkeypatch.setattr(npz, "physical_memory", lambda: 0)
    read(str(path))


def test_arrays_that_nobody_asked_for_are_left_alone(tmp_path: Path) -> None:
    given, read, _ = READERS["graph"]
    path = tmp_path / "x.npz"
    archive(path, {name: bytes_of(np.asarray(value)) for name, value in given.items()} | {"more": b"no array"})
    assert len(read(str(path)).graph) == 5


def test_a_few_bytes_cannot_name_a_graph_without_end() -> None:
    for shape in ([2**40, 3], [5, 2**40]):
        with pytest.raises(ValueError, match=r"feature_shape names [\d,]+ nodes of [\d,]+ features: at most"):
            read_graph(arrays(feature_shape=np.array(shape)), GraphOptions())


@pytest.mark.parametrize("change", [{"feature_values": np.array(1.0)}, {"y": np.array(3)}, {"edge_index": np.array(0)}])
def test_a_number_in_the_place_of_an_array_is_reported(change: dict) -> None:
    with pytest.raises(ValueError, match="data: "):
        read_graph(arrays(**change), GraphOptions())


def test_labels_in_bytes_are_text() -> None:
    y = np.array(["ñ".encode(), b"a", b"a", b"", b"\xff"])
    assert read_graph(arrays(y=y), GraphOptions()).graph.labels == ("ñ", "a", "a", "", "\ufffd")


def test_one_label_for_all_pictures_is_reported() -> None:
    with pytest.raises(ValueError, match=r"labels must have one axis: got shape \(\)"):
        read_images({"images": IMAGES, "labels": np.array(3)})
