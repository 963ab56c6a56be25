"""Records from every format, with the bad ones named."""

import csv
import gzip
import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirada.data.files import records as table
from mirada.data.files.opening import LONGEST_LINE
from mirada.data.files.parquet import batch_values
from mirada.data.files.records import quoted_rows, read_records
from mirada.data.options import TableOptions
from mirada.data.record import Read, Record

PAIR = ("source", "target")


def read(path: Path, data: str | bytes, columns: tuple[str, ...] = PAIR, names: tuple[str, ...] = ()) -> Read:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_records(str(path), columns, TableOptions(columns=",".join(names)))


def fields(read: Read) -> list[tuple[str, ...]]:
    assert read.problems == ()
    return [record.value for record in read.records]


def problems(read: Read) -> list[tuple[int, str]]:
    return [(int(problem.where.rsplit(":", 1)[1]), problem.what) for problem in read.problems]


def lines(read: Read) -> list[int]:
    return [int(record.where.rsplit(":", 1)[1]) for record in read.records]


# tab separated


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.txt", "PAIRS.TSV", "pairs.tsv.gz", "pairs.en-es", "pairs"])
def test_tab_separated(tmp_path: Path, name: str) -> None:
    data = 'the house\tla casa\r\n a " quote \t\u00a0una " comilla\ncafe\u0301\tcafé'.encode()
    found = read(tmp_path / name, gzip.compress(data) if name.endswith("gz") else data)
    assert fields(found) == [("the house", "la casa"), ('a " quote', 'una " comilla'), ("café", "café")]
    assert found.records[2] == Record(f"{tmp_path / name}:3", ("café", "café"))


def test_bad_lines_of_a_table_are_named_and_the_others_read(tmp_path: Path) -> None:
    data = b"a\tb\nonly\n\nc\td\te\n \tf\ng\t\n\xff\th\ni\t\0\n\t\nj\tk\n"
    found = read(tmp_path / "pairs.tsv", data)
    assert lines(found) == [1, 10]
    assert problems(found) == [
        (2, "expected 2 columns, found 1. Each line is source<TAB>target."),
        (3, "empty line. Take it out."),
        (4, "expected 2 columns, found 3. Each line is source<TAB>target. "
            "Take the tab out of the text, or choose columns by number: columns=1,2."),
        (5, "no text for source. Fill it in, or take the record out."),
        (6, "no text for target. Fill it in, or take the record out."),
        (7, "not UTF-8: byte 1 of the line is 0xff. Save the file as UTF-8, or pass encoding=cp1252, which reads 'ÿ'."),
        (8, "a NUL character: byte 3 of the line. Is it a text file in UTF-8?"),
        (9, "empty line. Take it out."),
    ]  # fmt: skip


@pytest.mark.parametrize("end", ["\n\n\n", "\n\t\n", "\n  \n\n"])
def test_empty_lines_at_the_end_are_passed_over(tmp_path: Path, end: str) -> None:
    assert fields(read(tmp_path / "pairs.tsv", "a\tb" + end)) == [("a", "b")]


def test_a_field_at_the_end_that_is_empty_is_a_problem(tmp_path: Path) -> None:
    assert problems(read(tmp_path / "pairs.tsv", "a\tb\nc\t\n")) == [
        (2, "no text for target. Fill it in, or take the record out.")
    ]


def test_one_column(tmp_path: Path) -> None:
    found = read(tmp_path / "words.txt", "one\n\ntwo\tthree\nfour", ("text",))
    assert [record.value for record in found.records] == [("one",), ("four",)]
    assert [(line, what.split(".")[0]) for line, what in problems(found)] == [
        (2, "empty line"),
        (3, "expected 1 column, found 2"),
    ]


