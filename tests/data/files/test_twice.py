"""A key or a column that is there twice is named: otherwise one of its values would be lost without a word."""

import json
from pathlib import Path
from typing import Any

import pytest

from mirada.data.files.memory import rows_in_memory
from mirada.data.files.records import read_records
from mirada.data.options import TableOptions

CLASSES = ("text", "label")
GOOD = '{"text": "a fine film", "label": "pos"}'
TWICE = '{"text": "a dull film", "label": "neg", "text": "a fine film"}'


def read(path: Path, content: str, **options: str) -> Any:
    path.write_text(content, encoding="utf-8")
    return read_records(path, CLASSES, TableOptions(**options))


@pytest.mark.parametrize("lines", [(GOOD, TWICE, GOOD), (TWICE, GOOD, GOOD)])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_key_twice_in_a_line(tmp_path: Path, lines: tuple[str, ...], name: str) -> None:
    found = read(tmp_path / name, "\n".join(lines))
    where = f"{tmp_path / name}:{lines.index(TWICE) + 1}"
    assert [str(each) for each in found.problems] == [f"{where}: the key 'text' is there twice. Keep one of them."]
    assert [record.value for record in found.records] == [("a fine film", "pos")] * 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"[\n{GOOD},\n{TWICE}\n]", 3),
        (f'{{"data": [\n{GOOD},\n{GOOD},\n{TWICE}]}}', 4),
        (f'[{GOOD},\n{{"a": {{"b": 1, "c": {{}},\n"b": 2}}, "text": "x"}}]', 3),
        ('[{"text": "{\\"text\\": 1}", "label": "a"},\n{"text": "{", "label": "b",\n\n"te\\u0078t": ""}]', 4),
    ],
)
def test_a_key_twice_in_a_list(tmp_path: Path, text: str, line: int) -> None:
    with pytest.raises(ValueError, match=rf"a.json:{line}: the key '\w+' is there twice. Keep one of them.$"):
        read(tmp_path / "a.json", text)


def test_columns_and_rows_as_pandas_writes_them(tmp_path: Path) -> None:
    rows = [["a fine film", "pos"], ["a dull film", "neg"], ["not bad", "pos"]]
    document = {"columns": ["text", "label"], "index": [0, 1, 2], "data": [*rows, ["short"]]}
    for indent in (None, 1):
        found = read(tmp_path / "a.json", json.dumps(document, indent=indent))
        assert [record.value for record in found.records] == [tuple(row) for row in rows]
        assert [problem.where for problem in found.problems] == [f"{tmp_path / 'a.json'}:4"]
    found = read(tmp_path / "a.json", json.dumps({**document, "data": rows[:2]}))  # as many rows as columns
    assert [record.value for record in found.records] == [tuple(row) for row in rows[:2]]
    with pytest.raises(ValueError, match="a column is there twice"):
        read(tmp_path / "a.json", json.dumps({**document, "columns": ["text", "text"]}))


def test_a_column_twice_in_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    def written(*names: str) -> Path:
        arrays = [pyarrow.array([f"{name} {place} {row}" for row in range(4)]) for place, name in enumerate(names)]
        parquet.write_table(pyarrow.Table.from_arrays(arrays, names=list(names)), tmp_path / "a.parquet")
        return tmp_path / "a.parquet"

    with pytest.raises(ValueError, match=r"a.parquet: several columns are named 'text'. Rename all but one."):
        read_records(written("text", "label", "text"), CLASSES, TableOptions())
    with pytest.raises(ValueError, match="several columns are named 'label'"):
        read_records(written("text", "label", "label"), CLASSES, TableOptions(columns="text,label"))
    assert len(read_records(written("text", "label", "other"), CLASSES, TableOptions()).records) == 4


def test_a_column_twice_in_memory() -> None:
    class Frame:
        """As much of a data frame as is read."""

        columns = ("text", "label", "text")

        def __getitem__(self, name: str) -> list[str]:
            return [name, name]

    with pytest.raises(ValueError, match="several columns of the data are named 'text'"):
        rows_in_memory(Frame(), CLASSES)
