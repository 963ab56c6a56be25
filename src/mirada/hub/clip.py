"""Hugging Face's CLIP, both towers, as our `CLIP`."""

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from mirada.errors import require
from mirada.hub.checkpoint import Checkpoint, architecture
from mirada.hub.mapping import Row, WeightTable, copy_weights, expect, setting
from mirada.hub.pictures import block_settings, patch_sizes, picture_facts, picture_notes, same, side, their_block
from mirada.layers.model import Model
from mirada.models.clip import CLIP, LARGEST, START, CLIPConfig

NAMED = "CLIPModel"
EPS = 1e-5  # of the norms, where a config.json does not say
WRONG_END = 2  # the end token that the first config.json files name: the largest number of a text is meant
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
TEXT = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 8}
PICTURE = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}


def checkpoint(theirs: Mapping[str, Any], names: Collection[str]) -> Checkpoint:
    """What a config.json and the names of tensors describe.

    >>> sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    >>> towers = {"text_config": sizes | {"vocab_size": 11, "eos_token_id": 2}, "vision_config": sizes | {"patch_size": 16}}
    >>> found = checkpoint({"model_type": "clip", "projection_dim": 6} | towers, [])
    >>> found.task, found.config.end, found.config.places
    ('embed', -1, 197)
    """
    expect(theirs, model_type="clip")
    named = architecture(theirs) or NAMED
    require(named == NAMED, f"of CLIP both towers together are read, a {NAMED}: got {named}. Save the whole model.")
    config = _config(theirs)
    facts = picture_facts({"model_type": "clip", **theirs}, config)
    return Checkpoint(CLIP, config, _table(config), "embed", "clip", facts, picture_notes(facts))


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> CLIP:
    """Our model of their configuration and weights, in evaluation mode.

    Radford et al. (2021), arXiv:2103.00020.
    """
    found = checkpoint(theirs, list(weights))
    return copy_weights(CLIP(found.config).eval(), found.table, weights)  # type: ignore[arg-type]


def config_json(model: Model[Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json of theirs that describes a model of ours.

    >>> config_json(CLIP(CLIPConfig.tiny()), {})["vision_config"]["image_size"]
    8
    """
    ours = model.config
    require(isinstance(ours, CLIPConfig), f"a CLIP of theirs is one of ours: got {type(model).__name__}")
    text = _their_tower(ours, ours.texts) | {
        "model_type": "clip_text_model", "num_hidden_layers": ours.text_depth, "intermediate_size": ours.text_hidden,
        "vocab_size": ours.vocab, "max_position_embeddings": ours.length, "projection_dim": ours.out,
        "eos_token_id": WRONG_END if ours.end == LARGEST else ours.end,
    }  # fmt: skip
    picture = _their_tower(ours, ours.pictures) | {
        "model_type": "clip_vision_model", "num_hidden_layers": ours.depth, "intermediate_size": ours.hidden,
        "image_size": ours.size, "patch_size": ours.patch, "num_channels": ours.channels, "projection_dim": ours.out,
    }  # fmt: skip
    theirs = {
        "model_type": "clip", "architectures": [NAMED], "projection_dim": ours.out, "logit_scale_init_value": START,
        "text_config": text, "vision_config": picture,
    }  # fmt: skip
    same(NAMED, ours, _config(theirs))
    return theirs


def _their_tower(ours: CLIPConfig, blocks: Any) -> dict[str, Any]:
    """The settings that both towers have."""
    block = their_block(blocks)
    dropout = block.pop("attention_probs_dropout_prob")
    del block["hidden_dropout_prob"], block["qkv_bias"]
    require(ours.projection == "multihead", f"a CLIP of theirs has projection='multihead': got {ours.projection!r}")
    return block | {"attention_dropout": dropout}


def _config(theirs: Mapping[str, Any]) -> CLIPConfig:
    """Our configuration of both towers."""
    text, picture = _tower(theirs, "text_config", TEXT), _tower(theirs, "vision_config", PICTURE)
    in_text, in_picture = _blocks(text), _blocks(picture)
    end = text.get("eos_token_id", 49407)
    vocab = text.get("vocab_size", 49408)
    fits = type(end) is int and type(vocab) is int and 0 <= end < vocab
    require(fits, f"eos_token_id of the texts must be a token of the {vocab} in vocab_size: got {str(end)[:80]}")
    return CLIPConfig(
        **{key: in_picture[key] for key in ("width", "depth", "heads", "hidden", "activation", "norm", "normalizer")},
        **{
            f"text_{key}": in_text[key]
            for key in ("width", "depth", "heads", "hidden", "activation", "norm", "normalizer")
        },
        out=theirs.get("projection_dim", 512),
        channels=picture.get("num_channels", 3),
        size=side(picture, "image_size", 224),
        patch=side(picture, "patch_size", 32),
        vocab=vocab,
        length=text.get("max_position_embeddings", 77),
        end=LARGEST if end == WRONG_END else end,
    )


def _tower(theirs: Mapping[str, Any], key: str, usual: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a tower. Old files have some of them under another key, which counts more, and leave out the usual ones."""
    parts = [theirs.get(name) or {} for name in (key, f"{key}_dict")]
    for part in parts:
        require(isinstance(part, Mapping), f"{key} must hold the settings of a tower: got {str(part)[:80]}")
    return {**usual, **parts[0], **parts[1]}


def _blocks(tower: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the blocks of a tower."""
    given = {"hidden_act": "quick_gelu", **tower, "attention_probs_dropout_prob": tower.get("attention_dropout", 0.0)}
    return block_settings(given, EPS) | {"hidden": setting(tower, "intermediate_size")}


def _table(config: CLIPConfig) -> WeightTable:
    """The rows of a checkpoint."""
    rows = [
        Row("log_scale", "logit_scale"),
        Row("picture.class_token", "vision_model.embeddings.class_embedding"),
        # a convolution whose stride is its size is a linear layer over the pixels of a patch
        Row("picture.patches.project.weight", "vision_model.embeddings.patch_embedding.weight", "w c p q -> w (c p q)"),
        Row("picture.place.position.table", "vision_model.embeddings.position_embedding.weight"),
        Row("picture.place.norm.*", "vision_model.pre_layrnorm.*"),
        *_tower_rows("picture", "vision_model"),
        Row("picture.encoder.norm.*", "vision_model.post_layernorm.*"),
        Row("picture.project.weight", "visual_projection.weight"),
        Row("text.words.weight", "text_model.embeddings.token_embedding.weight"),
        Row("text.place.position.table", "text_model.embeddings.position_embedding.weight"),
        *_tower_rows("text", "text_model"),
        Row("text.encoder.norm.*", "text_model.final_layer_norm.*"),
        Row("text.project.weight", "text_projection.weight"),
    ]
    ids = ("text_model.embeddings.position_ids", "vision_model.embeddings.position_ids")
    return WeightTable(NAMED, tuple(rows), "clip.", ids, patch_sizes(config))


def _tower_rows(ours: str, theirs: str) -> list[Row]:
    """The rows of the layers of a tower."""
    layer, other = f"{ours}.encoder.layers.{{n}}", f"{theirs}.encoder.layers.{{n}}"
    return [
        Row(f"{layer}.around_self.norm.*", f"{other}.layer_norm1.*"),
        *Row.attention(f"{layer}.self", f"{other}.self_attn", *PROJECTIONS),
        Row(f"{layer}.around_feed.norm.*", f"{other}.layer_norm2.*"),
        Row(f"{layer}.feed.widen.*", f"{other}.mlp.fc1.*"),
        Row(f"{layer}.feed.narrow.*", f"{other}.mlp.fc2.*"),
    ]
