import subprocess
import sys

import pytest

from mirada.models.transformer import TransformerConfig
from mirada.runs.registry import CATALOG, describe, entry
from mirada.runs.settings import key_values, sort_keys
from mirada.tasks.translate.task import TranslateOptions
from mirada.training.recipe import Recipe


def sorted_keys(words: list[str]) -> dict[str, dict]:
    return sort_keys(key_values(words), recipe=Recipe, data=TranslateOptions, model=TransformerConfig)


def test_keys_find_their_group_and_kind() -> None:
    found = sorted_keys(["steps=300", "lr=1e-3", "width=128", "reverse=yes", "where=window:128", "vocab=500"])
    assert found == {
        "recipe": {"steps": 300, "lr": 1e-3},
        "data": {"reverse": True, "vocab": 500},
        "model": {"width": 128, "where": "window:128"},
    }


def test_a_dotted_key_names_its_group() -> None:
    assert sorted_keys(["model.vocab=700", "data.vocab=500"]) == {
        "recipe": {},
        "data": {"vocab": 500},
        "model": {"vocab": 700},
    }


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("widht=128", r"unknown key 'widht'.*Did you mean 'width'"),
        ("modle.width=128", r"unknown group of keys 'modle'.*Did you mean 'model'"),
        ("recipe.width=1", r"unknown key 'width'"),
        ("width", r"expected KEY=VALUE, got 'width'"),
        ("width=wide", r"width must be a whole number: got 'wide'"),
        ("lr=fast", r"lr must be a number: got 'fast'"),
        ("reverse=perhaps", r"reverse must be yes or no: got 'perhaps'"),
    ],
)
def test_a_wrong_word_is_named(word: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sorted_keys([word])


def test_a_key_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="steps is given twice"):
        sorted_keys(["steps=1", "steps=2"])


def test_a_value_may_hold_an_equals_sign() -> None:
    assert sorted_keys(["columns=a=b,c"])["data"] == {"columns": "a=b,c"}


ONLY_IMPORTED = {"whisper"}  # models that are not trained from nothing


@pytest.mark.parametrize("name", CATALOG)
def test_the_catalog_agrees_with_the_tasks(name: str) -> None:
    task = entry(name).task()
    assert task.name == name
    assert tuple(model for model in task.presets if model not in ONLY_IMPORTED) == entry(name).models
    for preset in task.presets.values():
        preset.model.Config.from_dict(dict(preset.fields))
    trained = bool(entry(name).builtin)
    assert f"mirada {f'train {name}' if trained else f'import PATH --task {name}'}" in describe()


def test_the_catalog_needs_no_torch() -> None:
    code = "import sys; from mirada.runs.registry import describe; describe(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