@pytest.mark.parametrize(
    ("header", "fields"),
    [("Source\tTARGET\n", ("a", "b")), (" source \ttarget\n", ("a", "b")), ("target\tsource\n", ("b", "a"))],
)
def test_a_first_line_that_names_our_columns_is_a_header(tmp_path: Path, header: str, fields: tuple[str, str]) -> None:
    found = read(tmp_path / "pairs.tsv", b"\xef\xbb\xbf" + header.encode() + b"a\tb\n")
    assert found.records == (Record(f"{tmp_path / 'pairs.tsv'}:2", fields),)


def test_columns_by_name(tmp_path: Path) -> None:
    data = "id\tes\tnote\ten\n1\tcasa\t\thouse\n2\tgato\n"
    found = read(tmp_path / "pairs.tsv", data, names=("en", "es"))
    assert [record.value for record in found.records] == [("house", "casa")]
    assert problems(found) == [(3, "expected 4 columns, found 2.")]
    with pytest.raises(
        ValueError, match=r"pairs.tsv:1: unknown column 'noet'; known: en, es, id, note. Did you mean 'note'\?"
    ):
        read(tmp_path / "pairs.tsv", data, names=("en", "noet"))


def test_rows_whose_chosen_cells_are_empty_are_no_empty_lines(tmp_path: Path) -> None:
    found = read(tmp_path / "pairs.tsv", "id\ten\tes\n1\t\t\n", names=("en", "es"))
    assert problems(found) == [(2, "no text for source and target. Fill it in, or take the record out.")]


def test_headers_that_do_not_decide(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"pairs.tsv:1: several columns are named 'en'. Rename all but one."):
        read(tmp_path / "pairs.tsv", "en\ten\tes\n", names=("en", "es"))
    with pytest.raises(ValueError, match=r"pairs.tsv:1: the header cannot be read: not UTF-8"):
        read(tmp_path / "pairs.tsv", b"en\tespa\xf1ol\n", names=("en", "es"))


def test_columns_by_number(tmp_path: Path) -> None:
    data = "house\tcasa\tCC-BY 2.0 (Tatoeba)\ncat\tgato\ndog\n"
    found = read(tmp_path / "pairs.tsv", data, names=("2", "1"))
    assert [record.value for record in found.records] == [("casa", "house"), ("gato", "cat")]
    assert problems(found) == [(3, "expected at least 2 columns, found 1.")]
    assert [record.value for record in read(tmp_path / "pairs.tsv", data, names=("1", "3")).records] == [
        ("house", "CC-BY 2.0 (Tatoeba)")
    ]
    with pytest.raises(ValueError, match="columns= counts from 1: got 0,1"):
        read(tmp_path / "pairs.tsv", data, names=("0", "1"))


def test_there_is_a_name_for_every_column(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"columns= must name 2 \(source, target\): got 3 \(1,2,3\)"):
        read(tmp_path / "pairs.tsv", "a\tb\n", names=("1", "2", "3"))


def test_an_ending_that_says_nothing_needs_tabs(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"pairs.tvs: unknown format '.tvs'; known: .csv, .json.* Did you mean '.tsv'\?"
    ):
        read(tmp_path / "pairs.tvs", "a b\n")
    with pytest.raises(ValueError, match=r"Aligned text files are given as one.en,other.es."):
        read(tmp_path / "train.en", "a house\n")


def test_the_refusals_of_files_come_through(tmp_path: Path) -> None:
    for name in ("pairs.tsv", "pairs.csv", "pairs.jsonl", "pairs"):
        with pytest.raises(ValueError, match=f"{name}: no such file"):
            read_records(str(tmp_path / name), PAIR)
        with pytest.raises(ValueError, match=f"{name}: the file is empty"):
            read(tmp_path / name, b"")


# CSV


def test_quotes_commas_and_line_ends_in_csv(tmp_path: Path) -> None:
    data = 'a,b\r\n"c, d","e ""f"""\r\n"g\r\nh", i \r\n\r\nj,k\r\n\r\n'
    found = read(tmp_path / "pairs.csv.gz", gzip.compress(data.encode()))
    assert [record.value for record in found.records] == [
        ("a", "b"), ("c, d", 'e "f"'), ("g\nh", "i"), ("j", "k")
    ]  # fmt: skip
    assert lines(found) == [1, 2, 3, 6]
    assert problems(found) == [(5, "empty line. Take it out.")]


