"""Gold links between words of two files, as `benchmarks/relations.py` reads them."""

from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from mirada.data.record import Found

read_links = run_path(str(Path(__file__).parents[1] / "benchmarks" / "word_links.py"))["read_links"]


def read(folder: Path, links: str, target: str = "la casa\nsí\n") -> Found[Any]:
    for name, text in (("en", "the house\nyes\n"), ("es", target), ("key", links)):
        (folder / name).write_text(text, encoding="utf-8")
    return read_links(folder / "en", folder / "es", folder / "key")


def test_sure_and_possible(tmp_path: Path) -> None:
    found = read(tmp_path, "1 1 1\n1 2 2 S\n1 1 2 P\n\n2 1 1\n")
    first = found.records[0].value
    assert (first.source, first.target) == (("the", "house"), ("la", "casa"))
    assert first.sure == {(0, 0), (1, 1)}
    assert first.possible == {(0, 0), (1, 1), (0, 1)}
    assert found.records[1].value.sure == {(0, 0)}
    assert not found.problems


@pytest.mark.parametrize(
    ("line", "message"),
    [("1 1", "expected `sentence"), ("1 1 1 Q", "expected `sentence"), ("1 x 1", "expected `sentence"),
     ("3 1 1", "there are 2 sentences"), ("1 3 1", "source of sentence 1 has 2 words"),
     ("2 1 2", "target of sentence 2 has 1 words"), ("0 1 1", "there are 2 sentences")],
)  # fmt: skip
def test_a_bad_link_is_named(tmp_path: Path, line: str, message: str) -> None:
    found = read(tmp_path, f"1 1 1\n{line}\n")
    assert message in str(found.problems[0])
    assert str(found.problems[0]).startswith(f"{tmp_path / 'key'}:2: ")


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    found = read(tmp_path, "", "la casa\n")
    assert not found.records
    assert "They belong together" in str(found.problems[0])
