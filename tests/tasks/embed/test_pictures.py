"""Vectors of pictures and texts by imported models, and the texts that CLIP finds for a picture."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")

import mirada  # noqa: E402

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 16, "patch_size": 8}
WORDS = ["<start>", "<end>", "<none>", "a", "photo", "of", "cat", "dog", "red", "house"]
SQUARE = {"height": 16, "width": 16}
TEXTS = ("a photo of a cat", "a photo of a dog", "a red house")
NEAR = {"atol": 1e-4, "rtol": 1e-4}


def moved(model: Any, folder: Path) -> Any:
    """The model with weights that say something, in a folder."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.eval().save_pretrained(folder)
    return model


def their_clip(folder: Path, end: int = 1) -> tuple[Any, Any, Any]:
    """A small CLIP of theirs, its tokenizer and its processor of pictures."""
    text = {
        "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": len(WORDS),
        "max_position_embeddings": 9, "eos_token_id": end, "bos_token_id": 0, "pad_token_id": 1,
    }  # fmt: skip
    config = transformers.CLIPConfig(
        text_config=text, vision_config=SIZES | {"intermediate_size": 24}, projection_dim=6
    )
    engine = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<none>"))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    around = [("<start>", 0), ("<end>", 1)]
    engine.post_processor = processors.TemplateProcessing(single="<start> $A <end>", special_tokens=around)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=engine, bos_token="<start>", eos_token="<end>", unk_token="<none>", pad_token="<end>"
    )
    processor = transformers.CLIPImageProcessorPil(size={"shortest_edge": 18}, crop_size=SQUARE)
    model = moved(transformers.CLIPModel(config), folder)
    tokenizer.save_pretrained(folder)
    processor.save_pretrained(folder)
    return model, tokenizer, processor


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(2).integers(0, 255, (30, 41, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "cat.png")
    return tmp_path / "cat.png"


@pytest.mark.parametrize("name", ["ViT", "DeiT", "Dinov2", "Dinov2WithRegisters"])
@torch.no_grad()
def test_a_model_without_a_head_gives_the_vector_of_its_pooler(name: str, tmp_path: Path, picture: Path) -> None:
    more = {"mlp_ratio": 2} if name.startswith("Dino") else {"intermediate_size": 24}
    config = getattr(transformers, f"{name}Config")(**SIZES, **more)
    theirs = moved(getattr(transformers, f"{name}Model")(config), tmp_path / "theirs")
    processor = transformers.BitImageProcessorPil(size={"shortest_edge": 18}, crop_size=SQUARE)
    processor.save_pretrained(tmp_path / "theirs")
    run = mirada.import_model(tmp_path / "theirs", out=tmp_path / "run")
    with Image.open(picture) as image:
        wanted = theirs(**processor(image, return_tensors="pt")).pooler_output[0]
        answer = run(str(picture))
        assert_close(run(image.copy()).value, wanted, **NEAR)
    assert_close(answer.value, wanted, **NEAR)
    assert_close(torch.tensor(answer.to_dict()["vector"]), wanted, **NEAR)
    assert answer.text.startswith("16 numbers: ")
    seen = answer.look()
    assert seen.names == ["encoder.layers.0.self", "encoder.layers.1.self"]
    assert seen.labels.axes["cells"].size == 4 + run.model.config.before
    with pytest.raises(ValueError, match="this model reads pictures only"):
        run(str(picture), candidates=("a cat",))
    with pytest.raises(ValueError, match=r"no-such\.png"):
        run("no-such.png")


@pytest.mark.parametrize("end", [1, 2], ids=["end token", "largest number"])
@torch.no_grad()
def test_clip_ranks_texts_for_a_picture(end: int, tmp_path: Path, picture: Path) -> None:
    """The first checkpoints name 2 as the end token and mean the largest number."""
    theirs, tokenizer, processor = their_clip(tmp_path / "theirs", end)
    run = mirada.import_model(tmp_path / "theirs", out=tmp_path / "run")
    given = tokenizer(list(TEXTS), return_tensors="pt", padding=True)
    tokens = {"input_ids": given["input_ids"], "attention_mask": given["attention_mask"]}
    with Image.open(picture) as image:
        pixels = processor(image, return_tensors="pt")["pixel_values"]
    output = theirs(**tokens, pixel_values=pixels)
    answer = run(str(picture), candidates=TEXTS)
    shares = torch.tensor([dict(answer.ranked)[text] for text in TEXTS])
    assert_close(shares, output.logits_per_image[0].softmax(-1), **NEAR)
    assert (answer.text, answer.score) == answer.ranked[0]
    assert_close(answer.value, theirs.get_image_features(pixels).pooler_output[0], **NEAR)
    vectors = theirs.get_text_features(**tokens).pooler_output
    answers = run([*TEXTS, str(picture)])
    for each, wanted in zip(answers, vectors, strict=False):
        assert_close(each.value, wanted, **NEAR)
    assert_close(answers[-1].value, answer.value)
    near = run(TEXTS[0], candidates=TEXTS)
    assert near.text == TEXTS[0]
    assert near.score == pytest.approx(1, abs=1e-5)
    assert answer.look().names == ["picture.encoder.layers.0.self", "picture.encoder.layers.1.self"]
    of_text = answers[0].look()
    assert of_text.names == ["text.encoder.layers.0.self", "text.encoder.layers.1.self"]
    assert of_text.labels.axes["text"].tokens == ("<start>", *TEXTS[0].split(), "<end>")


def test_what_clip_cannot_read_is_said(tmp_path: Path) -> None:
    their_clip(tmp_path / "theirs")
    run = mirada.import_model(tmp_path / "theirs", out=tmp_path / "run")
    with pytest.raises(ValueError, match="an input has 12 tokens and the model reads at most 9"):
        run("a red house " * 3 + "red")
    assert run("a red house " * 3 + "red", truncate=True).value.shape == (6,)
    with pytest.raises(ValueError, match="there is nothing to read"):
        run(" ")


def test_a_folder_of_pictures_is_embedded(tmp_path: Path, picture: Path) -> None:
    their_clip(tmp_path / "theirs")
    run = mirada.import_model(tmp_path / "theirs", out=tmp_path / "run")
    (tmp_path / "all" / "some").mkdir(parents=True)
    (tmp_path / "all" / "some" / "1.png").write_bytes(picture.read_bytes())
    (tmp_path / "all" / "2.png").write_bytes(b"no picture")
    questions = run.task.questions(run, str(tmp_path / "all"))
    assert [question.where for question in questions.rows] == ["2.png", "some/1.png"]
    broken, whole = run.answers_to(questions.rows)
    assert "not a picture" in broken.error
    assert whole.value.shape == (6,)
