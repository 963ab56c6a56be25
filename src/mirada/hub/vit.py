"""Hugging Face's Vision Transformer and DeiT as our `ViT`: with classes, with DeiT's two heads, or without a head."""

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from mirada.errors import require, require_known
from mirada.hub.checkpoint import Checkpoint, id2label, labels
from mirada.hub.mapping import Row, WeightTable, copy_weights, expect, settings
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
from mirada.layers.model import Model
from mirada.layers.output import BEFORE_SCORES
from mirada.models.vit import ViT, ViTConfig

CLASSES = {  # the classes of a family, and their kinds of heads
    "vit": {"ViTForImageClassification": "classes", "ViTModel": "none"},
    "deit": {
        "DeiTForImageClassification": "classes", "DeiTForImageClassificationWithTeacher": "heads", "DeiTModel": "none",
    },
}  # fmt: skip
EPS = 1e-12  # of the norms, where a config.json does not say


def checkpoint(theirs: Mapping[str, Any], names: Collection[str]) -> Checkpoint:
    """What a config.json and the names of tensors describe.

    >>> sizes = {"image_size": 8, "patch_size": 4, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    >>> found = checkpoint(sizes | {"intermediate_size": 16, "model_type": "deit"}, ["distillation_classifier.bias"])
    >>> found.task, found.config.teacher, found.config.length
    ('recognize', 'heads', 6)
    """
    family = theirs.get("model_type", "vit")
    require(family in CLASSES, f"model_type must be {' or '.join(map(repr, CLASSES))}: got {family!r}")
    named, kind = head_of(theirs, CLASSES[family], names)
    listed = labels(theirs) if kind != "none" else []
    pooled = kind == "none" and any(name.endswith("pooler.dense.weight") for name in names)
    config = _config(theirs, kind if listed else "none", len(listed), pooled)
    task = "recognize" if listed else "embed"
    facts = picture_facts({"model_type": family, **theirs}, config, listed)
    return Checkpoint(ViT, config, _table(family, named, kind, config), task, "vit", facts, picture_notes(facts))


def config(theirs: Mapping[str, Any]) -> ViTConfig:
    """Our configuration of a `config.json` of a model with classes.

    >>> sizes = {"image_size": 8, "patch_size": 4, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    >>> config(sizes | {"intermediate_size": 16, "id2label": {"0": "cat", "1": "dog"}}).length
    5
    """
    expect(theirs, model_type="vit")
    return _config(theirs, "classes", len(labels(theirs)), pooled=False)


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> ViT:
    """Our model of their configuration and weights, in evaluation mode.

    Dosovitskiy et al. (2021), arXiv:2010.11929; Touvron et al. (2021), arXiv:2012.12877.
    """
    found = checkpoint(theirs, list(weights))
    return copy_weights(ViT(found.config).eval(), found.table, weights)  # type: ignore[arg-type]


