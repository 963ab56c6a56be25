"""Tables as they come: every one is read right or refused with the way out, and none is read wrong in silence."""

import csv
import io
import random
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from mirada.data.columns.header import TableHead
from mirada.data.files.records import read_records
from mirada.data.options import TableOptions
from mirada.data.record import Read

CLASSES, PAIR = ("text", "label"), ("source", "target")
TEXTS = ["a fine film", "a dull film", "not bad at all", "I left early", "what a joy", "so boring", "good acting, bad plot",
         "never again", "one of the best", "I slept well", "the end is weak", "lovely music"]  # fmt: skip
ROWS = [(text, ("pos", "neg")[number % 2]) for number, text in enumerate(TEXTS)]
STARS = [(text, str(number % 5 + 1)) for number, text in enumerate(TEXTS)]
ACCENTS = [(f"película {number}", ("sí", "no")[number % 2]) for number in range(12)]
SENTENCES = [(f"I see {number} cats.", f"Veo {number} gatos.") for number in range(12)]
HALVES = [(text.replace(",", ""), f"{number % 5},5") for number, text in enumerate(TEXTS)]


def table(rows: Iterable[tuple], between: str = ",", end: str = "\n", quoting: int = csv.QUOTE_MINIMAL) -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=between, lineterminator=end, quoting=quoting).writerows(rows)
    return file.getvalue()


def numbered(rows: list[tuple[str, str]], *more: str) -> list[tuple]:
    return [(number, *row, *more) for number, row in enumerate(rows)]


def swapped(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(second, first) for first, second in rows]


def read(path: Path, data: str | bytes, wanted: tuple[str, ...] = CLASSES, **options: str) -> Read:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_records(path, wanted, TableOptions(**options))