def test_csv_with_header(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    assert fields(read(path, "text,label\ngood,1\n", ("text", "label"))) == [("good", "1")]
    assert fields(read(path, 'id,"stars",review\n7,5,"a, b"\n', ("text", "label"), ("review", "stars"))) == [
        ("a, b", "5")
    ]


def test_wrong_rows_in_csv(tmp_path: Path) -> None:
    found = read(tmp_path / "pairs.csv", "a;b\nc\nd,e,f\n,g\nh,i\n")
    assert lines(found) == [5]
    assert [what for _, what in problems(found)] == [
        "expected 2 columns, found 1. Each line is source,target.",
        "expected 2 columns, found 1. Each line is source,target.",
        "expected 2 columns, found 3. Each line is source,target. "
        "Put a text with a , in it in quotes, or choose columns by number: columns=1,2.",
        "no text for source. Fill it in, or take the record out.",
    ]


def test_broken_quotes_name_the_lines_that_are_lost(tmp_path: Path) -> None:
    found = read(tmp_path / "pairs.csv", 'a,b\n"c" d,e\nf,g\n"h,i\nj"k,l\nm,n\n"o,p\nq,r\n')
    assert lines(found) == [1, 3, 6]
    starts = [(line, what.split(".")[:2]) for line, what in problems(found)]
    assert starts == [
        (2, ["broken quotes: ',' expected after '\"' in line 2", " Line 2 is left out"]),
        (
            4,
            [
                "broken quotes: ',' expected after '\"' in line 5, behind a quote that opens in line 4",
                " Lines 4 to 5 are left out",
            ],
        ),
        (
            7,
            [
                "broken quotes: unexpected end of data in line 8, behind a quote that opens in line 7",
                " Lines 7 to 8 are left out",
            ],
        ),
    ]


def test_a_field_may_be_as_long_as_a_line(tmp_path: Path) -> None:
    """Python's own limit is that of a long article: all rows behind one were lost."""
    article = "one, two\n" * 20_000
    found = read(tmp_path / "pairs.csv", f'a,b\n"{article}",c\nd,e\n')
    assert fields(found) == [("a", "b"), (article.strip(), "c"), ("d", "e")]
    assert csv.field_size_limit() == LONGEST_LINE


@pytest.mark.parametrize(
    "rest", ["e,f\n" * 5000, "e,f\n" * 20 + 'g,"h, i"\n' + "j,k\n" * 20, 'e,f\n"g,h\ni,j\nk,l\n"m,n\n']
)
def test_a_stray_quote_costs_its_own_line(tmp_path: Path, rest: str) -> None:
    found = read(tmp_path / "pairs.csv", 'a,b\n"c,d\n' + rest)
    stray = [1 + number for number, line in enumerate(rest.splitlines(), 2) if line.startswith('"')]
    good = [number for number in range(1, 3 + rest.count("\n")) if number not in (2, *stray)]
    assert lines(found) == good
    assert [line for line, _ in problems(found)] == [2, *stray]
    assert "behind a quote that opens in line 2. Line 2 is left out." in problems(found)[0][1]


@pytest.mark.parametrize("bound", ["field", "lines"])
def test_a_field_without_end_ends_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    before = csv.field_size_limit(10_000 if bound == "field" else LONGEST_LINE)
    monkeypatch.setattr(table, "LONGEST_RECORD", 1000 if bound == "lines" else 100_000)
    try:
        found = read(tmp_path / "pairs.csv", 'a,b\n"c,d\n' + "some text\n" * 5000 + "e,f\n")
    finally:
        csv.field_size_limit(before)
    assert lines(found) == [1]
    [(line, what)] = problems(found)
    assert line == 2
    assert "field larger than field limit (10000)" in what if bound == "field" else "more than 1,000 lines" in what
    assert "The rest of the file is left out." in what


def test_a_bad_line_inside_of_quotes_spoils_its_record_only(tmp_path: Path) -> None:
    found = read(tmp_path / "pairs.csv", b'"a\nb\xff\nc",d\n"e\xff\nf",g\nh,i\n')
    assert lines(found) == [6]
    assert [(line, what.split(":")[0]) for line, what in problems(found)] == [(2, "not UTF-8"), (4, "not UTF-8")]


@given(st.lists(st.lists(st.text("ab,\"\n'\té ", max_size=5), min_size=2, max_size=3), min_size=1, max_size=5))
def test_what_the_csv_writer_writes_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    path, buffer = tmp_path_factory.mktemp("csv") / "x.csv", io.StringIO()
    csv.writer(buffer).writerows(rows)
    path.write_bytes(buffer.getvalue().encode())
    assert [(cells, fault) for _, cells, fault in quoted_rows(str(path))] == [(row, "") for row in rows]


# JSON lines


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.json-lines", "pairs.ndjson", "pairs.jsonl.gz"])
def test_json_lines(tmp_path: Path, name: str) -> None:
    data = b'{"source": " a\\n\\"b\\" ", "target": "caf\\u00e9", "id": 7}\n{"target": "e\\u0301", "source": "c"}\n\n'
    found = read(tmp_path / name, gzip.compress(data) if name.endswith("gz") else data)
    assert fields(found) == [('a\n"b"', "café"), ("c", "é")]


def test_numbers_and_truth_become_their_json_text(tmp_path: Path) -> None:
    values = ["1", "-0.50", "1e3", "true", "false", "123456789012345678901234567890"]
    data = "".join(f'{{"text": "x", "label": {value}}}\n' for value in values)
    found = read(tmp_path / "x.jsonl", data, ("text", "label"))
    assert [field[1] for field in fields(found)] == values
    assert all(type(record.value[1]) is str for record in found.records)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"source": "a", "target": null}', "target is null, not text."),
        ('{"source": ["a"], "target": "b"}', "source is a list, not text."),
        ('{"source": {}, "target": null}', "source is an object, not text. target is null, not text."),
        ('{"source": "a", "target": "\\u0000"}', "target is not text: it has a NUL character."),
        ('{"source": "a", "target": "\\ud800"}', "target is not text: it has half a character (a lone surrogate)."),
        ('{"source": "a", "target": " "}', "no text for target. Fill it in, or take the record out."),
        ('{"source": "", "target": ""}', "no text for source and target. Fill it in, or take the record out."),
        ('{"source": "a"}', "no 'target' in the object."),
        ('["a", "b"]', "expected an object, found a list. Each line is an object."),
        ("null", "expected an object, found null. Each line is an object."),
        ("3", "expected an object, found a number. Each line is an object."),
        ('{"source": "a", "target"}', "not JSON: Expecting ':' delimiter at character 25. Each line is an object."),
        ('{"source": "a", "target": NaN}', "not JSON: NaN is not a value. Each line is an object."),
        ("", "empty line. Take it out."),
        ("\0", "a NUL character: byte 1 of the line. Is it a text file in UTF-8?"),
    ],
)
def test_bad_objects_are_named(tmp_path: Path, line: str, what: str) -> None:
    good = '{"source": "a", "target": "b"}'
    found = read(tmp_path / "pairs.jsonl", f"{good}\n{line}\n{good}\n")
    assert lines(found) == [1, 3]
    assert problems(found) == [(2, what)]


