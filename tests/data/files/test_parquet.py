"""Parquet: every kind of value, and files that would fill the memory."""

import datetime
import sys
from pathlib import Path

import pytest

from mirada.data.files import parquet as reading
from mirada.data.files.cells import read_cells
from mirada.data.files.parquet import parquet_objects, rows_at_a_time, text_columns
from mirada.data.files.records import read_records
from mirada.data.options import TableOptions
from tests.data.test_endless import in_a_process

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

WORDS = ["good", "bad", None, "ñandú", ""]


def written(path: Path, table: object, **how: object) -> str:
    parquet.write_table(table, path, **how)
    return str(path)


def values(path: str, *wanted: str) -> list:
    found = list(parquet_objects(path, wanted))
    assert [number for number, _, _ in found] == list(range(1, len(found) + 1))
    return [fault or value for _, value, fault in found]


@pytest.mark.parametrize("rows", [3, 700, 5000])
@pytest.mark.parametrize("how", [{}, {"use_dictionary": False}, {"row_group_size": 333}, {"compression": "none"},
                                 {"dictionary_pagesize_limit": 50}, {"store_schema": False}], ids=str)  # fmt: skip
def test_rows_are_as_pyarrow_has_them(tmp_path: Path, rows: int, how: dict) -> None:
    """Columns of texts, numbers, times, lists and objects, with and without dictionaries."""
    words = [WORDS[place * 7 % 5] for place in range(rows)]
    table = arrow.table(
        {
            "text": [f"row {place} " * (place % 3) for place in range(rows)],
            "label": words,
            "kinds": arrow.array(words).dictionary_encode(),
            "long": arrow.array(words, arrow.large_string()),
            "bytes": arrow.array([word and word.encode() for word in words], arrow.binary()),
            "number": list(range(rows)),
            "real": [place / 3 for place in range(rows)],
            "when": [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=place) for place in range(rows)],
            "list": [[word] * (place % 3) for place, word in enumerate(words)],
            "pair": [None if place % 5 == 1 else {"en": word, "n": place} for place, word in enumerate(words)],
            "deep": [{"a": {"b": word, "c": [word]}} for word in words],
        }
    )
    path = written(tmp_path / "x.parquet", table, **how)
    expected = parquet.read_table(path).to_pylist()
    assert values(path) == expected
    assert values(path, "label", "pair.en") == [{name: row[name] for name in ("label", "pair")} for row in expected]


