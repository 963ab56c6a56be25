"""Hugging Face's BART and its relatives mBART, M2M100 (NLLB) and Marian: their checkpoints as our `Transformer`.

| model_type | norms | words with their positions | positions                        |
|------------|-------|----------------------------|----------------------------------|
| bart       | post  | normalized                 | learned, two rows unused         |
| mbart      | pre   | normalized                 | learned, two rows unused         |
| m2m_100    | pre   | as they are                | sines in a half, cosines in one  |
| marian     | post  | as they are                | the same, with other wavelengths |
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor

from mirada.errors import require, require_known
from mirada.hub.checkpoint import Checkpoint, architecture
from mirada.hub.generation import notes, writing
from mirada.hub.mapping import (
    THEIR_ACTIVATIONS,
    Row,
    WeightTable,
    activation,
    copy_weights,
    expect,
    expect_equal,
    kept,
    require_expressed,
    setting,
    softmax,
)
from mirada.layers.model import Model
from mirada.layers.parse import parse
from mirada.models.transformer import Transformer, TransformerConfig

# What the table of a relative differs in.


class Form(NamedTuple):
    """What one of the relatives has, and the others have not."""

    architecture: str  # their class with an output layer
    order: str
    normed_words: bool
    learned: bool  # positions
    scaled: bool  # words, where config.json does not say
    activation: str  # where config.json does not say
    legacy: Mapping[str, bool]  # what old files say of these things
    bias: bool = True  # whether the output may have one


FORMS = {
    "bart": Form(
        "BartForConditionalGeneration", "post", True, True, False, "gelu",
        {"normalize_before": False, "normalize_embedding": True, "add_final_layer_norm": False},
    ),
    "mbart": Form(
        "MBartForConditionalGeneration", "pre", True, True, False, "gelu",
        {"normalize_before": True, "normalize_embedding": True, "add_final_layer_norm": True},
    ),
    "m2m_100": Form(
        "M2M100ForConditionalGeneration", "pre", False, False, True, "relu",
        {"normalize_before": True, "normalize_embedding": False, "add_final_layer_norm": True}, bias=False,
    ),
    "marian": Form(
        "MarianMTModel", "post", False, False, False, "gelu",
        {"normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False},
    ),
}  # fmt: skip

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
KEPT = (  # what neither our model nor its searches read from here, and what config.json has again on the way back
    *("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"),
    *("activation_dropout", "classifier_dropout", "encoder_layerdrop", "decoder_layerdrop", "init_std"),
    *("task_specific_params", "tokenizer_class"),
)
SPECIAL = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}  # of our tokenizers


def _halves() -> list[Row]:
    """The rows of both halves; those of parts that a relative does not have fill nothing."""
    rows = []
    for half, inputs in (("encoder", "source_place"), ("decoder", "target_place")):
        ours, theirs = f"{half}.layers.{{n}}", f"model.{half}.layers.{{n}}"
        rows += [
            Row(f"{inputs}.position.table", f"model.{half}.embed_positions.weight"),
            Row(f"{inputs}.norm.*", f"model.{half}.layernorm_embedding.*"),
            *Row.attention(f"{ours}.self", f"{theirs}.self_attn", *PROJECTIONS),
            Row(f"{ours}.around_self.norm.*", f"{theirs}.self_attn_layer_norm.*"),
        ]
        if half == "decoder":
            rows += Row.attention(f"{ours}.cross", f"{theirs}.encoder_attn", *PROJECTIONS)
            rows.append(Row(f"{ours}.around_cross.norm.*", f"{theirs}.encoder_attn_layer_norm.*"))
        rows += [
            Row(f"{ours}.feed.widen.*", f"{theirs}.fc1.*"),
            Row(f"{ours}.feed.narrow.*", f"{theirs}.fc2.*"),
            Row(f"{ours}.around_feed.norm.*", f"{theirs}.final_layer_norm.*"),
            Row(f"{half}.norm.*", f"model.{half}.layer_norm.*"),
        ]
    return rows


def table(theirs: Mapping[str, Any]) -> WeightTable:
    """How the tensors of a checkpoint with this config.json fill our model."""
    form = FORMS[theirs["model_type"]]
    shared = Row("target_words.weight", "model.shared.weight")
    apart = Row("target_words.weight", "model.decoder.embed_tokens.weight")
    words = (shared, apart) if _tied(theirs) == "all" else (apart, shared)  # the first is the one that is written
    # sines and cosines, which both sides compute
    sines = ("weight", "weights") if not form.learned else ()
    return WeightTable(
        source=form.architecture,
        prefix="model.",
        rows=(
            *words,
            Row("source_words.weight", "model.encoder.embed_tokens.weight"),
            *_halves(),
            Row("output.weight", "lm_head.weight"),
            Row("output.bias", "final_logits_bias", "1 v -> v"),
        ),
        ignored=tuple(f"model.{half}.embed_positions.{name}" for half in ("encoder", "decoder") for name in sines),
    )


# The configuration, there and back.


def config(theirs: Mapping[str, Any]) -> TransformerConfig:
    """Our configuration of a `config.json` of theirs; whether the output has a bias, the tensors say.

    >>> sizes = {"model_type": "bart", "vocab_size": 11, "d_model": 8, "encoder_layers": 2, "decoder_layers": 3}
    >>> heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    >>> ours = config(sizes | heads | {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16})
    >>> ours.position, ours.decoder_depth, ours.normed_words
    ('learned:offset=2', 3, True)
    """
    named = theirs.get("model_type")
    require_known("model_type", named, FORMS)
    form = FORMS[str(named)]
    there = architecture(theirs)
    base = form.architecture.replace("ForConditionalGeneration", "Model").replace("MTModel", "Model")
    message = f"a {named} checkpoint must be a {form.architecture}: got {there}. Our model has no other output for it."
    require(there in ("", form.architecture, base), message)
    expect(theirs, **form.legacy, static_position_embeddings=not form.learned)
    expect(theirs, is_encoder_decoder=True, is_decoder=False, add_bias_logits=False, extra_pos_embeddings=2)
    width, vocab = setting(theirs, "d_model"), setting(theirs, "vocab_size")
    depth = setting(theirs, "encoder_layers")
    return TransformerConfig(
        vocab=theirs.get("decoder_vocab_size") or vocab,
        source_vocab=vocab,
        width=width,
        depth=depth,
        decoder_depth=_decoder_depth(depth, setting(theirs, "decoder_layers")),
        heads=expect_equal(theirs, "encoder_attention_heads", "decoder_attention_heads"),
        hidden=expect_equal(theirs, "encoder_ffn_dim", "decoder_ffn_dim"),
        length=theirs.get("max_position_embeddings", 1024),
        activation=activation(theirs, "activation_function", absent=form.activation),
        norm="layer:1e-05",
        order=form.order,
        position=_position(theirs, width),
        dropout=theirs.get("dropout", 0.1),
        normalizer=softmax(theirs.get("attention_dropout", 0.1 if named == "m2m_100" else 0.0)),
        tied=_tied(theirs),
        output_bias=form.bias,
        scaled_words=theirs.get("scale_embedding", form.scaled),
        normed_words=form.normed_words,
    )  # fmt: skip


def checkpoint(theirs: Mapping[str, Any], names: Collection[str]) -> Checkpoint:
    """What a config.json and the names of tensors describe.

    Their `final_logits_bias` is constant, our output bias is trainable; a checkpoint may also have none.
    """
    ours = config(theirs)
    if names and "final_logits_bias" not in names:
        ours = replace(ours, output_bias=False)
    said = writing(theirs)
    facts = {"start_token": _start(theirs), "writing": said, "config": kept(theirs, KEPT)}
    named = (theirs.get("tokenizer_config") or {}).get("tokenizer_class") or theirs.get("tokenizer_class") or ""
    if theirs["model_type"] == "mbart" and "50" not in str(named):
        facts["language_starts"] = True  # a target begins with its language, not with a token before it
    return Checkpoint(Transformer, ours, table(theirs), "translate", "transformer", facts, notes(said))


def config_json(model: Model, facts: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json of theirs for a model of ours: of the relative that `facts` name, or else of the first that has its parts.

    Args:
        model: a `Transformer`.
        facts: those of its checkpoint, with `model_type`; none for a model that was trained here.

    >>> parts = {"order": "post", "position": "sinusoidal:layout=half", "activation": "gelu"}
    >>> model = Transformer(TransformerConfig(vocab=9, source_vocab=9, width=8, heads=2, hidden=8, tied="all", **parts))
    >>> config_json(model, {})["model_type"]
    'marian'
    """
    ours = model.config
    require(isinstance(ours, TransformerConfig), f"BART's relatives hold a Transformer: got {type(model).__name__}")
    assert isinstance(ours, TransformerConfig)
    named = facts.get("model_type") or _nearest(ours)
    require_known("model_type", named, FORMS)
    theirs = _described(ours, str(named)) | dict(facts.get("config", {}))
    found = config(theirs)
    # no bias is one of zeros
    require_expressed(
        type(model),
        ours,
        found if ours.output_bias else replace(found, output_bias=False),
        FORMS[str(named)].architecture,
    )
    return theirs


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Transformer:
    """Our model of their configuration and weights, in evaluation mode.

    Lewis et al. (2020), arXiv:1910.13461; Liu et al. (2020), arXiv:2001.08210; Fan et al. (2021), arXiv:2010.11125.
    """
    found = checkpoint(theirs, weights.keys())
    model = Transformer(found.config)  # type: ignore[arg-type]
    return copy_weights(model.eval(), found.table, weights)


