"""How records are divided: by the user's folder, by shares, or by holding some out."""

from pathlib import Path

import pytest

from mirada.data.options import DataOptions, TableOptions
from mirada.runs.sources import Source, Splits, from_tables, parts_held_out, parts_of
from tests.runs.small import write_rows

COLUMNS = ("text", "label")


def rows(count: int, word: str = "text") -> list[tuple[str, str]]:
    return [(f"{word} {number}", "ab"[number % 2]) for number in range(count)]


def sizes(splits: Splits) -> tuple[int, int, int]:
    return len(splits.train), len(splits.valid), len(splits.test)


def test_shares_of_one_file(tmp_path: Path) -> None:
    data = str(write_rows(tmp_path / "a.tsv", rows(200)))
    splits = from_tables(Source(data), COLUMNS, TableOptions(split="0.8,0.15,0.05"))
    assert sizes(splits) == (160, 30, 10)
    every = [record.value for part in (splits.train, splits.valid, splits.test) for record in part]
    assert sorted(every) == sorted(rows(200))
    assert sizes(from_tables(Source(data), COLUMNS, TableOptions(split="0.9,0.1"))) == (180, 20, 0)
    again = from_tables(Source(data), COLUMNS, TableOptions(split="0.8,0.15,0.05"))
    assert [r.value for r in again.test] == [r.value for r in splits.test]


def test_equal_texts_stay_together(tmp_path: Path) -> None:
    data = str(write_rows(tmp_path / "a.tsv", [*rows(50), *[(text, "c") for text, _ in rows(50)]]))
    splits = from_tables(Source(data), COLUMNS, TableOptions(split="0.6,0.2,0.2"))
    texts = [{record.value[0] for record in part} for part in (splits.train, splits.valid, splits.test)]
    assert not texts[0] & texts[1]
    assert not texts[0] & texts[2]
    assert not texts[1] & texts[2]


@pytest.mark.parametrize("split", ["0.8", "0.8,0.1", "0.8,0.1,0.2", "a,b,c", "1.2,-0.1,-0.1", "0.5,0.2,0.2,0.1"])
def test_shares_that_are_none(split: str) -> None:
    with pytest.raises(ValueError, match=r"split must be shares of train, valid and test that add up to 1.*got"):
        DataOptions(split=split)


def test_a_folder_that_is_divided_already(tmp_path: Path) -> None:
    for name, count in (("train.tsv", 40), ("dev.tsv", 7), ("test.tsv.txt", 5), ("readme.md", 1)):
        write_rows(tmp_path / name, rows(count, name))
    assert parts_of(str(tmp_path)) == {
        "train": str(tmp_path / "train.tsv"), "valid": str(tmp_path / "dev.tsv"), "test": str(tmp_path / "test.tsv.txt"),
    }  # fmt: skip
    splits = from_tables(Source(str(tmp_path)), COLUMNS, TableOptions())
    assert sizes(splits) == (40, 7, 5)
    assert splits.notes[0] == f"{tmp_path}: train is train.tsv, valid is dev.tsv, test is test.tsv.txt"
    measured = from_tables(Source(str(tmp_path), measured=True), COLUMNS, TableOptions())
    assert sizes(measured) == (0, 0, 5)
    with pytest.raises(ValueError, match="split= divides one file"):
        from_tables(Source(str(tmp_path)), COLUMNS, TableOptions(split="0.8,0.1,0.1"))
    (tmp_path / "dev.tsv").unlink()
    assert sizes(from_tables(Source(str(tmp_path)), COLUMNS, TableOptions())) == (38, 2, 5)
    write_rows(tmp_path / "train.csv", rows(3))
    with pytest.raises(ValueError, match=r"train.csv and train.tsv are both train"):
        parts_of(str(tmp_path))


def test_a_folder_with_one_part_is_not_divided(tmp_path: Path) -> None:
    write_rows(tmp_path / "train.tsv", rows(3))
    assert parts_of(str(tmp_path)) == {}
    assert parts_of(str(tmp_path / "train.tsv")) == {}
    assert parts_of([("a", "b")]) == {}


def test_what_we_hold_out_and_what_a_person_has_divided(tmp_path: Path) -> None:
    write_rows(tmp_path / "train.tsv", rows(9))
    alone = str(tmp_path / "train.tsv")
    assert parts_held_out(Source(alone)) == ("valid", "test")
    assert parts_held_out(Source(alone, valid="v.tsv")) == parts_held_out(Source(alone, measured=True)) == ()
    assert parts_held_out(Source("")) == ()
    write_rows(tmp_path / "test.tsv", rows(3))
    assert parts_held_out(Source(str(tmp_path))) == ("valid",)
    write_rows(tmp_path / "dev.tsv", rows(3))
    assert parts_held_out(Source(str(tmp_path))) == ()
