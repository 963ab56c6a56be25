"""Records to measure with that the tokenizer cannot tell from records to learn from are named before the training."""

from pathlib import Path

import pytest

from tests.runs.small import QUICK, pairs, questions, reviews, trained, write_questions, write_rows

ACCENTS = ("ma\u00f1ana", "man\u0303ana")  # the same word, composed and in parts


@pytest.mark.parametrize(
    ("keys", "again"),
    [
        ((), "The FILM was good"),  # case is not read there
        ((), "the film  was good"),
        ((), " the film was\u00a0good "),
        (("tokenizer=bpe", "lowercase=no"), "the film   was good"),
        (("tokenizer=char", "lowercase=yes"), "THE film was good"),
    ],
)
def test_texts_that_are_read_alike_are_no_new_ones(tmp_path: Path, keys: tuple[str, ...], again: str) -> None:
    data = write_rows(tmp_path / "train.tsv", reviews())
    valid = write_rows(tmp_path / "valid.tsv", [("a text of its own", "good"), (again, "good")])
    with pytest.raises(ValueError, match=r"valid.tsv:2: also in the training data: .*train.tsv:1"):
        trained("classify", data, tmp_path / "run", *QUICK, *keys, valid=valid)


def test_accents_are_read_alike_however_they_are_written(tmp_path: Path) -> None:
    rows = [*reviews(), (f"{ACCENTS[0]} was good", "good")]
    data = write_rows(tmp_path / "train.tsv", rows)
    valid = write_rows(tmp_path / "valid.tsv", [(f"{ACCENTS[1]} was good", "good")])
    with pytest.raises(ValueError, match=r"valid.tsv:1: also in the training data"):
        trained("classify", data, tmp_path / "run", *QUICK, valid=valid)


def test_what_is_read_differs(tmp_path: Path) -> None:
    """Another label, and case where it is read."""
    data = write_rows(tmp_path / "train.tsv", reviews())
    valid = write_rows(tmp_path / "valid.tsv", [("the film was GOOD", "bad")])
    trained("classify", data, tmp_path / "one", *QUICK, valid=valid)
    data = write_rows(tmp_path / "train.tsv", pairs())
    english, spanish = pairs()[0]
    valid = write_rows(tmp_path / "valid.tsv", [(english.upper(), spanish)])
    trained("translate", data, tmp_path / "two", *QUICK, valid=valid)
    valid = write_rows(tmp_path / "valid.tsv", [(english.replace(" ", "  "), spanish)])
    with pytest.raises(ValueError, match=r"valid.tsv:1: also in the training data"):
        trained("translate", data, tmp_path / "three", *QUICK, valid=valid)


def test_questions_about_passages_too(tmp_path: Path) -> None:
    rows = questions()
    data = write_questions(tmp_path / "train.jsonl", rows)
    question, passage, answer, start = rows[0]
    valid = write_questions(tmp_path / "valid.jsonl", [(question.upper(), passage, answer, start)])
    with pytest.raises(ValueError, match=r"valid.jsonl:1.*also in the training data"):
        trained("answer", data, tmp_path / "run", *QUICK, valid=valid)
