"""A file may be damaged, hostile or from tomorrow: one clear line, and nothing is loaded."""

import json
import random
import struct
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mirada import Attention, MultiHead, Seen, look
from mirada.attention.neighborhoods import Edges
from mirada.looking.attn import write as file
from mirada.looking.explain.methods import Methods
from mirada.looking.explain.relations import HeadRelation
from mirada.looking.labels import GridLabels, Labels, TextLabels, TimeLabels, WrittenStep


def recorded(queries: int, **call: Any) -> Seen:
    torch.manual_seed(1)
    layer = Attention(MultiHead(8, 2))
    with torch.no_grad(), look(layer) as seen:
        layer(torch.randn(1, queries, 8), **call)
    return seen


def labelled() -> Seen:
    axes = {
        "words": TextLabels(tuple("abcd"), "abcd", ((0, 1), (1, 2), None, (2, 4))),
        "cells": GridLabels.of(2, 2, (), b"\x89PNG\r\n\x1a\n."),
        "times": TimeLabels(("1", "2"), (0.0, 1.0)),
    }
    steps = (WrittenStep(0, "a", 0.5, (("a", 0.5),)),)
    labels = Labels(
        axes,
        {"*": ("words", "cells")},
        {"task": "t"},
        ("x", 0.1),
        steps,
        ((0, (1.0, 2.0, 3.0, 4.0)),),
        ({"do": "Cut"},),
    )
    seen = recorded(4).labelled(labels)
    seen.methods = Methods.of({"a": torch.rand(4, 4), "b": torch.rand(4, 4)}, "words", "cells")
    seen.relations = (HeadRelation("det", "", 1, 0.9, 0.4, 1, 20),)
    return seen


def in_bytes(seen: Seen) -> bytes:
    """A file whose weights are bytes, though they are so few that they would be kept as they are."""
    with mock.patch.object(file, "EXACT_WEIGHTS", 0):
        return seen.to_bytes()


FILES = {
    "sqrt8": in_bytes(labelled()),
    "float32": labelled().to_bytes(),
    "qk16": recorded(97).to_bytes(),
    "edges8": recorded(5, where=Edges(torch.tensor([[0, 1, 2], [1, 1, 4]]), 5)).to_bytes(),
}


