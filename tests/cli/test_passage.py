"""Questions about passages on the command line: --passage, files of questions, and everything that can go wrong."""

import csv
import json
import re
from pathlib import Path

import pytest

from mirada.runs.load import load
from tests.cli.conftest import Command, Made
from tests.runs.small import QUICK, questions, trained, write_questions

PASSAGE = "Today Luis took the key. 🎉 It rained.\r\nThen Ana took the hat.\n"
KEYS = (
    "width=32", "hidden=64", "depth=2", "heads=2", "steps=120", "validate=60", "batch_tokens=1024", "warmup=10", "lr=1e-2",
    "dropout=0", "length=64",
)  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_questions(tmp_path_factory.mktemp("data") / "questions.jsonl", questions())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, data: str) -> Path:
    return trained("answer", data, tmp_path_factory.mktemp("run") / "took", *KEYS).folder


@pytest.fixture
def passage(tmp_path: Path) -> Path:
    path = tmp_path / "passage.txt"
    path.write_bytes(PASSAGE.encode())
    return path


def test_questions_with_a_passage_from_a_file(mirada: Command, folder: Path, passage: Path) -> None:
    done = mirada("run", folder, "Who has the key?", "Who has the hat?", "--passage", passage)
    assert (done.code, done.out, done.err) == (0, "Luis\nAna\n", "")
    piped = mirada("run", folder, "--passage", passage, stdin=b"Who has the key?\nWho has the hat?\n")
    assert (piped.code, piped.out) == (0, done.out)


def test_a_passage_from_standard_input(mirada: Command, folder: Path) -> None:
    done = mirada("run", folder, "Who has the hat?", "--passage", "-", "--json", stdin=PASSAGE.encode())
    found = json.loads(done.out)
    assert list(found) == ["input", "text", "score", "start", "end"]
    assert (found["input"], found["text"]) == ("Who has the hat?", "Ana")
    assert PASSAGE[found["start"] : found["end"]] == "Ana", "every character counts as it is, line ends too"
    marked = mirada(
        "run", folder, "Who has the hat?", "--passage", "-", "--json", stdin=b"\xef\xbb\xbf" + PASSAGE.encode()
    )
    assert marked.out == done.out, "the mark of a file is no character of it"


def test_a_question_and_its_passage_in_a_line(mirada: Command, folder: Path) -> None:
    done = mirada("run", folder, stdin=b"Who has the key?\tToday Eva took the key. It rained.\n")
    assert (done.code, done.out) == (0, "Eva\n")


def test_no_answer_is_an_empty_line_and_a_note(mirada: Command, folder: Path, passage: Path) -> None:
    done = mirada("run", folder, "Who has the ring?", "Who has the key?", "--passage", passage)
    assert (done.code, done.out) == (0, "\nLuis\n")
    assert re.fullmatch(
        r"mirada: the passage has no answer to 'Who has the ring\?' \(probability [01].\d\d\)\n", done.err
    )
    found = json.loads(mirada("run", folder, "Who has the ring?", "--passage", passage, "--json").out)
    assert (found["text"], found["start"], found["end"]) == ("", None, None)
    assert 0.5 < found["score"] <= 1


