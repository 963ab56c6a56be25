"""Tables as users have them: what is recognized, and what is not touched."""

from pathlib import Path

import pytest

from mirada.data.columns.header import key_columns, named_input, recognize
from mirada.data.files.records import read_records
from mirada.data.options import TableOptions

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


@pytest.mark.parametrize("header", [("text", "label"), ("Text", "LABEL"), ("label", "text")])
def test_an_exact_header_is_believed_over_contents(tmp_path: Path, header: tuple[str, str]) -> None:
    """Texts that are numbers, with labels that look more like texts."""
    rows = [(str(12 + number % 7), f"a longer label {number % 2}") for number in range(40)]
    order = 1 if header[0].lower() == "text" else -1
    found = read(tmp_path, [header, *(row[::order] for row in rows)])
    assert [record.value for record in found.records] == rows
    wanted, _ = key_columns(header, CLASSES, (), [row[::order] for row in rows])
    assert [name.lower() for name in wanted] == ["text", "label"]
    assert named_input(header, [list(row[::order]) for row in rows], ("text",)) == (0 if order == 1 else 1)


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
    assert recognize([["english", "inglés"], ["house", "casa"]], PAIR).headed is False
    assert recognize([["English", "Spanish"], ["house", "casa"]], PAIR).headed is True
    assert recognize([["en", "es"], ["house", "casa"]], PAIR).headed is True
    assert recognize([["a", "b"], ["c", "d"]], PAIR).headed is False


def test_a_header_after_blank_lines_and_very_long_lines(tmp_path: Path) -> None:
    found = read(tmp_path, [("",), ("review", "sentiment"), *LABELLED])
    assert [record.value for record in found.records] == LABELLED
    assert [problem.what for problem in found.problems] == ["empty line. Take it out."]
    long = [("word " * 40_000, "pos"), *LABELLED]
    assert len(read(tmp_path, long, "a.tsv", "\t").records) == len(long)


SAID = ["Very friendly staff", "We waited too long for the food", "The soup was cold", "Lovely place, we come again",
        "Nobody could help us", "Clean and quiet rooms", "The bill was wrong twice", "Good value for the money"]  # fmt: skip


@pytest.mark.parametrize(
    ("header", "labels"),
    [
        (("What did you think of the service?", "rating"), "5 1 2 5 1 4 2 4"),
        (("What did you think of the service?", "rating"), "good bad bad good bad good bad good"),
        (("Comentario del cliente sobre el producto", "Nota"), "5 1"),
        (("¿Qué le pareció el servicio del hotel?", "¿Lo recomendaría a sus amigos?"), "sí no no sí no sí no sí"),
        (("How was your stay with us this time?", "How likely are you to recommend us?"), "9 2 3 10 1 8 2 9"),
        (("Opinión del huésped sobre su estancia", "valor"), "5 1 2 5 1 4 2 4"),
    ],
)
def test_the_questions_of_a_survey_are_a_header(tmp_path: Path, header: tuple[str, str], labels: str) -> None:
    rows = list(zip(SAID, labels.split(), strict=False))
    found = read(tmp_path, [header, *rows], between=";")
    assert [record.value for record in found.records] == rows
    assert f"header: text is {header[0]}, label is {header[1]}" in found.notes[0]


def test_a_long_first_text_is_a_record_if_its_label_comes_again(tmp_path: Path) -> None:
    rows = list(zip(SAID, ["good", "bad", "bad", "good", "bad", "good", "bad", "good"], strict=True))
    for first in (("The very best hotel that we know", "good"), ("Is it always so loud in here?", "bad")):
        found = read(tmp_path, [first, *rows], between=";")
        assert [record.value for record in found.records] == [first, *rows]
    asked = [
        ("Would you say that it is good?", "y"),
        ("I do not think that it is", "n"),
        ("It is not good at all", "n"),
    ]
    assert [record.value for record in read(tmp_path, asked).records] == asked