def test_rows_with_the_same_text_share_it(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", arrow.table({"text": ["a long text " * 200] * 3000, "label": ["x"] * 3000}))
    found = read_records(path, ("text", "label")).records
    assert len({id(record.value[0]) for record in found}) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured on Linux")
@pytest.mark.parametrize("how", [{}, {"use_dictionary": False}], ids=["dictionary", "plain"])
def test_a_small_file_cannot_fill_the_memory(tmp_path: Path, how: dict) -> None:
    """A text of 8 MB in 160 rows: 1.3 GB, in a file of some kB."""
    text = "word " * (8 << 18)
    texts = arrow.DictionaryArray.from_arrays(arrow.array([0] * 160, arrow.int32()), arrow.array([text[: 8 << 20]]))
    table = arrow.table({"text": texts, "label": ["x"] * 160})
    path = tmp_path / "x.parquet"
    with parquet.ParquetWriter(path, table.schema, compression="zstd", **how) as writer:
        for start in range(0, 160, 20):
            writer.write_table(table.slice(start, 20))
    assert path.stat().st_size < 1 << 20

    def read() -> None:
        found = read_records(str(path), ("text", "label"))
        raise ValueError(f"{len(found.records)} records")

    told, memory, seconds = in_a_process(read)
    assert told == "ValueError: 160 records"
    assert memory < 700, f"{memory} MB in {seconds:.1f} s"


def test_a_value_that_is_too_long_is_one_rows_fault(tmp_path: Path) -> None:
    rows = {"text": ["a", "x" * (17 << 20), "b", "x" * (17 << 20)], "label": ["1", "2", "3", "4"]}
    found = read_records(written(tmp_path / "x.parquet", arrow.table(rows)), ("text", "label"))
    assert [record.value for record in found.records] == [("a", "1"), ("b", "3")]
    assert [problem.what for problem in found.problems] == ["text is longer than 16 MB."] * 2


def test_values_that_python_cannot_hold_are_faults_of_their_rows(tmp_path: Path) -> None:
    odd = arrow.Array.from_buffers(
        arrow.string(), 3, [None, arrow.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0"), arrow.py_buffer(b"a\xffb")]
    )
    far = arrow.array([0, 2**62, 1], arrow.timestamp("s"))
    zone = arrow.array([1, 2, None], arrow.timestamp("s", tz="Nowhere/Land"))
    path = written(tmp_path / "x.parquet", arrow.table({"text": odd, "n": [1, 2, 3]}))
    assert [isinstance(value, dict) for value in values(path)] == [True, False, True]
    path = written(
        tmp_path / "y.parquet", arrow.table({"when": far.cast(arrow.timestamp("us"), safe=False), "n": [1, 2, 3]})
    )
    assert len(values(path)) == 3
    path = written(tmp_path / "z.parquet", arrow.table({"when": zone, "n": [1, 2, 3]}))
    assert [str(value)[:23] for value in values(path)][:2] == ["a value cannot be read:"] * 2
    assert [value["n"] for value in values(path, "n")] == [1, 2, 3]


def test_few_large_rows_are_read_at_a_time(tmp_path: Path) -> None:
    big = written(
        tmp_path / "x.parquet",
        arrow.table({"text": [f"{place}" * 200_000 for place in range(1000, 1100)], "n": [1] * 100}),
    )
    group = parquet.ParquetFile(big).metadata.row_group(0)
    assert 50 < rows_at_a_time(group, ["text"], 0, big) < 100
    assert rows_at_a_time(group, ["n"], 0, big) == reading.ROWS
    assert rows_at_a_time(group, ["n"], 32 << 20, big) == 2


def test_a_row_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "x.parquet", arrow.table({"text": ["a" * 5000, "b" * 5000]}))
    monkeypatch.setattr(reading, "ENDLESS", 1000)
    with pytest.raises(ValueError, match=r"x\.parquet: a row has"):
        values(path)


def test_which_columns_have_texts(tmp_path: Path) -> None:
    table = arrow.table(
        {"a": ["x"], "n": [1], "l": [["x"]], "s": [{"t": "x", "u": 1}], "d": arrow.array([b"x"], arrow.binary(1))}
    )
    assert text_columns(parquet.ParquetFile(written(tmp_path / "x.parquet", table)).schema, None) == ["a", "s.t"]


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file_is_told_or_read(tmp_path: Path, seed: int) -> None:
    import random

    dice = random.Random(seed)
    table = arrow.table({"text": [f"a text {place % 40}" for place in range(500)], "label": ["a", "b"] * 250})
    path = tmp_path / "x.parquet"
    written(path, table, compression=dice.choice(["none", "snappy", "zstd"]))
    content = bytearray(path.read_bytes())
    for _ in range(dice.choice([1, 3, 20])):
        content[dice.randrange(4, len(content))] = dice.randrange(256)
    path.write_bytes(content)
    told, _, _ = in_a_process(lambda: read_records(str(path), ("text", "label")))
    assert told == "no error" or told.startswith("ValueError: "), told


def test_a_part_of_another_name_than_its_column_is_reported(tmp_path: Path) -> None:
    """The name of a column is in the schema and again with its numbers: a bit may flip in one of them."""
    path = tmp_path / "x.parquet"
    written(path, arrow.table({"film": ["a text"] * 9, "label": ["a"] * 9}), store_schema=False)
    path.write_bytes(b"fILm".join(path.read_bytes().rsplit(b"film", 1)))
    with pytest.raises(ValueError, match=r"x\.parquet: .* a damaged one: its rows have no column 'film'"):
        read_records(str(path), ("film", "label"))


def test_inputs_to_ask_with_are_read_too(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", arrow.table({"text": ["a", "b"], "id": [1, 2]}))
    found = read_cells(path, ("text",), TableOptions())
    assert found.columns == ("text", "id")
