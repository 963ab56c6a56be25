"""Hugging Face's Whisper: the checkpoint of a `WhisperForConditionalGeneration` as our `Whisper`, and back."""

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from mirada.errors import require
from mirada.hub.checkpoint import Checkpoint
from mirada.hub.mapping import (
    THEIR_ACTIVATIONS,
    Row,
    WeightTable,
    activation,
    copy_weights,
    expect,
    expect_equal,
    settings,
    softmax,
)
from mirada.layers.model import Model
from mirada.models.whisper import Whisper, WhisperConfig

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
NAMES = {"self": "self_attn", "cross": "encoder_attn"}
FIXED: dict[str, Any] = {
    "position": "learned",
    "projection": "multihead:bias=qvo",
    "order": "pre",
    "norm": "layer:1e-05",
}
# what a task must know: numbers of tokens, how a text may begin, which heads follow the sound, and how it is heard
SPOKEN = (
    "decoder_start_token_id", "eos_token_id", "suppress_tokens", "begin_suppress_tokens", "forced_decoder_ids",
    "median_filter_width",
)  # fmt: skip
OF_CONFIG = (*SPOKEN, "bos_token_id", "pad_token_id")
OF_GENERATION = (
    *SPOKEN, "no_timestamps_token_id", "lang_to_id", "task_to_id", "is_multilingual", "max_initial_timestamp_index",
    "alignment_heads",
)  # fmt: skip
OF_PROCESSOR = (
    "feature_size", "sampling_rate", "n_fft", "hop_length", "chunk_length", "padding_value", "dither", "do_normalize",
)  # fmt: skip


def _rows_of_layers(side: str, *attentions: str) -> list[Row]:
    """The rows of the layers of the encoder, or of the decoder."""
    ours, theirs, rows = side + ".layers.{n}", f"model.{side}.layers." + "{n}", []
    for name in attentions:
        rows += Row.attention(f"{ours}.{name}", f"{theirs}.{NAMES[name]}", *PROJECTIONS)
        rows.append(Row(f"{ours}.around_{name}.norm.*", f"{theirs}.{NAMES[name]}_layer_norm.*"))
    return [
        *rows,
        Row(f"{ours}.feed.widen.*", f"{theirs}.fc1.*"),
        Row(f"{ours}.feed.narrow.*", f"{theirs}.fc2.*"),
        Row(f"{ours}.around_feed.norm.*", f"{theirs}.final_layer_norm.*"),
        Row(f"{side}.norm.*", f"model.{side}.layer_norm.*"),
    ]


TABLE = WeightTable(
    source="WhisperForConditionalGeneration",
    prefix="model.",
    rows=(
        Row("stem.layers.0.*", "model.encoder.conv1.*"),
        Row("halving.layers.0.*", "model.encoder.conv2.*"),
        Row("source_place.position.table", "model.encoder.embed_positions.weight"),
        *_rows_of_layers("encoder", "self"),
        Row("words.weight", "model.decoder.embed_tokens.weight"),
        Row("target_place.position.table", "model.decoder.embed_positions.weight"),
        *_rows_of_layers("decoder", "self", "cross"),
        Row("output.weight", "proj_out.weight"),
    ),
)


def config(theirs: Mapping[str, Any]) -> WhisperConfig:
    """Our configuration of a `config.json` of theirs.

    >>> sizes = {"vocab_size": 11, "d_model": 8, "encoder_layers": 2, "decoder_layers": 1, "num_mel_bins": 5}
    >>> heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    >>> config(sizes | heads | {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16}).decoder_depth
    1
    """
    expect(theirs, model_type="whisper", scale_embedding=False, tie_word_embeddings=True)
    expect(theirs, activation_dropout=0.0, encoder_layerdrop=0.0, decoder_layerdrop=0.0)
    return WhisperConfig(
        **settings(theirs, vocab="vocab_size", width="d_model", mels="num_mel_bins"),
        **settings(theirs, depth="encoder_layers", decoder_depth="decoder_layers"),
        heads=expect_equal(theirs, "encoder_attention_heads", "decoder_attention_heads"),
        hidden=expect_equal(theirs, "encoder_ffn_dim", "decoder_ffn_dim"),
        places=theirs.get("max_source_positions", 1500),
        length=theirs.get("max_target_positions", 448),
        activation=activation(theirs, "activation_function", absent="gelu"),
        dropout=theirs.get("dropout", 0.0),
        normalizer=softmax(theirs.get("attention_dropout", 0.0)),
        **FIXED,
    )


