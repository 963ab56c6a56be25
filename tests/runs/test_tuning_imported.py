"""Fine-tuning of models that others trained, family by family, and what comes out of it again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mirada.runs.exporting import export_run
from mirada.runs.importing import import_model
from mirada.runs.load import load
from tests.hub.tiny import write_folder
from tests.runs.small import pairs, questions, reviews, stories, text, trained, write_questions, write_rows
from tests.tasks.recognize.test_task import save as save_pictures
from tests.tasks.tag.test_task import write_conll

FEW = ("steps=3", "validate=3", "threads=1", "bad=skip")


def prose(path: Path) -> str:
    path.write_text(text(), encoding="utf-8")
    return str(path)


DATA: dict[str, tuple[Callable[[Path], str], str]] = {
    "classify": (lambda path: write_rows(path, reviews()), "rows.tsv"),
    "fill": (lambda path: write_rows(path, stories()), "rows.tsv"),
    "answer": (lambda path: write_questions(path, questions()[:60]), "asked.jsonl"),
    "tag": (lambda path: write_conll(path, 40), "names.conll"),
    "write": (prose, "prose.txt"),
    "translate": (lambda path: write_rows(path, pairs()), "pairs.tsv"),
    "recognize": (lambda path: str(save_pictures(path)), "pictures"),
}
CASES = [
    ("bert", "classify", "all"), ("bert", "classify", "lora:2"), ("bert", "tag", "head"), ("bert", "fill", "lora:2:all"),
    ("distilbert", "answer", "all"), ("roberta", "classify", "head"), ("modernbert", "tag", "lora:2"),
    ("gpt2", "write", "lora:2"), ("marian", "translate", "lora:2"),
    ("vit", "recognize", "head"), ("vit", "recognize", "lora:2"),
]  # fmt: skip


def asked(task: str, data: str) -> Any:
    if task == "recognize":
        return str(next(Path(data).rglob("*.png")))
    return {"answer": "Who?\tAna took the key.", "fill": "the ___ car"}.get(task, "the red car")


@pytest.mark.parametrize(("name", "task", "tune"), CASES)
def test_a_model_of_others_is_fine_tuned(name: str, task: str, tune: str, tmp_path: Path) -> None:
    start = import_model(write_folder(tmp_path / "theirs", name), out=tmp_path / "start")
    make, file = DATA[task]
    data = make(tmp_path / file)
    run = trained(task, data, tmp_path / "tuned", *FEW, f"tune={tune}", start=str(start.folder))
    again = load(run.folder)
    theirs, ours = start.model.state_dict(), again.model.state_dict()
    body = [key for key in ours if key in theirs and not key.startswith(again.model.head_parts or ("none",))]
    assert body
    assert all(torch.equal(ours[key], theirs[key]) for key in body) == (tune == "head")
    one, few = run.task.parse(asked(task, data)), {"tokens": 3} if task in ("write", "translate") else {}
    assert again.answers([one], **few)[0].text == run.answers([one], **few)[0].text


@pytest.mark.parametrize("name", ["bert", "distilbert", "electra", "modernbert"])
def test_a_fine_tuned_encoder_goes_out_again(name: str, tmp_path: Path) -> None:
    start = import_model(write_folder(tmp_path / "theirs", name), out=tmp_path / "start")
    data = write_rows(tmp_path / "rows.tsv", reviews())
    run = trained("classify", data, tmp_path / "tuned", *FEW, "tune=lora:2", start=str(start.folder))
    export_run(load(run.folder), "hf", tmp_path / "out")
    back = import_model(tmp_path / "out", out=tmp_path / "back")
    assert back.task.name == "classify"
    assert back.known.labels == ("bad", "good")
    ours = run.model.state_dict()
    for key, value in back.model.state_dict().items():
        torch.testing.assert_close(value, ours[key])