def _described(ours: TransformerConfig, named: str) -> dict[str, Any]:
    """What config.json says of a configuration of ours, as far as it can: what it cannot say is found when it is read again."""
    form = FORMS[named]
    half = {"layers": ours.depth, "attention_heads": ours.heads, "ffn_dim": ours.hidden}
    theirs: dict[str, Any] = {
        "model_type": named,
        "architectures": [form.architecture],
        "is_encoder_decoder": True,
        "vocab_size": ours.source_vocab,
        "d_model": ours.width,
        **{f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in half.items()},
        "decoder_layers": ours.decoder_depth or ours.depth,
        "max_position_embeddings": ours.length,
        "activation_function": THEIR_ACTIVATIONS.get(ours.activation, ours.activation),
        "dropout": ours.dropout,
        "attention_dropout": getattr(parse("normalizer", ours.normalizer), "dropout", 0.0),
        "activation_dropout": 0.0,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "scale_embedding": ours.scaled_words,
        "tie_word_embeddings": ours.tied in ("all", "output"),
        "forced_eos_token_id": None,
        **SPECIAL,
    }  # fmt: skip
    if named == "marian":
        theirs |= {"share_encoder_decoder_embeddings": ours.one_table, "decoder_vocab_size": ours.vocab}
    return theirs


