"""Parity with Hugging Face's models of pictures: outputs, attention of all layers, and files both ways."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402

from mirada import look  # noqa: E402
from mirada.hub import clip, dinov2, vit  # noqa: E402
from mirada.hub.mapping import export_weights  # noqa: E402

BATCH, CHANNELS, SIZE, PATCH, CLASSES = 2, 2, 21, 7, 5
NEAR = {"atol": 1e-4, "rtol": 1e-4}
LOADED = {"output_loading_info": True, "attn_implementation": "eager"}
SIZES = {
    "hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 5, "image_size": SIZE, "patch_size": PATCH,
    "num_channels": CHANNELS, "layer_norm_eps": 1e-3,
}  # fmt: skip
VIT = SIZES | {"intermediate_size": 31}
DINO = SIZES | {"mlp_ratio": 3}
LABELS = {"num_labels": CLASSES}
TEXT = {
    "hidden_size": 12, "intermediate_size": 17, "num_hidden_layers": 2, "num_attention_heads": 3, "vocab_size": 29,
    "max_position_embeddings": 11, "layer_norm_eps": 1e-3, "pad_token_id": 0, "bos_token_id": 1,
}  # fmt: skip


class Case(NamedTuple):
    """A model of theirs, and the module of ours that reads it."""

    ours: ModuleType
    model: str
    config: str
    settings: Mapping[str, Any]
    task: str


CASES = {
    "vit": Case(vit, "ViTForImageClassification", "ViTConfig", VIT | LABELS, "recognize"),
    "vit, no biases": Case(
        vit, "ViTForImageClassification", "ViTConfig", VIT | LABELS | {"qkv_bias": False, "hidden_act": "gelu_new"}, "recognize",
    ),
    "vit, headless": Case(vit, "ViTModel", "ViTConfig", VIT, "embed"),
    "vit, gelu": Case(vit, "ViTModel", "ViTConfig", VIT | {"pooler_act": "gelu", "num_channels": 3}, "embed"),
    "deit": Case(vit, "DeiTForImageClassification", "DeiTConfig", VIT | LABELS, "recognize"),
    "deit, teacher": Case(vit, "DeiTForImageClassificationWithTeacher", "DeiTConfig", VIT | LABELS, "recognize"),
    "deit, headless": Case(vit, "DeiTModel", "DeiTConfig", VIT, "embed"),
    "dinov2": Case(dinov2, "Dinov2ForImageClassification", "Dinov2Config", DINO | LABELS, "recognize"),
    "dinov2, headless": Case(dinov2, "Dinov2Model", "Dinov2Config", DINO | {"use_mask_token": False}, "embed"),
    "dinov2, gated": Case(dinov2, "Dinov2Model", "Dinov2Config", DINO | {"use_swiglu_ffn": True}, "embed"),
    "registers": Case(
        dinov2, "Dinov2WithRegistersForImageClassification", "Dinov2WithRegistersConfig",
        DINO | LABELS | {"num_register_tokens": 3, "use_swiglu_ffn": True}, "recognize",
    ),
    "registers, headless": Case(
        dinov2, "Dinov2WithRegistersModel", "Dinov2WithRegistersConfig", DINO | {"num_register_tokens": 2}, "embed"
    ),
}  # fmt: skip
every_case = pytest.mark.parametrize("name", CASES)


def their_model(case: Case, **more: Any) -> nn.Module:
    """A small model of theirs, every weight of it moved away from its start."""
    torch.manual_seed(3)
    config = getattr(transformers, case.config)(**case.settings, attn_implementation="eager", **more)
    return moved(getattr(transformers, case.model)(config))


def moved(model: nn.Module) -> nn.Module:
    """The model with every weight away from its start, in evaluation."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def described(model: nn.Module) -> dict[str, Any]:
    """The config.json that they write."""
    return json.loads(model.config.to_json_string(use_diff=False)) | {"architectures": [type(model).__name__]}


def pictures(case: Case, height: int = SIZE, width: int = SIZE) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(BATCH, case.settings["num_channels"], height, width, generator=generator)


def answer(model: nn.Module, given: Tensor) -> Tensor:
    """Their scores, or the vector of a model without classes."""
    output = model(given)
    return output.logits if hasattr(output, "logits") else output.pooler_output


