"""Hugging Face's T5, T5 1.1, Flan-T5 and mT5: the checkpoint of a `T5ForConditionalGeneration` as our `Transformer`.

Pre-norm with RMS norms and no biases; a trained number per bucket of distances, one table a half, is added to scores that are
not scaled; heads may be wider or narrower than the model.
"""

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor, nn

from mirada.attention.heads import MultiHead
from mirada.attention.positions import T5Bias
from mirada.errors import require, require_known
from mirada.hub.checkpoint import Checkpoint, architecture
from mirada.hub.generation import notes, writing
from mirada.hub.mapping import (
    ACTIVATIONS,
    Row,
    WeightTable,
    copy_weights,
    expect,
    kept,
    require_expressed,
    setting,
    softmax,
)
from mirada.layers.model import Model
from mirada.layers.parse import parse
from mirada.models.transformer import Transformer, TransformerConfig

ARCHITECTURES = {"t5": "T5ForConditionalGeneration", "mt5": "MT5ForConditionalGeneration"}
PROJECTIONS = ("q", "k", "v", "o")
KEPT = (
    *("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"),
    *("classifier_dropout", "initializer_factor", "task_specific_params", "tokenizer_class", "n_positions"),
)
SPECIAL = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}  # of our tokenizers
POSITIONS = 512  # of the texts that T5 was trained with; its model reads longer ones as well


def table(theirs: Mapping[str, Any]) -> WeightTable:
    """How the tensors of a checkpoint with this config.json fill our model."""
    gated = _gated(theirs)
    widen = [("gate", "wi_0"), ("widen", "wi_1")] if gated else [("widen", "wi")]
    rows = [
        Row("target_words.weight", "shared.weight"),
        Row("target_words.weight", "encoder.embed_tokens.weight"),
        Row("target_words.weight", "decoder.embed_tokens.weight"),
    ]
    for half, last in (("encoder", 1), ("decoder", 2)):
        ours, theirs_at = f"{half}.layers.{{n}}", f"{half}.block.{{n}}.layer"
        bias = f"{half}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        rows += [
            Row(f"{half}.layers.0.self.position.table", bias),  # the other layers have the same one
            *Row.attention(f"{ours}.self", f"{theirs_at}.0.SelfAttention", *PROJECTIONS),
            Row(f"{ours}.around_self.norm.weight", f"{theirs_at}.0.layer_norm.weight"),
        ]
        if half == "decoder":
            rows += Row.attention(f"{ours}.cross", f"{theirs_at}.1.EncDecAttention", *PROJECTIONS)
            rows.append(Row(f"{ours}.around_cross.norm.weight", f"{theirs_at}.1.layer_norm.weight"))
        rows += [
            Row(f"{ours}.feed.{a}.weight", f"{theirs_at}.{last}.DenseReluDense.{b}.weight")
            for a, b in [*widen, ("narrow", "wo")]
        ]
        rows.append(Row(f"{ours}.around_feed.norm.weight", f"{theirs_at}.{last}.layer_norm.weight"))
        rows.append(Row(f"{half}.norm.weight", f"{half}.final_layer_norm.weight"))
    rows.append(Row("output.weight", "lm_head.weight"))
    # old files have a table of distances between two texts, which nothing reads
    unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    return WeightTable(ARCHITECTURES[theirs["model_type"]], tuple(rows), ignored=(unused,))