READ: list[tuple[str, str, str | bytes, list[tuple[str, str]], str]] = [
    # what is nasty, the name of the file, what it holds, the records, the note
    ("two words", "a.csv", table([("Review Text", "Sentiment Label"), *ROWS]), ROWS,
     "header: text is Review Text, label is Sentiment Label"),
    ("capitals and accents", "a.csv", table([("RESEÑA", "Categoría"), *ROWS]), ROWS,
     "header: text is RESEÑA, label is Categoría"),
    ("other names", "a.csv", table([("v1", "v2"), *swapped(ROWS)]), ROWS, "header: text is v2, label is v1"),
    ("a label as a name", "a.csv", table([("text", "pos"), *ROWS]), ROWS, "header: text is text, label is pos"),
    ("the index of pandas", "a.csv", table([("", "review", "sentiment"), *numbered(ROWS)]), ROWS,
     "header: text is review, label is sentiment"),
    ("no names of pandas", "a.csv", table([("0", "1"), *ROWS]), ROWS, "header: text is 0, label is 1"),
    ("the names of rows of R", "a.csv", "text,label\n" + table(numbered(ROWS)), ROWS, ""),
    ("many columns", "a.csv", table([("Id", "Time", "Score", "Summary", "Text"),
     *((n, "1303862400", label, "Good", text) for n, (text, label) in enumerate(STARS))]), STARS,
     "header: text is Text, label is Score"),
    ("empty columns", "a.csv", "v1,v2,,,\n" + "".join(f'{label},"{text}",,,\n' for text, label in ROWS), ROWS,
     "header: text is v2, label is v1"),
    ("separators at the end", "a.csv", "text;label\n" + "".join(f"{a};{b};\n" for a, b in ROWS), ROWS,
     "cells are divided by ;"),
    ("a short table, label first", "a.csv", table(swapped(ROWS[:3])), ROWS[:3],
     "the label is in the first column, the text in the second"),
    ("stars first", "a.tsv", table(swapped(STARS * 2), "\t"), STARS * 2,
     "the label is in the first column, the text in the second"),
    ("decimal commas", "a.csv", "texto;nota\n" + "".join(f"{a};{b}\n" for a, b in HALVES), HALVES,
     "header: text is texto, label is nota; cells are divided by ;"),
    ("decimal commas alone", "a.csv", "".join(f"{a};{b}\n" for a, b in HALVES), HALVES, "cells are divided by ;"),
    ("blanks", "a.csv", "text, label\n" + "".join(f'"{a}", "{b}"\n' for a, b in ROWS), ROWS, ""),
    ("what Excel writes", "a.csv", "sep=;\ntext;label\n" + table(ROWS, ";", "\r\n"), ROWS, "cells are divided by ;"),
    ("a title", "a.csv", "Reviews of 2024,\n,\ntext,label\n" + table(ROWS), ROWS,
     "header: text is text, label is label (1 line above it left out)"),
    ("remarks", "a.csv", "# from a, b\n# 2024\n" + table([("text", "label"), *ROWS]), ROWS,
     "header: text is text, label is label (2 lines above it left out)"),
    ("a remark alone", "a.csv", "# from a, 2024\n" + table(ROWS), ROWS, "1 line at the top left out"),
    ("a hash tag", "a.tsv", table([("#fine #film", "pos"), *ROWS], "\t"), [("#fine #film", "pos"), *ROWS], ""),
    ("quotes between tabs", "a.tsv", table([("text", "label"), *ROWS], "\t", quoting=csv.QUOTE_ALL), ROWS, ""),
    ("line ends in cells", "a.csv", table([("text", "label"), *((f"{a}\n\nmore", b) for a, b in ROWS)]),
     [(f"{a}\n\nmore", b) for a, b in ROWS], ""),
    ("line ends of Macs", "a.csv", table([("text", "label"), *ROWS], end="\r"), ROWS, ""),
    ("UTF-16", "a.csv", b"\xff\xfe" + table([("reseña", "opinión"), *ACCENTS], "\t").encode("utf-16-le"), ACCENTS,
     "header: text is reseña, label is opinión; cells are divided by tabs"),
    ("UTF-16, big end first", "a.csv", table([("text", "label"), *ACCENTS]).encode("utf-16-be").join([b"\xfe\xff", b""]),
     ACCENTS, ""),
    ("a mark", "a.csv", b"\xef\xbb\xbf" + table([("text", "label"), *ROWS]).encode(), ROWS, ""),
    ("texts that have the words of names", "a.csv", table([("text 1", "label 1"), ("text 2", "label 2"), ("text 3", "label 1")]),
     [("text 1", "label 1"), ("text 2", "label 2"), ("text 3", "label 1")], ""),
    ("no ending", "a", table(ROWS, "|"), ROWS, "cells are divided by |"),
    ("a name for texts over numbers", "a.csv", table([("rating", "verified_reviews", "feedback"),
     *((stars, text, n % 2) for n, (text, stars) in enumerate(STARS))]), STARS,
     "header: text is verified_reviews, label is rating"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "rows", "note"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_read(tmp_path: Path, name: str, data: str | bytes, rows: list[tuple[str, str]], note: str) -> None:
    found = read(tmp_path / name, data)
    assert [record.value for record in found.records] == rows
    assert found.notes == ((f"{tmp_path / name}: {note}",) if note else ())
    assert [problem.what for problem in found.problems] == (
        ["empty line. Take it out."] if "Reviews of" in str(data) else []
    )


REFUSED: list[tuple[str, str, str | bytes, str]] = [
    ("two labels", "a.csv", table([("review", "stars", "class"), *((a, b, b) for a, b in ROWS)]),
     "label may be stars or class. Say which columns to take, for example columns=review,stars"),
    ("a name twice", "a.csv", table([("text", "text", "label"), *((a, a, b) for a, b in ROWS)]),
     "text may be text or text. Say which columns to take, for example columns=1,3"),
    ("no usual names", "a.csv", table([("key", "palabras", "resultado"), *numbered(ROWS)]),
     "the header (key, palabras, resultado) names no text and label. Say which columns to take, for example "
     "columns=palabras,resultado"),
    ("half a header", "a.csv", table([("id", "text", "resultado", "otra"), *numbered(ROWS, "x")]),
     "the header (id, text, resultado, otra) names no label. Say which columns to take, for example columns=text,resultado"),
    ("three columns", "a.tsv", table(numbered(ROWS), "\t"),
     "3 columns ('0', 'a fine film', 'pos') and no header that names text and label. Say which columns to take, for example "
     "columns=2,3"),
    ("what nobody can tell", "a.tsv", table([(f"u{n}", a, b, b) for n, (a, b) in enumerate(ROWS)], "\t"),
     "Say which columns to take: columns=TEXT,LABEL, by number from 1"),
    ("a number and a text", "a.csv", table([("id", "text"), *((n, a) for n, (a, _) in enumerate(ROWS))]),
     "the header (id, text) names no label. Add a column with the label of each text."),
    ("numbers before texts", "a.csv", table((n, a) for n, (a, _) in enumerate(ROWS)),
     "column 1 should be the text and holds numbers (0, 1, ...). No column holds labels: add one"),
    ("numbers after texts", "a.csv", table((a, 7 * n) for n, (a, _) in enumerate(ROWS)),
     "column 2 should be the label and is another one in every row (0, 7, ...). No column holds labels: add one"),
    ("two separators", "a.csv", "well, yes;pos\nwell, no;neg\n",
     "its lines can be divided at 2 characters. Say which: separator=',' or separator=';'"),
    ("a header alone", "a.csv", "text,label\n", "a header and no record below it. Was the file written to its end?"),
    ("a header in cp1252", "a.csv", table([("n", "rese\xf1a", "x"), *numbered(ROWS)]).encode("cp1252"),
     ":1: not UTF-8: byte 7 of the line is 0xf1. Save the file as UTF-8, or pass encoding=cp1252, which reads 'n,reseña,x'."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused(tmp_path: Path, name: str, data: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        read(tmp_path / name, data)
    assert str(error.value).startswith(str(tmp_path / name))


def test_the_way_out_is_one(tmp_path: Path) -> None:
    """What the errors above say to pass makes the tables readable."""
    wide = table([("key", "palabras", "resultado"), *numbered(ROWS)])
    for columns in ("palabras,resultado", "PALABRAS,Resultado", "2,3"):
        assert [record.value for record in read(tmp_path / "a.csv", wide, columns=columns).records] == ROWS
    assert read(tmp_path / "a.csv", wide, columns="2,3").notes == (
        f"{tmp_path / 'a.csv'}: header: palabras, resultado",
    )
    kept = read(tmp_path / "a.csv", wide, columns="2,3", header="no").records
    assert [record.value for record in kept] == [("palabras", "resultado"), *ROWS]
    twice = table([("text", "text", "label"), *((a, a, b) for a, b in ROWS)])
    assert [record.value for record in read(tmp_path / "a.csv", twice, columns="1,3").records] == ROWS
    assert [
        record.value for record in read(tmp_path / "a.tsv", table(numbered(ROWS), "\t"), columns="2,3").records
    ] == ROWS
    coded = table([("reseña", "clase"), *ACCENTS]).encode("cp1252")
    assert "encoding=cp1252" in read(tmp_path / "a.csv", coded).problems[0].what
    assert [record.value for record in read(tmp_path / "a.csv", coded, encoding="cp1252").records] == ACCENTS
    both = "".join(f"well, {a};{b}\n" for a, b in (("one", "x"), ("two", "y")))
    assert read(tmp_path / "a.csv", both, separator=";").records[0].value == ("well, one", "x")


def test_names_that_are_not_there(tmp_path: Path) -> None:
    rows = table([("reseña", "clase"), *ROWS])
    with pytest.raises(
        ValueError, match=r"a.csv:1: unknown column 'clas'; known: clase, reseña. Did you mean 'clase'\?"
    ):
        read(tmp_path / "a.csv", rows, columns="reseña,clas")
    with pytest.raises(
        ValueError, match=r"columns= names a header, and header=no says there is none. Say columns=1,2."
    ):
        read(tmp_path / "a.csv", rows, columns="reseña,clase", header="no")
    titled = "Export\n\n" + rows
    assert [r.value for r in read(tmp_path / "a.csv", titled, columns="reseña,clase").records] == ROWS


@pytest.mark.parametrize(
    ("header", "between"),
    [(("english", "spanish"), ","), (("en", "es"), ";"), (("source", "target"), "|"), (("Inglés", "Español"), "\t"),
     (("sentence_en", "sentence_es"), ","), (("es", "en"), ","), (("phrase", "translation"), ","),
     (("Original", "Traducción"), ";"), (("source_text", "target_text"), ","),
     (("Texto en inglés", "Texto en español"), ";"), (("Frase en inglés", "Traducción al español"), ";"),
     (("Source (English)", "Target (Spanish)"), ","), (("english", "deutsch"), ","), (("Français", "Anglais"), ";"),
     (("english_sentence", "hindi_sentence"), ","), (("en_US", "es_MX"), ","), (("English (US)", "Spanish (Latin America)"), ";"),
     (("Original Text", "Translated Text"), ","), (("frase_original", "frase_traducida"), ",")],
)  # fmt: skip
def test_pairs(tmp_path: Path, header: tuple[str, str], between: str) -> None:
    found = read(tmp_path / "a.csv", table([header, *SENTENCES], between), PAIR)
    assert [record.value for record in found.records] == SENTENCES
    if header != PAIR:
        assert f"header: source is {header[0]}, target is {header[1]}" in found.notes[0]


def test_sentences_as_they_can_be_downloaded(tmp_path: Path) -> None:
    licensed = "".join(
        f"{a}\t{b}\tCC-BY 2.0 (France) Attribution: tatoeba.org #{n}\n" for n, (a, b) in enumerate(SENTENCES)
    )
    found = read(tmp_path / "spa.txt", licensed, PAIR)
    assert [record.value for record in found.records] == SENTENCES
    assert found.notes == (f"{tmp_path / 'spa.txt'}: column 3 is a license and left out",)
    with pytest.raises(ValueError, match=r"4 columns \('1', 'I see 0 cats.', '2', .* for example columns=2,4"):
        read(tmp_path / "a.tsv", "".join(f"1\t{a}\t2\t{b}\n" for a, b in SENTENCES), PAIR)
    words = [("the source", "el origen"), ("source", "fuente"), ("english", "inglés"), ("house", "casa")]
    assert [record.value for record in read(tmp_path / "a.tsv", table(words, "\t"), PAIR).records] == words


@pytest.mark.parametrize(
    ("header", "before", "after"),
    [(("text", "label"), [], []), (("label", "text"), ["pos"], None), (("id", "label", "text"), ["{n}", "pos"], None)],
)
def test_a_text_with_the_separator_in_it_is_not_cut(
    tmp_path: Path, header: tuple, before: list, after: list | None
) -> None:
    """Every row is one cell wider than the header, as if the rows had names; the text would be what is behind its comma."""
    label = ["pos"] if after is not None else []
    rows = [[*(cell.format(n=n) for cell in before), f"film {n} is long", " and dull", *label] for n in range(12)]
    found = read(tmp_path / "a.csv", "".join(",".join(row) + "\n" for row in [list(header), *rows]))
    assert found.records == ()
    count = len(header)
    assert found.problems[0].what.startswith(f"expected {count} columns, found {count + 1}.")
    assert "Put a text with a , in it in quotes" in found.problems[0].what


def test_a_column_that_names_a_language_next_to_texts_does_not_hide_a_header(tmp_path: Path) -> None:
    rows = [("source_lang", "target_lang", "source_text", "target_text"), *(("en", "es", *pair) for pair in SENTENCES)]
    assert [record.value for record in read(tmp_path / "a.csv", table(rows), PAIR).records] == SENTENCES


def test_an_unknown_separator_is_requested(tmp_path: Path) -> None:
    found = read(tmp_path / "a.csv", "".join(f"{a.replace(',', '')}:{b}\n" for a, b in ROWS))
    assert found.problems[0].what.endswith("If something else divides the cells, say it: separator=.")
    assert len(read(tmp_path / "a.csv", "".join(f"{a}:{b}\n" for a, b in ROWS), separator=":").records) == len(ROWS)


# a law


NAMES = ["text", "TEXT", "review", "Review Text", "tweet_text", "Reseña", "comentario", "reviewText", "frase"]
LABELS = ["label", "sentiment", "stars", "Rating", "clase", "CATEGORÍA", "target", "Sentiment Label", "tipo"]
BESIDE = {
    "id": lambda n, draw: str(n), "": lambda n, draw: str(n), "date": lambda n, draw: f"2024-01-{n % 28 + 1:02}",
    "user": lambda n, draw: f"user{draw.randrange(99)}", "url": lambda n, draw: f"http://x.y/{n}",
    "length": lambda n, draw: str(draw.randrange(200)), "lang": lambda n, draw: draw.choice(["en", "es"]),
    "review_id": lambda n, draw: f"R{n}", "precio": lambda n, draw: f"{draw.randrange(9)},{draw.randrange(9)}",
}  # fmt: skip
WORDS = (
    *[
        "the",
        "a",
        "film",
        "was",
        "good",
        "bad",
        "not",
        "very",
        "slow",
        "ok",
        "5",
        "stars",
        "it's",
        "muy",
        "buena",
        "sí",
    ],
    "boring,",
    "great;",
    "|",
    '"quoted"',
)
KINDS = [("pos", "neg"), ("0", "1"), ("1", "2", "3", "4", "5"), ("very good", "bad"), ("3,5", "4,0", "1,5")]


@pytest.mark.parametrize("seed", range(150))
def test_no_table_is_read_wrong_in_silence(tmp_path: Path, seed: int) -> None:
    """Any order, separator, quoting, encoding and columns beside: with a header, read; without, read or refused."""
    draw = random.Random(seed)
    kinds = draw.choice(KINDS)
    texts = [
        " ".join(draw.choices(WORDS, k=draw.randrange(3, 12))).strip(' |;,"') for _ in range(draw.choice([3, 8, 20]))
    ]
    rows = [(text, draw.choice(kinds)) for text in texts]
    columns = [draw.choice(NAMES), draw.choice(LABELS), *draw.sample(list(BESIDE), draw.choice([0, 0, 1, 3]))]
    order = draw.sample(range(len(columns)), len(columns)) if draw.random() < 0.5 else range(len(columns))
    cells = [(*row, *(BESIDE[name](n, draw) for name in columns[2:])) for n, row in enumerate(rows)]
    headed = draw.random() < 0.6
    lines = [[row[place] for place in order] for row in ([columns] if headed else []) + cells]
    quoting = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    data = table(lines, draw.choice(",;\t|"), draw.choice(["\n", "\r\n"]), quoting)
    path = tmp_path / draw.choice(["a.csv", "a.tsv", "a.txt", "a.data"])
    encoded = data.encode(draw.choice(["utf-8", "utf-8-sig", "utf-16"]))
    if headed or len(columns) == 2:
        found = read(path, encoded)
        assert [record.value for record in found.records] == rows
        assert found.problems == ()
    else:
        with pytest.raises(
            ValueError, match=r"no header that names text and label. Say which columns to take.* columns="
        ):
            read(path, encoded)


def test_a_row_without_the_picked_cell_does_not_fit() -> None:
    """Most rows of a damaged file may be shorter than its header says."""
    layout = TableHead(picked=(0, 3), width=2, at_least=True)
    assert not layout.fits(["a", "b"])
    assert layout.fits(["a", "b", "c", "d"])