@pytest.mark.parametrize("header", [("Text", "Language"), ("texto", "idioma"), ("text", "author")])
def test_a_column_with_another_name_is_the_label_if_its_values_come_again(tmp_path: Path, header: tuple) -> None:
    rows = [(text, ("en", "es", "fr")[number % 3]) for number, (text, _) in enumerate(LABELLED)]
    found = read(tmp_path, [header, *rows])
    assert [record.value for record in found.records] == rows
    assert found.notes[0].endswith(f"header: text is {header[0]}, label is {header[1]}")


@pytest.mark.parametrize(
    ("values", "way"),
    [
        ([str(number) for number in range(24)], "of each text.$"),
        (
            [f"{number}-{number % 17}" for number in range(17)] + ["0-0"] * 3,
            "If it is date, say so: columns=text,date$",
        ),
        (["2024", "2025"], "If it is date, say so: columns=text,date$"),
    ],
)
def test_a_column_with_another_name_and_ever_new_values_is_no_label(tmp_path: Path, values: list, way: str) -> None:
    rows = [(text, value) for (text, _), value in zip(LABELLED, values, strict=False)]
    with pytest.raises(ValueError, match=r"the header \(text, date\) names no label. Add a column .*" + way):
        read(tmp_path, [("text", "date"), *rows])
    assert len(read(tmp_path, [("text", "date"), *rows], columns="text,date").records) == len(rows)


@pytest.mark.parametrize(
    "header", [("noticia", "sección"), ("Abstract", "Area"), ("queja", "departamento"), ("complaint", "product")]
)
def test_more_usual_names(tmp_path: Path, header: tuple[str, str]) -> None:
    rows = LABELLED[:3]
    found = read(tmp_path, [header, *rows], between=";")
    assert [record.value for record in found.records] == rows
    assert f"header: text is {header[0]}, label is {header[1]}" in found.notes[0]


def test_an_unusual_header_is_found_over_few_rows_and_over_rare_labels(tmp_path: Path) -> None:
    few = [(f"{text} and so on", label) for text, label in LABELLED[:6]]
    rare = [*few, ("it is what it is", "mixed")]
    many = [(f"{text} {number}", label) for number in range(4) for text, label in LABELLED] + [("a b c", "mixed")]
    for rows in (few, rare, many):
        found = read(tmp_path, [("palabras", "resultado"), *rows])
        assert [record.value for record in found.records] == rows
        assert "header: text is palabras, label is resultado" in found.notes[0]


def test_a_rare_label_in_the_first_row_is_no_header_next_to_a_text_like_the_others(tmp_path: Path) -> None:
    for rows in (
        [("it is what it is", "mixed"), *LABELLED[:6]],
        [("so so", "mixed"), ("bad film", "neg"), ("ok", "pos")],
    ):
        assert [record.value for record in read(tmp_path, rows).records] == rows


def test_a_long_first_text_with_a_rare_label_is_a_record(tmp_path: Path) -> None:
    first = ("my card was swallowed by the machine and nobody helps me", "card")
    found = read(tmp_path, [first, *LABELLED])
    assert [record.value for record in found.records] == [first, *LABELLED]


def test_a_label_that_is_also_a_name_for_texts_is_no_header(tmp_path: Path) -> None:
    rows = [
        ("They counted the votes again", "news"),
        ("He won the last match", "sport"),
        ("Is it time to go", "question"),
    ]
    for first in range(3):
        turned = rows[first:] + rows[:first]
        assert [record.value for record in read(tmp_path, turned).records] == turned


def test_a_title_above_an_unusual_header_is_left_out(tmp_path: Path) -> None:
    for title in (("Export of May",), ("Export of May", "")):
        found = read(tmp_path, [title, ("palabras", "resultado"), *LABELLED])
        assert [record.value for record in found.records] == LABELLED
        assert found.notes[0].endswith("header: text is palabras, label is resultado (1 line above it left out)")


def test_the_wordiest_column_is_suggested_next_to_a_named_label(tmp_path: Path) -> None:
    rows = [(f"2024/01/01 10:0{number}", said, str(number)) for number, said in enumerate(SAID)]
    with pytest.raises(ValueError, match=r"names no text. Say which columns .*, for example columns=¿Qué tal\?,Nota$"):
        read(tmp_path, [("Marca temporal", "¿Qué tal?", "Nota"), *rows], between=";")
