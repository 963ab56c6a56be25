"""Hugging Face's GPT-2: the checkpoint of a `GPT2LMHeadModel` as our `GPT`, and back."""

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from mirada.hub.checkpoint import Checkpoint
from mirada.hub.decoder import ALL_BIASES, described, facts_of, need, require_causal, token_ids
from mirada.hub.mapping import Row, WeightTable, activation, copy_weights, expect, expect_equal, settings, softmax
from mirada.layers.model import Model
from mirada.models.gpt import GPT, GPTConfig

# their linear layers store W as (in, out), and one of them computes queries, keys and values together
TRANSPOSED = "i o -> o i"
HEADS, QKV = "decoder.layers.{n}.self.heads", ("query", "key", "value")

TABLE = WeightTable(
    source="GPT2LMHeadModel",
    prefix="transformer.",
    rows=(
        Row("words.weight", "transformer.wte.weight"),
        Row("place.position.table", "transformer.wpe.weight"),
        Row("decoder.layers.{n}.around_self.norm.*", "transformer.h.{n}.ln_1.*"),
        Row(
            tuple(f"{HEADS}.{x}.weight" for x in QKV),
            "transformer.h.{n}.attn.c_attn.weight",
            "i (parts o) -> parts o i",
        ),
        Row(tuple(f"{HEADS}.{x}.bias" for x in QKV), "transformer.h.{n}.attn.c_attn.bias", "(parts o) -> parts o"),
        Row(f"{HEADS}.out.weight", "transformer.h.{n}.attn.c_proj.weight", TRANSPOSED),
        Row(f"{HEADS}.out.bias", "transformer.h.{n}.attn.c_proj.bias"),
        Row("decoder.layers.{n}.around_feed.norm.*", "transformer.h.{n}.ln_2.*"),
        Row("decoder.layers.{n}.feed.widen.weight", "transformer.h.{n}.mlp.c_fc.weight", TRANSPOSED),
        Row("decoder.layers.{n}.feed.widen.bias", "transformer.h.{n}.mlp.c_fc.bias"),
        Row("decoder.layers.{n}.feed.narrow.weight", "transformer.h.{n}.mlp.c_proj.weight", TRANSPOSED),
        Row("decoder.layers.{n}.feed.narrow.bias", "transformer.h.{n}.mlp.c_proj.bias"),
        Row("decoder.norm.*", "transformer.ln_f.*"),
        Row("output.weight", "lm_head.weight"),
    ),
    ignored=("h.{n}.attn.bias", "h.{n}.attn.masked_bias"),  # the causal mask, which old checkpoints kept
)


def config(theirs: Mapping[str, Any]) -> GPTConfig:
    """Our configuration of a `config.json` of theirs.

    >>> config({"vocab_size": 11, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 32}).hidden
    32
    """
    expect(theirs, model_type="gpt2", scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    sizes = settings(theirs, width="n_embd", vocab="vocab_size", depth="n_layer", heads="n_head", length="n_positions")
    return GPTConfig(
        **sizes,
        hidden=theirs.get("n_inner") or 4 * sizes["width"],
        activation=activation(theirs, "activation_function", absent="gelu_new"),
        norm=f"layer:{theirs.get('layer_norm_epsilon', 1e-5)!r}",
        score="dot" if theirs.get("scale_attn_weights", True) else "dot:1.0",
        dropout=expect_equal(theirs, "resid_pdrop", "embd_pdrop", absent=0.1),
        normalizer=softmax(theirs.get("attn_pdrop", 0.1)),
        tied=theirs.get("tie_word_embeddings", True),
    )


def checkpoint(theirs: Mapping[str, Any], names: Collection[str]) -> Checkpoint:
    """What a config.json describes: a decoder that goes on with a text."""
    require_causal(theirs)
    return Checkpoint(GPT, config(theirs), TABLE, "write", "gpt", facts_of(theirs))


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> GPT:
    """Our model of their configuration and weights, in evaluation mode.

    Radford et al. (2019), "Language Models are Unsupervised Multitask Learners".
    """
    return copy_weights(GPT(config(theirs)).eval(), TABLE, weights)


def config_json(model: Model, facts: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json for a `GPT` with learned positions, norms of layers and biases, imported or trained here.

    >>> config_json(GPT(GPTConfig.tiny()), {})["n_embd"]
    16
    """
    ours = described(model, "gpt2", raw_score=True)
    config, first = ours.config, ours.first
    table = ours.table is not None and not ours.table.offset and ours.table.positions == config.length
    need("gpt2", "the position", table, config.position)
    need("gpt2", "order", config.order == "pre", config.order)
    need("gpt2", "embed", not config.embed, config.embed)
    need("gpt2", "the norm", first.layer_norm, config.norm)
    need("gpt2", "the activation", not first.gated and first.feed_bias, config.activation)
    plain = first.heads == first.groups and first.heads * first.dim == config.width and not first.qk_norm
    need("gpt2", "the projection", plain and first.biases == ALL_BIASES, config.projection)
    need("gpt2", "where", not any(layer.window for layer in ours.layers), config.where)
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": config.vocab,
        "n_embd": config.width,
        "n_inner": config.hidden,
        "n_layer": config.depth,
        "n_head": first.heads,
        "n_positions": config.length,
        "activation_function": ours.activation(),
        "layer_norm_epsilon": first.eps,
        "scale_attn_weights": not first.raw_score,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": ours.attention_dropout,
        "tie_word_embeddings": config.tied,
        **token_ids(facts),
    }