def entries(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def with_manifest(change: Callable[[dict[str, Any]], Any], base: str = "sqrt8") -> bytes:
    parts = entries(FILES[base])
    manifest = json.loads(parts["manifest.json"])
    manifest = change(manifest) or manifest
    return packed({**parts, "manifest.json": json.dumps(manifest).encode()})


def refused(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        Seen.from_bytes(content)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def setter(*path: Any) -> Callable[[dict[str, Any]], None]:
    *way, last, value = path

    def change(manifest: dict[str, Any]) -> None:
        place: Any = manifest
        for step in way:
            place = place[step]
        place[last] = value

    return change


STREAM = ("streams", 0)

BAD = {
    "newer": (setter("version", 2), "version 2, and this mirada reads up to 1"),
    "no version": (lambda m: m.pop("version") and None, "no 'version'"),
    "another format": (setter("format", "zip"), "format is 'zip'"),
    "a list": (lambda m: [1], "must be an object"),
    "no axes": (lambda m: m.pop("axes") and None, "no 'axes'"),
    "no streams": (lambda m: m.pop("streams") and None, "no 'streams'"),
    "axis size": (setter("axes", "words", "size", 5), "4 tokens, and its size is 5"),
    "huge axis": (setter("axes", "words", "size", 10**12), "whole number"),
    "huge axis without names": (setter("axes", "x", {"kind": "plain", "size": 2**24}), "without names"),
    "tokens": (setter("axes", "words", "tokens", [1, 2, 3, 4]), "list of strings"),
    "span": (setter("axes", "words", "spans", [[0, 99], None, None, None]), "places in its text"),
    "span type": (setter("axes", "words", "spans", [[True, 1], None, None, None]), "places in its text"),
    "spans": (setter("axes", "words", "spans", [None]), "a span per token"),
    "grid": (setter("axes", "cells", "height", 3), "3 x 2 cells"),
    "huge grid": (setter("axes", "cells", "width", 2**24), "cells"),
    "picture": (setter("axes", "cells", "picture", "data/0.bin"), "no PNG"),
    "picture away": (setter("axes", "cells", "picture", "../x.png"), "not there"),
    "values": (setter("axes", "times", "values", ["x", 1]), "must be numbers"),
    "places": (setter("axes", "x", {"kind": "graph", "size": 1, "places": [-1]}), "must be whole numbers"),
    "kind": (setter(*STREAM, "kind", "cubist"), "kind must be one of"),
    "heads": (setter(*STREAM, "heads", 3), "bytes, and its stream says"),
    "no heads": (setter(*STREAM, "heads", 0), "whole number"),
    "true heads": (setter(*STREAM, "heads", True), "whole number"),
    "negative": (setter(*STREAM, "queries", -1), "whole number"),
    "queries": (setter(*STREAM, "queries", 5), "4 places, not 5"),
    "axis": (setter(*STREAM, "rows", "nobody"), "axis that is not there"),
    "encoding": (setter(*STREAM, "encoding", "jpeg"), "encoding must be"),
    "no data": (setter(*STREAM, "data", {}), "no 'weights'"),
    "blob away": (setter(*STREAM, "data", {"weights": "manifest.json"}), "not there"),
    "blob type": (setter(*STREAM, "data", {"weights": 7}), "a string"),
    "statistics": (setter(*STREAM, "statistics", [{}]), "statistics of 1 heads"),
    "sink": (setter(*STREAM, "statistics", 0, "sink", {"key": 4, "mass": 1.0}), "whole number"),
    "checks": (setter(*STREAM, "checks", "identical_rows", "no"), "true or false"),
    "vectors": (setter(*STREAM, "vectors", "dim", 3), "bytes, and its stream says"),
    "scale": (setter(*STREAM, "vectors", "scale", "big"), "a number"),
    "matrix": (setter("methods", "matrices", 0, "data", "data/0.bin"), "bytes, and its stream says"),
    "methods axis": (setter("methods", "rows", "times"), "bytes, and its stream says"),
    "methods": (setter("methods", []), "must be an object"),
    "relation": (setter("relations", 0, "accuracy", None), "a number"),
    "outputs": (setter("outputs", 0, "ranked", [["a"]]), "pairs"),
    "box": (setter("boxes", 0, "box", [1, 2, 3]), "4 numbers"),
    "changes": (setter("changes", [3]), "must be an object"),
    "made": (setter("made", {"task": ["x"]}), "a string"),
    "answer": (setter("answer", "text"), "must be an object"),
    "score": (setter("answer", "score", 10**400), "a number"),
    "doubled stream": (lambda m: m["streams"].append(m["streams"][0]), "two streams"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_manifest_is_named(case: str) -> None:
    change, message = BAD[case]
    refused(with_manifest(change), message)


BAD_PRODUCTS = {
    "mask": (setter(*STREAM, "data", "mask", {"kind": "spiral"}), "complete, causal, window or bits"),
    "window": (setter(*STREAM, "data", "mask", {"kind": "window", "left": -1, "right": 0}), "whole number"),
    "bits": (setter(*STREAM, "data", "mask", {"kind": "bits", "data": "data/0.bin"}), "bytes, and its stream says"),
    "dim": (setter(*STREAM, "data", "dim", 0), "whole number"),
    "scale": (setter(*STREAM, "data", "scale", None), "a number"),
    "too many weights": (setter(*STREAM, "heads", 2**16), "bytes, and its stream says"),
}


@pytest.mark.parametrize("case", BAD_PRODUCTS)
def test_a_bad_product_is_named(case: str) -> None:
    change, message = BAD_PRODUCTS[case]
    refused(with_manifest(change, "qk16"), message)


def test_keys_that_are_not_numbers_are_refused() -> None:
    parts = entries(FILES["qk16"])
    name = json.loads(parts["manifest.json"])["streams"][0]["data"]["k"]
    parts[name] = b"\xff\xff" * (len(parts[name]) // 2)
    refused(packed(parts), "not numbers")


def test_edges_outside_of_the_graph_are_refused() -> None:
    parts = entries(FILES["edges8"])
    name = json.loads(parts["manifest.json"])["streams"][0]["data"]["edges"]
    for wrong in (5, -1):
        refused(packed({**parts, name: struct.pack("<6i", 0, 1, wrong, 1, 1, 4)}), r"keys outside 0\.\.4")
        refused(packed({**parts, name: struct.pack("<6i", 0, 1, 2, 1, wrong, 4)}), r"queries outside 0\.\.4")


def test_too_many_streams() -> None:
    refused(with_manifest(lambda m: m.update(streams=[{}] * 4097)), "at most 4096")


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"{", "not JSON"), (b"\xff", "not JSON"), (b"[" * 100000, "not JSON"), (b'{"a": NaN}', "NaN"), (b"", "not JSON"),
     (b"1" * 5000, "not JSON|object")],
)  # fmt: skip
def test_a_manifest_that_is_no_json(text: bytes, message: str) -> None:
    refused(packed({**entries(FILES["sqrt8"]), "manifest.json": text}), message)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "data/../../x", "notes.txt", "data\\..\\x", "C:x"])
