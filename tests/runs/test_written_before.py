"""Folders that version 0.1 wrote still load, answer and measure as they did, and can be resumed.

`written_by_0_1` has a run of every task, stopped after step 5 of 8 (of `translate` and `classify` also older ones that are at
their end, of `answer` and `forecast` also what their resumed runs became), and in `data` what they learned from. Beside each
run, `expected.json` says what version 0.1 answered, measured and looked at: with the run as it is, and after resuming it.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import mirada as package
from tests.cli.conftest import Command, mirada  # noqa: F401 (a fixture)
from tests.runs.small import pairs, reviews, write_rows

BEFORE = Path(__file__).with_name("written_by_0_1")
DATA = BEFORE / "data"
EXPECTED: dict[str, dict[str, Any]] = {
    path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(BEFORE.glob("*/expected.json"))
}
STOPPED = [name for name, wanted in EXPECTED.items() if "stopped" in wanted]
WORDS = ("verdict",)  # what a person is told about the numbers may be said better
ADDED = ("accuracy_forest",)  # baselines that version 0.1 did not have


def test_a_translator_answers_as_it_did() -> None:
    answer = package.load(BEFORE / "translate")("I see a cat.")
    assert answer.text == "peq" * 24
    torch.testing.assert_close(answer.score, -0.9581892490386963, rtol=1e-5, atol=1e-6)


def test_a_classifier_has_its_labels() -> None:
    run = package.load(BEFORE / "classify")
    assert run.known.labels == ("bad", "good")
    ranked = run("a good film", best=2).ranked
    assert [label for label, _ in ranked] == ["good", "bad"]
    torch.testing.assert_close(ranked[0][1], 0.9824070930480957, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("task", "rows"), [("translate", pairs()), ("classify", reviews())])
def test_its_data_is_known_again_and_its_checkpoint_is_read(tmp_path: Path, task: str, rows: list) -> None:
    folder = Path(shutil.copytree(BEFORE / task, tmp_path / "run"))
    before = (folder / "model.safetensors").read_bytes()
    data = write_rows(tmp_path / "rows.tsv", rows)
    run = package.train(task, data, out=folder, resume=True)
    assert run.settings.fingerprint == package.load(BEFORE / task).settings.fingerprint
    assert (folder / "model.safetensors").read_bytes() == before
    assert run.measure() == package.load(folder).measure()


def assert_same(found: Any, wanted: Any, rtol: float, place: str = "") -> None:
    """Equal texts and names, and numbers as close as that."""
    if isinstance(wanted, dict):
        found = {name: value for name, value in found.items() if name not in (*WORDS, *ADDED)}
        assert list(found) == list(wanted), place
        for name, value in wanted.items():
            assert_same(found[name], value, rtol, f"{place}/{name}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), place
        for number, value in enumerate(wanted):
            assert_same(found[number], value, rtol, f"{place}[{number}]")
    elif isinstance(wanted, float):
        torch.testing.assert_close(float(found), wanted, rtol=rtol, atol=1e-6, msg=lambda text: f"{place}: {text}")
    else:
        assert found == wanted, place


def assert_as_it_was(folder: Path, name: str, state: str, command: Command, rtol: float, *data: str) -> None:
    """What a run answers, measures and looks at is what version 0.1 wrote down."""
    case = EXPECTED[name]
    wanted = case[state]
    answered = command("run", folder, *case["inputs"], "--json", *case["options"])
    assert answered.code == 0, answered.err
    assert_same([json.loads(line) for line in answered.out.splitlines()], wanted["answers"], rtol, "answers")
    measured = command("eval", folder, "--json", *data)
    assert measured.code == 0, measured.err
    assert_same(json.loads(measured.out.splitlines()[-1]), wanted["metrics"], rtol, "metrics")
    assert_same(seen_by(folder, case), wanted["seen"], rtol, "seen")


def seen_by(folder: Path, case: dict[str, Any]) -> dict[str, Any]:
    """The shape and the first weights of every layer that looked at the first input."""
    options = dict(zip(case["options"][::2], case["options"][1::2], strict=True))
    asked: dict[str, Any] = {"tokens": int(options["--tokens"])} if "--tokens" in options else {}
    if "--temperature" in options:
        asked["temperature"] = float(options["--temperature"])
    if "--passage" in options:
        asked["passage"] = Path(options["--passage"]).read_text(encoding="utf-8").strip()
    seen = package.load(folder)(case["inputs"][0], **asked).look()
    return {
        name: {
            "shape": list(seen[name].weights().shape),
            "first": seen[name].weights(head=0).reshape(-1)[:8].tolist(),
        }
        for name in seen.names
    }


@pytest.mark.parametrize("name", EXPECTED)
def test_a_run_is_whole_wherever_it_is_copied(name: str, mirada: Command, tmp_path: Path) -> None:  # noqa: F811
    folder = shutil.copytree(BEFORE / name, tmp_path / "elsewhere")
    checked = mirada("check", folder)
    assert checked.code == 0, checked.out
    assert f"{folder} is intact" in checked.out


@pytest.mark.parametrize("name", STOPPED)
def test_it_answers_measures_and_looks_as_before(
    name: str,
    mirada: Command,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(DATA)  # inputs are paths in it
    assert_as_it_was(BEFORE / name, name, "stopped", mirada, 1e-5, "--data", EXPECTED[name]["data"])


@pytest.mark.parametrize("name", EXPECTED)
def test_it_is_resumed_to_what_it_became_before(
    name: str,
    mirada: Command,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A run that is at its end is what it became, without a step; the path of the data in config.json is of another machine."""
    monkeypatch.chdir(DATA)
    folder = Path(shutil.copytree(BEFORE / name, tmp_path / "run"))
    case = EXPECTED[name]
    weights = (folder / "model.safetensors").read_bytes()
    run = package.train(case["task"], str(DATA / case["data"]), out=folder, resume=True)
    assert run.settings.fingerprint == case["fingerprint"]
    assert (folder / "report.html").exists()
    assert max(json.loads(line).get("step", 0) for line in (folder / "metrics.jsonl").read_text().splitlines()) == 8
    if name not in STOPPED:
        assert (folder / "model.safetensors").read_bytes() == weights
    assert_as_it_was(folder, name, "resumed", mirada, 1e-4)


def test_every_task_was_written() -> None:
    tasks = {path.parent.name for path in BEFORE.glob("*/config.json")}
    wanted = "answer caption classify fill forecast label recognize transcribe translate write"
    assert {name.partition("_")[0] for name in tasks} == set(wanted.split())
    assert {EXPECTED[name]["task"] for name in STOPPED} == set(wanted.split())