def test_a_json_line_nested_without_end(tmp_path: Path) -> None:
    found = read(tmp_path / "pairs.jsonl", "[" * 100_000 + "\n")
    assert [(line, what.split(":")[0]) for line, what in problems(found)] == [(1, "not JSON")]


def test_keys_by_name(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    data = '{"translation": {"en": "house", "es": "casa"}, "id": 3}\n'
    assert fields(read(path, data, names=("translation.es", "translation.en"))) == [("casa", "house")]
    assert fields(read(path, '{"1": "a", "2": "b"}\n', names=("2", "1"))) == [("b", "a")]
    with pytest.raises(ValueError, match=r"pairs.jsonl: unknown key 'translation.fr'; known: .* mean 'translation'\?"):
        read(path, data, names=("translation.fr", "translation.en"))


@pytest.mark.parametrize(
    ("data", "found", "columns"),
    [
        ('{"id": 3, "en": "house", "es": "casa"}\n', "source is en, target is es", PAIR),
        (
            '{"translation": {"es": "house", "en": "casa"}}\n',
            "source is translation.es, target is translation.en",
            PAIR,
        ),
        ('{"Review": "house", "stars": "casa", "date": "2020"}\n', "text is Review, label is stars", ("text", "label")),
        ('[{"Texto": "house", "Clase": "casa"}]', "text is Texto, label is Clase", ("text", "label")),
    ],
)
def test_keys_with_usual_names_are_taken_and_reported(
    tmp_path: Path, data: str, found: str, columns: tuple[str, str]
) -> None:
    read_ = read(tmp_path / "pairs.jsonl", data, columns)
    assert fields(read_) == [("house", "casa")]
    assert read_.notes == (f"{tmp_path / 'pairs.jsonl'}: keys: {found}",)


def test_two_other_keys_are_distinguished_by_their_values(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"overall": {n % 5}, "said": "we stayed for {n} nights"}}\n' for n in range(12)))
    found = read_records(path, ("text", "label"))
    assert found.records[1].value == ("we stayed for 1 nights", "1")
    assert found.notes == (f"{path}: keys: text is said, label is overall",)
    path.write_text(
        "".join(f'{{"u": "http://x/{n}", "said": "we stay {n} nights", "ok": {n % 2}}}\n' for n in range(12))
    )
    with pytest.raises(ValueError, match=r"the keys \(u, said, ok\) name no text and label.* columns=said,ok$"):
        read_records(path, ("text", "label"))


