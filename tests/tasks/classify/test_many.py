"""Several labels a text: where they may stand in a file, that none is fine, and that nobody merges columns unasked."""

import json
from pathlib import Path
from typing import Any

import pytest

from mirada.data.options import TableOptions
from mirada.runs.load import load
from mirada.tasks.classify.many import read_many_labels
from mirada.tasks.classify.targets import TARGETS
from tests.cli.conftest import Command, mirada  # noqa: F401
from tests.runs.small import SIZES, trained

ROWS = [("goal on ice", ("sport",)), ("rates rise", ("money",)), ("a goal pays", ("money", "sport")), ("it rains", ())]
NAMES = ("sport", "money", "art")


def as_flags(yes: str = "1", no: str = "0") -> str:
    lines = [",".join([text, "7", *(yes if name in labels else no for name in NAMES[:2]), no]) for text, labels in ROWS]
    return "\n".join(["comment,id,sport,money,art", *lines]) + "\n"


def as_words() -> str:
    lines = [f"{text},{','.join((*labels, '', '')[:2])}" for text, labels in ROWS]
    return "\n".join(["comment,first,second", *lines]) + "\n"


def as_lists() -> str:
    return "".join(json.dumps({"text": text, "labels": list(labels) or None}) + "\n" for text, labels in ROWS)


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("flags.csv", as_flags(), {}), ("words.csv", as_flags("Yes", "No"), {}), ("empty.csv", as_flags("x", ""), {}),
        ("chosen.csv", as_flags(), {"columns": "comment,sport,money"}), ("lists.jsonl", as_lists(), {}),
        ("labels.csv", as_words(), {"columns": "comment,first,second"}),
        ("cells.tsv", "".join(f"{text}\t{','.join(labels)}\n" for text, labels in ROWS), {}),
    ],
)  # fmt: skip
def test_labels_are_those_of_the_file_and_may_be_none(tmp_path: Path, name: str, content: str, options: Any) -> None:
    (tmp_path / name).write_text(content)
    read = read_many_labels(str(tmp_path / name), TableOptions(**options))
    assert not read.problems
    found = {record.value[0]: set(TARGETS["many"].labels_in(record.value[1])) for record in read.records}
    assert found == {text: set(labels) for text, labels in ROWS}


def test_columns_of_labels_are_offered_and_not_merged(tmp_path: Path, mirada: Command) -> None:  # noqa: F811
    (tmp_path / "flags.csv").write_text(as_flags().replace(",0\n", ",1\n", 1))
    told = mirada("check", "classify", "--data", tmp_path / "flags.csv")
    assert told.code == 2
    assert "if sport, money, art are labels that a text has or has not: labels=many" in told.err


def test_a_run_that_learned_texts_without_labels_answers_that_there_are_none(tmp_path: Path) -> None:
    rows = [(f"{text} {number}", ",".join(labels)) for number in range(9) for text, labels in ROWS]
    run = load(
        trained("classify", rows, tmp_path / "run", *SIZES, "threads=1", "steps=40", "lr=1e-2", "labels=many").folder
    )
    nothing, two = run(["it rains", "a goal pays"])
    assert nothing.text == ""
    assert nothing.score > 0.5
    assert two.text == "money, sport"
    assert run.measure(rows)["micro_f1"] > 90
