"""Attention files that version 0.1 wrote are still read, saved again and drawn.

`written_by_0_1` has a translation (with all methods beside its weights), a picture and a graph, and in `expected.json` what
version 0.1 read in them.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor
from torch.testing import assert_close

import mirada as package
from mirada import Seen
from tests.cli.conftest import Command, mirada  # noqa: F401 (a fixture)

BEFORE = Path(__file__).with_name("written_by_0_1")
EXPECTED: dict[str, dict[str, Any]] = json.loads((BEFORE / "expected.json").read_text(encoding="utf-8"))


def assert_begins(found: Tensor, wanted: list[float]) -> None:
    """The first numbers of a tensor are those."""
    assert_close(found.reshape(-1)[: len(wanted)].tolist(), wanted, rtol=1e-5, atol=1e-6)


def assert_as_it_was(seen: Seen, wanted: dict[str, Any]) -> None:
    """Layers, weights, values, labels and methods are those that version 0.1 found in the file."""
    assert seen.names == list(wanted["layers"])
    for name, layer in wanted["layers"].items():
        assert seen[name].kind == layer["kind"]
        assert list(seen[name].weights().shape) == layer["shape"]
        assert_begins(seen[name].weights(head=0), layer["first"])
        assert_begins(seen[name].values(), layer["values"])
    axes = {name: {"kind": axis.kind, "tokens": list(axis.tokens)} for name, axis in seen.labels.axes.items()}
    assert axes == wanted["axes"]
    assert seen.labels.answer is not None
    text, score = seen.labels.answer
    assert text == wanted["answer"][0]
    assert_close(score, wanted["answer"][1], rtol=1e-5, atol=0.0)
    assert [step.text for step in seen.labels.outputs] == wanted["outputs"]
    matrices = seen.methods.matrices if seen.methods else {}
    assert list(matrices) == list(wanted["methods"])
    for name, numbers in wanted["methods"].items():
        assert_begins(matrices[name], numbers)


@pytest.mark.parametrize("name", EXPECTED)
def test_it_is_read_as_before_and_saved_again(name: str, tmp_path: Path) -> None:
    seen = package.Seen.load(BEFORE / f"{name}.attn")
    assert_as_it_was(seen, EXPECTED[name])
    seen.save(tmp_path / "again.attn")
    assert_as_it_was(package.Seen.load(tmp_path / "again.attn"), EXPECTED[name])


@pytest.mark.parametrize("name", EXPECTED)
def test_it_is_drawn(name: str, mirada: Command, tmp_path: Path) -> None:  # noqa: F811
    told = mirada("look", BEFORE / f"{name}.attn")
    assert told.code == 0, told.err
    assert list(EXPECTED[name]["layers"])[-1] in told.out
    for out in ("look.html", "look.png"):
        assert mirada("look", BEFORE / f"{name}.attn", "-o", tmp_path / out).code == 0
    assert (tmp_path / "look.html").read_bytes()[:15].lower() == b"<!doctype html>"
    assert (tmp_path / "look.png").read_bytes()[:4] == b"\x89PNG"
