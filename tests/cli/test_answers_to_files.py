"""`run --data FILE -o OUT`: every row of a file is answered, in its place, next to its columns."""

import csv
import json
from pathlib import Path

import pytest

from mirada.runs.answers import Answer
from mirada.runs.inputs import Question, Questions, answered_table, table_text
from mirada.runs.load import load
from tests.cli.conftest import Command, Made
from tests.runs.small import QUICK, reviews, trained


def test_answers_stand_next_to_what_was_in_the_file(mirada: Command, made: Made, tmp_path: Path) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text('id,review,score\n1,"the song, was lovely",9\n2,,8\n3,an awful day,7\n', encoding="utf-8")
    done = mirada("run", made.classify, "--data", source, "-o", out)
    with open(out, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "review", "score_given", "answer", "score", "error"]
    answers = load(made.classify)(["the song, was lovely", "an awful day"])
    assert [row["answer"] for row in rows] == [answers[0].text, "", answers[1].text]
    assert float(rows[0]["score"]) == pytest.approx(answers[0].score, abs=1e-6)
    assert rows[1]["score"] == ""
    assert "nothing to classify" in rows[1]["error"]
    assert (done.code, done.out) == (1, "")
    assert "in.csv:3: there is nothing to classify" in done.err
    assert f"3 rows written to {out}, 1 without an answer" in done.err


@pytest.mark.parametrize("ending", ["tsv", "jsonl"])
def test_the_form_of_the_answers_is_that_of_their_name(
    mirada: Command,
    made: Made,
    tmp_path: Path,
    ending: str,
) -> None:
    source, out = tmp_path / "in.txt", tmp_path / f"out.{ending}"
    source.write_text("we buy the red car.\nI see a cat.\n", encoding="utf-8")
    done = mirada("run", made.translate, "--data", source, "-o", out)
    assert done.code == 0, done.err
    wanted = [answer.text for answer in load(made.translate)(["we buy the red car.", "I see a cat."])]
    lines = out.read_text(encoding="utf-8").splitlines()
    if ending == "tsv":
        assert lines[0].split("\t") == ["source", "answer", "score", "error"]
        assert [line.split("\t")[1] for line in lines[1:]] == wanted
    else:
        assert [json.loads(line)["answer"] for line in lines] == wanted