def config_json(model: Model[Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json of theirs that describes a model of ours.

    >>> config_json(ViT(ViTConfig.tiny()), {"labels": ["cat", "dog", "cow"]})["architectures"]
    ['ViTForImageClassification']
    >>> config_json(ViT(ViTConfig(**ViTConfig.tiny().to_dict() | {"pool": "mean"})), {})
    Traceback (most recent call last):
    ValueError: a ViTForImageClassification cannot express pool='mean' (it has 'first')
    """
    ours = model.config
    require(isinstance(ours, ViTConfig), f"a ViT of theirs is one of ours: got {type(model).__name__}")
    family = str(facts.get("model_type") or ("vit" if ours.teacher == "none" else "deit"))
    require_known("model_type", family, CLASSES)
    kind = "none" if not ours.classes else "heads" if ours.teacher == "heads" else "classes"
    named = next((name for name, each in CLASSES[family].items() if each == kind), "")
    require(named != "", f"a {family} of theirs has no second head: got teacher={ours.teacher!r}")
    theirs = their_block(ours) | {
        "model_type": family, "architectures": [named], "num_hidden_layers": ours.depth, "intermediate_size": ours.hidden,
        "image_size": ours.size, "patch_size": ours.patch, "num_channels": ours.channels,
    }  # fmt: skip
    if ours.transform != "none":
        theirs["pooler_act"] = ours.transform.replace("gelu-tanh", "gelu_pytorch_tanh")
    if ours.classes:
        theirs |= id2label(named_classes(facts, ours.classes))
    same(named, ours, checkpoint(theirs, ["pooler.dense.weight"] if ours.transform != "none" else []).config)
    return theirs


def named_classes(facts: Mapping[str, Any], count: int) -> list[str]:
    """The names of the classes of a model; numbered ones where nobody named them.

    >>> named_classes({}, 2)
    ['LABEL_0', 'LABEL_1']
    """
    named = list(facts.get("labels") or [f"LABEL_{number}" for number in range(count)])
    require(len(named) == count, f"labels must name {count} classes: got {len(named)}")
    return named


def _config(theirs: Mapping[str, Any], kind: str, classes: int, pooled: bool) -> ViTConfig:
    """Our configuration of a model with that kind of head."""
    size, patch = side(theirs, "image_size", 224), side(theirs, "patch_size", 16)
    teacher = "none" if theirs.get("model_type", "vit") == "vit" else "heads" if kind == "heads" else "token"
    transform = "none"
    if pooled:
        transform = str(theirs.get("pooler_act", "tanh")).replace("gelu_pytorch_tanh", "gelu-tanh")
        require_known("pooler_act", transform, BEFORE_SCORES)
        expect(theirs, pooler_output_size=theirs.get("hidden_size"))
    return ViTConfig(
        size=size,
        patch=patch,
        length=(size // patch) ** 2 + (1 if teacher == "none" else 2),
        channels=theirs.get("num_channels", 3),
        classes=0 if kind == "none" else classes,
        transform=transform,
        teacher=teacher,
        **block_settings(theirs, EPS),
        **settings(theirs, hidden="intermediate_size"),
    )


def _table(family: str, named: str, kind: str, config: ViTConfig) -> WeightTable:
    """The rows of a checkpoint of one of the classes."""
    ours, prefix = "encoder.layers.{n}", "" if kind == "none" else f"{family}."
    body = [
        Row("class_token", "embeddings.cls_token"),
        Row("teacher_token", "embeddings.distillation_token"),
        Row("place.position.table", "embeddings.position_embeddings", "1 n w -> n w"),
        # a convolution whose stride is its size is a linear layer over the pixels of a patch
        Row("patches.project.weight", "embeddings.patch_embeddings.projection.weight", "w c p q -> w (c p q)"),
        Row("patches.project.bias", "embeddings.patch_embeddings.projection.bias"),
        Row(f"{ours}.around_self.norm.*", "encoder.layer.{n}.layernorm_before.*"),
        *attention_rows(f"{ours}.self", "encoder.layer.{n}.attention", "layers.{n}.attention"),
        Row(f"{ours}.around_feed.norm.*", "encoder.layer.{n}.layernorm_after.*"),
        Row(f"{ours}.feed.widen.*", "encoder.layer.{n}.intermediate.dense.*"),
        Row(f"{ours}.feed.narrow.*", "encoder.layer.{n}.output.dense.*"),
        # transformers 5 has these names in memory, and those above in files
        Row(f"{ours}.around_self.norm.*", "layers.{n}.layernorm_before.*"),
        Row(f"{ours}.around_feed.norm.*", "layers.{n}.layernorm_after.*"),
        Row(f"{ours}.feed.widen.*", "layers.{n}.mlp.fc1.*"),
        Row(f"{ours}.feed.narrow.*", "layers.{n}.mlp.fc2.*"),
        Row("encoder.norm.*", "layernorm.*"),
        Row("transform.dense.*", "pooler.dense.*"),
    ]
    first = "cls_classifier" if kind == "heads" else "classifier"
    heads = [Row("classes.*", f"{first}.*"), Row("teacher_classes.*", "distillation_classifier.*")]
    rows = [row._replace(theirs=f"{prefix}{row.theirs}") for row in body] + heads
    unused = () if kind == "none" else ("pooler.dense.*",)  # a classifier has no use for it
    return WeightTable(named, tuple(rows), f"{family}.", unused, patch_sizes(config))
