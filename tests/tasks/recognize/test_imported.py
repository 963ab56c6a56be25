"""Runs of imported models of pictures: they answer, are measured, looked at, fine-tuned and given back."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")

import mirada  # noqa: E402
from mirada.runs.exporting import export_run  # noqa: E402
from mirada.runs.importing import import_folder  # noqa: E402

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 8}
NAMES = {0: "tench, Tinca tinca", 1: "tabby, Tabby cat", 2: "dog"}
LABELS = {"id2label": NAMES, "label2id": {name: number for number, name in NAMES.items()}}
SQUARE = {"height": 32, "width": 32}
CASES: dict[str, tuple[str, dict[str, Any], str, dict[str, Any]]] = {
    "ViTForImageClassification": ("ViTConfig", {"image_size": 32, "intermediate_size": 24}, "ViT", {"size": SQUARE}),
    "DeiTForImageClassificationWithTeacher": (
        "DeiTConfig", {"image_size": 32, "intermediate_size": 24}, "DeiT",
        {"size": {"height": 40, "width": 40}, "crop_size": SQUARE},
    ),
    "Dinov2ForImageClassification": (
        "Dinov2Config", {"image_size": 56, "mlp_ratio": 2}, "Bit", {"size": {"shortest_edge": 36}, "crop_size": SQUARE},
    ),
    "Dinov2WithRegistersModel": (
        "Dinov2WithRegistersConfig", {"image_size": 32, "mlp_ratio": 2, "num_register_tokens": 2}, "Bit",
        {"size": {"shortest_edge": 32}, "crop_size": SQUARE},
    ),
}  # fmt: skip
WITH_CLASSES = [name for name in CASES if name.endswith(("Classification", "Teacher"))]


def saved(name: str, folder: Path) -> tuple[Any, Any]:
    """A small model of theirs and its processor, in a folder."""
    torch.manual_seed(1)
    config, settings, processor, how = CASES[name]
    labels = LABELS if name in WITH_CLASSES else {}
    model = getattr(transformers, name)(getattr(transformers, config)(**SIZES, **settings, **labels)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    reads = getattr(transformers, f"{processor}ImageProcessorPil")(**how)
    reads.save_pretrained(folder)
    return model, reads


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder for each of three classes, by one of its names, with noise of a color."""
    chance = np.random.default_rng(3)
    for channel, label in enumerate(("tench", "Tabby_cat", "dog")):
        home = tmp_path / "pictures" / label
        home.mkdir(parents=True)
        for number in range(4):
            pixels = chance.integers(0, 255, (38 + number, 45, 3)).astype(np.uint8)
            pixels[..., channel] //= 4
            Image.fromarray(pixels).save(home / f"{number}.png")
    return tmp_path / "pictures"


@pytest.mark.parametrize("name", WITH_CLASSES)
@torch.no_grad()
def test_an_imported_classifier_answers_as_theirs(name: str, tmp_path: Path, pictures: Path) -> None:
    theirs, processor = saved(name, tmp_path / "theirs")
    run = mirada.import_model(tmp_path / "theirs", out=tmp_path / "run")
    place = pictures / "dog" / "1.png"
    with Image.open(place) as image:
        shares = theirs(**processor(image, return_tensors="pt")).logits[0].softmax(-1)
    answer = run(str(place), best=3)
    assert answer.text == NAMES[int(shares.argmax())]
    assert_close(torch.tensor([dict(answer.ranked)[label] for label in NAMES.values()]), shares, atol=1e-5, rtol=1e-4)
    assert {text for text, _ in run(str(place), candidates=("tabby_cat", "DOG")).ranked} == {NAMES[1], "dog"}
    measured = run.measure(str(pictures))  # folders have one of the names of a class each
    assert 0 <= measured["accuracy"] <= 100
    seen = answer.look()
    assert seen.labels.axes["cells"].size == 16 + run.model.config.before
    assert seen.labels.axes["cells"].tokens[0] == "[class]"
    assert answer.weights.shape == (1, 16)
    export_run(run, "hf", tmp_path / "back")
    again = type(theirs).from_pretrained(tmp_path / "back").eval()
    for ours, wanted in zip(again.state_dict().items(), theirs.state_dict().items(), strict=True):
        assert ours[0] == wanted[0]
        assert_close(ours[1], wanted[1], atol=0, rtol=0)
    assert again.config.id2label == NAMES


@pytest.mark.parametrize("name", ["ViTForImageClassification", "Dinov2WithRegistersModel"])
def test_a_new_head_is_trained_on_an_imported_model(
    name: str, tmp_path: Path, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also on one without a head, which is a run of another task."""
    saved(name, tmp_path / "theirs")
    start = mirada.import_model(tmp_path / "theirs", out=tmp_path / "start")
    given: dict[str, Any] = {"steps": 2, "threads": 1, "tune": "head", "validate": 0, "batch_size": 4}
    run = mirada.train("recognize", str(pictures), start=start.folder, out=tmp_path / "run", **given)
    assert run.known.labels == ("Tabby_cat", "dog", "tench")
    assert run.known.fitting == start.known.fitting
    assert run.known.augmentation.light > 0
    assert run.model.config.classes == 3
    assert "read as the model to start from reads them" in "".join(capsys.readouterr())
    for (part, before), after in zip(
        start.model.encoder.named_parameters(), run.model.encoder.parameters(), strict=True
    ):
        assert_close(after, before, atol=0, rtol=0, msg=lambda text, part=part: f"{part}: {text}")
    assert run(str(pictures / "dog" / "1.png")).text in run.known.labels
    export_run(run, "hf", tmp_path / "back")
    assert (
        transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "back").config.id2label[0]
        == "Tabby_cat"
    )


def test_a_folder_that_does_not_say_how_pictures_are_read_is_said(tmp_path: Path) -> None:
    saved("ViTForImageClassification", tmp_path / "theirs")
    (tmp_path / "theirs" / "preprocessor_config.json").unlink()
    told: list[str] = []
    run = mirada.load(import_folder(tmp_path / "theirs", tmp_path / "run", print_progress=told.append))
    assert told == [run.known.fitting.note]
    assert told[0].startswith("no preprocessor_config.json: pictures are resized to 32 x 32, the size in config.json")


def test_pictures_of_another_size_than_the_model_reads_are_refused(tmp_path: Path) -> None:
    saved("ViTForImageClassification", tmp_path / "theirs")
    transformers.ViTImageProcessorPil(size={"height": 40, "width": 40}).save_pretrained(tmp_path / "theirs")
    with pytest.raises(ValueError, match=r"makes pictures of 40 x 40, and the model in config\.json reads 32 x 32"):
        mirada.import_model(tmp_path / "theirs", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
