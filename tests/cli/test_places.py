"""Files where a command expects something else: understood, or answered with the command to type."""

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Command, Made
from tests.cli.test_bad_input import assert_refused
from tests.runs.small import QUICK, pairs, reviews, text, write_rows


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data of several kinds, to be in."""
    monkeypatch.chdir(tmp_path)
    write_rows(Path("pairs.tsv"), [("english", "spanish"), *pairs()])
    Path("reviews.csv").write_text("Review;Stars\n" + "".join(f"{a};{b}\n" for a, b in reviews()))
    Path("reviews.ft").write_text("".join(f"__label__{b} {a}\n" for a, b in reviews()))
    Path("book.txt").write_text(text())
    Path("questions.jsonl").write_text('{"question": "who?", "context": "Ana reads.", "answer": "Ana"}\n')
    for part, rows in (("train", reviews()[:30]), ("test", reviews()[30:])):
        for number, (review, label) in enumerate(rows):
            place = Path("imdb", part, label)
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number}.txt").write_text(review)
    for place in ("pictures/cat", "books", "sounds"):
        Path(place).mkdir(parents=True)
    Path("pictures/cat/1.png").write_bytes(b"\x89PNG")
    Path("books/one.txt").write_text(text())
    Path("sounds/1.wav").write_bytes(b"RIFF")
    return tmp_path


FIRST = "and the task comes first: mirada"
HINTS = [
    ("train reviews.csv", f"reviews.csv is a file, {FIRST} train classify --data reviews.csv"),
    ("train reviews.csv classify steps=3", f"{FIRST} train classify --data reviews.csv steps=3"),
    ("train pairs.tsv", f"{FIRST} train translate --data pairs.tsv"),
    ("train reviews.ft", f"{FIRST} train classify --data reviews.ft"),
    ("train book.txt", f"{FIRST} train write --data book.txt"),
    ("train imdb", f"imdb is a folder, {FIRST} train classify --data imdb"),
    ("train books", f"{FIRST} train write --data books"),
    ("check reviews.csv", f"{FIRST} check classify --data reviews.csv"),
    ("train reviws.csv", "reviws.csv: no such file, and no task. Did you mean 'reviews.csv'?"),
    ("train classify reviws.csv", "reviws.csv: no such file, and no KEY=VALUE. Did you mean 'reviews.csv'?"),
    ("train classify data=reviews.csv", "data is an option: --data reviews.csv"),
    ("check classify valid=reviews.csv", "valid is an option: --valid reviews.csv"),
    ("train classify reviews.csv reviews.ft", "2 files (reviews.csv, reviews.ft). Say what they are for: mirada train "
     "classify --data reviews.csv --valid reviews.ft"),
    ("train classify --data reviews.csv imdb", "mirada train classify --data reviews.csv --valid imdb"),
    ("train classify https://a.b/c.csv", "https://a.b/c.csv: an address, not a file. Download it first"),
    ("train classify --data https://a.b/c.csv", "mirada: https://a.b/c.csv: an address, not a file. Download it first"),
    ("train translate --data imdb", "train: a folder, not a file."),
    ("look reviews.csv runs/x", "The folder of a run comes first: mirada look DIR reviews.csv"),
    ("run reviews.csv", "reviews.csv is not a folder but a file. The folder of a run comes first: mirada run DIR --data "
     "reviews.csv -o answers.csv"),
    ("eval reviews.csv", "The folder of a run comes first: mirada eval DIR --data reviews.csv"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), HINTS, ids=[row[0] for row in HINTS])
def test_a_hint_has_the_command(mirada: Command, files: Path, line: str, message: str) -> None:
    assert_refused(mirada(*line.split()), message)
    assert not Path("runs").exists()


def test_an_unknown_task_lists_the_tasks(mirada: Command, files: Path) -> None:
    Path("x.npz").write_bytes(b"PK\x03\x04")
    assert_refused(mirada("train", "x.npz"), "mirada train TASK --data x.npz. TASK is one of ", "classify")


@pytest.mark.parametrize("place", ["reviews.csv", "imdb", "reviews.ft"])
def test_a_file_among_the_keys_is_the_data(mirada: Command, files: Path, place: str) -> None:
    done = mirada("train", "classify", place, *QUICK, "--out", "run")
    assert done.code == 0, done.err
    assert f"mirada: {place} is taken as --data\n" in done.err
    checked = mirada("check", "classify", *QUICK, place)
    assert (checked.code, checked.err) == (0, f"mirada: {place} is taken as --data\n")
    measured = mirada("eval", "run", place)
    assert measured.code == 0
    assert f"mirada: {place} is taken as --data\n" in measured.err


def test_aligned_files_among_the_keys(mirada: Command, files: Path) -> None:
    for number, name in enumerate(("a.en", "a.es")):
        Path(name).write_text("".join(f"{row[number]}\n" for row in pairs()))
    assert mirada("check", "translate", "a.en,a.es", *QUICK).err == "mirada: a.en,a.es is taken as --data\n"
    two = mirada("check", "translate", "a.en", "a.es")
    assert_refused(two, "mirada check translate --data a.en --valid a.es")


def test_the_name_of_a_file_is_no_text(mirada: Command, files: Path, made: Made) -> None:
    line = f"mirada run {made.classify}"
    hint = f"To answer its lines: {line} --data book.txt -o answers.csv, or {line} < book.txt"
    assert_refused(mirada("run", made.classify, "book.txt"), "book.txt is a file, and this run takes texts.", hint)
    assert_refused(
        mirada("run", "book.txt", made.classify), f"mirada run {made.classify} --data book.txt -o answers.csv"
    )
    assert mirada("run", made.classify, "no such file.txt").code == 0
    assert mirada("run", made.classify, stdin=b"book.txt\n").code == 0


def test_the_name_of_a_task_is_no_folder(mirada: Command, files: Path, made: Made) -> None:
    Path("runs").mkdir()
    os.symlink(made.classify, "runs/classify")
    assert_refused(mirada("run", "classify", "a fine film"), "classify is not a folder. Did you mean runs/classify?")
    assert_refused(mirada("train", "runs/classify"), "runs/classify is the folder of a run, and train takes a task")


def test_questions_of_folders_and_fasttext(mirada: Command, files: Path, made: Made) -> None:
    assert mirada("run", made.classify, "--data", "imdb/test", "-o", "a.csv").code == 0
    assert Path("a.csv").read_text().splitlines()[0] == "name,text,answer,score,error"
    assert mirada("run", made.classify, "--data", "reviews.ft", "-o", "b.csv").code == 0
    first, second = Path("b.csv").read_text().splitlines()[:2]
    assert first == "text,label,answer,score,error"
    assert second.startswith(",".join(reviews()[0]))


def test_a_thousand_equal_problems_are_told_once(mirada: Command, files: Path, made: Made) -> None:
    Path("bad.tsv").write_text(
        "".join(f"only one {n}\n" for n in range(1000)) + "".join(f"{a}\t{b}\n" for a, b in reviews())
    )
    trained = mirada("train", "classify", "--data", "bad.tsv", *QUICK)
    assert trained.err.splitlines() == [
        f"mirada: {files}/bad.tsv:1: expected 2 columns, found 1. Each line is text<TAB>label. "
        "If something else divides the cells, say it: separator=.",
        "  and 999 more of this kind (`mirada check --all` lists each)",
        "Fix these records, or leave them out with bad=skip.",
    ]
    measured = mirada("eval", made.classify, "--data", "bad.tsv")
    assert measured.code == 2
    assert len(measured.err.splitlines()) == 3
    checked = mirada("check", "classify", "--data", "bad.tsv", *QUICK)
    assert checked.out.splitlines()[1] == "  and 999 more of this kind (--all lists each)"
    assert len(checked.out.splitlines()) == 4
    assert len(mirada("check", "classify", "--data", "bad.tsv", "--all", *QUICK).out.splitlines()) == 1002


def test_many_unknown_labels_are_one_kind(mirada: Command, files: Path, made: Made) -> None:
    write_rows(Path("other.tsv"), [(f"text {n}", f"label {n}") for n in range(50)])
    done = mirada("eval", made.classify, "--data", "other.tsv")
    assert done.code == 2
    assert [line.split(" (")[0] for line in done.err.splitlines()] == [
        "mirada: other.tsv:1: label 'label 0' does not occur in training; known: bad, good",
        "  and 49 more of this kind",
    ]
