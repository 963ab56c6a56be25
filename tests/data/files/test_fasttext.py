"""Lines of fastText."""

from pathlib import Path

import pytest

from mirada.data.files.cells import read_cells
from mirada.data.files.records import read_records
from mirada.data.options import TableOptions

CLASSES = ("text", "label")
ROWS = [("a fine film", "pos"), ("a dull film, really", "neg"), ("not bad", "pos"), ("I left early", "very-bad")]


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.train", "a"])
@pytest.mark.parametrize("form", ["__label__{label} {text}", "__label__{label}\t{text}", "{text} __label__{label}"])
def test_lines_are_known_by_their_labels(tmp_path: Path, name: str, form: str) -> None:
    path = tmp_path / name
    path.write_text("".join(form.format(text=text, label=label) + "\n" for text, label in ROWS))
    found = read_records(path, CLASSES)
    assert [record.value for record in found.records] == ROWS
    assert found.records[1].where == f"{path}:2"
    assert found.notes == (f"{path}: fastText lines: the label is the word that begins with __label__",)
    cells = read_cells(str(path), ("text",), TableOptions())
    assert (cells.columns, cells.input, [row[1] for row in cells.rows]) == (CLASSES, 0, ROWS)


def test_lines_without_one_label_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    lines = [
        *(f"__label__a {n}" for n in range(20)),
        "__label__a __label__b two",
        "no label",
        "__label__ x",
        "__label__a",
    ]
    path.write_text("\n".join([*lines, "", "__label__b z"]))
    found = read_records(path, CLASSES)
    assert [(problem.where.rsplit(":", 1)[1], problem.what) for problem in found.problems] == [
        ("21", "2 labels (a, b): a text has one here. Keep one of them."),
        ("22", "no __label__ in the line. Each line is __label__NAME text."),
        ("23", "no text for label. Fill it in, or take the record out."),
        ("24", "no text for text. Fill it in, or take the record out."),
        ("25", "empty line. Take it out."),
    ]
    assert len(found.records) == 21


def test_a_table_may_hold_such_words(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("".join(f"__label__{label},{text.replace(',', '')}\n" for text, label in ROWS))
    assert read_records(path, CLASSES).records[0].value == ("a fine film", "__label__pos")
    path.write_text("__label__a b\tc d\n")
    assert read_records(path, CLASSES, TableOptions(separator="tab")).records[0].value == ("__label__a b", "c d")
    assert read_records(path, ("source", "target")).records[0].value == ("__label__a b", "c d")