def test_a_name_for_texts_over_numbers_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"stars": {n}, "feedback": {n % 2}, "review_text": "{n} nights"}}\n' for n in range(5)))
    assert read_records(path, ("text", "label")).records[3].value == ("3 nights", "3")


def test_rows_by_name_are_no_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"r1": {"text": "a b", "label": "x"}, "r2": {"text": "c d", "label": "y"}}')
    assert [record.value for record in read_records(path, ("text", "label")).records] == [("a b", "x"), ("c d", "y")]


def test_other_keys_are_suggested(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    with pytest.raises(ValueError, match=r"no object has the keys source, target. .* columns=eins,zwei$"):
        read(path, '{"id": 3, "eins": "house", "zwei": "casa"}\n')
    with pytest.raises(ValueError, match=r"unknown key 'source'; known: en, es, fr. Name the 2 to read: columns=KEY"):
        read(path, '{"en": "house", "es": "casa", "fr": "maison"}\n')
    with pytest.raises(ValueError, match=r"unknown key 'target'; known: source, targte. Did you mean 'targte'\?"):
        read(path, '{"source": "house", "targte": "casa"}\n')
    with pytest.raises(ValueError, match=r"label may be stars or class. Say which .* columns=review,stars$"):
        read(path, '{"review": "house", "stars": "casa", "class": "a"}\n', ("text", "label"))


# one JSON value


OBJECT = '{"source": "a", "target": "b"}'


@pytest.mark.parametrize(
    "data",
    [f"[{OBJECT}]", f"[\n  {OBJECT}\n]\n", f'{{"version": 1, "data": [{OBJECT}]}}', '{"source": ["a"], "target": ["b"]}',
     '{"source": {"0": "a"}, "target": {"0": "b"}}', f"{OBJECT}\n", '{\n"source": ["a"],\n"target": ["b"]}'],
)  # fmt: skip
def test_json_files_as_programs_write_them(tmp_path: Path, data: str) -> None:
    assert fields(read(tmp_path / "pairs.json", data)) == [("a", "b")]


def test_a_list_names_its_bad_objects_by_number(tmp_path: Path) -> None:
    found = read(tmp_path / "pairs.json", f'[{OBJECT}, 7, {{"source": "a"}}, {OBJECT}]')
    assert [record.where for record in found.records] == [f"{tmp_path / 'pairs.json'}:{n}" for n in (1, 4)]
    assert [str(problem) for problem in found.problems] == [
        f"{tmp_path / 'pairs.json'}:2: expected an object, found a number. Write a list of objects, or an object a line "
        "(JSONL).",
        f"{tmp_path / 'pairs.json'}:3: no 'target' in the object.",
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('[{"source": "a",\n}]', r"pairs.json:2: not JSON: Expecting property name .* Write a list of objects"),
        ("[" * 100_000, r"pairs.json: not JSON: .*recursion.* Write a list of objects"),
        ('{"source": 3,\n"b": 4}', r"pairs.json: found an object, no list of objects. Write a list"),
        ("[]", r"pairs.json: found a list, no list of objects"),
        ('[{"a": "\xe9"}]', r"not UTF-8"),
    ],
)
def test_json_files_that_hold_something_else(tmp_path: Path, data: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "pairs.json", data.encode("latin-1"))


