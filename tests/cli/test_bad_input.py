"""Whatever is wrong: a line or two on stderr that say what and how to go on, no traceback, and nothing lost."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Command, Done, Made
from tests.runs.small import QUICK, pairs, write_rows


def assert_refused(done: Done, *wanted: str, code: int = 2, lines: int = 2) -> None:
    assert done.code == code, done.err
    assert done.out == ""
    told = [
        line
        for line in done.err.splitlines()
        if not line.startswith(("chosen for ", "translate:", "Transformer with", "computing with"))
    ]
    assert told, "nothing was said"
    assert told[0].startswith("mirada: ")
    assert len(told) <= lines, done.err
    assert "Traceback" not in done.err
    for text in wanted:
        assert text in done.err, done.err


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of bad files, to be in."""
    monkeypatch.chdir(tmp_path)
    write_rows(Path("pairs.tsv"), pairs())
    write_rows(Path("three.tsv"), pairs()[:3])
    write_rows(Path("one.tsv"), pairs()[:1])
    write_rows(Path("same.tsv"), [("one", "uno")] * 5)
    write_rows(Path("single.tsv"), [(f"text {n}", "yes") for n in range(9)])
    write_rows(Path("labels.tsv"), [("good", "yes"), ("bad", "no"), ("fine", "yes"), ("sad", "no"), ("so so", "no")])
    write_rows(Path("unseen.tsv"), [("nice", "maybe")])
    Path("empty.tsv").touch()
    Path("blank.txt").write_text("\n \n\n")
    Path("column.tsv").write_text("one\ntwo\n")
    Path("latin.tsv").write_bytes(b"caf\xe9\tcoffee\n" * 2)
    Path("nul.tsv").write_bytes(b"a\0b\tc\n" * 2)
    Path("broken.csv").write_text('"a,b\n')
    Path("broken.jsonl").write_text('{"source": "a"\n')
    Path("cut.tsv.gz").write_bytes(b"\x1f\x8b\x08\x00\x00")
    Path("picture.xyz").write_text("no tabs here\n")
    Path("a.en").write_text("one\ntwo\n")
    Path("a.es").write_text("uno\n")
    Path("short.txt").write_text("Too short.\n")
    Path("folder").mkdir()
    return tmp_path


