"""Hugging Face's DINOv2, with registers and without, as our `ViT`: with classes or without a head."""

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from mirada.errors import require, require_known
from mirada.hub.checkpoint import Checkpoint, id2label, labels
from mirada.hub.mapping import JOINED, Row, WeightTable, copy_weights, setting
from mirada.hub.pictures import (
    attention_rows,
    block_settings,
    head_of,
    patch_sizes,
    picture_facts,
    picture_notes,
    same,
    side,
    their_block,
)
from mirada.hub.vit import named_classes
from mirada.layers.model import Model
from mirada.models.vit import ViT, ViTConfig

STEMS = {"dinov2": "Dinov2", "dinov2_with_registers": "Dinov2WithRegisters"}
HEADS = {"Model": "none", "ForImageClassification": "classes", "Backbone": "none"}
EPS = 1e-6  # of the norms, where a config.json does not say
GATED = "gated:silu,bias=yes"
RATIOS = range(1, 65)  # of the hidden layer to the width
MASK = "embeddings.mask_token"


def checkpoint(theirs: Mapping[str, Any], names: Collection[str]) -> Checkpoint:
    """What a config.json and the names of tensors describe.

    >>> sizes = {"image_size": 28, "patch_size": 14, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    >>> found = checkpoint(sizes | {"model_type": "dinov2", "use_swiglu_ffn": True}, ["embeddings.mask_token"])
    >>> found.task, found.config.hidden, found.config.resized
    ('embed', 24, 'bicubic')
    """
    family = theirs.get("model_type", "dinov2")
    require(family in STEMS, f"model_type must be {' or '.join(map(repr, STEMS))}: got {family!r}")
    named, kind = head_of(theirs, {f"{STEMS[family]}{word}": each for word, each in HEADS.items()}, names)
    listed = labels(theirs) if kind != "none" else []
    masked = any(name.endswith(MASK) for name in names) or (not names and bool(theirs.get("use_mask_token", True)))
    config = _config(theirs, len(listed), masked)
    task = "recognize" if listed else "embed"
    facts = picture_facts({"model_type": family, **theirs}, config, listed)
    return Checkpoint(ViT, config, _table(family, named, kind, config), task, "vit", facts, picture_notes(facts))


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> ViT:
    """Our model of their configuration and weights, in evaluation mode.

    Oquab et al. (2023), arXiv:2304.07193; Darcet et al. (2024), arXiv:2309.16588.
    """
    found = checkpoint(theirs, list(weights))
    return copy_weights(ViT(found.config).eval(), found.table, weights)  # type: ignore[arg-type]