def test_without_a_file_the_answers_are_printed(mirada: Command, made: Made, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("body2\nan awful day\n", encoding="utf-8")
    done = mirada("run", made.classify, "--data", source, "--json", "columns=body2")
    (found,) = [json.loads(line) for line in done.out.splitlines()]
    assert found["input"] == "an awful day"
    assert {item["text"] for item in found["ranked"]} == {"good", "bad"}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("-o", "out.csv"), "-o is the file for the answers to --data: give both"),
        (("--data", "in.csv", "-o", "out.xls"), "unknown format '.xls'; known: .csv, .jsonl, .tsv"),
        (("--data", "in.csv", "-o", "in.csv"), "is the file of the inputs: answers go to another file"),
        (("--data", "in.csv", "-o", "none/out.csv"), "there is no folder none. Make it first."),
        (("--data", "gone.csv", "-o", "out.csv"), "gone.csv: no such file"),
        (
            ("--data", "in.csv", "-o", "out.csv", "vocab=9"),
            "vocab belongs to the run, which is trained: only bad, split",
        ),
        (("--data", "in.csv", "-o", "out.csv", "colums=2"), "Did you mean 'columns'?"),
    ],
)
def test_what_is_impossible_is_reported_before_anything_is_written(
    mirada: Command,
    made: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple,
    error: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("text\nan awful day\n", encoding="utf-8")
    done = mirada("run", made.classify, *words)
    assert (done.code, done.out) == (2, "")
    assert error in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv"]


def test_too_long_inputs_are_refused_or_cut(mirada: Command, made: Made) -> None:
    long = "the song was lovely " * 300
    refused = mirada("run", made.classify, long)
    assert refused.code == 1
    assert "Cut it, or let it be cut: --truncate" in refused.err
    cut = mirada("run", made.classify, long, "--truncate")
    assert (cut.code, cut.out.strip()) == (0, load(made.classify)("the song was lovely " * 100).text)
    assert mirada("run", made.translate, "we buy " * 400, "--truncate", "--json").code == 0
    gap = "we see a cat. " * 200 + "we buy a red ___."
    assert mirada("run", made.fill, gap).code == 1
    filled = mirada("run", made.fill, gap, "--truncate", "--json")
    assert filled.code == 0
    kept = json.loads(filled.out)["input"]
    assert kept.endswith("we buy a red ___.")
    assert len(kept) < len(gap)
    pair = "we see a cat. " * 90 + "we buy a red car.\tIt is red. " + "we see a cat. " * 90
    assert mirada("run", made.fill, pair).code == 1
    both = mirada("run", made.fill, pair, "--truncate", "--json")
    assert both.code == 0, both.err
    assert "we buy a red car.\tIt is red." in json.loads(both.out)["input"]
    assert "truncate is not used by write" in mirada("run", made.write, "we buy", "--truncate").err


def test_a_row_that_is_too_short_is_filled_up() -> None:
    questions = Questions(("a", "error"), [Question("f:1", "x", ("1",), "broken")])
    columns, rows = answered_table(questions, [Answer("x", "", float("nan"), error="broken")])
    assert list(columns) == ["a", "error_given", "answer", "score", "error"]
    assert list(rows) == [("1", "", "", "", "broken")]


def test_numbers_that_json_does_not_know_are_null() -> None:
    assert table_text("x.jsonl", (("a",), [(float("nan"),)])) == '{"a": null}\n'


# what was said of the file that was learned from


@pytest.fixture(scope="module")
def remarks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose own file had to be explained."""
    home = tmp_path_factory.mktemp("remarks")
    rows = [f"{number};{text} película;{label};x" for number, (text, label) in enumerate(reviews())]
    (home / "survey.csv").write_text("n;remark;again;odd\n" + "\n".join(rows) + "\n", encoding="cp1252")
    keys = ("columns=remark,again", "encoding=cp1252", "separator=;", "header=yes")
    return trained("classify", str(home / "survey.csv"), home / "run", *QUICK, *keys).folder


def test_another_file_is_recognized_anew(mirada: Command, remarks: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "new.csv", tmp_path / "out.csv"
    source.write_text("id,text\n7,una película lovely\n", encoding="utf-8")
    done = mirada("run", remarks, "--data", source, "-o", out)
    assert done.code == 0, done.err
    assert "una película lovely" in out.read_text(encoding="utf-8")
    source.write_text("text,label\nuna película lovely,good\nan awful day,bad\n", encoding="utf-8")
    assert [record.value[0] for record in load(remarks).splits(str(source)).test] == [
        "una película lovely",
        "an awful day",
    ]
    measured = mirada("eval", remarks, "--data", source, "--json")
    assert measured.code == 0, measured.err
    assert json.loads(measured.out)["accuracy_majority"] == 50.0, "its own file is still read as it was"


def test_a_file_that_needs_the_same_explanation_gets_a_hint(mirada: Command, remarks: Path, tmp_path: Path) -> None:
    source = tmp_path / "again.csv"
    rows = [f"{number};{label};{label};{text};{text}" for number, (text, label) in enumerate(reviews())]
    source.write_text("n;again;other;remark;more\n" + "\n".join(rows) + "\n", encoding="utf-8")
    hint = "This run was trained with columns=remark,again header=yes separator=';' encoding=cp1252."
    for words in (("eval", remarks, "--data", source), ("run", remarks, "--data", source)):
        done = mirada(*words)
        assert (done.code, done.out) == (2, "")
        assert hint in done.err
        assert mirada(*words, "columns=remark,again").code == 0
    assert load(remarks).measure(str(source), columns="remark,again")["accuracy"] >= 0
    with pytest.raises(ValueError, match="vocab belongs to the run"):
        load(remarks).measure(str(source), vocab=9)
    with pytest.raises(ValueError, match="columns can be given for other data than the run's own"):
        load(remarks).measure(columns="remark,again")


# blank lines


def test_blank_lines_of_a_text_file_are_as_on_standard_input(mirada: Command, made: Made, tmp_path: Path) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out.tsv"
    source.write_text("a fine film\n\n  \nan awful day\n\n \n", encoding="utf-8")
    done = mirada("run", made.classify, "--data", source)
    answers = [answer.text for answer in load(made.classify)(["a fine film", "an awful day"])]
    assert (done.code, done.out.split("\n")) == (0, [answers[0], "", "", answers[1], ""])
    piped = mirada("run", made.classify, stdin=source.read_bytes().rstrip() + b"\n")
    assert (piped.code, piped.out) == (done.code, done.out)
    assert mirada("run", made.classify, "--data", source, "-o", out).code == 0
    assert len(out.read_text(encoding="utf-8").splitlines()) == 5, (
        "a header, and lines up to the last that says something"
    )
    source.write_text("\n \n", encoding="utf-8")
    assert "has no inputs" in mirada("run", made.classify, "--data", source).err


def test_a_blank_cell_of_a_table_is_an_error(mirada: Command, made: Made, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "a fine film"}\n{"text": ""}\n', encoding="utf-8")
    done = mirada("run", made.classify, "--data", source, "--json")
    assert done.code == 1
    assert "error" in json.loads(done.out.splitlines()[1])


def test_what_stands_next_to_the_inputs_of_json_stays_what_it_is(mirada: Command, made: Made, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    given = [{"id": 5, "text": "an awful day", "more": {"a": [1, 2.5]}, "none": None}, {"id": 6, "late": True}]
    source.write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
    found = {}
    for ending in ("jsonl", "tsv"):
        done = mirada("run", made.classify, "--data", source, "-o", tmp_path / f"out.{ending}")
        assert "in.jsonl:2: no 'text' in the object." in done.err
        found[ending] = (tmp_path / f"out.{ending}").read_text(encoding="utf-8").splitlines()
    first, second = map(json.loads, found["jsonl"])
    assert {name: first[name] for name in given[0]} == given[0]
    assert (second["id"], second["late"]) == (6, True), "a key that the first object does not have"
    cells = [line.split("\t")[:5] for line in found["tsv"]]
    assert cells == [["id", "text", "more", "none", "late"], ["5", "an awful day", '{"a": [1, 2.5]}', "", ""],
                     ["6", "", "", "", "true"]]  # fmt: skip


def test_columns_with_one_name_are_all_kept() -> None:
    questions = Questions(("text", "label", "label"), [Question("a.csv:2", "one", ("one", "x", "y"))])
    table = answered_table(questions, [Answer("one", "z", 0.5)])
    assert json.loads(table_text("a.jsonl", table)) == {
        "text": "one", "label": "x", "label_2": "y", "answer": "z", "score": 0.5, "error": "",
    }  # fmt: skip


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_cells_that_a_spreadsheet_would_execute_are_texts(ending: str) -> None:
    cells = ["=cmd|' /C calc'!A0", "+1+2", "-1+2", "@SUM(1)", "\t=1", "\ufeff=1", "\uff1d1", "a\x1b]0;x\x07b\x9b31m"]
    plain = ["-2.5", "+7", "1e-3", "a=b", "don't", "", "ni\u00f1a", "-", "- a list", "-inf"]
    text = table_text(f"a.{ending}", (("=x", "b"), [(cell, "") for cell in cells + plain]))
    rows = list(csv.reader(text.splitlines(), delimiter="," if ending == "csv" else "\t", quoting=csv.QUOTE_MINIMAL))
    assert rows[0] == ["'=x", "b"]
    for row in rows[1:8]:
        assert row[0].startswith("'"), row
    assert rows[8][0] == r"a\x1b]0;x\x07b\x9b31m"
    kept = [row[0] for row in rows[9:]]
    assert kept == ["-2.5", "+7", "1e-3", "a=b", "don't", "", "ni\u00f1a", "-", "'- a list", "-inf"]


def test_line_ends_in_a_cell_of_csv_stay() -> None:
    text = table_text("a.csv", (("text",), [("two\nlines\tand a tab",)]))
    assert text == 'text\n"two\nlines\tand a tab"\n'