TRAIN = [
    # what is asked for
    ("train translat", "unknown task 'translat'", "Did you mean 'translate'?"),
    ("train translate --model transfomer", "unknown model for translate", "Did you mean 'transformer'?"),
    ("train translate stesp=3", "unknown key 'stesp'", "Did you mean 'steps'?"),
    ("train translate recipe.width=3", "unknown key 'width'"),
    ("train translate receipt.steps=3", "unknown group of keys 'receipt'", "Did you mean 'recipe'?"),
    ("train translate steps", "expected KEY=VALUE, got 'steps'"),
    ("train translate steps=3 steps=4", "steps is given twice"),
    ("train translate steps=3 --minutes 2", "steps=3 and minutes=2.0 say twice how long a run is. Give one of them."),
    ("train write epochs=1 --minutes 2", "minutes=2.0 and epochs=1 say twice how long a run is"),
    ("train translate steps=few", "steps must be a whole number: got 'few'"),
    ("train translate steps=-1", "steps must be at least 0: got -1"),
    ("train translate lr=nan", "lr must be a positive number: got nan"),
    ("train translate lr=-1", "lr must be a positive number: got -1.0"),
    ("train translate minutes=inf", "minutes must be finite: got inf"),
    ("train translate --minutes nan", "minutes must be at least 0: got nan"),
    ("train translate --minutes -3", "minutes must be at least 0: got -3.0"),
    ("train translate clip=inf", "clip must be finite"),
    ("train translate seed=-1", "seed must lie in"),
    ("train translate batch_tokens=0", "batch_tokens must be at least 1: got 0"),
    ("train translate dropout=1.5 --data pairs.tsv", "dropout must lie in [0, 1)"),
    ("train translate lowercase=maybe", "lowercase must be yes or no"),
    ("train translate tokenizer=bpee", "Did you mean 'bpe'?"),
    ("train translate schedule=cosin", "Did you mean 'cosine'?"),
    ("train translate precision=float99", "unknown precision 'float99'"),
    ("train translate bad=ignore", "unknown bad 'ignore'; known: skip, stop"),
    ("train translate position=rotari --data pairs.tsv", "Did you mean 'rotary'?"),
    ("train translate where=windw:4 --data pairs.tsv", "Did you mean 'window'?"),
    ("train translate width=33 heads=2 --data pairs.tsv", "width must be divisible by heads"),
    ("train translate vocab=3 --data pairs.tsv", "vocab must be at least"),
    ("train translate --device gpu", "device 'gpu' cannot be used here", "Use --device cpu"),
    # the files
    ("train translate --data missing.tsv", "missing.tsv: no such file."),
    ("train translate --data pair.tsv", "Did you mean '", "pairs.tsv'?"),
    ("train translate --data nowhere/pairs.tsv", "There is no folder"),
    ("train translate --data folder", "a folder, not a file"),
    ("train translate --data empty.tsv", "the file is empty"),
    ("train translate --data cut.tsv.gz", "cut short or damaged"),
    ("train translate --data picture.xyz", "unknown format '.xyz'"),
    ("train translate --data a.en,a.es", "equally many lines", "a.en has 2", "a.es has 1"),
    ("train translate --data a.en,missing.es", "missing.es: no such file"),
    ("train translate --data a.en,pairs.tsv", "a table among aligned text files"),
    ("train translate --data one.tsv", "holding out needs at least 2 different records"),
    ("train translate --data same.tsv", "holding out needs at least 2 different records"),
    ("train translate --data pairs.tsv columns=1", "columns= must name 2 (source, target): got 1"),
    ("train translate --data pairs.tsv columns=english,spanish", "unknown column 'english'"),
    ("train translate --valid pairs.tsv", "--valid needs --data"),
    ("train translate --data pairs.tsv --valid ./pairs.tsv", "--valid is the file of --data"),
    ("train classify --data single.tsv", "at least two labels: all records have 'yes'"),
    ("train classify --data labels.tsv --valid unseen.tsv", "unseen.tsv:1: label 'maybe' does not occur in training"),
    ("train write --data short.txt", "a text must be longer than a window"),
    ("train write --data blank.txt", "no record is left to learn from"),
    ("train fill --data short.txt", "no two sentences that follow each other"),
    ("train translate --data pairs.tsv --from folder", "folder is not the folder of a run: it has no config.json"),
    ("train translate --data pairs.tsv --from nowhere", "nowhere is not a folder"),
    # where it goes
    ("train translate --data pairs.tsv --out pairs.tsv", "pairs.tsv cannot be written", "--out"),
    ("train translate --data pairs.tsv --out pairs.tsv/below", "cannot be written"),
    ("train translate --data pairs.tsv --out /proc/below", "cannot be written"),
    # other commands
    ("run nowhere hello", "nowhere is not a folder"),
    ("run pairs.tsv hello", "pairs.tsv is not a folder"),
    ("run folder hello", "folder is not the folder of a run: it has no config.json"),
    ("eval folder", "folder is not the folder of a run"),
    ("eval folder --by size", "unknown way to group 'size'; known: length"),
    ("check translat --data pairs.tsv", "Did you mean 'translate'?"),
    ("check translate --data missing.tsv", "missing.tsv: no such file"),
    ("check translate --data empty.tsv", "the file is empty"),
    ("check translate --valid pairs.tsv", "--valid needs --data"),
    ("check classify --data single.tsv", "at least two labels"),
    ("bench atention", "Did you mean 'attention'?"),
    ("example black_cap", "Did you mean 'black_cat'?"),
]


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder, and what is in it."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize(("line", "wanted"), [(line, wanted) for line, *wanted in TRAIN], ids=[row[0] for row in TRAIN])
def test_a_line_or_two_and_no_trace(mirada: Command, files: Path, line: str, wanted: list[str]) -> None:
    before = snapshot(files)
    assert_refused(mirada(*line.split()), *wanted)
    assert snapshot(files) == before


