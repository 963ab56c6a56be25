"""Llama and its relatives Mistral, Qwen2, Qwen3, SmolLM3 and Phi-3: checkpoints of their `...ForCausalLM` as our `GPT`.

RMS norms, rotary positions, gated feed-forward layers, keys and values in groups. What the relatives add is in `RELATIVES`.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from mirada.errors import require, unknown
from mirada.hub.checkpoint import Checkpoint
from mirada.hub.decoder import (
    ALL_BIASES,
    NO_BIAS,
    Described,
    described,
    facts_of,
    heads,
    in_turn,
    layer_types,
    need,
    number,
    require_causal,
    rope,
    rotary,
    token_ids,
    windows,
)
from mirada.hub.mapping import (
    JOINED,
    Row,
    WeightTable,
    activation,
    copy_weights,
    expect,
    expect_equal,
    setting,
    settings,
    softmax,
)
from mirada.layers.model import Model
from mirada.models.gpt import GPT, GPTConfig

LAYER, THEIRS = "decoder.layers.{n}", "model.layers.{n}"
HEADS, ATTENTION = f"{LAYER}.self.heads", f"{THEIRS}.self_attn"


class LlamaKind(NamedTuple):
    """What a model type fixes, or has beyond Llama's settings."""

    source: str  # the class whose checkpoints it has
    biases: str | None = None  # the projections of attention that have one; None: `attention_bias` says it
    base: float = 10000.0  # of rotations, where none is named
    dim: int = 0  # of a head, where none is named; 0: the width divided by the heads
    qk_norm: bool = False
    window: str = "no"  # which layers may see a window only: no, all, late (from max_window_layers on), unrotated
    fused: bool = False  # queries, keys and values are one tensor, and so are the two halves of the feed-forward layer
    tied: bool = False  # where nothing is said


RELATIVES = {
    "llama": LlamaKind("LlamaForCausalLM"),
    "mistral": LlamaKind("MistralForCausalLM", biases=NO_BIAS, window="all"),
    "qwen2": LlamaKind("Qwen2ForCausalLM", biases="qkv", window="late"),
    "qwen3": LlamaKind("Qwen3ForCausalLM", dim=128, qk_norm=True, window="late"),
    "smollm3": LlamaKind("SmolLM3ForCausalLM", base=2e6, window="unrotated", tied=True),
    "phi3": LlamaKind("Phi3ForCausalLM", biases=NO_BIAS, window="all", fused=True),
}


def table(kind: str) -> WeightTable:
    """The tensors of a model type.

    >>> table("phi3").rows[1].theirs
    'model.layers.{n}.self_attn.qkv_proj.weight'
    """
    relative = RELATIVES[kind]
    if relative.fused:
        names = tuple(f"{HEADS}.{part}.weight" for part in ("query", "key", "value"))
        halves = tuple(f"{LAYER}.feed.{part}.weight" for part in ("gate", "widen"))
        attention = [
            Row(names, f"{ATTENTION}.qkv_proj.weight", JOINED),
            Row(f"{HEADS}.out.weight", f"{ATTENTION}.o_proj.weight"),
        ]
        feed = [Row(halves, f"{THEIRS}.mlp.gate_up_proj.weight", JOINED)]
    else:
        attention = Row.attention(f"{LAYER}.self", ATTENTION, "q_proj", "k_proj", "v_proj", "o_proj")
        feed = [
            Row(f"{LAYER}.feed.gate.*", f"{THEIRS}.mlp.gate_proj.*"),
            Row(f"{LAYER}.feed.widen.*", f"{THEIRS}.mlp.up_proj.*"),
        ]
    return WeightTable(
        source=relative.source,
        prefix="model.",
        rows=(
            Row("words.weight", "model.embed_tokens.weight"),
            *attention,
            Row(f"{HEADS}.query_norm.weight", f"{ATTENTION}.q_norm.weight"),
            Row(f"{HEADS}.key_norm.weight", f"{ATTENTION}.k_norm.weight"),
            Row(f"{LAYER}.around_self.norm.weight", f"{THEIRS}.input_layernorm.weight"),
            *feed,
            Row(f"{LAYER}.feed.narrow.*", f"{THEIRS}.mlp.down_proj.*"),
            Row(f"{LAYER}.around_feed.norm.weight", f"{THEIRS}.post_attention_layernorm.weight"),
            Row("decoder.norm.weight", "model.norm.weight"),
            Row("output.weight", "lm_head.weight"),
        ),
        # angles, which both sides compute
        ignored=(f"{ATTENTION}.rotary_emb.inv_freq", "model.rotary_emb.inv_freq"),
    )


