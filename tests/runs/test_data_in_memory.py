"""`mirada.train` with data that a program has already."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import mirada
from mirada.data.files.memory import rows_in_memory
from tests.runs.small import pairs, reviews, text, write_rows

SETTINGS = {"width": 32, "hidden": 64, "depth": 1, "heads": 2, "steps": 6, "validate": 3, "warmup": 2}


class Frame:
    """What we need of a data frame: columns, and one by its name."""

    def __init__(self, **columns: list) -> None:
        self.columns, self.data = list(columns), columns

    def __getitem__(self, name: str) -> list:
        return self.data[name]


def train(task: str, data: object, folder: Path, **more) -> mirada.runs.run.Run:
    return mirada.train(task, data, out=folder, **(SETTINGS | more))


def test_rows_files_dicts_and_frames_train_the_same_model(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    texts, labels = map(list, zip(*reviews(), strict=True))
    given = {
        "file": Path(write_rows(tmp_path / "reviews.tsv", reviews())), "rows": reviews(),
        "lists": [list(row) for row in reviews()], "dict": {"label": labels, "text": texts},
        "frame": Frame(text=texts, label=labels),
    }  # fmt: skip
    runs = {name: train("classify", data, tmp_path / name) for name, data in given.items()}
    weights = {(run.folder / "model.safetensors").read_bytes() for run in runs.values()}
    assert len(weights) == 1
    assert len({run.settings.fingerprint for run in runs.values()}) == 1
    shown = capsys.readouterr()
    assert shown.out.count("on 2 records for validation: accuracy") == len(given)
    assert "40 records" not in shown.out
    assert mirada.load(runs["rows"].folder)("a good film").text in ("good", "bad")


def test_columns_may_have_other_names(tmp_path: Path) -> None:
    texts, labels = map(list, zip(*reviews(), strict=True))
    run = train("classify", Frame(review=texts, stars=labels), tmp_path / "run", columns="review,stars")
    assert run.known.labels == ("bad", "good")


def test_validation_data_in_memory(tmp_path: Path) -> None:
    run = train("translate", pairs()[:80], tmp_path / "run", valid=pairs()[80:])
    assert (len(run.splits().train), len(run.splits().valid)) == (80, 10)


def test_such_a_run_needs_its_data_again(tmp_path: Path) -> None:
    folder = train("translate", pairs(), tmp_path / "run").folder
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["place"]["memory"] is True
    run = mirada.load(folder)
    with pytest.raises(ValueError, match="trained on data in memory, which is gone: give the data again"):
        run.measure()
    assert set(run.measure(pairs()[:9])) == {"bleu", "chrf"}
    with pytest.raises(ValueError, match="give the data again"):
        mirada.train("translate", out=folder, resume=True)
    with pytest.raises(ValueError, match="the data has changed"):
        mirada.train("translate", pairs()[1:], out=folder, resume=True)
    before = (folder / "model.safetensors").read_bytes()
    mirada.train("translate", pairs(), out=folder, resume=True)
    assert (folder / "model.safetensors").read_bytes() == before


def test_texts_in_memory(tmp_path: Path) -> None:
    run = train("write", [text(), text()[::-1]], tmp_path / "run", length=16)
    assert len(run.splits().valid) == 2
    pair = train("fill", [("We buy a car.", "It is red."), ("I see.", "They see.")] * 9, tmp_path / "pairs", bad="skip")
    assert pair("We buy a ___.").text


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([("good film", "pos"), ("bad film",)], r"row 2: expected 2 values \(text, label\), found 1"),
        ([("good film", None), ("bad film", "neg")], "row 1: label is null, not text"),
        ([("", "pos"), ("bad film", "neg")], "row 1: no text for text"),
        ({"text": ["a"], "labl": ["b"]}, "unknown column 'label'; known: labl, text. Did you mean 'labl'"),
        ({"text": ["a"], "stars": ["b"], "tag": ["c"]}, "label may be stars or tag. Say which .* columns=text,stars"),
        ({"x": ["a"], "y": ["b"]}, "unknown column 'text'; known: x, y. Say which to take: columns=TEXT,LABEL"),
        ({"text": ["a", "b"], "label": ["c"]}, "columns must be equally long: got 2, 1"),
        (7, "must be rows of .text, label., a dict or a data frame: got int"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, data: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mirada.train("classify", data, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_numbers_become_the_text_that_a_file_would_have() -> None:
    assert rows_in_memory([("text", 5), ("more", 0.5)], ("text", "label")).records[1].value == ("more", "0.5")


def test_a_setting_may_be_a_text_or_a_value_and_must_be_known(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown key 'stesp'.*Did you mean 'steps'"):
        mirada.train("classify", reviews(), out=tmp_path / "run", stesp=3)
    with pytest.raises(ValueError, match=r"steps must be of type int: got 2\.5"):
        mirada.train("classify", reviews(), out=tmp_path / "run", steps=2.5)
    with pytest.raises(ValueError, match="unknown task 'clasify'"):
        mirada.train("clasify", reviews())
    run = mirada.train("classify", reviews(), out=tmp_path / "run", steps="2", **{"model.width": "24", "heads": 3})
    assert (run.model.config.width, run.model.config.heads) == (24, 3)


def test_what_the_command_does_python_does(tmp_path: Path) -> None:
    first = train("classify", reviews(), tmp_path / "first", seed=4)
    again = train("classify", reviews(), tmp_path / "again", start=first.folder, model="transformer", minutes=0)
    assert (first.settings.recipe.seed, again.settings.start) == (4, str(first.folder))


@pytest.mark.parametrize(
    "data",
    [
        {"id": [1, 2], "Review": ["good film", "bad film"], "stars": [5, 1]},
        [{"id": 1, "Review": "good film", "stars": 5}, {"id": 2, "Review": "bad film", "stars": 1}],
    ],
)
def test_usual_names_serve_and_are_reported(data: object) -> None:
    found = rows_in_memory(data, ("text", "label"))
    assert [record.value for record in found.records] == [("good film", "5"), ("bad film", "1")]
    assert found.notes == ("text is Review, label is stars",)
    assert rows_in_memory(data, ("text", "label"), ("Review", "id")).records[1].value == ("bad film", "2")


def test_a_row_without_a_key_is_named() -> None:
    found = rows_in_memory([{"text": "a", "label": "b"}, {"text": "c"}], ("text", "label"))
    assert [str(problem) for problem in found.problems] == ["row 2: label is null, not text."]


def test_arrays_iterators_of_objects_and_columns_with_numbers_as_names() -> None:
    rows = [("good film", "5"), ("bad film", "1")]
    objects = [{"text": text, "label": label} for text, label in rows]
    for data in (np.array(rows), iter(objects), {0: ["good film", "bad film"], 1: [5, 1]}):
        names = ("0", "1") if isinstance(data, dict) else ()
        assert [record.value for record in rows_in_memory(data, ("text", "label"), names).records] == rows


def test_a_name_for_texts_over_numbers_is_not_taken() -> None:
    columns = {"rating": [5, 1], "verified_reviews": ["good film", "bad film"], "feedback": [1, 0]}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for data in (columns, Frame(**columns), rows):
        found = rows_in_memory(data, ("text", "label"))
        assert [record.value for record in found.records] == [("good film", "5"), ("bad film", "1")]


def test_a_number_that_is_none_is_a_missing_cell() -> None:
    found = rows_in_memory({"text": ["good film", math.nan], "label": [5, 1]}, ("text", "label"))
    assert [str(problem) for problem in found.problems] == ["row 2: text is null, not text."]


def test_what_can_be_read_only_once_can_be_measured_later(tmp_path: Path) -> None:
    run = train("classify", zip(*zip(*reviews(), strict=True), strict=True), tmp_path / "run")
    assert repr(run) == f"Run('{tmp_path / 'run'}', task='classify', model='transformer')", "a notebook shows it"
    assert len(run.splits().train) + len(run.splits().valid) == len(reviews())