def config_json(model: Model[Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json of theirs that describes a model of ours.

    >>> sizes = ViTConfig.tiny().to_dict() | {"layer_scale": 1.0, "resized": "bicubic", "pool": "first-mean", "masked": True}
    >>> config_json(ViT(ViTConfig(**sizes)), {})["mlp_ratio"]
    2
    """
    ours = model.config
    require(isinstance(ours, ViTConfig), f"a DINOv2 of theirs is a ViT of ours: got {type(model).__name__}")
    family = str(facts.get("model_type") or ("dinov2_with_registers" if ours.registers else "dinov2"))
    require_known("model_type", family, STEMS)
    named = f"{STEMS[family]}{'ForImageClassification' if ours.classes else 'Model'}"
    gated = ours.activation == GATED
    ratio = next((ratio for ratio in RATIOS if _hidden(ours.width, ratio, gated) == ours.hidden), None)
    require(ratio is not None, f"a {named} has hidden = ratio x width: got hidden={ours.hidden}, width={ours.width}")
    block = their_block(ViTConfig(**ours.to_dict() | {"activation": "gelu"}) if gated else ours)
    theirs = block | {
        "model_type": family, "architectures": [named], "num_hidden_layers": ours.depth, "mlp_ratio": ratio,
        "image_size": ours.size, "patch_size": ours.patch, "num_channels": ours.channels, "use_swiglu_ffn": gated,
        "layerscale_value": ours.layer_scale, "apply_layernorm": True, "reshape_hidden_states": True,
    }  # fmt: skip
    theirs |= {"num_register_tokens": ours.registers} if family != "dinov2" else {"use_mask_token": ours.masked}
    if ours.classes:
        theirs |= id2label(named_classes(facts, ours.classes))
    same(named, ours, checkpoint(theirs, [MASK] if ours.masked else ["embeddings.cls_token"]).config)
    return theirs


def _hidden(width: int, ratio: float, gated: bool) -> int:
    """The numbers in a hidden layer: a gated one has two thirds of the others', rounded up to a multiple of 8.

    >>> _hidden(768, 4, gated=False), _hidden(1536, 4, gated=True)
    (3072, 4096)
    """
    hidden = int(width * ratio)
    return (int(hidden * 2 / 3) + 7) // 8 * 8 if gated else hidden


def _config(theirs: Mapping[str, Any], classes: int, masked: bool) -> ViTConfig:
    """Our configuration of a model with so many classes."""
    size, patch, width = side(theirs, "image_size", 224), side(theirs, "patch_size", 14), setting(theirs, "hidden_size")
    dropped, ratio = theirs.get("drop_path_rate", 0.0), theirs.get("mlp_ratio", 4)
    require(
        not dropped,
        f"drop_path_rate must be 0: got {dropped}. Our model has no such dropout; it acts in training only, so 0 answers alike.",
    )
    require(type(width) is int and isinstance(ratio, int | float), "hidden_size and mlp_ratio must be numbers")
    gated, registers = bool(theirs.get("use_swiglu_ffn", False)), 0
    if theirs.get("model_type") == "dinov2_with_registers":
        registers = theirs.get("num_register_tokens", 4)
    blocks = block_settings(theirs, EPS)
    return ViTConfig(**blocks | {
        "size": size, "patch": patch, "length": (size // patch) ** 2 + 1, "channels": theirs.get("num_channels", 3),
        "classes": classes, "hidden": _hidden(width, ratio, gated), "registers": registers, "masked": masked,
        "activation": GATED if gated else blocks["activation"], "pool": "first-mean" if classes else "first",
        "layer_scale": theirs.get("layerscale_value") or 1.0,  # what was trained replaces it
        "resized": "bicubic" if theirs.get("model_type", "dinov2") == "dinov2" else "antialias",
    })  # fmt: skip


def _table(family: str, named: str, kind: str, config: ViTConfig) -> WeightTable:
    """The rows of a checkpoint of one of the classes."""
    ours, theirs = "encoder.layers.{n}", "encoder.layer.{n}"
    gates = (f"{ours}.feed.gate.*", f"{ours}.feed.widen.*")
    gated = [
        Row(gates, f"{theirs}.mlp.weights_in.*", JOINED),
        Row(f"{ours}.feed.narrow.*", f"{theirs}.mlp.weights_out.*"),
        # transformers 5 has these names in memory, and those above in files
        Row(gates[0], f"{theirs}.mlp.gate_proj.*"),
        Row(gates[1], f"{theirs}.mlp.up_proj.*"),
        Row(f"{ours}.feed.narrow.*", f"{theirs}.mlp.down_proj.*"),
    ]
    plain = [Row(f"{ours}.feed.widen.*", f"{theirs}.mlp.fc1.*"), Row(f"{ours}.feed.narrow.*", f"{theirs}.mlp.fc2.*")]
    body = [
        Row("class_token", "embeddings.cls_token"),
        Row("mask", MASK),
        Row("registers", "embeddings.register_tokens"),
        Row("place.position.table", "embeddings.position_embeddings", "1 n w -> n w"),
        # a convolution whose stride is its size is a linear layer over the pixels of a patch
        Row("patches.project.weight", "embeddings.patch_embeddings.projection.weight", "w c p q -> w (c p q)"),
        Row("patches.project.bias", "embeddings.patch_embeddings.projection.bias"),
        Row(f"{ours}.around_self.norm.*", f"{theirs}.norm1.*"),
        *attention_rows(f"{ours}.self", f"{theirs}.attention", f"{theirs}.attention"),
        Row(f"{ours}.around_self.scale.weight", f"{theirs}.layer_scale1.lambda1"),
        Row(f"{ours}.around_feed.norm.*", f"{theirs}.norm2.*"),
        *(gated if config.activation == GATED else plain),
        Row(f"{ours}.around_feed.scale.weight", f"{theirs}.layer_scale2.lambda1"),
        Row("encoder.norm.*", "layernorm.*"),
    ]
    prefix = "" if kind == "none" else f"{family}."
    rows = [row._replace(theirs=f"{prefix}{row.theirs}") for row in body]
    unused = () if config.registers else ("embeddings.register_tokens",)  # a tensor of none of them
    return WeightTable(named, (*rows, Row("classes.*", "classifier.*")), f"{family}.", unused, patch_sizes(config))
