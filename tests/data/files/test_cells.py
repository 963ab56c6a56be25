"""Files of inputs without answers: which column holds them, and what comes along."""

from pathlib import Path

import pytest

from mirada.data.files.cells import Cells, read_cells
from mirada.data.files.records import read_records
from mirada.data.options import TableOptions

ASKS = ("text",)


def cells(path: Path, content: str, **options: str) -> Cells:
    path.write_text(content, encoding="utf-8")
    return read_cells(str(path), ASKS, TableOptions(**options))


@pytest.mark.parametrize(
    ("name", "content", "columns", "place", "first"),
    [
        ("a.csv", "id,review,stars\n7,a fine film,4\n", ("id", "review", "stars"), 1, ("7", "a fine film", "4")),
        ("a.csv", "Texto;fecha\nuna película;hoy\n", ("Texto", "fecha"), 0, ("una película", "hoy")),
        ("a.tsv", "a fine film\tpos\na dull film\tneg\n", ("text", "column_2"), 0, ("a fine film", "pos")),
        ("a.txt", "a fine film\n", ("text",), 0, ("a fine film",)),
        ("a.csv", '"one, two"\n"three"\n', ("text",), 0, ("one, two",)),
        ("a.jsonl", '{"id": 7, "text": "a fine film"}\n', ("id", "text"), 1, ("7", "a fine film")),
    ],
)
def test_the_column_of_inputs_is_found_and_the_others_come_along(
    tmp_path: Path, name: str, content: str, columns: tuple[str, ...], place: int, first: tuple[str, ...]
) -> None:
    found = cells(tmp_path / name, content)
    assert (found.columns, found.input, found.rows[0][1]) == (columns, place, first)
    assert all(not fault for _, _, fault in found.rows)


def test_the_column_can_be_named_or_counted(tmp_path: Path) -> None:
    rows = "a,b\none,two\n"
    assert cells(tmp_path / "a.csv", rows, columns="b").input == 1
    counted = cells(tmp_path / "a.csv", rows, columns="2")
    assert (counted.input, len(counted.rows)) == (1, 2), "numbers say nothing about a header"
    assert len(cells(tmp_path / "a.csv", rows, columns="2", header="yes").rows) == 1
    with pytest.raises(ValueError, match=r"unknown column 'c'; known: a, b"):
        cells(tmp_path / "a.csv", rows, columns="c")
    with pytest.raises(ValueError, match="there is no column 3: the first row has 2"):
        cells(tmp_path / "a.csv", rows, columns="3")


def test_a_guess_is_reported(tmp_path: Path) -> None:
    labelled = "".join(f"{'pos' if i % 2 else 'neg'}\tsentence number {i}\n" for i in range(20))
    found = cells(tmp_path / "a.tsv", labelled)
    assert found.input == 1
    assert "the inputs are in column 2 (columns= says otherwise)" in found.notes[0]


def test_bad_rows_stay_in_their_places_with_what_is_wrong(tmp_path: Path) -> None:
    found = cells(tmp_path / "a.csv", "id,text\n1,fine\n2\n3,good\n")
    assert [fault for _, _, fault in found.rows] == ["", "expected 2 columns, found 1", ""]
    assert found.rows[1][0].endswith("a.csv:3")
    objects = cells(tmp_path / "a.jsonl", '{"text": "a"}\n{"text": null}\n[1]\n{"text"\n')
    assert ["text is null" in objects.rows[1][2], "object" in objects.rows[2][2], "not JSON" in objects.rows[3][2]] == [
        True
    ] * 3
    with pytest.raises(ValueError, match="unknown column 'text'; known: what"):
        cells(tmp_path / "b.jsonl", '{"what": "a"}\n')
    with pytest.raises(ValueError, match="the file has no rows"):
        cells(tmp_path / "c.csv", "\n\n")


@pytest.mark.parametrize(
    ("content", "asks", "column"),
    [
        ("id,english,spanish\n7,a house,una casa\n", ("source", "text"), 1),
        ("id,english,spanish\n7,a house,una casa\n", ("target", "text"), 2),
        ("id,english\n7,a house\n", ("source", "text"), 1),
        ("Texto,origen\na house,x\n", ("source", "text"), 1),
        ("id;Review Text\n7;a house, a garden\n", ("text",), 1),
        ("a house,una casa\n", ("target", "text"), 1),
        ("7,a house with a garden,x\n8,a cat on a wall,y\n", ("text",), 1),
    ],
)
def test_the_column_of_inputs_by_its_name_or_by_what_it_holds(
    tmp_path: Path, content: str, asks: tuple[str, ...], column: int
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content, encoding="utf-8")
    assert read_cells(str(path), asks, TableOptions()).input == column


