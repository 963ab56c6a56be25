"""Folders that version 0.1 wrote still load, answer as they did, and can be gone on with."""

import shutil
from pathlib import Path

import pytest
import torch

from mirada.runs.load import load
from mirada.runs.train import carry_out
from tests.runs.small import pairs, quiet, request, reviews, write_rows

BEFORE = Path(__file__).with_name("written_by_0_1")


def test_a_translator_answers_as_it_did() -> None:
    answer = load(BEFORE / "translate")("I see a cat.")
    assert answer.text == "peq" * 24
    torch.testing.assert_close(answer.score, -0.9581892490386963, rtol=1e-5, atol=1e-6)


def test_a_classifier_has_its_labels() -> None:
    run = load(BEFORE / "classify")
    assert run.known.labels == ("bad", "good")
    ranked = run("a good film", best=2).ranked
    assert [label for label, _ in ranked] == ["good", "bad"]
    torch.testing.assert_close(ranked[0][1], 0.9824070930480957, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("task", "rows"), [("translate", pairs()), ("classify", reviews())])
def test_its_data_is_known_again_and_its_checkpoint_is_read(tmp_path: Path, task: str, rows: list) -> None:
    folder = Path(shutil.copytree(BEFORE / task, tmp_path / "run"))
    before = (folder / "model.safetensors").read_bytes()
    data = write_rows(tmp_path / "rows.tsv", rows)
    run = carry_out(request(task, data, out=str(folder), resume=True), quiet, quiet)
    assert run.settings.fingerprint == load(BEFORE / task).settings.fingerprint
    assert (folder / "model.safetensors").read_bytes() == before
    assert run.measure() == load(folder).measure()
