"""What the families of pictures share: which head a checkpoint has, the settings of its blocks, and the way back."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from mirada.config import Config
from mirada.data.preprocessing import Preprocessing
from mirada.errors import require, unknown
from mirada.hub.checkpoint import architecture
from mirada.hub.mapping import (
    NORM,
    NORMALIZER,
    Row,
    activation,
    setting,
    settings,
    softmax,
    their_activation,
    their_dropout,
    their_eps,
)
from mirada.layers.block import BlockConfig

PROJECTIONS = ("attention.query", "attention.key", "attention.value", "output.dense")
NEW_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")  # as transformers 5 has them in memory
BIASES = {True: "multihead", False: "multihead:bias=o"}  # our word, by their qkv_bias


def head_of(theirs: Mapping[str, Any], known: Mapping[str, str], names: Collection[str]) -> tuple[str, str]:
    """The class of a checkpoint and the kind of its head: classes, heads (two of them) or none.

    Args:
        theirs: their config.json.
        known: the kind of head of every class of the family.
        names: the names of the tensors, which decide where the config.json does not say.

    >>> classes = {"ViTModel": "none", "ViTForImageClassification": "classes"}
    >>> head_of({}, classes, ["classifier.bias"])
    ('ViTForImageClassification', 'classes')
    """
    named = architecture(theirs)
    if named:
        if named not in known:
            raise unknown("architecture", named, known)
        return named, known[named]
    there = {name.split(".")[0] for name in names}
    kind = "heads" if "distillation_classifier" in there else "classes" if "classifier" in there else "none"
    return next((name, kind) for name, each in known.items() if each == kind)


def block_settings(theirs: Mapping[str, Any], eps: float) -> dict[str, Any]:
    """The fields of our blocks; `eps` is that of the norms where a config.json does not say.

    >>> sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "qkv_bias": False}
    >>> block_settings(sizes, 1e-6)["projection"]
    'multihead:bias=o'
    """
    return {
        **settings(theirs, width="hidden_size", depth="num_hidden_layers", heads="num_attention_heads"),
        "activation": activation(theirs, "hidden_act", absent="gelu"),
        "norm": f"layer:{float(theirs.get('layer_norm_eps', eps))!r}",
        "dropout": theirs.get("hidden_dropout_prob", 0.0),
        "normalizer": softmax(theirs.get("attention_probs_dropout_prob", 0.0)),
        "projection": BIASES[bool(theirs.get("qkv_bias", True))],
    }


def their_block(config: BlockConfig) -> dict[str, Any]:
    """The settings of theirs for our blocks: the way back from `block_settings`.

    >>> their_block(BlockConfig(activation="gelu", norm="layer:1e-06"))["layer_norm_eps"]
    1e-06
    """
    return {
        "hidden_size": config.width, "num_attention_heads": config.heads,
        "hidden_act": their_activation(config.activation), "layer_norm_eps": their_eps(config.norm),
        "hidden_dropout_prob": config.dropout, "attention_probs_dropout_prob": their_dropout(config.normalizer),
        "qkv_bias": config.projection != BIASES[False],
    }  # fmt: skip


def same(named: str, ours: Config, read: Config) -> None:
    """Require that the configuration which a config.json describes is that of our model; ValueError names what differs.

    Args:
        named: the class of theirs that was to express the model.
        ours: the configuration of our model.
        read: that of the checkpoint which was written.
    """
    pairs = [(item.name, getattr(ours, item.name), getattr(read, item.name)) for item in fields(ours)]
    other = [f"{name}={one!r} (it has {two!r})" for name, one, two in pairs if not _alike(name, one, two)]
    require(not other, f"a {named} cannot express {', '.join(other)}")


def _alike(name: str, one: Any, two: Any) -> bool:
    """Whether two values of a field mean the same."""
    if name.endswith("norm") and (first := NORM.fullmatch(one)) and (second := NORM.fullmatch(two)):
        return their_eps(one) == their_eps(two) and first["bias"] == second["bias"]
    if name.endswith("normalizer") and NORMALIZER.fullmatch(one) and NORMALIZER.fullmatch(two):
        return their_dropout(one) == their_dropout(two)
    return bool(one == two)


def attention_rows(ours: str, old: str, new: str) -> list[Row]:
    """The rows of an attention layer, by its names in files and by those that transformers 5 has in memory."""
    return [*Row.attention(ours, old, *PROJECTIONS), *Row.attention(ours, new, *NEW_PROJECTIONS)]


def picture_facts(theirs: Mapping[str, Any], config: Any, labels: Sequence[str] = ()) -> dict[str, Any]:
    """What a task must know to show pictures to a model: the names of its classes, how pictures are read, and its patches.

    Args:
        theirs: their config.json, with the files beside it.
        config: our configuration: size, patch, channels and, of a ViT, whether positions are resized.
        labels: the names of the classes.
    """
    named = {"labels": list(labels)} if labels else {}
    if config.channels not in (1, 3):  # a model for a program: no file of a picture has so many
        return {**named, "patch": config.patch, "channels": config.channels}
    beside = theirs.get("preprocessor_config") or (theirs.get("processor_config") or {}).get("image_processor")
    require(beside is None or isinstance(beside, Mapping), "preprocessor_config.json must hold settings by name")
    family = str(theirs.get("model_type"))
    read = Preprocessing.of_file(beside, family, config.size, config.channels)
    resized = getattr(config, "resized", "no") != "no"
    require(
        read.size == config.size or (resized and read.size >= config.patch),
        f"preprocessor_config.json makes pictures of {read.size} x {read.size}, and the model in config.json reads "
        f"{config.size} x {config.size}. Set size or crop_size to {config.size}.",
    )
    return {**named, "pictures": read.facts(), "patch": config.patch}


def picture_notes(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What a person should know of how pictures are read: that no file says it, for example."""
    note = facts.get("pictures", {}).get("note", "")
    return (note,) if note else ()


def patch_sizes(config: Any) -> dict[str, int]:
    """The sizes of the axes of a patch, which our weights join."""
    return {"c": config.channels, "p": config.patch, "q": config.patch}


def side(theirs: Mapping[str, Any], key: str, absent: int | None = None) -> int:
    """The side of a square, which may be given as two numbers.

    >>> side({"image_size": [224, 224]}, "image_size")
    224
    """
    value = setting(theirs, key) if absent is None else theirs.get(key, absent)
    pair = value if isinstance(value, list | tuple) else (value, value)
    whole = len(pair) == 2 and all(type(number) is int and number >= 1 for number in pair)
    require(whole, f"{key} must be a whole number of pixels, or two of them: got {str(value)[:80]}")
    height, width = pair
    require(
        height == width, f"{key} must be a square: got {height} x {width}. Our ViT reads square pictures and patches."
    )
    return int(height)
