"""Hugging Face's Vision Transformer: the checkpoint of a `ViTForImageClassification` as our `ViT`."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from mirada.errors import require
from mirada.hub.mapping import Row, WeightTable, activation, copy_weights, expect, setting, settings, softmax
from mirada.models.vit import ViT, ViTConfig

SELF = "encoder.layers.{n}.self"
PROJECTIONS = ("attention.query", "attention.key", "attention.value", "output.dense")

TABLE = WeightTable(
    source="ViTForImageClassification",
    prefix="vit.",
    rows=(
        Row("class_token", "embeddings.cls_token"),
        Row("place.position.table", "embeddings.position_embeddings", "1 n w -> n w"),
        # a convolution whose stride is its size is a linear layer over the pixels of a patch
        Row("patches.project.weight", "embeddings.patch_embeddings.projection.weight", "w c p q -> w (c p q)"),
        Row("patches.project.bias", "embeddings.patch_embeddings.projection.bias"),
        Row("encoder.layers.{n}.around_self.norm.*", "encoder.layer.{n}.layernorm_before.*"),
        *Row.attention(SELF, "encoder.layer.{n}.attention", *PROJECTIONS),
        Row("encoder.layers.{n}.around_feed.norm.*", "encoder.layer.{n}.layernorm_after.*"),
        Row("encoder.layers.{n}.feed.widen.*", "encoder.layer.{n}.intermediate.dense.*"),
        Row("encoder.layers.{n}.feed.narrow.*", "encoder.layer.{n}.output.dense.*"),
        # transformers 5 has these names in memory, and those above in files
        Row("encoder.layers.{n}.around_self.norm.*", "layers.{n}.layernorm_before.*"),
        *Row.attention(SELF, "layers.{n}.attention", "q_proj", "k_proj", "v_proj", "o_proj"),
        Row("encoder.layers.{n}.around_feed.norm.*", "layers.{n}.layernorm_after.*"),
        Row("encoder.layers.{n}.feed.widen.*", "layers.{n}.mlp.fc1.*"),
        Row("encoder.layers.{n}.feed.narrow.*", "layers.{n}.mlp.fc2.*"),
        Row("encoder.norm.*", "layernorm.*"),
        Row("classes.*", "classifier.*"),
    ),
    ignored=("pooler.dense.*",),  # the classifier does not use it
)


def config(theirs: Mapping[str, Any]) -> ViTConfig:
    """Our configuration of a `config.json` of theirs.

    >>> sizes = {"image_size": 8, "patch_size": 4, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    >>> config(sizes | {"intermediate_size": 16, "id2label": {"0": "cat", "1": "dog"}}).length
    5
    """
    expect(theirs, model_type="vit", qkv_bias=True)
    size, patch = _side(theirs, "image_size"), _side(theirs, "patch_size")
    return ViTConfig(
        size=size,
        patch=patch,
        length=(size // patch) ** 2 + 1,
        channels=theirs.get("num_channels", 3),
        # a configuration lists its classes, unless they are the two of the default
        classes=len(theirs["id2label"]) if "id2label" in theirs else theirs.get("num_labels", 2),
        **settings(theirs, width="hidden_size", depth="num_hidden_layers"),
        **settings(theirs, heads="num_attention_heads", hidden="intermediate_size"),
        activation=activation(theirs, "hidden_act", absent="gelu"),
        norm=f"layer:{theirs.get('layer_norm_eps', 1e-12)!r}",
        dropout=theirs.get("hidden_dropout_prob", 0.0),
        normalizer=softmax(theirs.get("attention_probs_dropout_prob", 0.0)),
    )


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> ViT:
    """Our model of their configuration and weights, in evaluation mode.

    Dosovitskiy et al. (2021), arXiv:2010.11929.
    """
    return copy_weights(ViT(config(theirs)).eval(), TABLE, weights)


def _side(theirs: Mapping[str, Any], key: str) -> int:
    """The side of a square, which may be given as two numbers."""
    value = setting(theirs, key)
    height, width = value if isinstance(value, list | tuple) else (value, value)
    require(
        height == width, f"{key} must be a square: got {height} x {width}. Our ViT reads square pictures and patches."
    )
    return height