def test_a_name_that_leaves_the_archive(name: str) -> None:
    refused(packed({**entries(FILES["sqrt8"]), name: b"x"}), "only manifest.json and data")


def test_no_manifest() -> None:
    refused(packed({"data/0.bin": b""}), "no manifest.json")


def test_doubled_entries() -> None:
    file = BytesIO(FILES["sqrt8"])
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(file, "a") as archive:
        archive.writestr("manifest.json", b"{}")
    refused(file.getvalue(), "twice")


def directory(content: bytes) -> int:
    """Where the central directory begins."""
    return struct.unpack_from("<I", content, content.rindex(b"PK\x05\x06") + 16)[0]


def test_an_encrypted_entry() -> None:
    content = bytearray(FILES["sqrt8"])
    content[directory(content) + 8] |= 1
    refused(bytes(content), "encrypted")


def test_another_compression() -> None:
    refused(packed(entries(FILES["sqrt8"]), zipfile.ZIP_LZMA), "only stored and deflated")


def test_a_size_that_is_a_lie() -> None:
    content = bytearray(FILES["sqrt8"])
    place = directory(content) + 24
    (size,) = struct.unpack_from("<I", content, place)
    struct.pack_into("<I", content, place, size + 1)
    refused(bytes(content), "bytes, and its stream says|holds|damaged")


def test_a_bomb_is_refused_before_it_is_inflated() -> None:
    file = BytesIO(FILES["sqrt8"])
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("data/9.bin", "w") as entry:
        for _ in range(513):
            entry.write(bytes(2**20))
    refused(file.getvalue(), "at most 512 MB")


def test_a_manifest_that_is_a_bomb() -> None:
    refused(packed({**entries(FILES["sqrt8"]), "manifest.json": b" " * (65 * 2**20)}), "at most 64 MB")


def test_unknown_fields_and_missing_ones_do_no_harm() -> None:
    def bare(manifest: dict[str, Any]) -> dict[str, Any]:
        kept = {name: manifest[name] for name in ("format", "version", "axes", "streams")}
        for stream in kept["streams"]:
            for name in ("statistics", "checks", "vectors", "kernel", "score", "where", "position", "normalizer"):
                stream.pop(name)
            stream["color"] = "red"
        return kept | {"weather": "fine"}

    seen, whole = Seen.from_bytes(with_manifest(bare)), Seen.from_bytes(FILES["sqrt8"])
    assert torch.equal(seen[""].weights(), whole[""].weights())
    assert seen[""].statistics()[0].entropy == pytest.approx(whole[""].statistics()[0].entropy, abs=0.05)
    assert seen.labels.answer is None


