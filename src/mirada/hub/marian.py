"""Hugging Face's Marian: the checkpoint of a `MarianMTModel` as our `Transformer`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from mirada.errors import require
from mirada.hub.mapping import Row, WeightTable, activation, copy_weights, expect, expect_equal, setting, softmax
from mirada.models.transformer import Transformer, TransformerConfig

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")

TABLE = WeightTable(
    source="MarianMTModel",
    prefix="model.",
    rows=(
        Row("target_words.weight", "shared.weight"),
        Row("target_words.weight", "decoder.embed_tokens.weight"),
        Row("source_words.weight", "encoder.embed_tokens.weight"),
        *Row.attention("encoder.layers.{n}.self", "encoder.layers.{n}.self_attn", *PROJECTIONS),
        Row("encoder.layers.{n}.around_self.norm.*", "encoder.layers.{n}.self_attn_layer_norm.*"),
        Row("encoder.layers.{n}.feed.widen.*", "encoder.layers.{n}.fc1.*"),
        Row("encoder.layers.{n}.feed.narrow.*", "encoder.layers.{n}.fc2.*"),
        Row("encoder.layers.{n}.around_feed.norm.*", "encoder.layers.{n}.final_layer_norm.*"),
        *Row.attention("decoder.layers.{n}.self", "decoder.layers.{n}.self_attn", *PROJECTIONS),
        Row("decoder.layers.{n}.around_self.norm.*", "decoder.layers.{n}.self_attn_layer_norm.*"),
        *Row.attention("decoder.layers.{n}.cross", "decoder.layers.{n}.encoder_attn", *PROJECTIONS),
        Row("decoder.layers.{n}.around_cross.norm.*", "decoder.layers.{n}.encoder_attn_layer_norm.*"),
        Row("decoder.layers.{n}.feed.widen.*", "decoder.layers.{n}.fc1.*"),
        Row("decoder.layers.{n}.feed.narrow.*", "decoder.layers.{n}.fc2.*"),
        Row("decoder.layers.{n}.around_feed.norm.*", "decoder.layers.{n}.final_layer_norm.*"),
        Row("output.weight", "lm_head.weight"),
        Row("output.bias", "final_logits_bias", "1 v -> v"),
    ),
    # sines and cosines, which both sides compute
    ignored=("encoder.embed_positions.weight", "decoder.embed_positions.weight"),
)


def config(theirs: Mapping[str, Any]) -> TransformerConfig:
    """Our configuration of a `config.json` of theirs: post-norm, scaled words, sines in one half and cosines in the other.

    >>> sizes = {"vocab_size": 11, "d_model": 8, "encoder_layers": 2, "decoder_layers": 2, "scale_embedding": True}
    >>> heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    >>> config(sizes | heads | {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16}).tied
    'all'
    """
    expect({"scale_embedding": False, **theirs}, model_type="marian", scale_embedding=True)
    expect(theirs, normalize_before=False, normalize_embedding=False, add_final_layer_norm=False)
    expect(theirs, static_position_embeddings=True)
    expect(theirs, activation_dropout=0.0, encoder_layerdrop=0.0, decoder_layerdrop=0.0)
    vocab = setting(theirs, "vocab_size")
    return TransformerConfig(
        vocab=theirs.get("decoder_vocab_size") or vocab,
        source_vocab=vocab,
        width=setting(theirs, "d_model"),
        depth=expect_equal(theirs, "encoder_layers", "decoder_layers"),
        heads=expect_equal(theirs, "encoder_attention_heads", "decoder_attention_heads"),
        hidden=expect_equal(theirs, "encoder_ffn_dim", "decoder_ffn_dim"),
        length=theirs.get("max_position_embeddings", 1024),
        activation=activation(theirs, "activation_function", absent="gelu"),
        norm="layer:1e-05",
        order="post",
        position="sinusoidal:layout=half",
        dropout=theirs.get("dropout", 0.1),
        normalizer=softmax(theirs.get("attention_dropout", 0.0)),
        tied=_tied(theirs),
        output_bias=True,
    )


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Transformer:
    """Our model of their configuration and weights, in evaluation mode.

    Their `final_logits_bias` is constant, our output bias is trainable; a checkpoint may also have none. In Marian a target
    begins with the padding token.

    Junczys-Dowmunt et al. (2018), arXiv:1804.00344.
    """
    model = Transformer(replace(config(theirs), output_bias="final_logits_bias" in weights))
    return copy_weights(model.eval(), TABLE, weights)


def _tied(theirs: Mapping[str, Any]) -> str:
    """Which tables are shared: source embedding, target embedding and output."""
    shared, output = theirs.get("share_encoder_decoder_embeddings", True), theirs.get("tie_word_embeddings", True)
    require(
        output or not shared,
        "tie_word_embeddings must be True where share_encoder_decoder_embeddings is: got False. "
        "Our model shares all three tables, or the target's with the output, or none.",
    )
    return "all" if shared else "output" if output else "no"