def test_other_places_are_ranked(mirada: Command, folder: Path, passage: Path) -> None:
    lines = mirada("run", folder, "Who has the key?", "--passage", passage, "--best", 3).out.splitlines()
    assert len(lines) == 3
    assert lines[0].split()[1] == "Luis"
    found = json.loads(mirada("run", folder, "Who has the key?", "--passage", passage, "--best", 3, "--json").out)
    assert [set(item) for item in found["ranked"]] == [{"text", "score"}] * 3
    assert found["ranked"][0]["text"] == found["text"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_a_passage_as_an_editor_saves_it(mirada: Command, folder: Path, tmp_path: Path, encoding: str) -> None:
    path, mark = tmp_path / "passage.txt", "\ufeff" if encoding == "utf-16-be" else ""
    path.write_bytes((mark + PASSAGE).encode(encoding))
    for words, stdin in (((path,), b""), (("-",), path.read_bytes())):
        done = mirada("run", folder, "Who has the hat?", "--json", "--passage", *words, stdin=stdin)
        found = json.loads(done.out)
        assert PASSAGE[found["start"] : found["end"]] == found["text"] == "Ana"


def test_the_name_of_a_file_is_no_question(mirada: Command, folder: Path, passage: Path) -> None:
    done = mirada("run", folder, passage)
    assert (done.code, done.out) == (2, "")
    assert f"{passage} is a file, and this run takes questions. If it is the passage: " in done.err
    assert f'mirada run {folder} "QUESTION" --passage {passage}; if it holds questions: ' in done.err


def test_a_question_that_is_too_long_is_cut_on_request(mirada: Command, folder: Path, passage: Path) -> None:
    long = "Who has the key? " + "please " * 60
    refused = mirada("run", folder, long, "--passage", passage)
    assert refused.code == 1
    assert "too long: the question has 65 tokens, at most 29 fit." in refused.err
    assert "--truncate (in Python and JSON: truncate) cuts it." in refused.err
    cut = mirada("run", folder, long, "--passage", passage, "--truncate")
    assert (cut.code, len(cut.out.splitlines())) == (0, 1)
    answer = load(folder)(long, passage=PASSAGE, truncate=True)
    assert len(answer.written) == 29
    assert answer.weights.shape == (29, len(answer.read))
    unknown = mirada("run", folder, "Who?", "--beam", 2)
    assert unknown.err == "mirada: beam is not used by answer; it takes best, passage, truncate\n"


# what is wrong with a passage


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "passage.txt: no such file"),
        (b"", "passage.txt: the file is empty"),
        (b" \n", "passage.txt: the passage is empty"),
        (b"caf\xe9", "passage.txt: not UTF-8: byte 4 is 0xe9. Save the passage as UTF-8."),
    ],
)
def test_a_passage_that_cannot_be_read(
    mirada: Command, folder: Path, tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "passage.txt"
    if content is not None:
        path.write_bytes(content)
    done = mirada("run", folder, "Who?", "--passage", path)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("stdin", "message"),
    [(b"", "standard input: the passage is empty"), (b"\xff", "standard input: not UTF-8: byte 1")],
)
def test_standard_input_that_is_no_passage(mirada: Command, folder: Path, stdin: bytes, message: str) -> None:
    done = mirada("run", folder, "Who?", "--passage", "-", stdin=stdin)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_questions_and_passage_cannot_both_come_from_standard_input(mirada: Command, folder: Path) -> None:
    done = mirada("run", folder, "--passage", "-", stdin=b"Who?\n")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "mirada: --passage - takes all of standard input: give the questions as arguments, or the passage as a file\n"
    )


def test_a_question_without_a_passage(mirada: Command, folder: Path, passage: Path) -> None:
    done = mirada("run", folder, "Who?")
    assert (done.code, done.out) == (1, "\n")
    assert done.err == (
        "mirada: a question needs a passage that contains its answer: 'Who?' has none. Give it with --passage FILE (in "
        "Python and JSON: passage), or after the question and a tab.\n"
    )
    mixed = mirada("run", folder, "--passage", passage, "--json", "", "Who has the key?")
    objects = [json.loads(line) for line in mixed.out.splitlines()]
    assert (mixed.code, set(objects[0]), objects[1]["text"]) == (1, {"input", "error"}, "Luis")


@pytest.mark.parametrize("task", ["translate", "classify", "fill", "write"])
def test_other_tasks_have_no_passage(mirada: Command, made: Made, task: str) -> None:
    done = mirada("run", getattr(made, task), "hello", "--passage", "nowhere.txt")
    assert (done.code, done.out) == (2, "")
    assert f"passage is not used by {task}" in done.err


# files