@pytest.mark.parametrize("base", FILES)
def test_a_file_cut_anywhere(base: str, tmp_path: Path) -> None:
    content = FILES[base]
    for size in sorted({0, 1, 3, 4, 21, 22, *range(30, len(content), max(1, len(content) // 60)), len(content) - 1}):
        refused(content[:size], "no ZIP, or cut short")
    (tmp_path / "x.attn").write_bytes(content[:40])
    with pytest.raises(ValueError, match=r"x\.attn is no attention file"):
        Seen.load(tmp_path / "x.attn")


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        Seen.load(tmp_path / "nothing.attn")
    with pytest.raises(ValueError, match="cannot be read: Is a directory"):
        Seen.load(tmp_path)


def survives(content: bytes) -> None:
    """It is read, or refused in a line; nothing else may happen."""
    try:
        seen = Seen.from_bytes(content)
    except ValueError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    for name in seen.names:
        assert seen[name].weights().shape[0] == 1
    assert str(seen)


@settings(max_examples=150, deadline=None)
@given(base=st.sampled_from(sorted(FILES)), seed=st.integers(0, 2**32), changes=st.integers(1, 6))
def test_mutated_bytes_are_refused_or_read(base: str, seed: int, changes: int) -> None:
    dice, content = random.Random(seed), bytearray(FILES[base])
    for _ in range(changes):
        content[dice.randrange(len(content))] = dice.randrange(256)
    survives(bytes(content))


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5), st.just([]), st.just({}), st.just([[1, 2]]), st.just("data/0.bin"),
)  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(base=st.sampled_from(sorted(FILES)), seed=st.integers(0, 2**32), value=SCALARS)
def test_any_value_of_the_manifest_may_be_wrong(base: str, seed: int, value: Any) -> None:
    dice = random.Random(seed)

    def change(manifest: dict[str, Any]) -> None:
        place: Any = manifest
        while True:
            key = dice.choice(list(place) if isinstance(place, dict) else list(range(len(place))))
            inner = place[key]
            if not isinstance(inner, dict | list) or not inner or dice.random() < 0.15:
                place[key] = value
                return
            place = inner

    survives(with_manifest(change, base))


def test_a_blob_is_read_once() -> None:
    """Many streams that name one blob of zeros would unpack it for each of them."""

    def shared(manifest: dict[str, Any]) -> None:
        twin = json.loads(json.dumps(manifest["streams"][0])) | {"name": "twin"}
        manifest["streams"].append(twin)

    refused(with_manifest(shared), r"names data/\d+\.bin twice")
    for content in FILES.values():
        assert Seen.from_bytes(content).names  # ours never share one


def test_axes_without_names_are_bounded_together() -> None:
    def many(manifest: dict[str, Any]) -> None:
        manifest["axes"] |= {f"x{n}": {"kind": "plain", "size": 2**18} for n in range(5)}

    refused(with_manifest(many), "places without names, 1048580 with the axes before it: at most 1048576")

    def grids(manifest: dict[str, Any]) -> None:
        grid = {"kind": "grid", "size": 2**18, "height": 2**9, "width": 2**9, "before": []}
        manifest["axes"] |= {f"x{n}": grid for n in range(5)}

    refused(with_manifest(grids), "places without names")


@pytest.mark.parametrize("base", ["edges8", "sqrt8"])
def test_heads_times_places_are_bounded(base: str) -> None:
    def wide(manifest: dict[str, Any]) -> None:
        manifest["axes"]["huge"] = {"kind": "plain", "size": 2**19}
        manifest["axes"]["empty"] = {"kind": "plain", "size": 0}
        manifest["streams"][0] |= {"heads": 2**16, "queries": 2**19, "keys": 0, "rows": "huge", "columns": "empty"}

    refused(with_manifest(wide, base), r"65536 heads x 524288 places: at most 67108864")


@pytest.mark.parametrize(("queries", "keys"), [(0, 4), (4, 0)])
def test_a_layer_of_no_size_is_read_and_said_to_be_nothing_to_draw(queries: int, keys: int, tmp_path: Path) -> None:
    def empty(manifest: dict[str, Any]) -> None:
        manifest["axes"]["none"] = {"kind": "plain", "size": 0}
        stream = manifest["streams"][0]
        stream |= {"queries": queries, "keys": keys, "rows": "words" if queries else "none"}
        stream |= {"columns": "cells" if keys else "none", "vectors": None, "statistics": []}

    changed = entries(with_manifest(empty))
    name = json.loads(changed["manifest.json"])["streams"][0]["data"]["weights"]
    seen = Seen.from_bytes(packed(changed | {name: b""}))
    message = f"nothing to draw: the layer has {queries} queries and {keys} keys"
    with pytest.raises(ValueError, match=message):
        seen.text()
    with pytest.raises(ValueError, match=message):
        seen.plot(tmp_path / "x.png")