def checkpoint(theirs: Mapping[str, Any], names: Collection[str]) -> Checkpoint:
    """What a config.json describes: a model that transcribes.

    The facts are those of config.json, with what generation_config.json and preprocessor_config.json add to them.
    """
    made = config(theirs)
    processor = theirs.get("preprocessor_config") or theirs.get("processor_config", {}).get("feature_extractor") or {}
    facts: dict[str, Any] = _chosen(theirs, OF_CONFIG)
    facts["generation"] = _chosen(theirs.get("generation_config", {}), OF_GENERATION)
    facts["processor"] = _chosen(processor, OF_PROCESSOR)
    facts |= {"vocab": made.vocab, "mels": made.mels, "places": made.places, "length": made.length}
    return Checkpoint(Whisper, made, TABLE, "transcribe", "whisper", facts)


def _chosen(theirs: Any, keys: Collection[str]) -> dict[str, Any]:
    """Some settings, those that are there."""
    require(isinstance(theirs, Mapping), f"settings of a checkpoint must have names: got {str(theirs)[:80]}")
    return {key: theirs[key] for key in keys if key in theirs}


def config_json(model: Model, facts: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json that describes a model of ours; what they cannot express is an error that names it.

    >>> from mirada.models.whisper import WhisperConfig
    >>> config_json(Whisper(WhisperConfig.tiny()), {"eos_token_id": 2})["max_source_positions"]
    11
    """
    require(isinstance(model, Whisper), f"whisper describes a Whisper: got a {type(model).__name__}")
    ours: WhisperConfig = model.config
    for name, value in {**FIXED, "where": "complete", "score": "dot"}.items():
        wanted = ("layer", value) if name == "norm" else (value,)
        require(getattr(ours, name) in wanted, f"whisper has {name}={value!r} only: got {getattr(ours, name)!r}")
    word, _, rate = ours.normalizer.partition(":")
    require(word == "softmax", f"whisper has normalizer='softmax' only: got {ours.normalizer!r}")
    known = THEIR_ACTIVATIONS
    require(ours.activation in known, f"whisper has no activation {ours.activation!r}; it has {', '.join(known)}")
    return {
        "architectures": [TABLE.source], "model_type": "whisper", "is_encoder_decoder": True,
        "vocab_size": ours.vocab, "d_model": ours.width, "num_mel_bins": ours.mels,
        "encoder_layers": ours.depth, "decoder_layers": ours.decoder_depth or ours.depth,
        "num_hidden_layers": ours.depth, "encoder_attention_heads": ours.heads, "decoder_attention_heads": ours.heads,
        "encoder_ffn_dim": ours.hidden, "decoder_ffn_dim": ours.hidden, "max_source_positions": ours.places,
        "max_target_positions": ours.length, "activation_function": known[ours.activation], "dropout": ours.dropout,
        "attention_dropout": float(rate or 0), "scale_embedding": False, "tie_word_embeddings": True,
        **_chosen(facts, OF_CONFIG),
    }  # fmt: skip


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Whisper:
    """Our model of their configuration and weights, in evaluation mode.

    Their positions of the encoder are constant, ours are trainable.

    Radford et al. (2022), arXiv:2212.04356.
    """
    return copy_weights(Whisper(config(theirs)).eval(), TABLE, weights)
