"""Hugging Face's OPT: the checkpoint of an `OPTForCausalLM` as our `GPT`, and back.

Its table of positions has two rows before that of position 0. The words of OPT-350m have fewer numbers than the blocks.
"""

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from mirada.hub.checkpoint import Checkpoint
from mirada.hub.decoder import ALL_BIASES, NO_BIAS, described, facts_of, heads, need, require_causal, token_ids
from mirada.hub.mapping import Row, WeightTable, activation, copy_weights, expect, settings, softmax
from mirada.layers.model import Model
from mirada.models.gpt import GPT, GPTConfig

OFFSET = 2  # rows of the table before that of position 0
EPS = 1e-5  # of all norms: no setting changes it
LAYER, THEIRS = "decoder.layers.{n}", "model.decoder.layers.{n}"

TABLE = WeightTable(
    source="OPTForCausalLM",
    prefix="model.",
    rows=(
        Row("words.weight", "model.decoder.embed_tokens.weight"),
        Row("place.position.table", "model.decoder.embed_positions.weight"),
        Row("widen.weight", "model.decoder.project_in.weight"),
        *Row.attention(f"{LAYER}.self", f"{THEIRS}.self_attn", "q_proj", "k_proj", "v_proj", "out_proj"),
        Row(f"{LAYER}.around_self.norm.*", f"{THEIRS}.self_attn_layer_norm.*"),
        Row(f"{LAYER}.feed.widen.*", f"{THEIRS}.fc1.*"),
        Row(f"{LAYER}.feed.narrow.*", f"{THEIRS}.fc2.*"),
        Row(f"{LAYER}.around_feed.norm.*", f"{THEIRS}.final_layer_norm.*"),
        Row("decoder.norm.*", "model.decoder.final_layer_norm.*"),
        Row("narrow.weight", "model.decoder.project_out.weight"),
        Row("output.weight", "lm_head.weight"),
    ),
)


def config(theirs: Mapping[str, Any]) -> GPTConfig:
    """Our configuration of a `config.json` of theirs. In training our dropout also acts on words and positions.

    >>> sizes = {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 16}
    >>> config(sizes | {"model_type": "opt", "max_position_embeddings": 32}).position
    'learned:offset=2'
    """
    expect(theirs, model_type="opt", layer_norm_elementwise_affine=True, _remove_final_layer_norm=False, layerdrop=0.0)
    sizes = settings(theirs, vocab="vocab_size", width="hidden_size", depth="num_hidden_layers", hidden="ffn_dim")
    sizes |= settings(theirs, heads="num_attention_heads", length="max_position_embeddings")
    biased = theirs.get("enable_bias", True)
    width, count = sizes["width"], sizes["heads"]
    words = theirs.get("word_embed_proj_dim") or width
    act = activation(theirs, "activation_function", absent="relu")
    return GPTConfig(
        **sizes,
        projection=heads(count, count, width, width // max(1, count), ALL_BIASES if biased else NO_BIAS),
        activation=act if biased else f"{act}:bias=no",
        norm=f"layer:{EPS!r}",
        order="pre" if theirs.get("do_layer_norm_before", True) else "post",
        position=f"learned:offset={OFFSET}",
        dropout=theirs.get("dropout", 0.1),
        normalizer=softmax(theirs.get("attention_dropout", 0.0)),
        tied=theirs.get("tie_word_embeddings", True),
        embed=0 if words == width else words,
    )


def checkpoint(theirs: Mapping[str, Any], names: Collection[str]) -> Checkpoint:
    """What a config.json describes: a decoder that goes on with a text."""
    require_causal(theirs)
    return Checkpoint(GPT, config(theirs), TABLE, "write", "gpt", facts_of(theirs))


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> GPT:
    """Our model of their configuration and weights, in evaluation mode.

    Zhang et al. (2022), arXiv:2205.01068.
    """
    return copy_weights(GPT(config(theirs)).eval(), TABLE, weights)


def config_json(model: Model, facts: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json for a `GPT` with a table of positions that begins at row 2, imported or trained here.

    >>> config_json(GPT(GPTConfig(**GPTConfig.tiny().to_dict() | {"position": "learned:offset=2"})), {})["ffn_dim"]
    32
    """
    ours = described(model, "opt")
    config, first = ours.config, ours.first
    table = ours.table is not None and ours.table.offset == OFFSET and ours.table.positions == config.length
    need("opt", "the position", table, config.position)
    need("opt", "the norm", first.layer_norm and first.eps == EPS, config.norm)
    need("opt", "the activation", not first.gated, config.activation)
    plain = first.heads == first.groups and first.heads * first.dim == config.width and not first.qk_norm
    biased = first.feed_bias and first.biases == ALL_BIASES
    need("opt", "the projection", plain and (biased or not first.biases), config.projection)
    need("opt", "the activation", first.feed_bias == bool(first.biases), config.activation)
    need("opt", "where", not any(layer.window for layer in ours.layers), config.where)
    return {
        "architectures": ["OPTForCausalLM"],
        "model_type": "opt",
        "vocab_size": config.vocab,
        "hidden_size": config.width,
        "word_embed_proj_dim": config.word_width,
        "ffn_dim": config.hidden,
        "num_hidden_layers": config.depth,
        "num_attention_heads": first.heads,
        "max_position_embeddings": config.length,
        "activation_function": ours.activation(),
        "do_layer_norm_before": config.order == "pre",
        "enable_bias": biased,
        "dropout": config.dropout,
        "attention_dropout": ours.attention_dropout,
        "tie_word_embeddings": config.tied,
        **token_ids(facts),
    }
