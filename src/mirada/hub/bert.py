"""Hugging Face's BERT: the checkpoint of a `BertForPreTraining` as our `BERT`."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from mirada.hub.mapping import REVERSED, Row, WeightTable, activation, copy_weights, expect, settings, softmax
from mirada.models.bert import BERT, BERTConfig

OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}  # in the first checkpoints
PROJECTIONS = ("self.query", "self.key", "self.value", "output.dense")

TABLE = WeightTable(
    source="BertForPreTraining",
    prefix="bert.",
    rows=(
        Row("words.weight", "embeddings.word_embeddings.weight"),
        Row("segments.weight", "embeddings.token_type_embeddings.weight"),
        Row("place.position.table", "embeddings.position_embeddings.weight"),
        Row("norm.*", "embeddings.LayerNorm.*"),
        *Row.attention("encoder.layers.{n}.self", "encoder.layer.{n}.attention", *PROJECTIONS),
        Row("encoder.layers.{n}.around_self.norm.*", "encoder.layer.{n}.attention.output.LayerNorm.*"),
        Row("encoder.layers.{n}.feed.widen.*", "encoder.layer.{n}.intermediate.dense.*"),
        Row("encoder.layers.{n}.feed.narrow.*", "encoder.layer.{n}.output.dense.*"),
        Row("encoder.layers.{n}.around_feed.norm.*", "encoder.layer.{n}.output.LayerNorm.*"),
        Row("gap.*", "cls.predictions.transform.dense.*"),
        Row("gap_norm.*", "cls.predictions.transform.LayerNorm.*"),
        Row("output.bias", "cls.predictions.bias"),
        Row("output.*", "cls.predictions.decoder.*"),  # the embedding and the bias again
        Row("pool.*", "pooler.dense.*"),
        # their class 0 is "follows", ours is 1
        Row("order.*", "cls.seq_relationship.*", REVERSED),
    ),
    ignored=("embeddings.position_ids", "embeddings.token_type_ids"),
)


def config(theirs: Mapping[str, Any]) -> BERTConfig:
    """Our configuration of a `config.json` of theirs.

    >>> sizes = {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    >>> config(sizes | {"intermediate_size": 16, "max_position_embeddings": 32}).norm
    'layer:1e-12'
    """
    expect(theirs, model_type="bert", position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    return BERTConfig(
        **settings(theirs, vocab="vocab_size", width="hidden_size", depth="num_hidden_layers"),
        **settings(theirs, heads="num_attention_heads", hidden="intermediate_size", length="max_position_embeddings"),
        segments=theirs.get("type_vocab_size", 2),
        activation=activation(theirs, "hidden_act", absent="gelu"),
        norm=f"layer:{theirs.get('layer_norm_eps', 1e-12)!r}",
        dropout=theirs.get("hidden_dropout_prob", 0.1),
        normalizer=softmax(theirs.get("attention_probs_dropout_prob", 0.1)),
    )


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> BERT:
    """Our model of their configuration and weights, in evaluation mode. `follows` has its two scores in our order.

    Devlin et al. (2019), arXiv:1810.04805.
    """
    for old, new in OLD_NAMES.items():
        weights = {name.replace(old, new): tensor for name, tensor in weights.items()}
    return copy_weights(BERT(config(theirs)).eval(), TABLE, weights)
