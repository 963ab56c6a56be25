"""DistilBERT: half of BERT's layers, without segments and without a pooler."""

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from mirada.hub.checkpoint import Checkpoint, architecture
from mirada.hub.encoders import (
    class_of,
    classes_of,
    expect_plain,
    head_of,
    head_rows,
    of_weights,
    understood,
    unused_heads,
    written,
)
from mirada.hub.mapping import Row, WeightTable, activation, settings, softmax, their_activation, their_dropout
from mirada.layers.model import Model
from mirada.models.encoder import TextEncoder, TextEncoderConfig

CLASSES = classes_of("DistilBert")
HEADS = {
    "none": [],
    "mask": [
        Row("transform.dense.*", "vocab_transform.*"),
        Row("transform.norm.*", "vocab_layer_norm.*"),
        Row("output.*", "vocab_projector.*"),
    ],
    "classes": head_rows("pre_classifier", "classifier"),
    "tags": head_rows("", "classifier"),
    "span": head_rows("", "qa_outputs"),
}


def checkpoint(theirs: Mapping[str, Any], names: Collection[str]) -> Checkpoint:
    """What a config.json and the names of tensors describe.

    >>> sizes = {"vocab_size": 11, "dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 16}
    >>> sizes |= {"max_position_embeddings": 32, "architectures": ["DistilBertForSequenceClassification"]}
    >>> checkpoint(sizes, []).config.transform
    'relu'
    """
    expect_plain(theirs)
    head = head_of(theirs, CLASSES, names, "vocab_projector.bias")
    activated = activation(theirs, "activation", absent="gelu")
    transforms = {"mask": f"{activated}:norm=yes", "classes": "relu"}
    config = TextEncoderConfig(
        **settings(theirs, vocab="vocab_size", width="dim", depth="n_layers", heads="n_heads", hidden="hidden_dim"),
        **settings(theirs, length="max_position_embeddings"),
        **head.fields,
        segments=0,
        activation=activated,
        transform=transforms.get(head.kind, "none"),
        dropout=theirs.get("dropout", 0.1),
        normalizer=softmax(theirs.get("attention_dropout", 0.1)),
        tied=head.kind != "mask" or theirs.get("tie_word_embeddings", True),
    )
    return understood(theirs, config, _table(head.kind, architecture(theirs)), head)


def _table(kind: str, source: str) -> WeightTable:
    """The rows of a checkpoint with a kind of head."""
    prefix = "" if kind == "none" else "distilbert."
    layer, ours = "transformer.layer.{n}", "encoder.layers.{n}"
    body = [
        Row("words.weight", "embeddings.word_embeddings.weight"),
        Row("place.position.table", "embeddings.position_embeddings.weight"),
        Row("norm.*", "embeddings.LayerNorm.*"),
        *Row.attention(f"{ours}.self", f"{layer}.attention", "q_lin", "k_lin", "v_lin", "out_lin"),
        Row(f"{ours}.around_self.norm.*", f"{layer}.sa_layer_norm.*"),
        Row(f"{ours}.feed.widen.*", f"{layer}.ffn.lin1.*"),
        Row(f"{ours}.feed.narrow.*", f"{layer}.ffn.lin2.*"),
        Row(f"{ours}.around_feed.norm.*", f"{layer}.output_layer_norm.*"),
    ]
    return WeightTable(
        source=source or class_of("DistilBert", kind),
        prefix="distilbert.",
        rows=(*(row._replace(theirs=prefix + row.theirs) for row in body), *HEADS[kind]),
        ignored=("embeddings.position_ids", *unused_heads(HEADS, kind)),
    )


def config_json(model: Model[Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json of theirs that describes a model of ours.

    >>> config_json(TextEncoder(TextEncoderConfig.tiny()), {})["architectures"]
    Traceback (most recent call last):
    ValueError: DistilBertForSequenceClassification cannot express segments=2 (it has 0), transform='none' (it has 'relu')
    """
    ours = model.config
    theirs = {
        "architectures": [class_of("DistilBert", ours.head)], "model_type": "distilbert", "vocab_size": ours.vocab,
        "dim": ours.width, "n_layers": ours.depth, "n_heads": ours.heads, "hidden_dim": ours.hidden,
        "activation": their_activation(ours.activation), "dropout": ours.dropout,
        "attention_dropout": their_dropout(ours.normalizer),
        "max_position_embeddings": ours.length, "tie_word_embeddings": ours.tied,
    }  # fmt: skip
    return written(theirs, ours, checkpoint, facts)


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> TextEncoder:
    """Our model of their configuration and weights, in evaluation mode.

    Sanh et al. (2019), arXiv:1910.01108.
    """
    return of_weights(checkpoint(theirs, weights), weights)