def config(theirs: Mapping[str, Any], tied: bool = True) -> TransformerConfig:
    """Our configuration of a `config.json` of theirs; whether the output has a table of its own, the tensors say.

    T5 scales what its output reads by 1 / sqrt(width), T5 1.1 does not, and says so in `scale_decoder_outputs` or, in older
    files, by not tying its tables.

    >>> sizes = {"model_type": "t5", "vocab_size": 11, "d_model": 8, "d_kv": 3, "d_ff": 16, "num_layers": 2, "num_heads": 2}
    >>> config(sizes | {"feed_forward_proj": "gated-gelu"}).activation
    'gated:gelu-tanh'
    """
    named = theirs.get("model_type")
    require_known("model_type", named, ARCHITECTURES)
    there, whole = architecture(theirs), ARCHITECTURES[str(named)]
    named_so = there in ("", whole, whole.replace("ForConditionalGeneration", "WithLMHeadModel"))
    require(named_so, f"a {named} checkpoint must be a {whole}: got {there}. Our model has no other output for it.")
    expect(theirs, is_encoder_decoder=True, is_decoder=False)
    width, depth, heads = setting(theirs, "d_model"), setting(theirs, "num_layers"), setting(theirs, "num_heads")
    decoder_depth = theirs.get("num_decoder_layers") or depth
    buckets = theirs.get("relative_attention_num_buckets", 32)
    rate = theirs.get("dropout_rate", 0.1)
    scaled = named == "t5" and theirs.get("scale_decoder_outputs", theirs.get("tie_word_embeddings", True) is not False)
    require(type(width) is int and width > 0, f"d_model must be a number above 0: got {width!r}")
    return TransformerConfig(
        vocab=setting(theirs, "vocab_size"),
        source_vocab=setting(theirs, "vocab_size"),
        width=width,
        depth=depth,
        decoder_depth=0 if decoder_depth == depth else decoder_depth,
        heads=heads,
        hidden=setting(theirs, "d_ff"),
        length=theirs.get("n_positions", POSITIONS),
        activation=_activation(theirs),
        norm=f"rms:{theirs.get('layer_norm_epsilon', 1e-6)!r}",
        order="pre",
        position=f"t5:buckets={buckets},distance={theirs.get('relative_attention_max_distance', 128)}",
        projection=f"multihead:dim={setting(theirs, 'd_kv')},bias=no",
        score="dot:1.0",
        dropout=rate,
        normalizer=softmax(rate),
        tied="all" if tied else "words",
        output_bias=False,
        output_scale=width**-0.5 if scaled else 1.0,
        scaled_words=False,
    )


def checkpoint(theirs: Mapping[str, Any], names: Collection[str]) -> Checkpoint:
    """What a config.json and the names of tensors describe.

    `lm_head.weight` is a table of its own, unless the output is scaled.
    """
    ours = config(theirs)
    if "lm_head.weight" in names and ours.output_scale == 1.0:
        ours = config(theirs, tied=False)
    said = theirs.get("generation_config") or {}
    start = said.get("decoder_start_token_id", theirs.get("decoder_start_token_id", theirs.get("pad_token_id", 0)))
    require(type(start) is int and start >= 0, f"decoder_start_token_id must be a token: got {start!r}")
    found = writing(theirs)
    facts = {"start_token": start, "writing": found, "config": kept(theirs, KEPT)}
    tasks = theirs.get("task_specific_params")
    tasks = tasks.values() if isinstance(tasks, Mapping) else ()
    if prefixes := [
        each["prefix"] for each in tasks if isinstance(each, Mapping) and isinstance(each.get("prefix"), str)
    ]:
        facts["prefixes"] = prefixes
    return Checkpoint(Transformer, ours, table(theirs), "translate", "transformer", facts, notes(found))


