"""Tables as people have them: what is recognized, and what is left alone."""

from pathlib import Path

import pytest

from mirada.data.header import recognize
from mirada.data.options import TableOptions
from mirada.data.records import read_records

TEXTS = [("a fine film", "pos"), ("a dull film", "neg"), ("not bad at all", "pos"), ("I left early", "neg")] * 6
LABELLED = [(f"{text} {number}", label) for number, (text, label) in enumerate(TEXTS)]
CLASSES, PAIR = ("text", "label"), ("source", "target")


def read(tmp_path: Path, rows: list[tuple[str, ...]], name: str = "a.csv", between: str = ",", **options):
    path = tmp_path / name
    path.write_text("".join(between.join(row) + "\n" for row in rows), encoding="utf-8")
    return read_records(path, CLASSES, TableOptions(**options))


@pytest.mark.parametrize(
    "header",
    [("review", "sentiment"), ("text", "stars"), ("Texto", "Etiqueta"), ("reseña", "clase"), ("comment", "whatever"),
     ("field1", "polarity"), ("what was said", "verdict")],
)  # fmt: skip
def test_a_header_is_no_record_and_what_was_taken_is_said(tmp_path: Path, header: tuple[str, str]) -> None:
    found = read(tmp_path, [header, *LABELLED])
    assert [record.value for record in found.records] == LABELLED
    assert found.notes == (f"{tmp_path / 'a.csv'}: header: text is {header[0]}, label is {header[1]}",)


def test_our_own_words_need_no_note(tmp_path: Path) -> None:
    assert read(tmp_path, [CLASSES, *LABELLED]).notes == ()


def test_numbers_under_a_word_are_under_a_header(tmp_path: Path) -> None:
    rows = [(text, str(number % 5)) for number, (text, _) in enumerate(LABELLED)]
    assert [record.value for record in read(tmp_path, [("opinions", "how many"), *rows]).records] == rows


def test_a_table_without_header_keeps_its_first_row(tmp_path: Path) -> None:
    for rows in (LABELLED, [("good", "pos"), *LABELLED], [("content", "pos"), *LABELLED], LABELLED[:2]):
        found = read(tmp_path, rows)
        assert [record.value for record in found.records] == rows
        assert found.notes == ()


def test_two_of_three_columns_are_found_by_name(tmp_path: Path) -> None:
    rows = [("id", "label", "text"), *((str(n), label, text) for n, (text, label) in enumerate(LABELLED))]
    found = read(tmp_path, rows)
    assert [record.value for record in found.records] == LABELLED
    assert found.notes[0].endswith("header: text is text, label is label")


@pytest.mark.parametrize("header", [[], [("label", "text")], [("stars", "review")]])
def test_a_label_in_the_first_column_is_found(tmp_path: Path, header: list[tuple[str, str]]) -> None:
    found = read(tmp_path, [*header, *((label, text) for text, label in LABELLED)])
    assert [record.value for record in found.records] == LABELLED
    assert len(found.notes) == 1


@pytest.mark.parametrize(
    ("separator", "name"), [(";", "a.csv"), ("|", "a.csv"), ("\t", "a.csv"), (",", "a.txt"), ("|", "a")]
)
def test_separators_are_recognized(tmp_path: Path, separator: str, name: str) -> None:
    assert [record.value for record in read(tmp_path, LABELLED, name, separator).records] == LABELLED


def test_what_is_recognized_can_be_said_otherwise(tmp_path: Path) -> None:
    rows = [("review", "sentiment"), *LABELLED]
    assert len(read(tmp_path, rows, header="no").records) == len(rows)
    assert len(read(tmp_path, LABELLED, header="yes").records) == len(LABELLED) - 1
    odd = [(f"{text};", label) for text, label in LABELLED]
    assert [record.value for record in read(tmp_path, odd, separator=",").records] == odd
    assert read(tmp_path, LABELLED, separator="\t").problems[0].what.startswith("expected 2 columns, found 1")
    assert [r.value for r in read(tmp_path, rows, columns="1,2", header="yes").records] == LABELLED


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"header": "maybe"}, "unknown header 'maybe'"),
        ({"separator": "::"}, "separator must be one character, or tab: got '::'"),
        ({"encoding": "utf-9"}, "unknown encoding 'utf-9'"),
        ({"encoding": "base64"}, "unknown encoding 'base64'"),
    ],
)
def test_what_cannot_be_said_is_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TableOptions(**options)


def test_a_pair_of_words_is_no_header_of_translations() -> None:
    """Only a line that names both sides is one: dictionaries begin with all kinds of words."""
    assert recognize([["english", "inglés"], ["house", "casa"]], PAIR).header is False
    assert recognize([["English", "Spanish"], ["house", "casa"]], PAIR).header is True
    assert recognize([["en", "es"], ["house", "casa"]], PAIR).header is True
    assert recognize([["a", "b"], ["c", "d"]], PAIR).header is False


def test_a_header_after_blank_lines_and_very_long_lines(tmp_path: Path) -> None:
    found = read(tmp_path, [("",), ("review", "sentiment"), *LABELLED])
    assert [record.value for record in found.records] == LABELLED
    assert [problem.what for problem in found.problems] == ["empty line. Take it out."]
    long = [("word " * 40_000, "pos"), *LABELLED]
    assert len(read(tmp_path, long, "a.tsv", "\t").records) == len(long)
