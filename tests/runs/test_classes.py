"""Which class was taken for which: numbers by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirada.data.record import Record
from mirada.runs.class_report import class_sections
from mirada.runs.classes import (
    alike_notes,
    class_details,
    class_lines,
    class_metrics,
    class_sentence,
    every_class_learned,
)
from mirada.runs.sources import Splits
from tests.runs.small import read, request

GIVEN, WANTED, LABELS = ["a", "a", "b", "b", "c"], ["a", "b", "b", "c", "c"], ["a", "b", "c", "d"]


def test_a_row_is_what_it_is_and_a_column_what_it_was_taken_for() -> None:
    found = class_details(GIVEN, WANTED, LABELS)
    assert found["labels"] == LABELS
    assert found["confusion"] == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]]
    assert found["per_class"]["a"] == {"precision": 50.0, "recall": 100.0, "f1": 200 / 3, "records": 1}
    assert found["per_class"]["c"] == {"precision": 100.0, "recall": 50.0, "f1": 200 / 3, "records": 2}
    assert found["per_class"]["d"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "records": 0}
    assert class_metrics(GIVEN, WANTED)["accuracy"] == 60.0


def test_the_lines_name_every_class_and_which_was_taken_for_which() -> None:
    lines = class_lines(class_details([*GIVEN, "b"], [*WANTED, "c"], LABELS))
    assert [line.split()[0] for line in lines] == ["class", "a", "b", "c", "d", "is", "a", "b", "c", "d"]
    assert [line.split() for line in lines[-5:]] == [
        ["is", "\\", "taken", "for", *LABELS], ["a", "1", "0", "0", "0"], ["b", "1", "1", "0", "0"],
        ["c", "0", "2", "1", "0"], ["d", "0", "0", "0", "0"],
    ]  # fmt: skip


def test_where_the_table_is_too_wide_the_worst_confusions_are_named() -> None:
    long = {label: label * 30 for label in LABELS}
    given, wanted = ([long[label] for label in labels] for labels in ([*GIVEN, "b"], [*WANTED, "c"]))
    lines = class_lines(class_details(given, wanted, list(long.values())))
    assert lines[-2:] == [f"{long['c']} taken for {long['b']}: 2", f"{long['b']} taken for {long['a']}: 1"]


def test_the_report_has_both_tables() -> None:
    (section,) = class_sections(GIVEN, WANTED, LABELS)
    matrix, table = section.items
    drawn = matrix.draw()
    assert "c taken for b: 1 of 2" in drawn
    assert drawn.count('class="right') == 4
    assert table.rows[1] == ("b", 2, 50.0, 50.0, 50.0)


def test_a_label_that_only_held_out_records_have_is_learned_from() -> None:
    train, valid = [Record("a:1", ("x", "yes"))], [Record("a:2", ("y", "yes")), Record("a:3", ("z", "rare"))]
    splits = every_class_learned(Splits(train, valid), lambda fields: fields[1], ("valid", "test"))
    assert [record.where for record in splits.train] == ["a:1", "a:3"]
    assert [record.where for record in splits.valid] == ["a:2"]
    whole = Splits(train, valid[:1])
    assert every_class_learned(whole, lambda fields: fields[1], ("valid", "test")) is whole


def test_the_test_part_has_the_remainder_and_other_divisions_stay() -> None:
    train, valid = [Record("a:1", "yes")], [Record("a:2", "seldom"), Record("a:3", "yes")]
    test = [Record("a:4", "seldom"), Record("a:5", "rare"), Record("a:6", "yes")]
    splits = every_class_learned(Splits(train, valid, test), str, ("valid", "test"))
    parts = [[record.where for record in part] for part in (splits.train, splits.valid, splits.test)]
    assert parts == [["a:1", "a:2", "a:5"], ["a:3"], ["a:4", "a:6"]]
    given = every_class_learned(Splits(train, valid, test), str, ("valid",))
    assert [record.where for record in given.test] == ["a:4", "a:5", "a:6"]
    untouched = Splits(train, valid, test)
    assert every_class_learned(untouched, str, ()) is untouched


def test_labels_that_look_alike_are_noted() -> None:
    labels = ["neg", "Neg", "neg\u200b", "1", "1.0", "pos", "\ufb01n", "fin", "2", "caf\u00e9", "cafe\u0301"]
    notes = alike_notes(labels)
    assert len(notes) == 4
    assert "'Neg', 'neg', 'neg\\u200b'" in "".join(notes)
    assert "'1', '1.0'" in "".join(notes)
    assert alike_notes(["pos", "neg", "1", "2", "-1", "nan", "inf"]) == ()


@pytest.mark.parametrize("task", ["classify", "recognize"])
def test_such_labels_are_noted_when_data_is_read(tmp_path: Path, task: str) -> None:
    if task == "classify":
        data: Any = [(f"a text {n} {m}", label) for n, label in enumerate(("neg", "Neg", "pos")) for m in range(9)]
    else:
        data = [(np.full((8, 8), 9 * n + m, np.uint8), label) for n, label in enumerate(("a", "A")) for m in range(9)]
    settings = request(task, data).settings()
    assert any("look alike" in note for note in read(settings).notes)


def test_of_many_classes_those_that_are_confused_most_come_first() -> None:
    labels = [f"c{n:02}" for n in range(57)]
    wanted = [label for label in labels for _ in range(4)]
    given = [{"c40": "c50"}.get(label, label) for label in wanted]
    (section,) = class_sections(given, wanted, labels)
    worst, matrix, table = section.items
    assert worst.rows == (("c40 taken for c50", 4),)
    assert set(matrix.labels[:2]) == {"c40", "c50"}
    assert len(matrix.labels) == 40
    assert not matrix.empty, "before, 57 classes had no matrix"
    assert {row[0] for row in table.rows[:2]} == {"c40", "c50"}
    assert len(table.rows) == 57
    assert "the matrix has 40 of 57" in section.text


def test_the_sentence_for_a_manager_compares_with_the_best_plain_reader() -> None:
    details = class_details(GIVEN, WANTED, LABELS)
    metrics = {"accuracy": 60.0, "accuracy_linear": 58.6, "accuracy_majority": 40.0}
    sentence = class_sentence(metrics, details, {"linear": "counting words"})
    assert sentence == "60 of 100 right, 1.4 points above counting words; the classes most often confused are b and a"
    below = class_sentence(metrics | {"accuracy_majority": 70.0}, details, {})
    assert below.startswith("60 of 100 right, 10.0 points below the most frequent answer")
