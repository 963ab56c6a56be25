"""What is ordered: settings from the task, the data, another run and the user; and the folder they go to."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mirada.runs.sources import absolute
from tests.runs.small import request


def begun(folder: Path, **changes) -> Path:
    """A folder as a run leaves it before its first step."""
    settings = request("translate", model="transformer", data="pairs.tsv", keys=("steps=7", "vocab=99")).settings()
    folder.mkdir(parents=True, exist_ok=True)
    described = json.loads(replace(settings, fingerprint="0123").to_bytes()) | changes
    del described["checksum"]
    (folder / "config.json").write_text(json.dumps(described), encoding="utf-8")
    return folder


def test_what_the_user_says_stands_above_what_suits_the_data() -> None:
    plain = request("translate", data="pairs.tsv").settings()
    changed = request("translate", data="pairs.tsv", minutes=3.0, seed=5, keys=("width=48", "heads=3")).settings()
    assert (changed.config.width, changed.recipe.minutes, changed.recipe.seed) == (48, 3.0, 5)
    before, after = plain.recipe.to_dict(), changed.recipe.to_dict()
    assert {key for key in before if before[key] != after[key]} == {"minutes", "seed"}
    assert plain.name == "transformer"


def test_paths_are_kept_so_that_they_are_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "odd,name.tsv").write_text("a\tb\n")
    assert absolute("") == ""
    assert absolute("a.tsv") == str(tmp_path / "a.tsv")
    assert absolute("~/a.tsv") == str(tmp_path / "a.tsv")
    assert absolute("a.en, ~/a.es") == f"{tmp_path}/a.en,{tmp_path}/a.es"
    assert absolute("odd,name.tsv") == str(tmp_path / "odd,name.tsv")


def test_a_run_without_a_folder_takes_the_next_free_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert request("fill").folder() == Path("runs/fill")
    assert request("fill", resume=True).folder() == Path("runs/fill"), "a scheduler repeats one command"
    begun(Path("runs/fill"))
    assert request("fill").folder() == Path("runs/fill-2")
    assert request("fill", resume=True).folder() == Path("runs/fill")
    begun(Path("runs/fill-2"))
    assert request("fill", resume=True).folder() == Path("runs/fill-2")


def test_a_folder_with_a_run_is_not_written_over(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    with pytest.raises(ValueError, match=r"holds a run already. Go on with it \(--resume\) or choose another --out"):
        request("translate", out=str(folder)).folder()
    assert request("translate", out=str(tmp_path / "empty"), resume=True).folder() == tmp_path / "empty"


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors", "metrics.jsonl", "report.html"])
def test_files_of_others_are_not_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("precious")
    with pytest.raises(ValueError, match=f"has a {name} that is of no run and would be lost"):
        request("translate", out=str(tmp_path)).folder()


def test_other_files_may_be_there(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert request("translate", out=str(tmp_path)).folder() == tmp_path


def test_a_validation_file_needs_data_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="--valid needs --data: the builtin data has its own"):
        request("translate", data="", valid="valid.tsv")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="--valid is the file of --data"):
        request("translate", data="a.tsv", valid="./a.tsv")


def test_a_budget_may_grow_when_a_run_is_resumed(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    described = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    described["recipe"] |= {"steps": 0, "minutes": 2.0}
    (folder / "config.json").write_text(json.dumps(described), encoding="utf-8")
    assert request("translate", out=str(folder), resume=True, minutes=5.0).settings(folder).recipe.minutes == 5.0
    assert request("translate", out=str(folder), resume=True, minutes=2.0).settings(folder).recipe.minutes == 2.0
    with pytest.raises(ValueError, match=r"minutes is 2.0, not 1.0"):
        request("translate", out=str(folder), resume=True, minutes=1.0).settings(folder)


def test_a_resumed_run_keeps_its_settings(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    kept = request("translate", out=str(folder), resume=True, keys=("steps=7",)).settings(folder)
    assert kept.recipe.steps == 7
    assert kept.source.data == absolute("pairs.tsv")


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ({"keys": ("steps=8",)}, "a resumed run keeps its settings: steps is 7, not 8. Use another --out"),
        ({"keys": ("tokenizer=word",)}, "tokenizer is 'bpe', not 'word'"),
        ({"keys": ("model.width=24",)}, "width is"),
        ({"seed": 3}, "seed is 0, not 3"),
        ({"minutes": 2.0}, "minutes is 0.0, not 2.0"),
        ({"model": "rnn"}, "holds a transformer, not a rnn"),
        ({"task": "fill"}, "holds a run of 'translate', not of 'fill'"),
        ({"start": "elsewhere"}, "it starts from nothing, not from elsewhere"),
        ({"keys": ("stesp=8",)}, r"unknown key 'stesp'.*Did you mean 'steps'"),
    ],
)
def test_a_resumed_run_refuses_other_settings(tmp_path: Path, order: dict, message: str) -> None:
    folder = begun(tmp_path / "run")
    with pytest.raises(ValueError, match=message):
        request(**{"task": "translate", "resume": True} | order).settings(folder)


def test_the_files_of_a_resumed_run_may_have_moved(tmp_path: Path) -> None:
    """Whether they hold the same records is asked when they are read."""
    folder = begun(tmp_path / "run")
    moved = request("translate", data="new/pairs.tsv", resume=True).settings(folder)
    assert (moved.source.data, moved.source.valid) == (absolute("new/pairs.tsv"), "")


def test_a_run_that_starts_from_another_takes_its_model_and_tokens(tmp_path: Path) -> None:
    there = begun(tmp_path / "run", config={"width": 40, "tied": "all"}, data={"tokenizer": "word", "columns": "a,b"})
    taken = request("translate", data="new.tsv", start=str(there), keys=("dropout=0.5",)).settings()
    assert {"width": 40, "tied": "all", "dropout": 0.5}.items() <= taken.config.to_dict().items()
    assert taken.data.tokenizer == "word"
    assert taken.data.columns == ""  # the columns of its file are not those of ours
    assert taken.start == str(there)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ({"keys": ("tokenizer=char",)}, "reads as that does: tokenizer is 'bpe', not 'char'. Leave it out"),
        ({"keys": ("vocab=50",)}, "vocab is 99, not 50"),
        (
            {"model": "rnn"},
            r"holds the model transformer \(Transformer\) of translate: it cannot start rnn of translate",
        ),
        (
            {"task": "fill"},
            r"holds the model transformer \(Transformer\) of translate: it cannot start a model of fill",
        ),
    ],
)
def test_what_cannot_start_from_a_run_is_refused(tmp_path: Path, order: dict, message: str) -> None:
    there = begun(tmp_path / "run")
    with pytest.raises(ValueError, match=message):
        request(**{"task": "translate", "start": str(there)} | order).settings()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not JSON"),
        ('{"task": "tr', "is not JSON"),
        ("[1, 2]", "must hold a JSON object: got list"),
        (
            '{"task": "translate"}',
            r"does not describe a run: name, config, recipe, data, facts, place, start is missing",
        ),
        (None, r"is not the folder of a run: it has no config.json"),
    ],
)
def test_settings_that_cannot_be_read_are_reported(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            request("translate", resume=True).settings(tmp_path)
    with pytest.raises(ValueError, match=message):
        request("translate", start=str(tmp_path)).settings()


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [((), (0, 2.0, 20)), (("epochs=1",), (0, 0.0, 1)), (("steps=9",), (9, 0.0, 20)), (("minutes=3",), (0, 3.0, 20))],
)
def test_what_a_person_says_about_the_length_of_a_run_decides(keys: tuple, wanted: tuple) -> None:
    """`write` is usually trained for some minutes."""
    recipe = request("write", keys=keys).settings().recipe
    assert (recipe.steps, recipe.minutes, recipe.epochs) == wanted


@pytest.mark.parametrize(
    ("order", "named"),
    [
        ({"keys": ("epochs=3",), "minutes": 2.0}, "minutes=2.0 and epochs=3"),
        ({"keys": ("steps=3", "minutes=1")}, "steps=3 and minutes=1.0"),
        ({"keys": ("steps=3", "epochs=1")}, "steps=3 and epochs=1"),
    ],
)
def test_a_length_that_is_said_twice_is_refused(order: dict, named: str) -> None:
    with pytest.raises(ValueError, match=rf"{named} say twice how long a run is\. Give one of them"):
        request("write", **order).settings()
    assert request("write", keys=("steps=3", "minutes=0")).settings().recipe.steps == 3, "0 says nothing"
