"""ESM-2 and ESM-1b: a BERT of proteins, whose letters are amino acids, with norms before the layers."""

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from mirada.errors import require
from mirada.hub.checkpoint import Checkpoint, architecture
from mirada.hub.encoders import (
    class_of,
    classes_of,
    head_of,
    head_rows,
    norm_rows,
    of_weights,
    understood,
    unused_heads,
    written,
)
from mirada.hub.mapping import Row, WeightTable, expect, setting, settings, softmax, their_dropout, their_eps
from mirada.layers.model import Model
from mirada.models.encoder import TextEncoder, TextEncoderConfig

CLASSES = {name: kind for name, kind in classes_of("Esm").items() if kind != "span"}
HEADS = {
    "none": [Row("transform.dense.*", "pooler.dense.*")],
    "mask": [
        Row("transform.dense.*", "lm_head.dense.*"),
        Row("transform.norm.*", "lm_head.layer_norm.*"),
        Row("output.bias", "lm_head.bias"),
        Row("output.weight", "lm_head.decoder.weight"),
    ],
    "classes": head_rows("classifier.dense", "classifier.out_proj"),
    "tags": head_rows("", "classifier"),
}
COMPUTED = (  # from the base of the rotations
    "embeddings.position_ids", "rotary_embeddings.inv_freq", "encoder.layer.{n}.attention.self.rotary_embeddings.inv_freq",
)  # fmt: skip
CONTACTS = ("contact_head.regression.*",)  # which places of a protein touch, from the attention of all layers
ABSOLUTE, ROTARY = "absolute", "rotary"


def checkpoint(theirs: Mapping[str, Any], names: Collection[str]) -> Checkpoint:
    """What a config.json and the names of tensors describe.

    >>> sizes = {"vocab_size": 33, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "pad_token_id": 1}
    >>> sizes |= {"intermediate_size": 16, "max_position_embeddings": 1026, "position_embedding_type": "rotary"}
    >>> checkpoint(sizes | {"token_dropout": True, "mask_token_id": 32, "architectures": ["EsmForMaskedLM"]}, []).config.masked
    32
    """
    expect(theirs, is_decoder=False, add_cross_attention=False, is_folding_model=False)
    head = head_of(theirs, CLASSES, names, "lm_head.bias")
    pooled = any(name.endswith("pooler.dense.weight") for name in names)
    transforms = {"mask": "gelu:norm=yes", "classes": "tanh", "none": "tanh" if pooled else "none"}
    config = TextEncoderConfig(
        **settings(theirs, vocab="vocab_size", width="hidden_size", depth="num_hidden_layers"),
        **settings(theirs, heads="num_attention_heads", hidden="intermediate_size"),
        **_positions(theirs),
        **head.fields,
        segments=0,
        order="pre",
        norm=f"layer:{float(theirs.get('layer_norm_eps', 1e-12))!r}",
        input_norm="own" if theirs.get("emb_layer_norm_before") else "none",
        masked=setting(theirs, "mask_token_id") if theirs.get("token_dropout") else -1,
        transform=transforms.get(head.kind, "none"),
        dropout=theirs.get("hidden_dropout_prob", 0.1),
        normalizer=softmax(theirs.get("attention_probs_dropout_prob", 0.1)),
        tied=head.kind != "mask" or theirs.get("tie_word_embeddings", True),
    )
    return understood(theirs, config, _table(head.kind, architecture(theirs)), head)


def _positions(theirs: Mapping[str, Any]) -> dict[str, Any]:
    """How places are told apart: by rotations, or by a table whose rows begin behind the padding token."""
    kind, most = theirs.get("position_embedding_type", ABSOLUTE), setting(theirs, "max_position_embeddings")
    known = kind in (ABSOLUTE, ROTARY)
    require(known, f"position_embedding_type must be absolute or rotary: got {kind!r}. Our model has no other form.")
    if kind == ROTARY:
        base = _base(theirs)
        return {"position": "rotary" if base == 10000 else f"rotary:base={base!r}", "length": most}
    offset = theirs.get("pad_token_id", 1) + 1
    return {"position": f"learned:offset={offset}", "length": most - offset}


