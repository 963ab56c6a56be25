"""`mirada run DIR --ids "1 2 3"`: numbers of tokens in place of a text."""

from pathlib import Path

import pytest

from mirada import load
from mirada.data.text.tokenize import TokenIds
from tests.cli.conftest import Command

RUNS = Path(__file__).parents[1] / "runs" / "written_by_0_1"


def test_numbers_are_read_as_the_text_they_stand_for(mirada: Command) -> None:
    folder = RUNS / "translate"
    done = mirada("run", folder, "--ids", "6 7 8", "--ids", "9")
    assert (done.code, len(done.out.splitlines())) == (0, 2)


@pytest.mark.parametrize("task", ["translate", "classify", "write"])
def test_the_answer_is_that_of_the_text(task: str) -> None:
    run = load(RUNS / task)
    text = "a b"
    ids = TokenIds(" ".join(map(str, run.known.tokenizer.encode(text))))
    ask = {"tokens": 9} if task == "write" else {}
    ours, theirs = run(ids, **ask), run(text, **ask)
    assert ours.score == theirs.score
    assert ours.text.removeprefix(ids) == theirs.text.removeprefix(text)


def test_gaps_among_numbers() -> None:
    run = load(RUNS / "fill")
    known = run.known.tokenizer
    ids = [str(id) if id != known.mask else "___" for id in known.encode_blanks("a ___ b")]
    assert run(TokenIds(" ".join(ids))).text == run("a ___ b").text
    assert run(TokenIds(" ".join(map(str, known.encode_blanks("a ___ b"))))).score == run("a ___ b").score


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("translate", "--ids", "6 x"), "must be numbers"),
        (("translate", "--ids", "6 99999"), "must lie in 0.."),
        (("translate", "text", "--ids", "6"), "--ids are the inputs: give no others"),
        (("caption", "--ids", "6"), "--ids are the tokens of a text, and this run takes pictures"),
    ],
)
def test_what_is_no_number_is_named(mirada: Command, words: tuple[str, ...], message: str) -> None:
    done = mirada("run", RUNS / words[0], *words[1:])
    assert done.code != 0
    assert message in done.err
    assert "Traceback" not in done.err
