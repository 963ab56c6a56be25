"""Parity with Hugging Face's Vision Transformer: outputs and gradients."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file  # noqa: E402

from mirada.hub import vit  # noqa: E402

BATCH, CHANNELS, SIZE, PATCH, CLASSES = 2, 5, 21, 7, 11
NEAR = {"atol": 1e-4, "rtol": 1e-4}


def their_model(**settings: object) -> nn.Module:
    """A small model of theirs, every weight of it moved away from its start."""
    settings = {"image_size": SIZE, "num_labels": CLASSES, "layer_norm_eps": 1e-3} | settings
    config = transformers.ViTConfig(
        hidden_size=20, num_hidden_layers=2, num_attention_heads=5, intermediate_size=31, patch_size=PATCH,
        num_channels=CHANNELS, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="eager",
        **settings,
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize(
    "settings", [{}, {"hidden_act": "gelu_new", "layer_norm_eps": 1e-2}, {"image_size": [SIZE, SIZE]}], ids=str
)
def test_outputs_and_all_gradients_are_equal(settings: dict[str, object]) -> None:
    theirs = their_model(**settings)
    ours = vit.load(theirs.config.to_dict(), theirs.state_dict())
    pictures = torch.randn(BATCH, CHANNELS, SIZE, SIZE, requires_grad=True)
    got, wanted = ours(pictures), theirs(pictures).logits
    assert got.shape == (BATCH, CLASSES)
    assert_close(got, wanted, **NEAR)

    probe = torch.randn(BATCH, CLASSES)
    (ours_at_pixels,) = torch.autograd.grad((got * probe).sum(), pictures, retain_graph=True)
    (theirs_at_pixels,) = torch.autograd.grad((wanted * probe).sum(), pictures, retain_graph=True)
    assert_close(ours_at_pixels, theirs_at_pixels, **NEAR)
    (got * probe).sum().backward()
    (wanted * probe).sum().backward()
    # a table that leads from weights to weights leads from gradients to gradients
    gradients = vit.load(theirs.config.to_dict(), {name: p.grad for name, p in theirs.named_parameters()})
    for (name, parameter), gradient in zip(ours.named_parameters(), gradients.parameters(), strict=True):
        assert_close(parameter.grad, gradient.detach(), **NEAR, msg=lambda text, name=name: f"{name}: {text}")
        assert "key.bias" in name or gradient.abs().max() > 0.1  # softmax does not see what is added to all keys


def test_every_patch_has_the_vector_that_theirs_has() -> None:
    theirs = their_model()
    ours = vit.load(theirs.config.to_dict(), theirs.state_dict())
    pictures = torch.randn(BATCH, CHANNELS, SIZE, SIZE)
    assert_close(ours.encode(pictures), theirs.vit(pictures).last_hidden_state, **NEAR)


def test_the_files_of_a_saved_checkpoint_are_read(tmp_path: Path) -> None:
    theirs = their_model()
    theirs.save_pretrained(tmp_path)
    described = json.loads((tmp_path / "config.json").read_text())
    ours = vit.load(described, load_file(tmp_path / "model.safetensors"))
    expected = vit.load(theirs.config.to_dict(), theirs.state_dict())
    assert not ours.training
    assert ours.config == expected.config
    assert_close(ours.state_dict(), expected.state_dict(), atol=0, rtol=0)


def test_bare_names_and_an_unused_pooler_are_no_obstacle() -> None:
    theirs = their_model()
    settings, weights = theirs.config.to_dict(), theirs.state_dict()
    bare = {name.removeprefix("vit."): weight for name, weight in weights.items()}
    bare |= {"pooler.dense.weight": torch.zeros(20, 20), "pooler.dense.bias": torch.zeros(20)}
    assert_close(vit.load(settings, bare).state_dict(), vit.load(settings, weights).state_dict(), atol=0, rtol=0)


def test_two_classes_need_not_be_listed() -> None:
    settings = their_model(num_labels=2).config.to_dict()
    assert vit.config(settings).classes == 2
    assert vit.config({key: value for key, value in settings.items() if "label" not in key}).classes == 2


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("hidden_act", "mish", "unknown hidden_act 'mish'"),
        ("image_size", "21", "image_size must be a whole number of pixels, or two of them: got 21"),
        ("image_size", [21, 28], "image_size must be a square: got 21 x 28"),
        ("patch_size", 5, "must divide into patches: got size=21, patch=5"),
        ("model_type", "deit", "model_type must be 'vit': got 'deit'"),
    ],
)
def test_what_our_model_cannot_be_is_refused(setting: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        vit.config(their_model().config.to_dict() | {setting: value})


def test_patches_of_another_size_are_refused() -> None:
    theirs = their_model()
    settings = theirs.config.to_dict() | {"patch_size": 3, "image_size": 9}
    with pytest.raises(
        ValueError, match=r"projection.weight must fill patches.project.weight \(20, 45\): got \(20, 5, 7, 7\)"
    ):
        vit.load(settings, theirs.state_dict())