# Parquet


def test_parquet_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ValueError, match=r"x.parquet: Parquet files are read by pyarrow. Install it: pip install pyarrow"
    ):
        read(tmp_path / "x.parquet", b"PAR1")


def test_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    rows = [
        {"text": " good ", "label": 1, "pair": {"en": "a", "es": "b"}, "score": 0.5},
        {"text": None, "label": 0, "pair": {"en": "c", "es": None}, "score": float("nan")},
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), path)
    found = read_records(path, ("text", "label"))
    assert found.records == (Record(f"{path}:1", ("good", "1")),)
    assert problems(found) == [(2, "text is null, not text.")]
    assert read_records(path, PAIR, TableOptions(columns="pair.es,score")).records[0].value == ("b", "0.5")
    assert problems(read_records(path, PAIR, TableOptions(columns="pair.en,score"))) == [
        (2, "target is a number, not text.")
    ]
    with pytest.raises(ValueError, match=r"unknown key 'txt'; known: label, .* Did you mean 'text'\?"):
        read_records(path, ("text",), TableOptions(columns="txt"))
    with pytest.raises(ValueError, match=r"x.parquet: not a Parquet file, or a damaged one"):
        read(path, path.read_bytes()[:-9])


# aligned files


def aligned(folder: Path, first: bytes, second: bytes) -> str:
    (folder / "train.en.gz").write_bytes(gzip.compress(first))
    (folder / "train.de").write_bytes(second)
    return f"{folder / 'train.en.gz'},{folder / 'train.de'}"


def test_line_i_belongs_to_line_i(tmp_path: Path) -> None:
    data = aligned(tmp_path, "a\tb\u2028 \nc\n".encode(), b"d\r\n  e, f")
    found = read_records(data, PAIR)
    assert fields(found) == [("a\tb", "d"), ("c", "e, f")]
    assert found.records[1].where == f"{tmp_path / 'train.en.gz'}:2"
    assert read_records(data.replace(",", " , "), PAIR) == found


def test_problems_of_aligned_files_name_the_file(tmp_path: Path) -> None:
    data = aligned(tmp_path, b"a\nb\xff\n\nd\ne\0\nf\n\n", b"A\nB\nC\n\nE\xff\nF\n\n")
    found = read_records(data, PAIR)
    assert lines(found) == [1, 6]
    assert [(Path(p.where).name, p.what.split(".")[0].split(":")[0]) for p in found.problems] == [
        ("train.en.gz:2", "not UTF-8"),
        ("train.en.gz:3", "no text for source"),
        ("train.en.gz:4", "no text for target"),
        ("train.en.gz:5", "a NUL character"),
        ("train.de:5", "not UTF-8"),
    ]