def test_a_text_file_with_a_header_is_a_table(tmp_path: Path) -> None:
    found = cells(tmp_path / "a.txt", "id,text\n7,a fine film\n")
    assert (found.columns, len(found.rows)) == (("id", "text"), 1)
    assert cells(tmp_path / "b.txt", "text, well, it is only a line\nand another\n").columns == ("text",)


def test_ambiguous_columns_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"3 columns \('a b', 'c d', 'e f'\) and no header that names text. Say which: columns=2"
    ):
        cells(tmp_path / "a.tsv", "a b\tc d\te f\n")


def test_a_json_list_holds_questions(tmp_path: Path) -> None:
    found = cells(tmp_path / "a.json", '[{"id": 7, "review": "a fine film"}]')
    assert (found.columns, found.input, found.rows) == (
        ("id", "review"), 1, [(f"{tmp_path / 'a.json'}:1", ("7", "a fine film"), "")]
    )  # fmt: skip
    assert found.notes == (f"{tmp_path / 'a.json'}: the inputs are in review",)


# the same tables as in training


NEWS = "La bolsa sube otra vez;economía\nGana el equipo local;deporte\nBaja el paro este mes;economía\n"


@pytest.mark.parametrize(
    ("content", "columns", "first"),
    [
        ("noticia;seccion\n" + NEWS, ("noticia", "seccion"), ("La bolsa sube otra vez", "economía")),
        ("palabras;resultado\n" + NEWS * 4, ("palabras", "resultado"), ("La bolsa sube otra vez", "economía")),
        ("sep=;\ntexto;tema\n" + NEWS, ("texto", "tema"), ("La bolsa sube otra vez", "economía")),
        ("sep=;\npalabras;resultado\n" + NEWS * 4, ("palabras", "resultado"), ("La bolsa sube otra vez", "economía")),
        ("Noticias de mayo\n\ntexto;tema\n" + NEWS, ("texto", "tema"), ("La bolsa sube otra vez", "economía")),
        ("Noticias\ntexto;tema\n" + NEWS, ("texto", "tema"), ("La bolsa sube otra vez", "economía")),
        ("# de la agencia\n# 2024\ntexto;tema\n" + NEWS, ("texto", "tema"), ("La bolsa sube otra vez", "economía")),
        ("# de la agencia; 2024\n" + NEWS * 4, ("text", "column_2"), ("La bolsa sube otra vez", "economía")),
        ("¿Qué opina usted de todo esto?;nota\n" + NEWS, ("¿Qué opina usted de todo esto?", "nota"),
         ("La bolsa sube otra vez", "economía")),
        ("text;label\n0;La bolsa sube;economía\n1;Gana el equipo;deporte\n", ("", "text", "label"),
         ("0", "La bolsa sube", "economía")),
    ],
)  # fmt: skip
def test_a_table_that_was_learned_from_is_read_alike(
    tmp_path: Path, content: str, columns: tuple[str, ...], first: tuple[str, ...]
) -> None:
    found = cells(tmp_path / "a.csv", content)
    assert (found.columns, found.rows[0][1]) == (columns, first)
    assert first[found.input].startswith("La bolsa sube")
    assert not any(fault for _, _, fault in found.rows)
    learned = read_records(str(tmp_path / "a.csv"), ("text", "label"))
    assert [row[1][found.input] for row in found.rows] == [record.value[0] for record in learned.records]


def test_a_name_for_texts_over_numbers_is_not_taken(tmp_path: Path) -> None:
    rows = "".join(f"{n % 5},the room number {n} was clean,{n % 2}\n" for n in range(1, 9))
    assert cells(tmp_path / "a.csv", "rating,verified_reviews,feedback\n" + rows).input == 1