def config_json(model: Model, facts: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json of theirs for a model of ours.

    Args:
        model: a `Transformer`.
        facts: those of its checkpoint, with `model_type`; none for a model that was trained here.

    >>> parts = {"position": "t5", "norm": "rms", "projection": "multihead:bias=no", "score": "dot:1.0"}
    >>> parts |= {"activation": "relu:bias=no", "scaled_words": False, "normalizer": "softmax:0.1", "output_scale": 8**-0.5}
    >>> model = Transformer(TransformerConfig(vocab=9, source_vocab=9, width=8, heads=2, hidden=8, tied="all", **parts))
    >>> config_json(model, {})["d_kv"]
    4
    """
    ours = model.config
    require(isinstance(model, Transformer), f"a T5 is a Transformer: got {type(model).__name__}")
    assert isinstance(ours, TransformerConfig)
    named = str(facts.get("model_type") or "t5")
    require_known("model_type", named, ARCHITECTURES)
    theirs = _described(ours, named) | dict(facts.get("config", {}))
    require_expressed(type(model), ours, config(theirs, tied=ours.tied == "all"), ARCHITECTURES[named])
    return theirs


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Transformer:
    """Our model of their configuration and weights, in evaluation mode.

    Raffel et al. (2020), arXiv:1910.10683; Xue et al. (2021), arXiv:2010.11934.
    """
    found = checkpoint(theirs, weights.keys())
    model = Transformer(found.config)  # type: ignore[arg-type]
    return copy_weights(model.eval(), found.table, weights)


def _described(ours: TransformerConfig, named: str) -> dict[str, Any]:
    """What config.json says of a configuration of ours, as far as it can: what it cannot say is found when it is read again."""
    heads = parse("heads", ours.projection, {"width": ours.width, "heads": ours.heads})
    position = parse("position", ours.position, ours.known(heads) | {"bidirectional": True})
    bias = position if isinstance(position, T5Bias) else None
    norm: nn.Module = parse("norm", ours.norm, {"width": ours.width})
    scaled = ours.output_scale != 1.0
    theirs = {
        "model_type": named,
        "architectures": [ARCHITECTURES[named]],
        "is_encoder_decoder": True,
        "vocab_size": ours.vocab,
        "d_model": ours.width,
        "d_kv": heads.dim if isinstance(heads, MultiHead) else ours.width // ours.heads,
        "d_ff": ours.hidden,
        "num_layers": ours.depth,
        "num_decoder_layers": ours.decoder_depth or ours.depth,
        "num_heads": ours.heads,
        "relative_attention_num_buckets": bias.buckets if bias else 32,
        "relative_attention_max_distance": bias.distance if bias else 128,
        "dropout_rate": ours.dropout,
        "layer_norm_epsilon": getattr(norm, "eps", 1e-6),
        "feed_forward_proj": _feed_forward(ours.activation),
        "n_positions": ours.length,
        "tie_word_embeddings": ours.tied == "all",
        **SPECIAL,
    }
    return theirs | ({"scale_decoder_outputs": scaled} if named == "t5" else {})


# The feed-forward network: `relu`, `gated-gelu`, which means the approximation, or another activation, `gated-silu`.


def _gated(theirs: Mapping[str, Any]) -> bool:
    """Whether the feed-forward network has a gate."""
    return _feed(theirs)[0]


def _feed(theirs: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether the feed-forward network has a gate, and their name of its activation."""
    word = theirs.get("feed_forward_proj", "gated-gelu" if theirs["model_type"] == "mt5" else "relu")
    parts = word.split("-") if isinstance(word, str) else []
    message = f"feed_forward_proj must be an activation, such as relu, or gated-gelu: got {word!r}"
    require(len(parts) == 1 or (len(parts) == 2 and parts[0] == "gated"), message)
    return len(parts) == 2, "gelu_new" if word == "gated-gelu" else parts[-1]


def _activation(theirs: Mapping[str, Any]) -> str:
    """The word of the feed-forward network, which has no biases."""
    gated, name = _feed(theirs)
    require_known("feed_forward_proj", name, ACTIVATIONS)
    return f"gated:{ACTIVATIONS[name]}" if gated else f"{ACTIVATIONS[name]}:bias=no"


def _feed_forward(ours: str) -> str:
    """Their word for a feed-forward network of ours, or `relu` where they have none."""
    words = [*(f"gated-{name}" for name in ("gelu", *ACTIVATIONS)), *ACTIVATIONS]
    found = (word for word in words if _activation({"model_type": "t5", "feed_forward_proj": word}) == ours)
    return next(found, "relu")