@pytest.mark.parametrize("name", ["column.tsv", "latin.tsv", "nul.tsv", "broken.csv", "broken.jsonl"])
@pytest.mark.parametrize("command", ["train", "check"])
def test_files_whose_records_are_all_bad(mirada: Command, files: Path, command: str, name: str) -> None:
    before = snapshot(files)
    for skip in ((), ("bad=skip",)):
        done = mirada(command, "translate", "--data", name, *skip)
        assert done.code == (2 if command == "train" else 1)
        assert f"{name}:1: " in done.out + done.err
        assert "Traceback" not in done.err
    assert snapshot(files) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is nothing to translate in ''"),
        ("  ", "there is nothing to translate in '  '"),
        ("word " * 600, "the model reads at most 512"),
    ],
)
def test_an_input_that_cannot_be_answered_hinders_no_other(
    mirada: Command, made: Made, text: str, message: str
) -> None:
    good = mirada("run", made.translate, "I see a cat.").out
    done = mirada("run", made.translate, "I see a cat.", text, "I see a cat.")
    assert done.code == 1
    assert done.out == f"{good}\n{good}"
    assert done.err.startswith("mirada: ")
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    found = [
        json.loads(line) for line in mirada("run", made.translate, "--json", text, "I see a cat.").out.splitlines()
    ]
    assert set(found[0]) == {"input", "error"}
    assert (found[0]["input"], found[1]["text"]) == (text, good.strip())


def test_a_line_that_cannot_be_answered_has_its_place(mirada: Command, made: Made) -> None:
    lines = ["We buy a red ___.", "no gap here", "", "We buy a ___."]
    done = mirada("run", made.fill, stdin="\n".join(lines).encode())
    answers = done.out.split("\n")
    assert (done.code, len(answers)) == (1, 5)
    assert answers[0]
    assert answers[1] == answers[2] == ""
    assert answers[3]
    assert "no gap here" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--beam", "0"), "beam and best must be at least 1"),
        (("--best", "0"), "beam and best must be at least 1"),
        (("--tokens", "-1"), "tokens must be at least 1"),
        (("--temperature", "-1"), "temperature must not be negative"),
        (("--temperature", "nan"), "temperature must not be negative"),
        (("--temperature", "1", "--top-k", "-1"), "top_k must be at least 1"),
        (("--temperature", "1", "--top-p", "0"), "top_p must lie in (0, 1]"),
        (("--top-k", "5"), "give a temperature as well"),
        (("--beam", "4", "--temperature", "1"), "a beam draws nothing"),
        (("--beam", "4", "--coverage", "nan"), "coverage must be at least 0"),
        (("--candidates", "b"), "candidates is not used by translate"),
        (("--device", "gpu"), "device 'gpu' cannot be used here"),
    ],
)
def test_options_that_make_no_sense(mirada: Command, made: Made, words: tuple[str, ...], message: str) -> None:
    assert_refused(mirada("run", made.translate, "a", *words), message)


def test_no_lines_at_all(mirada: Command, made: Made) -> None:
    assert_refused(mirada("run", made.translate), "there is no input")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"caf\xe9", "line 2 of standard input is not UTF-8: byte 4 is 0xe9. Send it as UTF-8"),
        (b"\xff\xfe", "line 2 of standard input is not UTF-8: byte 1 is 0xff"),
        (b" " * 350, "line 2 of standard input is longer than 0 MB. Give one input a line."),
        (b"word " * 350, "line 2 of standard input is longer than 0 MB"),
    ],
)
def test_a_line_that_is_no_text_has_its_place_and_hinders_no_other(
    mirada: Command, made: Made, monkeypatch: pytest.MonkeyPatch, line: bytes, error: str
) -> None:
    monkeypatch.setattr("mirada.data.files.opening.LONGEST_LINE", 300)
    monkeypatch.setattr("mirada.data.files.opening.BLOCK", 20)
    good = mirada("run", made.translate, "I see a cat.").out
    done = mirada("run", made.translate, stdin=b"I see a cat.\n" + line + b"\nI see a cat.\n")
    assert (done.code, done.out) == (1, f"{good}\n{good}")
    assert error in done.err
    assert len(done.err.splitlines()) == 1
    told = mirada("run", made.translate, "--json", stdin=line + b"\nI see a cat.\n")
    first, second = map(json.loads, told.out.splitlines())
    assert (set(first), second["text"]) == ({"input", "error"}, good.strip())