def _base(theirs: Mapping[str, Any]) -> float:
    """The base of the rotations."""
    scaled = theirs.get("rope_parameters") or {}
    kind = scaled.get("rope_type", "default")
    require(kind == "default", f"rope_type must be 'default': got {str(kind)[:80]!r}")
    return float(scaled.get("rope_theta", theirs.get("rope_theta", 10000.0)))


def _table(kind: str, source: str) -> WeightTable:
    """The rows of a checkpoint with a kind of head."""
    prefix = "" if kind == "none" else "esm."
    layer, ours = "encoder.layer.{n}", "encoder.layers.{n}"
    projections = ("self.query", "self.key", "self.value", "output.dense")
    body = [
        Row("words.weight", "embeddings.word_embeddings.weight"),
        Row("place.position.table", "embeddings.position_embeddings.weight"),
        Row("norm.*", "embeddings.layer_norm.*"),
        *Row.attention(f"{ours}.self", f"{layer}.attention", *projections),
        *norm_rows(f"{ours}.around_self.norm", f"{layer}.attention.LayerNorm"),
        Row(f"{ours}.feed.widen.*", f"{layer}.intermediate.dense.*"),
        Row(f"{ours}.feed.narrow.*", f"{layer}.output.dense.*"),
        *norm_rows(f"{ours}.around_feed.norm", f"{layer}.LayerNorm"),
        Row("encoder.norm.*", "encoder.emb_layer_norm_after.*"),
    ]
    return WeightTable(
        source=source or class_of("Esm", kind),
        prefix="esm.",
        rows=(*(row._replace(theirs=prefix + row.theirs) for row in body), *HEADS[kind]),
        ignored=(*COMPUTED, *unused_heads(HEADS, kind)),
        kept=CONTACTS,
    )


def config_json(model: Model[Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json of theirs that describes a model of ours.

    >>> config_json(TextEncoder(TextEncoderConfig.tiny()), {})["architectures"]
    Traceback (most recent call last):
    ValueError: EsmForSequenceClassification cannot express order='post' (it has 'pre')...
    """
    ours = model.config
    kind, _, argument = ours.position.partition(":")
    theirs = {
        "architectures": [class_of("Esm", ours.head)], "model_type": "esm", "vocab_size": ours.vocab,
        "hidden_size": ours.width, "num_hidden_layers": ours.depth, "num_attention_heads": ours.heads,
        "intermediate_size": ours.hidden, "hidden_act": "gelu", "hidden_dropout_prob": ours.dropout,
        "attention_probs_dropout_prob": their_dropout(ours.normalizer), "max_position_embeddings": ours.length,
        "layer_norm_eps": their_eps(ours.norm), "position_embedding_type": ROTARY if kind == "rotary" else ABSOLUTE,
        "emb_layer_norm_before": ours.input_norm == "own", "token_dropout": ours.masked >= 0, "tie_word_embeddings": ours.tied,
    }  # fmt: skip
    if ours.masked >= 0:
        theirs["mask_token_id"] = ours.masked
    if argument.startswith("offset="):
        offset = int(argument.removeprefix("offset="))
        theirs |= {"pad_token_id": offset - 1, "max_position_embeddings": ours.length + offset}
    if argument.startswith("base="):
        theirs["rope_theta"] = float(argument.removeprefix("base="))
    return written(theirs, ours, checkpoint, facts)


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> TextEncoder:
    """Our model of their configuration and weights, in evaluation mode.

    Rives et al. (2021), PNAS 118(15); Lin et al. (2023), Science 379.
    """
    return of_weights(checkpoint(theirs, weights), weights)