def _nearest(ours: TransformerConfig) -> str:
    """The relative that has the most in common with a configuration, the one with fewer parts if there are several."""

    def common(named: str) -> int:
        form = FORMS[named]
        same = (form.order == ours.order, form.normed_words == ours.normed_words)
        return sum(same) + (form.learned == ours.position.startswith("learned"))

    return max(("marian", "bart", "mbart", "m2m_100"), key=common)


def _decoder_depth(depth: int, decoder_depth: int) -> int:
    """Ours: 0 where both halves have the same depth."""
    return 0 if decoder_depth == depth else decoder_depth


def _position(theirs: Mapping[str, Any], width: int) -> str:
    """The word of the positions. M2M100 divides the wavelengths by one less than others do: that is another base."""
    if FORMS[theirs["model_type"]].learned:
        return "learned:offset=2"
    if theirs["model_type"] == "marian":
        return "sinusoidal:layout=half"
    require(
        width % 2 == 0 and width > 2, f"d_model must be even and above 2, for as many sines as cosines: got {width}"
    )
    base = 10000 ** (width / (width - 2))
    padding = theirs.get("pad_token_id", 1)
    require(type(padding) is int and padding >= 0, f"pad_token_id must be a token: got {padding!r}")
    return f"sinusoidal:base={base!r},layout=half,offset={padding + 1}"


def _start(theirs: Mapping[str, Any]) -> int | None:
    """The token before the first of a target; None where it is that of the language."""
    usual = {"bart": 2, "m2m_100": 2, "mbart": None, "marian": theirs.get("pad_token_id", 58100)}
    said = theirs.get("generation_config") or {}
    start = said.get("decoder_start_token_id", theirs.get("decoder_start_token_id", usual[theirs["model_type"]]))
    require(
        start is None or (type(start) is int and start >= 0), f"decoder_start_token_id must be a token: got {start!r}"
    )
    return start


def _tied(theirs: Mapping[str, Any]) -> str:
    """Which tables are shared: source embedding, target embedding and output."""
    output = theirs.get("tie_word_embeddings", True)
    if theirs["model_type"] != "marian":
        expect(theirs, tie_word_embeddings=True)
        return "all"
    shared = theirs.get("share_encoder_decoder_embeddings", True)
    require(
        output or not shared,
        "tie_word_embeddings must be True where share_encoder_decoder_embeddings is: got False. "
        "Our model shares all three tables, or the target's with the output, or none.",
    )
    return "all" if shared else "output" if output else "no"