def test_a_line_without_end_is_no_line(mirada: Command, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirada.data.files.opening.LONGEST_LINE", 300)
    monkeypatch.setattr("mirada.data.files.opening.ENDLESS", 2 << 20)
    done = mirada("run", made.translate, stdin=b"x" * (3 << 20))
    assert (done.code, done.err) == (2, "mirada: line 1 of standard input has more than 2 MB. Is it text?\n")


def test_a_typed_line_that_is_no_text_does_not_end_the_conversation(mirada: Command, made: Made) -> None:
    done = mirada("run", made.translate, stdin=b"caf\xe9\nI see a cat.\n", typed=True)
    assert (done.code, done.out) == (0, mirada("run", made.translate, "I see a cat.").out)
    assert "line 1 of standard input is not UTF-8" in done.err


@pytest.mark.parametrize(
    ("task", "rows", "message"),
    [
        ("translate", [("one column",), ("two",)], "test.tsv:1: expected 2 columns, found 1"),
        ("translate", [("word " * 600, "palabra")], "test.tsv:1: too long: source has"),
        ("classify", [("good", "good"), ("so so", "mixed")], "test.tsv:2: label 'mixed' does not occur in training"),
        ("fill", [("alone",)], "test.tsv:1: expected 2 columns, found 1"),
    ],
)
def test_files_that_cannot_be_measured_on(
    mirada: Command, made: Made, tmp_path: Path, task: str, rows: list[tuple[str, ...]], message: str
) -> None:
    data = write_rows(tmp_path / "test.tsv", rows)
    assert_refused(mirada("eval", getattr(made, task), "--data", data), message, lines=3)


@pytest.mark.parametrize("task", ["classify", "fill"])
def test_a_search_that_a_task_does_not_have(mirada: Command, made: Made, task: str) -> None:
    assert_refused(mirada("eval", getattr(made, task), "--beam", 4), f"beam is not used by {task}")


def halved(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


BROKEN: list[tuple[str, Callable[[Path], None], str]] = [
    ("config.json", halved, "config.json is not JSON"),
    ("config.json", os.remove, "it has no config.json"),
    ("config.json", lambda path: path.write_text("[]"), "must hold a JSON object"),
    ("config.json", lambda path: path.write_text('{"task": "translate"}'), "does not describe a run"),
    ("tokenizer.json", halved, "tokenizer.json is missing or damaged"),
    ("tokenizer.json", os.remove, "tokenizer.json is missing or damaged"),
    ("tokenizer.json", lambda path: path.write_text("{}"), "tokenizer.json is missing or damaged"),
    ("model.safetensors", halved, "does not hold the weights"),
    ("model.safetensors", os.remove, "has no model yet: its training stopped too early. Go on with --resume"),
]


@pytest.fixture
def copy(made: Made, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.translate, tmp_path / "copy"))


@pytest.mark.parametrize(("name", "harm", "message"), BROKEN, ids=[f"{row[0]}: {row[2]}" for row in BROKEN])
def test_a_run_that_is_broken(
    mirada: Command, copy: Path, name: str, harm: Callable[[Path], None], message: str
) -> None:
    harm(copy / name)
    before = snapshot(copy)
    for words in (("run", copy, "hello"), ("eval", copy)):
        assert_refused(mirada(*words), message)
    assert snapshot(copy) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "holds a run already"),
        (("--resume", "steps=999"), "a resumed run keeps its settings: steps is 6, not 999"),
        (("--resume", "--seed", "4"), "seed is 0, not 4"),
        (("--resume", "--minutes", "4"), "minutes is 0.0, not 4.0"),
        (("--resume", "--model", "rnn"), "holds a transformer, not a rnn"),
        (("--resume", "--data", "three.tsv"), "the data has changed since this run was started"),
        (("--resume", "--from", "folder"), "it starts from nothing, not from folder"),
    ],
)
def test_a_run_that_is_there_stays_as_it_is(
    mirada: Command, files: Path, copy: Path, words: tuple[str, ...], message: str
) -> None:
    before = snapshot(copy)
    assert_refused(mirada("train", "translate", "--out", copy, *words), message)
    assert snapshot(copy) == before


def test_a_checkpoint_cut_in_half(mirada: Command, copy: Path) -> None:
    halved(copy / "checkpoints" / "last.safetensors")
    before = snapshot(copy)
    done = mirada("train", "translate", "--out", copy, "--resume")
    assert_refused(done, "last.safetensors is not a whole checkpoint", "Delete it to start over, or restore a copy.")
    assert snapshot(copy) == before