def test_a_faint_name_over_single_words_is_not_taken_next_to_texts(tmp_path: Path) -> None:
    rows = "".join(f"2024-01-{n:02},the soup number {n} was cold,Ana\n" for n in range(1, 9))
    assert cells(tmp_path / "a.csv", "Fecha,¿Qué tal la comida?,Nombre\n" + rows).input == 1


def test_words_over_dates_are_a_header(tmp_path: Path) -> None:
    rows = "".join(f"2024-01-{n:02},Ana,the room number {n} was clean\n" for n in range(1, 9))
    found = cells(tmp_path / "a.csv", "date,customer,note\n" + rows)
    assert (found.columns, found.input, len(found.rows)) == (("date", "customer", "note"), 2, 8)


def test_sentences_next_to_numbers_are_the_inputs_of_a_translator(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("nr;Satz\n1;Geh.\n2;Lauf.\n3;Halt.\n")
    assert read_cells(str(path), ("source",), TableOptions()).input == 1


def test_lines_that_are_often_one_cell_are_one_column(tmp_path: Path) -> None:
    lines = ["I came, I saw", "so so", "never again", "well, well"] * 3
    found = cells(tmp_path / "a.csv", "".join(f"{line}\n" for line in lines))
    assert [row[1] for row in found.rows] == [(line,) for line in lines]


def test_a_header_is_left_out_for_columns_by_number_too(tmp_path: Path) -> None:
    found = cells(tmp_path / "a.csv", "Export\nnoticia;seccion\n" + NEWS, columns="2")
    assert (found.input, len(found.rows), found.columns) == (1, 3, ("noticia", "seccion"))
    named = cells(tmp_path / "a.csv", "Export\nuno;dos\n" + NEWS, columns="dos")
    assert (named.input, len(named.rows), named.columns) == (1, 3, ("uno", "dos"))


def test_a_label_that_is_also_a_name_for_texts_is_no_header(tmp_path: Path) -> None:
    rows = "They counted the votes again,news\nHe won the last match,sport\nIs it time to go,question\n"
    found = cells(tmp_path / "a.csv", rows)
    assert [row[1][found.input] for row in found.rows] == [line.split(",")[0] for line in rows.splitlines()]


# one column


@pytest.mark.parametrize("name", ["text", "Reseña", "customer_review", "noticia"])
def test_a_header_of_one_cell_means_one_column(tmp_path: Path, name: str) -> None:
    lines = ["The food was cold, sadly", "Great place", 'She said "no", and left', "a; b, c, d"]
    for rows in (lines, lines[:2], [lines[0]] * 9):
        found = cells(tmp_path / "a.csv", "\n".join([name, *rows]) + "\n")
        assert (found.columns, found.input) == ((name,), 0)
        assert [(row[1], row[2]) for row in found.rows] == [((line,), "") for line in rows]


def test_texts_with_commas_and_without_a_header(tmp_path: Path) -> None:
    lines = ["Great review", "The food was cold, sadly", "So so"]
    found = cells(tmp_path / "a.csv", "\n".join(lines) + "\n")
    assert [row[1] for row in found.rows] == [(line,) for line in lines]
    table = cells(tmp_path / "a.csv", "My list\n" + "a fine film,pos\na dull film,neg\n" * 3)
    assert [fault for _, _, fault in table.rows] == ["expected 2 columns, found 1", *[""] * 6]


@pytest.mark.parametrize(
    "lines",
    [
        ["Great review, thanks", "Bad food, slow"],
        ["Great review, five stars", "Bad food, one star"],
        ["No comment, thanks", "A question, please", "One\ttab"],
        ["text, well, it is only a line", "and another"],
        ["Good morning", "One\ttab in a line", "Good night"],
    ],
)
def test_lines_of_a_text_file_stay_lines(tmp_path: Path, lines: list[str]) -> None:
    found = cells(tmp_path / "in.txt", "\n".join(lines) + "\n")
    assert found.columns == ("text",)
    assert [row[1] for row in found.rows] == [(line,) for line in lines]


@pytest.mark.parametrize(
    "content",
    [
        "id;text\n7;a fine film\n",
        "noticia;seccion\n" + NEWS,
        "a fine film\tpos\na dull film\tneg\n",
        "sep=;\nx;y\n1;a b\n",
    ],
)
def test_a_text_file_may_be_a_table(tmp_path: Path, content: str) -> None:
    assert len(cells(tmp_path / "a.txt", content).columns) == 2