@every_case
@torch.no_grad()
def test_scores_vectors_and_attention_are_equal(name: str) -> None:
    case = CASES[name]
    theirs, given = their_model(case), pictures(case)
    ours = case.ours.load(described(theirs), theirs.state_dict())
    with look(ours) as seen:
        got = ours(given)
    assert_close(got, answer(theirs, given), **NEAR)
    output = (theirs.base_model if case.task == "recognize" else theirs)(given, output_attentions=True)
    assert_close(ours.encode(given), output.last_hidden_state, **NEAR)
    for layer, weights in zip(seen.names, output.attentions, strict=True):
        assert_close(seen[layer].weights(), weights, atol=1e-5, rtol=1e-5)


@every_case
@torch.no_grad()
def test_files_go_both_ways_without_a_change(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    theirs, given = their_model(case), pictures(case)
    theirs.save_pretrained(tmp_path / "theirs")
    told = json.loads((tmp_path / "theirs" / "config.json").read_text())
    weights = load_file(tmp_path / "theirs" / "model.safetensors")
    found = case.ours.checkpoint(told, list(weights))
    assert (found.task, found.preset, found.config) == (case.task, "vit", found.config)
    ours = case.ours.load(told, weights)
    exported = export_weights(ours, found.table)
    assert_close(exported, weights, atol=0, rtol=0)
    back = case.ours.config_json(ours, found.facts | {"model_type": told["model_type"]})
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "config.json").write_text(json.dumps(back))
    save_file(exported, tmp_path / "ours" / "model.safetensors", metadata={"format": "pt"})
    again, loading = type(theirs).from_pretrained(tmp_path / "ours", **LOADED)
    assert not any(loading[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert_close(answer(again.eval(), given), answer(theirs, given), atol=0, rtol=0)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].ours is dinov2])
@pytest.mark.parametrize(("height", "width"), [(14, 35), (28, 28), (30, 16)])
@torch.no_grad()
def test_positions_are_resized_for_pictures_of_other_sizes(name: str, height: int, width: int) -> None:
    case = CASES[name]
    theirs, given = their_model(case), pictures(case, height, width)
    ours = case.ours.load(described(theirs), theirs.state_dict())
    assert_close(ours(given), answer(theirs, given), **NEAR)


def test_gradients_are_equal() -> None:
    """A table that leads from weights to weights leads from gradients to gradients."""
    case = CASES["dinov2"]
    theirs, given = their_model(case), pictures(case)
    ours = case.ours.load(described(theirs), theirs.state_dict())
    probe = torch.randn(BATCH, CLASSES)
    (ours(given) * probe).sum().backward()
    (theirs(given).logits * probe).sum().backward()
    of_theirs = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in theirs.named_parameters()}
    gradients = case.ours.load(described(theirs), of_theirs)
    for (name, parameter), gradient in zip(ours.named_parameters(), gradients.parameters(), strict=True):
        if name != "mask":
            assert_close(parameter.grad, gradient.detach(), **NEAR, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("vit", {"architectures": ["ViTForMaskedImageModeling"]}, "unknown architecture 'ViTForMaskedImageModeling'"),
        ("vit, headless", {"pooler_act": "mish"}, "unknown pooler_act 'mish'"),
        ("vit, headless", {"pooler_output_size": 7}, "pooler_output_size must be 20: got 7"),
        ("deit", {"model_type": "beit"}, "model_type must be 'vit' or 'deit': got 'beit'"),
        ("dinov2", {"drop_path_rate": 0.1}, "drop_path_rate must be 0: got 0.1"),
        ("dinov2", {"model_type": "vit"}, "model_type must be 'dinov2' or 'dinov2_with_registers': got 'vit'"),
        ("dinov2", {"patch_size": [7, 14]}, "patch_size must be a square: got 7 x 14"),
        ("dinov2", {"hidden_size": "20"}, "hidden_size and mlp_ratio must be numbers"),
    ],
)
def test_what_our_model_cannot_be_is_refused(name: str, changes: dict[str, Any], message: str) -> None:
    theirs = their_model(CASES[name])
    with pytest.raises(ValueError, match=message):
        CASES[name].ours.load(described(theirs) | changes, theirs.state_dict())


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        (vit, {"pool": "mean"}, "a ViTForImageClassification cannot express pool='mean' .it has 'first'."),
        (vit, {"layer_scale": 0.5, "where": "window:2,2"}, "cannot express where='window:2,2' .*, layer_scale=0.5"),
        (vit, {"activation": "gated"}, "no activation 'gated'"),
        (vit, {"norm": "rms"}, "has layer norms: got norm='rms'"),
        (vit, {"normalizer": "sparsemax"}, "has a softmax: got normalizer='sparsemax'"),
        (dinov2, {"layer_scale": 1.0}, "a Dinov2ForImageClassification cannot express pool='first' .it has 'first-mean'."),
        (dinov2, {"hidden": 33}, "has hidden = ratio x width: got hidden=33, width=16"),
    ],
)  # fmt: skip
def test_a_model_of_ours_that_they_cannot_have_is_refused(family: Any, changes: Any, message: str) -> None:
    tiny = vit.ViTConfig.tiny().to_dict()
    with pytest.raises(ValueError, match=message):
        family.config_json(vit.ViT(vit.ViTConfig(**tiny | changes)), {})


