"""Text from data is shown on a terminal and not obeyed; in a pipe it is exact."""

import sys
from pathlib import Path

import pytest

from mirada.cli.main import main
from tests.runs.small import QUICK, write_rows

LABELS = ("\x1b[31mgood", "\u202ebad")
ROWS = [
    (f"the film was {word} {n}", label) for n in range(20) for word, label in zip(("good", "bad"), LABELS, strict=True)
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_rows(tmp_path_factory.mktemp("data") / "reviews.tsv", ROWS)


@pytest.mark.parametrize("terminal", [True, False])
def test_labels_answers_and_errors(
    tmp_path: Path, data: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
    bad = write_rows(tmp_path / "bad.tsv", [("text \x9b", "\x1b[5mlabel"), (*ROWS[0], "one \x1b[2Jmore"), *ROWS])
    (tmp_path / "head.csv").write_text(
        "te\x1b[7mxt,\u202elabel\n" + "".join(f"{text},{label}\n" for text, label in ROWS)
    )
    commands = (
        ["train", "classify", "--data", data, "--out", str(tmp_path / "run"), *QUICK],
        ["run", str(tmp_path / "run"), "\x1b[2Jthe film"],
        ["eval", str(tmp_path / "run")],
        ["check", "classify", "--data", bad],
        ["check", "classify", "--data", str(tmp_path / "head.csv"), "columns=te\x1b[7mxt,no\x1b[8m"],
    )
    told = ""
    for words in commands:
        monkeypatch.setattr(sys, "argv", ["mirada", *words])
        with pytest.raises(SystemExit):
            main()
        told += "".join(capsys.readouterr())
    for ours in ("\r\x1b[2K", "\x1b[36m", "\x1b[0m"):  # the progress bar
        told = told.replace(ours, "")
    assert [c for c in "\x1b\x9b\u202e" if c in told] == ([] if terminal else ["\x1b", "\x9b", "\u202e"])
    assert (r"\x1b[31mgood" in told) == (r"\u202ebad" in told) == terminal