def test_the_wrong_task(mirada: Command, made: Made, copy: Path, tmp_path: Path) -> None:
    assert_refused(mirada("train", "fill", "--out", copy, "--resume"), "holds a run of 'translate', not of 'fill'")
    done = mirada("train", "translate", "--data", made.pairs, "--out", tmp_path / "new", "--from", made.classify)
    assert_refused(done, "holds the model transformer (Classifier) of classify: it cannot start a model of translate")
    assert not (tmp_path / "new").exists()


def test_a_full_disk_is_reported_before_training(
    mirada: Command, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirada.training.state.shutil.disk_usage", lambda folder: type("Usage", (), {"free": 9})())
    done = mirada("train", "translate", "--data", made.pairs, "--out", tmp_path / "run", *QUICK)
    assert_refused(done, "has 9 bytes left and the run needs about", "Make room, or choose another folder with --out.")
    assert not (tmp_path / "run").exists()


def test_a_disk_that_fills_up_loses_nothing(
    mirada: Command, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run resumes from its last checkpoint when there is space again."""
    real, count = os.fsync, 0

    def full(number: int) -> None:
        nonlocal count
        count += 1
        if count > 20:
            raise OSError(28, "No space left on device")
        real(number)

    words = ("train", "translate", "--data", made.pairs, "--out", tmp_path / "run", *QUICK, "save_seconds=0")
    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        done = mirada(*words)
    assert done.code == 2
    assert "No space left on device" in done.err.splitlines()[-1]
    again = mirada(*words, "--resume")
    assert again.code == 0, again.err
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (made.translate / "model.safetensors").read_bytes()


def test_more_memory_than_there_is(mirada: Command, files: Path) -> None:
    done = mirada("train", "translate", "--data", "pairs.tsv", "width=1000000000", "heads=1", "depth=1")
    assert_refused(done, "the model is far larger than the memory", "width=1,000,000,000", "take smaller ones")


def test_memory_that_runs_out_is_reported(mirada: Command, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes.")

    monkeypatch.setattr("mirada.training.loop.Training.run", full)
    done = mirada("train", "translate", "--data", "pairs.tsv", "steps=2", "threads=1")
    assert_refused(done, "there is not enough memory", "Take a smaller batch_tokens, width", code=1)


def test_a_bug_is_reported_in_two_lines_and_debug_shows_it(
    mirada: Command, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*words: object) -> None:
        raise KeyError("somewhere")

    monkeypatch.setattr("mirada.runs.load.load", broken)
    assert_refused(mirada("run", made.translate, "a"), "KeyError: 'somewhere'", "--debug shows where", code=1)
    with pytest.raises(KeyError, match="somewhere"):
        mirada("run", made.translate, "a", "--debug")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train", "Missing argument 'TASK'"),
        ("run", "Missing argument 'DIR'"),
        ("trian translate", "Did you mean 'train'?"),
        ("train translate --minutes soon", "Invalid value for '--minutes'"),
        ("run folder --beem 4", "No such option: --beem"),
    ],
)
def test_a_command_line_that_makes_no_sense(mirada: Command, line: str, message: str) -> None:
    done = mirada(*line.split())
    assert done.code == 2
    assert done.out == ""
    assert message in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("task", ["classify", "translate", "fill", "write"])
def test_an_argument_that_is_not_utf8_is_an_error_in_the_answers_place(mirada: Command, made: Made, task: str) -> None:
    text = b"a \xff film ___".decode("utf-8", "surrogateescape")  # as Python reads such an argument
    done = mirada("run", getattr(made, task), text, "a good film ___")
    assert done.code == 1
    assert "not text: 'a \\udcff film ___' has a byte that is not UTF-8" in done.err
    assert task == "write" or len(done.out.splitlines()) == 2
    done = mirada("look", getattr(made, task), text)
    assert (done.code, len(done.err.splitlines())) == (2, 1)


@pytest.mark.parametrize("option", ["--out", "--data"])
def test_a_path_that_is_not_utf8_is_refused_before_the_training(
    mirada: Command, made: Made, tmp_path: Path, option: str
) -> None:
    strange = str(tmp_path) + b"/\xff.tsv".decode("utf-8", "surrogateescape")
    others = {"--out": tmp_path / "run", "--data": made.reviews} | {option: strange}
    done = mirada("train", "classify", "steps=1", *(word for pair in others.items() for word in pair))
    assert done.code == 2
    assert "is no name in UTF-8" in done.err
    assert not (tmp_path / "run").exists()