# CLIP


def their_clip(end: int = 28, **more: Any) -> nn.Module:
    torch.manual_seed(3)
    picture = {key: value for key, value in VIT.items() if key != "layer_norm_eps"}
    config = transformers.CLIPConfig(
        text_config=TEXT | {"eos_token_id": end} | more, vision_config=picture | more, projection_dim=7,
        attn_implementation="eager",
    )  # fmt: skip
    return moved(transformers.CLIPModel(config))


def texts() -> Tensor:
    """Three texts, of which two end early."""
    tokens = torch.randint(3, 28, (3, 9), generator=torch.Generator().manual_seed(1))
    tokens[0, 4:], tokens[1, -1], tokens[2, 6:] = 28, 28, torch.tensor([28, 0, 0])
    return tokens


MODELS: dict[str, Callable[[], nn.Module]] = {
    "quick": their_clip, "the first files": lambda: their_clip(end=2), "gelu": lambda: their_clip(hidden_act="gelu"),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_clip_compares_as_theirs_does(name: str, tmp_path: Path) -> None:
    theirs, tokens = MODELS[name](), texts()
    given = torch.randn(BATCH, CHANNELS, SIZE, SIZE)
    theirs.save_pretrained(tmp_path / "theirs")
    told = json.loads((tmp_path / "theirs" / "config.json").read_text())
    weights = load_file(tmp_path / "theirs" / "model.safetensors")
    ours = clip.load(told, weights)
    wanted = theirs(input_ids=tokens, pixel_values=given, output_attentions=True)
    with look(ours) as seen:
        assert_close(ours(given, tokens), wanted.logits_per_image, **NEAR)
    attentions = [*wanted.vision_model_output.attentions, *wanted.text_model_output.attentions]
    for layer, each in zip(seen.names, attentions, strict=True):
        assert_close(seen[layer].weights(), each, atol=1e-5, rtol=1e-5)
    assert_close(ours.picture(given), theirs.get_image_features(given).pooler_output, **NEAR)
    assert_close(ours.text(tokens), theirs.get_text_features(tokens).pooler_output, **NEAR)

    found = clip.checkpoint(told, list(weights))
    exported = export_weights(ours, found.table)
    assert_close(exported, weights, atol=0, rtol=0)
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "config.json").write_text(json.dumps(clip.config_json(ours, found.facts)))
    save_file(exported, tmp_path / "ours" / "model.safetensors", metadata={"format": "pt"})
    again, loading = transformers.CLIPModel.from_pretrained(tmp_path / "ours", **LOADED)
    assert not any(loading[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    same = again.eval()(input_ids=tokens, pixel_values=given).logits_per_image
    assert_close(same, wanted.logits_per_image, atol=0, rtol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["CLIPTextModelWithProjection"]}, "both towers together are read, a CLIPModel: got CLIPText"),
        ({"model_type": "siglip"}, "model_type must be 'clip': got 'siglip'"),
        ({"text_config": TEXT | {"eos_token_id": 29}}, "eos_token_id of the texts must be a token of the 29 in vocab_size"),
        ({"text_config": 7}, "text_config must hold the settings of a tower: got 7"),
        ({"vision_config": VIT | {"image_size": [21, 28]}}, "image_size must be a square: got 21 x 28"),
    ],
)  # fmt: skip
def test_a_clip_that_ours_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        clip.checkpoint(described(their_clip()) | changes, [])


def test_a_text_without_its_end_is_said() -> None:
    model = clip.CLIP(clip.CLIPConfig.tiny())
    with pytest.raises(ValueError, match="every text must have its end token 12: one has not"):
        model.text(torch.tensor([[1, 2, 3]]))
