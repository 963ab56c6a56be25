"""Every command, as a person types it."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mirada.cli import speed
from mirada.runs.ask import run_options
from mirada.runs.load import load
from mirada.runs.registry import CATALOG
from tests.cli.conftest import Command, Made
from tests.runs.small import QUICK, pairs, write_rows

ENV = os.environ | {"OMP_NUM_THREADS": "1"}
SOURCE = "we buy the red car."


def objects(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("command", ["tasks", "train", "run", "eval", "runs", "check", "bench", "example"])
def test_every_command_has_help_with_an_example(mirada: Command, command: str) -> None:
    shown = mirada(command, "--help")
    assert shown.code == 0
    assert shown.err == ""
    assert "\n  Example" in shown.out
    assert f"\n    mirada {command}" in shown.out


def test_tasks_are_listed_with_models_and_formats(mirada: Command) -> None:
    listed = mirada("tasks")
    assert listed.code == 0
    for name, item in CATALOG.items():
        assert f"{name}: {item.about}" in listed.out
        assert ", ".join(item.models) in listed.out
        assert f"mirada {f'train {name}' if item.builtin else f'import PATH --task {name}'}" in listed.out


# train


@pytest.mark.parametrize("task", ["translate", "classify", "fill", "write"])
def test_training_tells_the_way_on_stderr_and_the_results_on_stdout(
    mirada: Command, made: Made, tmp_path: Path, task: str
) -> None:
    data = {"translate": made.pairs, "classify": made.reviews, "fill": made.stories, "write": made.text}[task]
    done = mirada("train", task, "--data", data, "--out", tmp_path / "run", "--seed", 3, *QUICK)
    assert done.code == 0
    assert done.out.startswith("on ")
    assert "  ->  " in done.out
    assert " to learn from, " in done.err
    assert f"the report is {tmp_path / 'run' / 'report.html'}" in done.err
    assert "\x1b" not in done.out + done.err  # no colors in a pipe
    assert json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))["recipe"]["seed"] == 3


def test_training_goes_to_runs_and_has_a_budget(
    mirada: Command, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    keys = [key for key in QUICK if not key.startswith("steps=")]
    for name in ("classify", "classify-2"):
        done = mirada("train", "classify", "--data", made.reviews, "--minutes", 0.05, *keys)
        assert done.code == 0
        assert "steps within 0.05 minutes" in done.err
        assert (tmp_path / "runs" / name / "model.safetensors").exists()
    again = mirada("train", "classify", "--resume")
    assert again.code == 0
    assert "writing to runs/classify-2" in again.err


def test_steps_decide_where_minutes_are_only_usual(mirada: Command, made: Made, tmp_path: Path) -> None:
    done = mirada("train", "write", "--data", made.text, "--out", tmp_path / "run", *QUICK)
    assert "6 steps: about" in done.err
    assert "minutes" not in done.err


def test_training_from_another_run_with_files_of_one_side(mirada: Command, made: Made, tmp_path: Path) -> None:
    for name, side in zip(("a.en", "a.es"), zip(*pairs(), strict=True), strict=True):
        (tmp_path / name).write_text("\n".join(side) + "\n", encoding="utf-8")
    valid = write_rows(tmp_path / "valid.tsv", [("I see a cat.", "veo un gato."), ("a cat", "un gato")])
    done = mirada(
        "train", "translate", "--data", f"{tmp_path}/a.en,{tmp_path}/a.es", "--valid", valid, "--from", made.translate,
        "--out", tmp_path / "run", "steps=2",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "90 records to learn from, 2 records to validate on" in done.err
    config, there = (json.loads((folder / "config.json").read_text()) for folder in (tmp_path / "run", made.translate))
    assert config["config"] == there["config"]


# run


def test_answers_come_one_a_line_in_the_order_of_inputs(mirada: Command, made: Made) -> None:
    inputs = [SOURCE, "I see a cat.", "they have the small old red table."]
    done = mirada("run", made.translate, *inputs)
    assert done.code == 0
    assert done.out.splitlines() == [answer.text for answer in load(made.translate)(inputs)]
    assert mirada("run", made.translate, stdin="\n".join(inputs).encode()).out == done.out


def test_an_empty_line_has_an_empty_answer(mirada: Command, made: Made) -> None:
    """So that line i of the answers belongs to line i of the inputs."""
    done = mirada("run", made.translate, "--json", stdin=f"\ufeff{SOURCE}\r\n\n  \n{SOURCE}".encode())
    found = objects(done.out)
    assert [answer["input"] for answer in found] == [SOURCE, "", "  ", SOURCE]
    assert found[1]["text"] == found[2]["text"] == ""
    assert found[0] == found[3]


def test_a_typed_line_that_cannot_be_answered_does_not_end_the_conversation(mirada: Command, made: Made) -> None:
    lines = f"{SOURCE}\n\n{'word ' * 600}\n{SOURCE}\n"
    done = mirada("run", made.translate, stdin=lines.encode(), typed=True)
    wanted = load(made.translate)(SOURCE).text
    assert (done.code, done.out.splitlines()) == (0, [wanted, wanted])
    assert "Ctrl-D" in done.err.splitlines()[0]
    assert "tokens" in done.err.splitlines()[1]


def test_json_has_input_text_and_score(mirada: Command, made: Made) -> None:
    (found,) = objects(mirada("run", made.translate, SOURCE, "--json").out)
    assert list(found) == ["input", "text", "score"]
    (found,) = objects(mirada("run", made.translate, SOURCE, "--json", "--beam", 4, "--best", 3).out)
    assert [set(item) for item in found["ranked"]] == [{"text", "score"}] * 3
    assert found["ranked"][0] == {"text": found["text"], "score": found["score"]}


def test_the_best_answers_are_shown_with_their_scores(mirada: Command, made: Made) -> None:
    shown = mirada("run", made.classify, "the song was lovely", "--best", 2).out.splitlines()
    assert sorted(line.split()[1] for line in shown) == ["bad", "good"]
    assert float(shown[0].split()[0]) >= float(shown[1].split()[0])


def test_candidates_are_scored(mirada: Command, made: Made) -> None:
    shown = mirada("run", made.fill, "We buy a red ___.", "--candidates", "car, house,table").out.splitlines()
    assert sorted(line.split()[1] for line in shown) == ["car", "house", "table"]


def test_drawing_with_a_seed(mirada: Command, made: Made) -> None:
    def drawn(*words: object) -> str:
        return mirada("run", made.write, "We buy", "--tokens", 40, *words).out

    assert drawn("--seed", 1) == drawn("--seed", 1) != drawn("--seed", 2)
    assert drawn("--temperature", 0) == drawn("--temperature", 0, "--seed", 5)
    assert drawn("--top-k", 1, "--temperature", 1) == drawn("--temperature", 0)
    assert drawn("--top-p", 0.01, "--temperature", 1) == drawn("--temperature", 0)


def test_long_input_is_answered_in_batches(mirada: Command, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirada.cli.run.AT_ONCE", 3)
    lines = [text for text, _ in pairs()[:10]]
    done = mirada("run", made.classify, "--json", stdin="\n".join(lines).encode())
    assert [answer["input"] for answer in objects(done.out)] == lines


def test_a_terminal_is_answered_while_the_text_is_written(made: Made) -> None:
    """`write` streams: what comes is the same text as elsewhere."""
    wanted = load(made.write)("We buy", tokens=20, seed=2).text
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "mirada", "run", str(made.write), "We buy", "--tokens", "20", "--seed", "2"]
    process = subprocess.Popen(command, stdout=follower, stderr=subprocess.PIPE, env=ENV)
    os.close(follower)
    shown = b""
    try:
        while piece := os.read(leader, 4096):
            shown += piece
    except OSError:  # how a terminal says that nobody writes to it any more
        pass
    assert process.wait(60) == 0
    assert shown.decode().replace("\r\n", "\n") == wanted + "\n"


def test_a_reader_who_has_enough_ends_the_command_quietly(made: Made) -> None:
    lines = b"we buy the red car.\n" * 3000
    command = f"{sys.executable} -m mirada run {made.classify} | head -1"
    done = subprocess.run(command, shell=True, input=lines, capture_output=True, env=ENV, timeout=120, check=False)
    assert done.stdout.decode().strip() in ("good", "bad")
    assert done.stderr == b""


# eval


def test_metrics_by_name(mirada: Command, made: Made) -> None:
    shown = mirada("eval", made.translate)
    assert [line.split()[0] for line in shown.out.splitlines()] == ["bleu", "chrf", "bleu_nearest", "chrf_nearest", "A"]
    assert "A plain baseline is better: bleu is" in shown.out, "some steps are not enough, and that is said"
    (found,) = objects(mirada("eval", made.translate, "--json").out)
    assert set(found) == {"bleu", "chrf", "bleu_nearest", "chrf_nearest"}
    names = {made.classify: {"accuracy", "macro_f1", "accuracy_linear", "accuracy_majority", "labels",
                             "confusion", "per_class", "ece", "alone", "verdict"},
             made.fill: {"word_accuracy", "order_accuracy", "word_accuracy_neighbors", "order_accuracy_majority"},
             made.write: {"loss", "perplexity", "bits_per_character", "loss_ngram", "perplexity_ngram",
                          "bits_per_character_ngram"}}  # fmt: skip
    for folder, wanted in names.items():
        assert set(objects(mirada("eval", folder, "--json").out)[0]) == wanted


def test_a_run_that_was_moved_is_measured_from_any_folder(
    mirada: Command, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = mirada("eval", made.classify, "--json").out
    (tmp_path / "link").symlink_to(made.classify)
    monkeypatch.chdir(tmp_path)
    assert mirada("eval", "link", "--json").out == here
    monkeypatch.chdir(made.classify)
    assert mirada("eval", ".", "--json").out == here


def test_another_file_is_measured_on(mirada: Command, made: Made, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "test.tsv", [("the film was good", "good"), ("the film was awful", "good")])
    (found,) = objects(mirada("eval", made.classify, "--data", path, "--json").out)
    answers = [answer.text for answer in load(made.classify)(["the film was good", "the film was awful"])]
    assert found["accuracy"] == 50 * answers.count("good")


def test_quality_by_length(mirada: Command, made: Made, tmp_path: Path) -> None:
    rows = [
        *pairs()[:20],
        *[(f"I see a cat and {source}", f"veo un gato y {target}") for source, target in pairs()[:15]],
    ]
    data = write_rows(tmp_path / "test.tsv", [*rows, ("one " * 20, "uno")])
    shown = mirada("eval", made.translate, "--data", data, "--by", "length")
    assert [line.split()[:4] for line in shown.out.splitlines()] == [
        ["1-5", "words", "20", "records"], ["6-10", "words", "15", "records"],
        ["16-20", "words", "1", "record"], ["all", "words", "36", "records"]
    ]  # fmt: skip
    assert shown.err.splitlines()[-1] == "16-20 words: fewer than 10 records, too few to compare"
    assert (made.translate / "by-length.png").read_bytes().startswith(b"\x89PNG")
    found = objects(mirada("eval", made.translate, "--data", data, "--by", "length", "--json").out)
    assert [(group["words"], group["records"]) for group in found] == [
        ("1-5", 20),
        ("6-10", 15),
        ("16-20", 1),
        ("all", 36),
    ]
    assert {"bleu", "chrf"} <= set(found[0])


def test_few_records_by_length_have_a_total_all_the_same(mirada: Command, made: Made, tmp_path: Path) -> None:
    data = write_rows(tmp_path / "test.tsv", [pairs()[0], ("one " * 12, "uno")])
    done = mirada("eval", made.translate, "--data", data, "--by", "length", "--json")
    assert done.code == 0, done.err
    assert [(group["words"], group["records"]) for group in objects(done.out)] == [("1-5", 1), ("11-15", 1), ("all", 2)]


def test_bad_records_of_a_run_that_leaves_them_out(mirada: Command, tmp_path: Path) -> None:
    data = write_rows(tmp_path / "a.tsv", [*pairs(), ("one column",)])
    folder = tmp_path / "run"
    assert mirada("train", "translate", "--data", data, "--out", folder, *QUICK, "bad=skip").code == 0
    for words in ((), ("--data", data)):
        done = mirada("eval", folder, *words)
        assert done.code == 0
        assert done.err == "mirada: 1 bad record is left out\n"


# check


def test_good_data_is_told_what_it_will_take(mirada: Command, made: Made) -> None:
    done = mirada("check", "translate", "--data", made.pairs, *QUICK)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("chosen for 86 pairs of about 7 tokens: vocab=500 ")
    assert lines[1] == "86 records to learn from, 4 records to validate on, 0 bad"
    assert lines[2].startswith("6 steps: about 0:0")
    assert "GB of memory on this machine" in lines[2]


def test_the_minutes_of_a_training_are_estimated_before_it(mirada: Command, made: Made) -> None:
    keys = [key for key in QUICK if not key.startswith(("steps", "validate"))]
    done = mirada("check", "translate", "--data", made.pairs, "--minutes", "0.05", *keys)
    assert done.code == 0
    assert " steps within 0.05 minutes: about 0:0" in done.out
    assert mirada("check", made.translate, "--minutes", "2").code != 0


def test_every_bad_record_is_named(mirada: Command, tmp_path: Path) -> None:
    path = tmp_path / "bad.tsv"
    good = "".join(f"{a}\t{b}\n" for a, b in pairs()[:30]).encode()
    path.write_bytes(good + b"one\n\na\tb\tc\n\tb\ncaf\xe9\tb\nnul\0\tb\n" + b"x\n" * 30 + b"last\tone\n")
    short = mirada("check", "translate", "--data", path, *QUICK).out.splitlines()[1:]  # after what was chosen
    assert short[0].startswith(f"{path}:31: expected 2 columns, found 1.")
    assert short[1] == "  and 30 more of this kind (--all lists each)"
    done = mirada("check", "translate", "--data", path, "--all", *QUICK)
    assert done.code == 1
    lines = done.out.splitlines()[1:]
    assert [line.split(": ")[0] for line in lines[:36]] == [f"{path}:{number}" for number in range(31, 67)]
    for line, what in zip(
        lines, ("found 1", "empty line", "found 3", "no text for source", "not UTF-8", "NUL"), strict=False
    ):
        assert what in line
    assert lines[36:] == [
        "30 records to learn from, 1 record to validate on, 36 bad", "Fix these records, or leave them out with bad=skip."
    ]  # fmt: skip
    skipped = mirada("check", "translate", "--data", path, *QUICK, "bad=skip")
    assert skipped.code == 0
    assert "GB of memory" in skipped.out


def test_check_writes_nothing(mirada: Command, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert mirada("check", "fill", "--data", made.text, *QUICK).code == 0
    assert list(tmp_path.iterdir()) == []


# bench


def test_speed_is_a_ratio(mirada: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "ROUNDS", 3)
    done = mirada("bench", "attention")
    assert done.code == 0
    assert "attention, causal, forward and backward" in done.out
    assert " x (" in done.out


# stopping


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_training_that_is_stopped_says_how_to_go_on(
    mirada: Command, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    from mirada.training.loop import Training

    real = Training.step

    def step(self, state, stop):
        if state.step == 3 and state.steps == 6:  # not a step of the measurement
            os.kill(os.getpid(), number)
        return real(self, state, stop)

    words = ("train", "classify", "--data", made.reviews, "--out", tmp_path / "run", *QUICK)
    with monkeypatch.context() as patched:
        patched.setattr(Training, "step", step)
        done = mirada(*words)
    assert done.code == 130
    assert done.out == ""
    assert (
        done.err.splitlines()[-1] == "mirada: stopped after step 5 of 6. Continue with the same command and --resume."
    )
    again = mirada(*words, "--resume")
    assert again.code == 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (made.classify / "model.safetensors").read_bytes()


@pytest.mark.parametrize("task", list(CATALOG))
def test_every_option_of_a_task_is_one_of_the_command(task: str) -> None:
    options = CATALOG[task].task().Ask.options()
    assert {name: run_options()[name] for name in options} == options
    assert all(each.about and all(each.label) for each in options.values())