def config(theirs: Mapping[str, Any]) -> GPTConfig:
    """Our configuration of a `config.json` of theirs.

    >>> sizes = {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    >>> found = config(sizes | {"model_type": "llama", "intermediate_size": 16, "max_position_embeddings": 32})
    >>> found.activation, found.projection, found.position
    ('gated', 'multihead:bias=no', 'rotary')
    """
    kind = setting(theirs, "model_type")
    if kind not in RELATIVES:
        raise unknown("model_type", str(kind)[:80], RELATIVES)
    relative = RELATIVES[kind]
    expect(theirs, rope_interleaved=False, use_mrope=False, is_decoder=False, add_cross_attention=False)
    sizes = settings(theirs, vocab="vocab_size", width="hidden_size", depth="num_hidden_layers")
    sizes |= settings(theirs, hidden="intermediate_size", length="max_position_embeddings", heads="num_attention_heads")
    count, width, depth = sizes["heads"], sizes["width"], sizes["depth"]
    dim = theirs.get("head_dim") or relative.dim or width // max(1, count)
    groups = theirs.get("num_key_value_heads")
    eps = theirs.get("rms_norm_eps", 1e-6)
    biases = relative.biases
    if biases is None:
        biases = ALL_BIASES if theirs.get("attention_bias", False) else NO_BIAS
    else:
        expect(theirs, attention_bias=biases != NO_BIAS)
    rotated = rotary(theirs, relative.base, parts=relative.fused)
    return GPTConfig(
        **sizes,
        projection=heads(count, groups or count, width, dim, biases, eps if relative.qk_norm else 0.0),
        activation=_feed(theirs, relative),
        norm=f"rms:{number(eps)}",
        position=_positions(theirs, relative, rotated, depth),
        where=_where(theirs, relative, depth),
        dropout=expect_equal(theirs, "resid_pdrop", "embd_pdrop", absent=0.0) if relative.fused else 0.0,
        normalizer=softmax(theirs.get("attention_dropout", 0.0)),
        tied=theirs.get("tie_word_embeddings", relative.tied),
    )


def _feed(theirs: Mapping[str, Any], relative: LlamaKind) -> str:
    """The word of the feed-forward layer."""
    named = activation(theirs, "hidden_act", absent="silu")
    word = "gated" if named == "silu" else f"gated:{named}"
    biased = theirs.get("mlp_bias", False)
    if not biased:
        return word
    message = f"mlp_bias must be False: got {biased!r}. A {relative.source} has no such biases."
    require(relative.source in ("LlamaForCausalLM", "SmolLM3ForCausalLM"), message)
    return f"gated:{named},bias=yes"


def _rotated_layers(theirs: Mapping[str, Any], depth: int) -> list[bool]:
    """Which layers of a SmolLM3 have rotary positions."""
    named = theirs.get("no_rope_layers")  # 1 where a layer has them, in spite of its name
    if named is None:
        every = theirs.get("no_rope_layer_interval", 4)
        require(type(every) is int and every >= 1, f"no_rope_layer_interval must be at least 1: got {every!r}")
        return [(layer + 1) % every != 0 for layer in range(depth)]
    fits = isinstance(named, list) and len(named) == depth and all(one in (0, 1) for one in named)
    require(fits, f"no_rope_layers must have a 0 or 1 for each of {depth} layers: got {str(named)[:80]}")
    return [bool(one) for one in named]


def _positions(theirs: Mapping[str, Any], relative: LlamaKind, rotated: str, depth: int) -> str:
    """The positions of all layers."""
    if relative.window != "unrotated":
        return rotated
    return in_turn([rotated if turns else "none" for turns in _rotated_layers(theirs, depth)])


def _where(theirs: Mapping[str, Any], relative: LlamaKind, depth: int) -> str:
    """The neighborhoods of all layers."""
    named = layer_types(theirs, depth)
    if relative.window in ("no", "all"):
        one = named is None or len(set(named)) == 1
        require(
            one, f"layer_types must be the same for all layers of a {relative.source}: got {theirs.get('layer_types')}"
        )
        return (
            "complete"
            if relative.window == "no"
            else windows(theirs, [True], absent=4096 if not relative.fused else None)
        )
    if not theirs.get("use_sliding_window", False):
        require(not any(named or []), "layer_types must not be sliding_attention where use_sliding_window is False")
        return "complete"
    if relative.window == "unrotated":
        return windows(theirs, named or [not turns for turns in _rotated_layers(theirs, depth)])
    late = theirs.get("max_window_layers", 28)
    return windows(theirs, named or [layer >= late for layer in range(depth)], absent=4096)


