"""A training from its request to its last file: what is refused before it starts, and what it resumes from."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mirada.native import library
from mirada.runs.load import load
from mirada.runs.run import Run
from mirada.runs.train import execute
from mirada.training.log import read_metrics
from mirada.training.loop import Interrupted
from mirada.training.state import weights
from tests.runs.small import QUICK, SIZES, pairs, quiet, request, reviews, trained, write_rows

BESIDE = {"bleu", "chrf", "bleu_nearest", "chrf_nearest"}  # a plain baseline beside every figure


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_rows(tmp_path_factory.mktemp("data") / "pairs.tsv", pairs())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, data: str) -> Run:
    return trained("translate", data, tmp_path_factory.mktemp("run") / "es", *QUICK)


@pytest.fixture
def copy(tmp_path: Path, made: Run) -> Path:
    """A run that a test may break."""
    return Path(shutil.copytree(made.folder, tmp_path / "copy"))


def resume(folder: Path, data: str = "", **order) -> Run:
    return execute(request("translate", data=data, out=str(folder), resume=True, **order), quiet, quiet)


def test_what_is_printed_and_what_is_logged(tmp_path: Path, data: str) -> None:
    said: list[str] = []
    told: list[str] = []
    execute(request("translate", data=data, out=str(tmp_path / "run"), keys=QUICK), told.append, said.append)
    assert said[0].startswith("on 4 records for validation: bleu ")
    assert said[1].startswith("A plain baseline is better: bleu is ")
    assert len(said) == 6  # and four samples
    assert all("  ->  " in line for line in said[2:])
    assert told[0].startswith("chosen for 86 pairs of about 7 tokens: vocab=500 dropout=")
    assert told[1] == "translate: 86 records to learn from, 4 records to validate on, 1 batch an epoch"
    assert told[3:4] == ["computing with 1 thread"]
    assert told[4].startswith("6 steps: about 0:0")
    assert told[-1].startswith(f"the report is {tmp_path / 'run' / 'report.html'}; go on with: mirada run")


def test_settings_are_complete_and_fit_the_model(made: Run) -> None:
    described = json.loads((made.folder / "config.json").read_text(encoding="utf-8"))
    assert described["config"] == made.model.config.to_dict()
    assert described["config"]["vocab"] == len(made.known.tokenizer)
    assert described["recipe"]["steps"] == 6
    assert described["fingerprint"] == made.settings.fingerprint
    assert Path(described["place"]["data"]).is_absolute()


def rewrite(folder: Path, described: dict) -> None:
    (folder / "config.json").write_text(json.dumps(described), encoding="utf-8")


def test_the_code_that_computes_is_recorded_and_a_change_is_reported(made: Run, copy: Path) -> None:
    described = json.loads((made.folder / "config.json").read_text(encoding="utf-8"))
    assert described["native"] == library.identity()
    rewrite(copy, described | {"native": "compiled-elsewhere", "checksum": None})
    lines: list[str] = []
    execute(request("translate", out=str(copy), resume=True), lines.append, quiet)
    assert lines[0].startswith("this run was begun with compiled-elsewhere code and continues with ")
    assert json.loads((copy / "config.json").read_text(encoding="utf-8"))["native"] == library.identity()


def test_the_metrics_log_ends_with_the_metrics(made: Run) -> None:
    events = read_metrics(made.folder / "metrics.jsonl")
    assert [event["step"] for event in events if "lr" in event] == [1, 2, 3, 4, 5, 6]
    assert set(events[-1]["valid_metrics"]) == BESIDE


def test_a_finished_run_can_be_resumed_and_changes_nothing(made: Run, copy: Path) -> None:
    again = resume(copy)
    for name, value in weights(made.model).items():
        assert torch.equal(weights(again.model)[name], value), name
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        assert (copy / name).read_bytes() == (made.folder / name).read_bytes(), name
    assert len(read_metrics(copy / "metrics.jsonl")) == len(read_metrics(made.folder / "metrics.jsonl"))


def test_a_run_on_changed_data_cannot_be_resumed(tmp_path: Path, copy: Path, data: str) -> None:
    other = write_rows(tmp_path / "other.tsv", pairs()[:-1])
    before = {path.name: path.read_bytes() for path in copy.iterdir() if path.is_file()}
    with pytest.raises(ValueError, match="the data has changed since this run was started"):
        resume(copy, other)
    assert {path.name: path.read_bytes() for path in copy.iterdir() if path.is_file()} == before


def test_data_that_moved_can_be_resumed(tmp_path: Path, copy: Path) -> None:
    moved = write_rows(tmp_path / "moved.tsv", pairs())
    assert resume(copy, moved).source.data == moved
    assert load(copy).source.data == moved


def test_a_changed_file_is_not_measured_on_as_if_it_were_held_out(tmp_path: Path) -> None:
    path = Path(write_rows(tmp_path / "pairs.tsv", pairs()))
    run = load(trained("translate", str(path), tmp_path / "run", *QUICK).folder)
    assert set(run.measure()) == BESIDE
    write_rows(path, pairs()[5:])
    with pytest.raises(ValueError, match=r"has changed since this run was trained.*Measure on other data"):
        run.measure()
    assert set(run.measure(str(path))) == {"bleu", "chrf"}, "what was learned from is gone"


def test_a_run_that_was_stopped_before_its_first_step_can_be_resumed(made: Run, copy: Path) -> None:
    """Only config.json is there: the tokenizer is learned again, and is the same."""
    for path in copy.iterdir():
        if path.name != "config.json":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    resume(copy)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        assert (copy / name).read_bytes() == (made.folder / name).read_bytes(), name


def test_a_tokenizer_that_is_of_no_run_is_not_taken(tmp_path: Path, made: Run, data: str) -> None:
    shutil.copy(made.folder / "tokenizer.json", tmp_path)
    with pytest.raises(ValueError, match=r"tokenizer.json that is of no run"):
        trained("translate", data, tmp_path, *QUICK)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("checkpoints/last.safetensors", r"last.safetensors is not a whole checkpoint.*Delete it to start over"),
        ("config.json", "config.json is not JSON"),
    ],
)
def test_a_file_cut_in_half_is_told_and_left_alone(copy: Path, name: str, message: str) -> None:
    half = (copy / name).read_bytes()[: (copy / name).stat().st_size // 2]
    (copy / name).write_bytes(half)
    with pytest.raises(ValueError, match=message):
        resume(copy)
    assert (copy / name).read_bytes() == half


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:99])])
@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
def test_what_can_be_made_again_is_repaired(made: Run, copy: Path, name: str, damage: Callable[[Path], object]) -> None:
    damage(copy / name)
    lines: list[str] = []
    execute(request("translate", out=str(copy), resume=True), lines.append, quiet)
    assert load(copy)("I see a cat.").score == load(made.folder)("I see a cat.").score
    assert any(f"{copy / name} was missing" in line for line in lines)


def test_a_tokenizer_that_the_data_does_not_teach_again_is_refused(tmp_path: Path, made: Run, copy: Path) -> None:
    (copy / "tokenizer.json").unlink()
    described = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    rewrite(copy, described | {"checksum": None, "files": {"tokenizer.json": "0" * 32}})
    with pytest.raises(ValueError, match=r"tokenizer.json is missing or damaged, and what the data teaches now is not"):
        resume(copy)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.safetensors", "model.safetensors does not hold the weights"),
        ("tokenizer.json", "tokenizer.json is missing or damaged"),
        ("config.json", "config.json is not JSON"),
    ],
)
def test_a_broken_run_cannot_be_loaded(copy: Path, name: str, message: str) -> None:
    (copy / name).write_bytes((copy / name).read_bytes()[: (copy / name).stat().st_size // 2])
    with pytest.raises(ValueError, match=message):
        load(copy)
    (copy / name).unlink()
    with pytest.raises(ValueError, match=r"has no config.json|has no model yet|is missing or damaged"):
        load(copy)


def test_the_tokenizer_of_another_run_is_reported(tmp_path: Path, copy: Path, data: str) -> None:
    other = trained("translate", data, tmp_path / "other", *SIZES, "steps=1", "tokenizer=char")
    shutil.copy(other.folder / "tokenizer.json", copy)
    with pytest.raises(
        ValueError, match=r"tokenizer.json is missing or damaged: it is not what this run was trained with"
    ):
        load(copy)
    described = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    rewrite(copy, {key: value for key, value in described.items() if key not in ("files", "checksum")})
    with pytest.raises(
        ValueError, match=r"tokenizer.json has vocab=\d+, config.json has vocab=\d+: they are not of one run"
    ):
        load(copy)


def test_a_folder_that_is_no_run_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not a folder. A run's folder is what `mirada train` printed"):
        load(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"is not the folder of a run: it has no config.json"):
        load(tmp_path)


def test_a_device_that_is_not_there_is_reported(made: Run) -> None:
    with pytest.raises(ValueError, match=r"device 'gpu' cannot be used here: .*Use --device cpu"):
        load(made.folder, "gpu")


def test_weights_of_another_run_are_started_from(tmp_path: Path, made: Run, data: str) -> None:
    keys = ("steps=1", "lr=1e-12", "validate=1", "average=0")
    run = trained("translate", data, tmp_path / "run", *keys, start=str(made.folder))
    for name, value in weights(made.model).items():
        torch.testing.assert_close(weights(run.model)[name], value, rtol=0, atol=1e-9)
    assert (run.folder / "tokenizer.json").read_bytes() == (made.folder / "tokenizer.json").read_bytes()


def test_a_model_of_another_size_cannot_start_from_a_run(tmp_path: Path, made: Run, data: str) -> None:
    with pytest.raises(ValueError, match="does not fit the model"):
        trained("translate", data, tmp_path / "run", "width=16", start=str(made.folder))
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_does_not_need_the_one_it_started_from(tmp_path: Path, made: Run, copy: Path, data: str) -> None:
    run = trained("translate", data, tmp_path / "run", "steps=1", start=str(copy))
    shutil.rmtree(copy)
    assert resume(run.folder).folder == run.folder


BAD = [*pairs()[:40], ("one column",), ("", "nothing"), ("three", "of", "them")]


def test_bad_records_stop_a_training_before_it_leaves_a_trace(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "bad.tsv", BAD)
    with pytest.raises(ValueError, match=r"bad.tsv:41: expected 2 columns, found 1") as told:
        trained("translate", path, tmp_path / "run", *QUICK)
    assert str(told.value).endswith("Fix these records, or leave them out with bad=skip.")
    assert not (tmp_path / "run").exists()


def test_only_the_first_bad_records_are_named(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "bad.tsv", [*pairs(), *[(f"line {n}",) for n in range(30)]])
    with pytest.raises(ValueError, match=r"bad.tsv:91: expected 2 columns") as told:
        trained("translate", path, tmp_path / "run")
    lines = str(told.value).splitlines()
    assert lines[1:] == [
        "  and 29 more of this kind (`mirada check --all` lists each)",
        "Fix these records, or leave them out with bad=skip.",
    ]


def test_bad_records_can_be_left_out(tmp_path: Path) -> None:
    told: list[str] = []
    path = write_rows(tmp_path / "bad.tsv", BAD)
    order = request("translate", data=path, out=str(tmp_path / "run"), keys=(*QUICK, "bad=skip"))
    run = execute(order, told.append, quiet)
    assert told[1] == f"3 bad records are left out; `mirada check translate --data {path}` lists them"
    splits = run.splits()
    assert len(splits.train) + len(splits.valid) == 40
    assert set(run.measure()) == BESIDE
    assert resume(run.folder).settings.fingerprint == run.settings.fingerprint


def test_records_longer_than_the_model_are_bad(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "long.tsv", [*pairs(), ("word " * 40, "palabra")])
    with pytest.raises(ValueError, match=r"long.tsv:91: too long: source has \d+ tokens, at most 30 fit"):
        trained("translate", path, tmp_path / "run", *QUICK, "length=30", "tokenizer=word")


def test_the_same_record_in_both_files_is_bad(tmp_path: Path, data: str) -> None:
    valid = write_rows(tmp_path / "valid.tsv", [("new", "nuevo"), pairs()[7]])
    with pytest.raises(ValueError, match=r"valid.tsv:2: also in the training data: .*pairs.tsv:8"):
        execute(request("translate", data=data, valid=valid, out=str(tmp_path / "run"), keys=QUICK), quiet, quiet)


def divided(folder: Path, task: str) -> str:
    """Parts of which the last has a good record, one that is learned from, and one that cannot be measured."""
    folder.mkdir()
    rows = (
        pairs()
        if task == "translate"
        else [(f"{text} {mood}", mood) for text, _ in pairs() for mood in ("good", "bad")]
    )
    odd = ("word " * 40, "palabra") if task == "translate" else ("new", "unheard")
    for name, part in (("train", rows[:30]), ("valid", rows[30:40]), ("test", [rows[50], rows[7], odd])):
        write_rows(folder / f"{name}.tsv", part)
    return str(folder)


@pytest.mark.parametrize(("task", "what"), [("translate", "too long"), ("classify", "label 'unheard' does not occur")])
def test_bad_records_to_be_measured_with_are_named_before_the_training(tmp_path: Path, task: str, what: str) -> None:
    place, keys = divided(tmp_path / "parts", task), (*QUICK, "length=30")
    with pytest.raises(
        ValueError, match=rf"test.tsv:3: {what}(?s:.*)test.tsv:2: also in the training data: .*train.tsv:8"
    ):
        trained(task, place, tmp_path / "run", *keys)
    assert not (tmp_path / "run").exists()
    run = trained(task, place, tmp_path / "run", *keys, "bad=skip")
    assert [Path(record.where).name for record in run.splits().test] == ["test.tsv:1"]
    assert run.measure()


@pytest.mark.parametrize("skip", [(), ("bad=skip",)])
@pytest.mark.parametrize(("train", "valid", "use"), [("bad", "good", "learn from"), ("good", "bad", "validate on")])
def test_files_without_a_good_record(tmp_path: Path, train: str, valid: str, use: str, skip: tuple[str, ...]) -> None:
    rows = {"bad": [("one column",), ("another",)], "good": pairs()[:9]}
    files = [write_rows(tmp_path / f"{n}.tsv", rows[name]) for n, name in enumerate((train, valid))]
    order = request("translate", data=files[0], valid=files[1], out=str(tmp_path / "run"), keys=(*QUICK, *skip))
    with pytest.raises(ValueError, match=rf"expected 2 columns(?s:.*)no record is left to {use}"):
        execute(order, quiet, quiet)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("keys", [("width=33",), ("vocab=3",), ("position=rotari",), ("heads=0",)])
def test_settings_that_cannot_work_leave_no_folder(tmp_path: Path, data: str, keys: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"divisible|at least|Did you mean"):
        trained("translate", data, tmp_path / "run", *keys)
    assert not (tmp_path / "run").exists()


def test_no_room_is_reported_before_anything_is_written(
    tmp_path: Path, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirada.training.state.shutil.disk_usage", lambda folder: type("Usage", (), {"free": 9})())
    with pytest.raises(ValueError, match=r"has \d+ bytes left and the run needs about [\d.]+ MB"):
        trained("translate", data, tmp_path / "run", *QUICK)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/below"])
def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path, data: str, place: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match=r"cannot be written: .*Choose another folder with --out"):
        trained("translate", data, tmp_path / place, *QUICK)
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_model_that_diverges_says_what_to_do(tmp_path: Path, data: str) -> None:
    with pytest.raises(ValueError, match=r"Try a lower lr"):
        trained("translate", data, tmp_path / "run", *SIZES, "steps=9", "validate=3", "lr=1e30", "clip=0", "warmup=0")


def test_ctrl_c_before_the_first_step_says_how_to_resume(
    tmp_path: Path, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("mirada.training.plan.Planning.begin", interrupted)
        with pytest.raises(Interrupted, match="stopped"):
            trained("translate", data, tmp_path / "run", *QUICK)
    assert resume(tmp_path / "run").folder == tmp_path / "run"


def test_settings_that_were_edited_are_refused_and_a_newer_version_is_reported(copy: Path) -> None:
    described = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    (copy / "config.json").write_text(json.dumps(described, indent=7, sort_keys=True))
    assert load(copy), "the layout is nobody's business"
    edited = described | {"recipe": described["recipe"] | {"steps": 12}}
    rewrite(copy, edited)
    for use in (load, resume):
        with pytest.raises(ValueError, match=r"config\.json was changed since it was written.*take the line"):
            use(copy)
    rewrite(copy, described | {"mirada": "0.99.0"})
    for use in (load, resume):
        with pytest.raises(ValueError, match=r"written by mirada 0\.99\.0, and this is mirada"):
            use(copy)


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:40])])
def test_a_lost_log_is_reported_and_the_run_continues(made: Run, copy: Path, damage: Callable[[Path], object]) -> None:
    damage(copy / "metrics.jsonl")
    lines: list[str] = []
    execute(request("translate", out=str(copy), resume=True), lines.append, quiet)
    assert any("metrics.jsonl is missing or shorter than it was" in line for line in lines)
    assert (copy / "model.safetensors").read_bytes() == (made.folder / "model.safetensors").read_bytes()
    assert read_metrics(copy / "metrics.jsonl")[-1] == read_metrics(made.folder / "metrics.jsonl")[-1]


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("depth=8589934592", "depth must be at most 1000: got 8589934592"),
        ("heads=1073741824", "heads must be at most 65536: got 1073741824"),
        ("width=1073741824", "The largest settings are width=1,073,741,824"),
        ("width=4611686018427387904", "no model can be so large: width=4611686018427387904"),
        ("hidden=17179869184", "The largest settings are hidden=17,179,869,184"),
    ],
)
def test_a_model_that_no_machine_has_room_for_is_refused_at_once(tmp_path: Path, key: str, told: str) -> None:
    keys = [word for word in QUICK if word.split("=")[0] != key.split("=")[0]]
    began = time.monotonic()
    with pytest.raises(ValueError, match=told):
        trained("classify", write_rows(tmp_path / "x.tsv", reviews()), tmp_path / "run", *keys, key)
    assert time.monotonic() - began < 20
    assert not (tmp_path / "run").exists()