def test_a_file_of_questions_is_answered(mirada: Command, folder: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "new.jsonl", tmp_path / "out.csv"
    lines = [
        {"id": 7, "question": "Who has the key?", "context": PASSAGE, "start": 3},
        {"id": 8, "question": "Who has the ring?", "context": PASSAGE},
        {"id": 9, "question": "Who has the hat?"},
    ]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    done = mirada("run", folder, "--data", source, "-o", out)
    assert done.code == 1
    assert f"{source}:3: no passage. Give it in a column context, or one for all with --passage." in done.err
    with open(out, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "question", "context", "start_given", "answer", "score", "error", "start", "end"]
    assert [row["answer"] for row in rows] == ["Luis", "", ""]
    assert [row["id"] for row in rows] == ["7", "8", "9"]
    assert PASSAGE[int(rows[0]["start"]) : int(rows[0]["end"])] == "Luis"
    assert (rows[1]["start"], rows[1]["error"], float(rows[1]["score"]) > 0.5) == ("", "", True)
    assert rows[2]["error"].startswith("no passage.")
    text = tmp_path / "passage.txt"
    text.write_text("Today Eva took the hat. It rained. Then Ana took the ring.", encoding="utf-8")
    done = mirada("run", folder, "--data", source, "-o", tmp_path / "all.jsonl", "--passage", text)
    assert done.code == 0, done.err
    found = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [item["answer"] for item in found] == ["Luis", "", "Eva"]


def test_lines_of_a_text_file_are_questions_about_one_passage(
    mirada: Command, folder: Path, tmp_path: Path, passage: Path
) -> None:
    source = tmp_path / "questions.txt"
    source.write_text("Who has the key?\nWho has the hat?\n", encoding="utf-8")
    done = mirada("run", folder, "--data", source, "--passage", passage)
    assert (done.code, done.out) == (0, "Luis\nAna\n")


def test_measuring_with_squad(mirada: Command, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "test.json"
    items = [
        {"id": "a", "question": "Who has the key?", "answers": [{"text": "Luis", "answer_start": 6}]},
        {"id": "b", "question": "Who has the hat?", "answers": [{"text": "It", "answer_start": 27}]},
        {"id": "c", "question": "Who has the ring?", "answers": [], "is_impossible": True},
        {"id": "d", "question": "Who?", "answers": [{"text": "Bob", "answer_start": 0}]},
    ]
    squad = {"data": [{"paragraphs": [{"context": PASSAGE, "qas": items}]}]}
    path.write_text(json.dumps(squad), encoding="utf-8")
    refused = mirada("eval", folder, "--data", path)
    assert refused.code == 2
    assert f"{path}, question d: the answer does not occur in its passage: 'Bob'." in refused.err
    del items[3]
    path.write_text(json.dumps(squad), encoding="utf-8")
    done = mirada("eval", folder, "--data", path, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert set(found) == {"exact", "f1", "exact_window", "f1_window"}
    assert (found["exact"], found["f1"]) == pytest.approx((200 / 3, 200 / 3))
    own = json.loads(mirada("eval", folder, "--json").out)
    assert set(own) == {"exact", "f1", "exact_window", "f1_window"}
    assert own["exact"] == load(folder).measure()["exact"]


def test_bad_questions_are_named_before_training(mirada: Command, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    lines = [json.dumps(dict(zip(("question", "context", "answer"), row[:3], strict=True))) for row in questions()[:40]]
    path.write_text(
        "\n".join([*lines, '{"question": "Who?", "context": "Ana.", "answer": "Eva"}', "{", lines[0]]) + "\n"
    )
    done = mirada("train", "answer", "--data", path, "--out", tmp_path / "run", *QUICK)
    assert (done.code, done.out) == (2, "")
    assert f"{path}:41: the answer does not occur in its passage: 'Eva'." in done.err
    assert f"{path}:42: not JSON" in done.err
    assert not (tmp_path / "run").exists()
    checked = mirada("check", "answer", "--data", path, *QUICK)
    assert checked.code == 1
    assert f"{path}:41: the answer does not occur in its passage: 'Eva'." in checked.out
    assert "questions to learn from" in checked.out
    skipped = mirada("train", "answer", "--data", path, "--out", tmp_path / "run", *QUICK, "bad=skip")
    assert skipped.code == 0, skipped.err
    assert "2 bad records are left out" in skipped.err
    assert "  ->  " in skipped.out
    assert "--passage -" in skipped.err, "the command to go on with"


def test_a_file_that_holds_no_questions(mirada: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"articles": []}')
    done = mirada("train", "answer", "--data", path, "--out", tmp_path / "run")
    assert done.code == 2
    assert "not in SQuAD's form" in done.err
    done = mirada("train", "answer", "--data", tmp_path / "a.csv", "--out", tmp_path / "run")
    assert "Questions come as SQuAD JSON, or as JSON lines" in done.err