@pytest.mark.parametrize(("first", "second"), [(3, 5), (5, 3), (1, 2), (4, 1)])
def test_aligned_files_have_equally_many_lines(tmp_path: Path, first: int, second: int) -> None:
    with pytest.raises(
        ValueError, match=rf"equally many lines: .*en.gz has {first}, .*train.de has {second}. Line i of"
    ):
        read_records(aligned(tmp_path, b"a\n" * first, b"b\n" * second), PAIR)


def test_a_comma_in_the_name_of_one_file(tmp_path: Path) -> None:
    found = read(tmp_path / "one,two.tsv", "a\tb\n")
    assert fields(found) == [("a", "b")]
    assert found.records[0].where == f"{tmp_path / 'one,two.tsv'}:1"


def test_aligned_files_that_make_no_sense(tmp_path: Path) -> None:
    data = aligned(tmp_path, b"a\n", b"b\n")
    with pytest.raises(
        ValueError, match=r"aligned files are one per column \(text\): got 2: .*train.en.gz, .*train.de"
    ):
        read_records(data, ("text",))
    with pytest.raises(ValueError, match=r"columns= chooses columns of one file: got 1,2 for .* Leave it out."):
        read_records(data, PAIR, TableOptions(columns="1,2"))
    with pytest.raises(ValueError, match=r"b.tsv: a table among aligned text files. Give one table"):
        read_records("a.txt,b.tsv", PAIR)
    with pytest.raises(ValueError, match=r"train.fr: no such file"):
        read_records(data.replace("train.de", "train.fr"), PAIR)


# one law for all formats


def test_every_format_reads_the_same_records(tmp_path: Path) -> None:
    rows = [(f"text {number}, \"ñ\" '{number}'", f"; {number}") for number in range(7)]
    buffer = io.StringIO()
    csv.writer(buffer).writerows(rows)
    contents = {
        "x.tsv": "".join(f"{a}\t{b}\n" for a, b in rows),
        "x.csv": buffer.getvalue(),
        "x.jsonl": "".join(json.dumps({"source": a, "target": b}) + "\n" for a, b in rows),
        "x.en": "".join(f"{a}\n" for a, _ in rows),
        "x.es": "".join(f"{b}\n" for _, b in rows),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content.encode())
    for data in (f"{tmp_path}/x.tsv", f"{tmp_path}/x.csv", f"{tmp_path}/x.jsonl", f"{tmp_path}/x.en,{tmp_path}/x.es"):
        assert fields(read_records(data, PAIR)) == rows


class FakeBatch:
    """What pyarrow gives: some values cannot be had, and then no row of the batch can."""

    def __init__(self, rows: list) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def to_pylist(self) -> list:
        for row in self.rows:
            if isinstance(row, Exception):
                raise row
        return self.rows

    def slice(self, start: int, count: int) -> "FakeBatch":
        return FakeBatch(self.rows[start : start + count])


def test_a_value_of_parquet_that_cannot_be_read_is_one_rows_fault() -> None:
    late, odd = (
        ValueError("year 60000 is out of range"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    )
    found = batch_values(FakeBatch(["a", late, "b", odd, OverflowError("int too big"), KeyError("no zone")]))
    assert [value for value, _ in found] == ["a", None, "b", None, None, None]
    assert [(row, fault.split(".")[0]) for row, (_, fault) in enumerate(found) if fault] == [
        (1, "a value cannot be read: year 60000 is out of range"),
        (3, "a value cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (4, "a value cannot be read: int too big"),
        (5, "a value cannot be read: 'no zone'"),
    ]