def checkpoint(theirs: Mapping[str, Any], names: Collection[str]) -> Checkpoint:
    """What a config.json describes: a decoder that goes on with a text."""
    require_causal(theirs)
    return Checkpoint(GPT, config(theirs), table(theirs["model_type"]), "write", "gpt", facts_of(theirs))


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> GPT:
    """Our model of their configuration and weights, in evaluation mode.

    Touvron et al. (2023), arXiv:2302.13971; Jiang et al. (2023), arXiv:2310.06825; Yang et al. (2024), arXiv:2407.10671; Yang
    et al. (2025), arXiv:2505.09388; Abdin et al. (2024), arXiv:2404.14219.
    """
    return copy_weights(GPT(config(theirs)).eval(), table(theirs["model_type"]), weights)


def config_json(model: Model, facts: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json for a `GPT`, of the relative that `facts` names as `model_type`, Llama where it names none.

    Args:
        model: the model, imported or trained here.
        facts: those of its `Checkpoint`, with `model_type`.

    >>> words = {"position": "rotary", "norm": "rms", "activation": "gated", "projection": "grouped:1,bias=no"}
    >>> found = config_json(GPT(GPTConfig(**GPTConfig.tiny().to_dict() | words)), {})
    >>> found["model_type"], found["num_key_value_heads"], found["rms_norm_eps"]
    ('llama', 1, 1e-06)
    """
    kind = facts.get("model_type", "llama")
    relative, ours = RELATIVES[kind], described(model, kind)
    config, first = ours.config, ours.first
    _check_expressible(kind, relative, ours)
    named = {
        "architectures": [relative.source],
        "model_type": kind,
        "vocab_size": config.vocab,
        "hidden_size": config.width,
        "intermediate_size": config.hidden,
        "num_hidden_layers": config.depth,
        "num_attention_heads": first.heads,
        "num_key_value_heads": first.groups,
        "head_dim": first.dim,
        "hidden_act": ours.activation(),
        "rms_norm_eps": first.eps,
        "max_position_embeddings": config.length,
        "attention_dropout": ours.attention_dropout,
        "tie_word_embeddings": config.tied,
        **token_ids(facts),
        **rope(kind, next(layer.rotary for layer in ours.layers if layer.rotary), config.length),
    }
    if relative.biases is None:
        named["attention_bias"] = bool(first.biases)
    if kind in ("llama", "smollm3"):
        named["mlp_bias"] = first.feed_bias
    if relative.fused:
        named |= {"resid_pdrop": config.dropout, "embd_pdrop": config.dropout}
        if (part := ours.first.rotary.part) != 1:  # type: ignore[union-attr]
            named |= {"partial_rotary_factor": part}
            named["rope_parameters"]["partial_rotary_factor"] = part
    return named | _windows_back(relative, ours)


def _check_expressible(kind: str, relative: LlamaKind, ours: Described) -> None:
    """Require the parts that a model type has."""
    config, first = ours.config, ours.first
    need(kind, "order", config.order == "pre", config.order)
    need(kind, "embed", not config.embed, config.embed)
    need(kind, "the norm", first.rms, config.norm)
    need(kind, "the activation", first.gated, config.activation)
    need(kind, "the activation", not first.feed_bias or kind in ("llama", "smollm3"), config.activation)
    need(kind, "the position", ours.table is None and any(layer.rotary for layer in ours.layers), config.position)
    usual = (NO_BIAS, ALL_BIASES) if relative.biases is None else (relative.biases,)
    need(kind, "the projection", first.biases in usual, config.projection)
    need(kind, "the projection", first.qk_norm == (first.eps if relative.qk_norm else 0.0), config.projection)
    for layer in ours.layers:
        need(kind, "the position", bool(layer.rotary) or relative.window == "unrotated", config.position)
        need(kind, "the position", not layer.rotary or layer.rotary.part == 1 or relative.fused, config.position)
        need(kind, "where", not layer.window or relative.window != "no", config.where)
    seen = {layer.window for layer in ours.layers}
    need(kind, "where", len(seen) == 1 or (len(seen) == 2 and 0 in seen and relative.window != "all"), config.where)


def _windows_back(relative: LlamaKind, ours: Described) -> dict[str, Any]:
    """The settings of windows, and of layers without rotations."""
    slides = [bool(layer.window) for layer in ours.layers]
    reach = max(layer.window for layer in ours.layers) or None
    named: dict[str, Any] = {} if relative.window == "no" else {"sliding_window": reach}
    if relative.window in ("late", "unrotated"):
        kinds = ["sliding_attention" if slid else "full_attention" for slid in slides]
        named |= {"use_sliding_window": any(slides), "layer_types": kinds}
    if relative.window == "late":
        named["max_window_layers"] = slides.index(True) if any(slides) else len(slides)
    if relative.window == "unrotated":
        named["no_rope_layers"] = [int(bool(layer.rotary)) for layer in ours.layers]
    return named
