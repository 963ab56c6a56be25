"""Runs that start from another one: what they take over, adapters beside a base, and resuming."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from mirada.runs.load import load
from mirada.runs.request import TrainingRequest
from mirada.runs.run import Run
from mirada.runs.tuning import tuned_recipe
from mirada.training.loop import Interrupted
from tests.runs.small import QUICK, trained
from tests.tasks.tag.test_task import write_conll

FEW = ("steps=6", "validate=3", "batch_tokens=512", "threads=1")
POS = [([f"{a}{n}", b], ["N", "V"]) for n in range(8) for a, b in (("dog", "runs"), ("cat", "sings"))]
MORE = [(["Ana", "left", "Oslo"], ["B-WHO", "O", "B-WHERE"]), (["It", "rained"], ["O", "O"])] * 12


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = tmp_path_factory.mktemp("base")
    return trained("tag", write_conll(home / "names.conll"), home / "base", *QUICK, "vocab=300")


def other(number: int = 0) -> list[Any]:
    """Sentences with other tags, none of them twice."""
    return [([f"{words[0]}{n}{number}", *words[1:]], tags) for n, (words, tags) in enumerate(MORE)]


def body(run: Run) -> dict[str, torch.Tensor]:
    return {name: value for name, value in run.model.state_dict().items() if not name.startswith("output")}


def test_a_head_for_other_tags_is_new_and_the_body_stays(base: Run, tmp_path: Path) -> None:
    run = trained("tag", other(), tmp_path / "head", *FEW, "tune=head", start=str(base.folder))
    assert run.known.labels == ("O", "B-WHERE", "I-WHERE", "B-WHO", "I-WHO")
    assert run.model.config.classes == 5
    assert {**run.model.config.to_dict(), "classes": 7} == base.model.config.to_dict()
    assert run.known.tokenizer.to_json() == base.known.tokenizer.to_json()
    theirs = body(base)
    assert all(torch.equal(value, theirs[name]) for name, value in body(run).items())
    assert run.known.hide == 0


def test_an_adapter_answers_as_it_was_trained_and_merged(base: Run, tmp_path: Path) -> None:
    more = ("tune=lora:2", "lr=0.03")
    run = trained("tag", other(), tmp_path / "a", *FEW, *more, start=str(base.folder))
    assert not (run.folder / "model.safetensors").exists()
    size = (run.folder / "adapter.safetensors").stat().st_size
    assert size < (base.folder / "model.safetensors").stat().st_size / 2
    again = load(run.folder)
    assert all(
        torch.equal(a, b)
        for a, b in zip(run.model.state_dict().values(), again.model.state_dict().values(), strict=True)
    )
    query = "encoder.layers.0.self.heads.query.weight"
    assert not torch.equal(body(run)[query], body(base)[query])
    answer = run("Ana left Oslo")
    assert again("Ana left Oslo").to_dict() == answer.to_dict()
    assert again("Ana left Oslo").look().names
    whole = again.merged(tmp_path / "whole")
    assert whole("Ana left Oslo").to_dict() == answer.to_dict()
    assert (whole.settings.recipe.tune, whole.settings.start) == ("all", "")
    with pytest.raises(ValueError, match="would be lost"):
        again.merged(tmp_path / "whole")


def test_many_adapters_stand_on_one_base_and_an_adapter_on_an_adapter(base: Run, tmp_path: Path) -> None:
    before = (base.folder / "model.safetensors").read_bytes()
    one = trained("tag", other(1), tmp_path / "one", *FEW, "tune=lora:2", start=str(base.folder))
    two = trained("tag", POS, tmp_path / "two", *FEW, "tune=lora:3:all", start=str(base.folder))
    three = trained("tag", other(2), tmp_path / "three", *FEW, "tune=lora:1", start=str(one.folder))
    assert (base.folder / "model.safetensors").read_bytes() == before
    for run in (one, two, three):
        text = "dog1 runs"
        assert load(run.folder)(text).to_dict() == run(text).to_dict()


@pytest.mark.parametrize("tune", ["all", "head", "lora:2"])
def test_a_stopped_run_resumes_to_the_same_bits(
    tune: str, base: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = (*FEW, f"tune={tune}")
    whole = trained("tag", other(), tmp_path / "whole", *keys, start=str(base.folder))
    from mirada.training.loop import Training

    plain = Training.step

    def stopping(self: Training, state: Any, stop: bool) -> Any:
        return plain(self, state, stop or state.step == 3)

    monkeypatch.setattr(Training, "step", stopping)
    with pytest.raises(Interrupted):
        trained("tag", other(), tmp_path / "parts", *keys, start=str(base.folder))
    monkeypatch.undo()
    resumed = trained("tag", other(), tmp_path / "parts", *keys, start=str(base.folder), resume=True)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], value), name


def test_an_adapter_without_its_base_or_with_another_says_so(base: Run, tmp_path: Path) -> None:
    shutil.copytree(base.folder, tmp_path / "base")
    run = trained("tag", other(), tmp_path / "a", *FEW, "tune=lora:2", start=str(tmp_path / "base"))
    moved = tmp_path / "moved"
    moved.mkdir()
    (tmp_path / "base").rename(moved / "base")
    with pytest.raises(ValueError, match=r"is an adapter of .*base, which is not there"):
        load(run.folder)
    run.folder.rename(moved / "a")
    assert load(moved / "a")("Ana").text == run("Ana").text  # beside its base it is found
    other_run = trained("tag", POS, tmp_path / "other", *QUICK)
    shutil.copy(other_run.folder / "model.safetensors", moved / "base" / "model.safetensors")
    with pytest.raises(ValueError, match="has not the weights that the adapter"):
        load(moved / "a")


def test_defaults_are_those_of_fine_tuning_and_the_users_stand_above(base: Run) -> None:
    def recipe(*keys: str, **more: Any) -> Any:
        pairs = tuple(tuple(key.split("=")) for key in keys)
        return TrainingRequest(task="tag", start=str(base.folder), keys=pairs, **more).settings().recipe

    assert recipe().lr == 2e-3  # the same task, further
    assert recipe("tune=all").lr == tuned_recipe("all", {"width": base.model.config.width})["lr"]
    assert (recipe("tune=lora:2").lr, recipe("tune=lora:2").epochs) == (1e-3, 5)
    assert recipe("tune=all", "lr=0.5").lr == 0.5
    assert recipe("tune=all", "steps=7").steps == 7
    assert recipe("tune=all", minutes=3.0).minutes == 3


@pytest.mark.parametrize(
    ("task", "more", "what"),
    [
        (
            "tag",
            {"keys": (("tune", "head"),)},
            "tune=head is for a run that starts from another model: give --from DIR",
        ),
        ("translate", {}, r"holds the model encoder \(TextEncoder\) of tag: it cannot start a model of translate"),
        ("classify", {"model": "lstm-attention"}, "it cannot start lstm-attention of classify"),
        ("tag", {"keys": (("vocab", "77"),)}, "reads as that does: vocab is 300, not 77"),
    ],
)
def test_what_cannot_start_is_named(task: str, more: dict, what: str, base: Run) -> None:
    start = "" if "tune" in str(more) else str(base.folder)
    with pytest.raises(ValueError, match=what):
        TrainingRequest(task=task, start=start, **more).settings()
