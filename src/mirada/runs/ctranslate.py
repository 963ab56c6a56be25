"""`mirada export --to ctranslate2`: a folder that CTranslate2 runs, for a Transformer or a GPT (extra `ctranslate2`).

    import ctranslate2
    ctranslate2.Translator("OUT").translate_batch([["▁the", "▁house", "</s>"]])
    ctranslate2.Generator("OUT").generate_batch([["▁the", "▁house"]])

CTranslate2 says once for all layers what a layer is made of, so that all must be alike. Projections without a bias get one of
zeros where their neighbors have one, and so do norms: that changes no number.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mirada.attention.equation import Attention
from mirada.attention.heads import Grouped, MultiHead
from mirada.attention.neighborhoods import Causal, Complete
from mirada.attention.normalizers import Softmax
from mirada.attention.positions import InputPosition, Learned, Position, Rotary, Sinusoidal
from mirada.attention.scores import Dot
from mirada.errors import require
from mirada.files import write_whole
from mirada.hub.decoder import need
from mirada.layers.block import DecoderLayer, EncoderLayer, Residual
from mirada.layers.embed import AddPosition
from mirada.layers.feedforward import FeedForward, Gated
from mirada.layers.norm import LayerNorm, Norm, RMSNorm
from mirada.layers.output import Output
from mirada.layers.stack import Decoder, Encoder
from mirada.models.gpt import GPT
from mirada.models.transformer import Transformer
from mirada.runs.folder import written_whole
from mirada.runs.run import Run

NAME = "ctranslate2"
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu-tanh": "GELUTanh", "gelu-sigmoid": "GELUSigmoid", "silu": "SWISH"}


def to_ctranslate2(run: Run, out: Path) -> list[str]:
    """Write a folder with model.bin, config.json and the vocabulary, and beside them the tokenizer."""
    from mirada.runs.exporting import files_beside  # it names this module

    model: Any = run.model
    require(
        type(model) in (GPT, Transformer),
        f"{NAME} cannot express a {type(model).__name__}; of these it can: GPT, Transformer",
    )
    require_ctranslate2()
    said = {**run.settings.origin.get("facts", {}), **run.settings.facts}
    special = _special(run.known.tokenizer, said, isinstance(model, Transformer))
    spec = _of_transformer(model) if isinstance(model, Transformer) else _of_gpt(model)
    _set_tokens(spec, model, run.known.tokenizer, special)
    spec.validate()
    spec.optimize()
    with written_whole(out) as part:
        for name, content in files_beside(run):
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(part / name, content)
        spec.save(str(part))
    kind = "Translator" if isinstance(model, Transformer) else "Generator"
    return [f"{out} holds the model for ctranslate2.{kind}: it takes texts as their tokens", *special.notes]


def require_ctranslate2() -> None:
    """Require the package that writes the folder."""
    if find_spec(NAME) is None:
        raise ValueError("exporting to ctranslate2 needs the package ctranslate2: pip install 'mirada[ctranslate2]'")


# Tokens.


class Special(NamedTuple):
    """The special tokens that a folder names, by number, and what a person must give besides."""

    start: int
    end: int
    unknown: int
    first: int | None  # what a decoder reads first; None: whoever asks says it
    notes: tuple[str, ...]


def _special(tokenizer: Any, facts: Mapping[str, Any], translates: bool) -> Special:
    """The special tokens of a run."""
    said = facts.get("writing", facts)
    ends = list(said.get("end_tokens") or [tokenizer.end])
    require(ends[0] >= 0, f"{NAME} needs the token that ends a text, and this checkpoint names none")
    names = tokenizer.spellings()
    named = [names.get(id, str(id)) for id in ends]
    notes = [f"a text may also end with others: give end_token={named!r}"] if len(ends) > 1 else []
    first: int | None = facts["start_token"] if translates and "start_token" in facts else tokenizer.start
    if translates:
        around, _ = tokenizer.framed([-1]) if "start_token" in facts else ([-1, tokenizer.end], [])
        framed = " ".join("..." if id < 0 else names.get(id, str(id)) for id in around)
        notes.append(f"a source is its tokens as the model was trained with them: {framed}")
        if first is None:
            notes.append("a target begins with its language: give that token as target_prefix")
        elif said.get("first") is not None:
            notes.append(
                f"a target goes on with {names.get(said['first'], said['first'])!r}: give that token as target_prefix"
            )
    start = tokenizer.start if tokenizer.start >= 0 else ends[0]
    unknown = tokenizer.unknown if tokenizer.unknown >= 0 else ends[0]
    return Special(start, ends[0], unknown, first, tuple(notes))


def _set_tokens(spec: Any, model: Transformer | GPT, tokenizer: Any, special: Special) -> None:
    """Set the vocabularies, of as many tokens as the tables have rows, and name the special tokens."""
    names = tokenizer.spellings()

    def listed(size: int) -> list[str]:
        return [names.get(id, f"<unused {id}>") for id in range(size)]

    every = listed(model.config.vocab)
    last = max(special.start, special.end, special.unknown, special.first or 0)
    require(last < len(every), f"the checkpoint names the special token {last}, and its model has {len(every)} tokens")
    if isinstance(model, Transformer):
        spec.register_source_vocabulary(listed(model.config.source_vocab))
        spec.register_target_vocabulary(every)
        spec.config.decoder_start_token = None if special.first is None else every[special.first]
    else:
        spec.register_vocabulary(every)
    spec.config.bos_token, spec.config.eos_token = every[special.start], every[special.end]
    spec.config.unk_token = every[special.unknown]


# Models.


class Common(NamedTuple):
    """What all layers of a model must have in common."""

    heads: int
    groups: int
    dim: int
    activation: str
    gated: bool
    rms: bool
    eps: float
    rotary: tuple[int, float, bool] | None  # coordinates that are rotated, the base, and whether pairs are neighbors


def _of_transformer(model: Transformer) -> Any:
    """The description of an encoder and a decoder."""
    specs, config = import_module(f"{NAME}.specs"), model.config
    common = _common([*model.encoder.layers, *model.decoder.layers], config)
    need(NAME, "the position", common.rotary is None, config.position)
    need(NAME, "the projection", common.groups == common.heads, config.projection)
    shape = {**_shape(specs, common, config), "layernorm_embedding": config.normed_words}
    encoder = specs.TransformerEncoderSpec(config.depth, common.heads, **shape)
    decoder = specs.TransformerDecoderSpec(config.decoder_depth or config.depth, common.heads, **shape)
    spec = specs.TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = common.eps
    encoder.embeddings[0].weight = model.source_words.weight.detach()
    _set_inputs(encoder, model.source_words.scale, model.source_place, common, config)
    _set_stack(encoder, model.encoder, common)
    decoder.embeddings.weight = model.target_words.weight.detach()
    _set_inputs(decoder, model.target_words.scale, model.target_place, common, config)
    _set_stack(decoder, model.decoder, common)
    _set_output(decoder, model.output, config)
    return spec


def _of_gpt(model: GPT) -> Any:
    """The description of a decoder without a source."""
    specs, config = import_module(f"{NAME}.specs"), model.config
    common = _common(list(model.decoder.layers), config)
    more: dict[str, Any] = {"project_in_out": model.widen is not None}
    if common.groups != common.heads:
        more["num_heads_kv"] = common.groups
    if common.rotary is not None:
        dim, base, interleaved = common.rotary
        more |= {"rotary_dim": dim, "rotary_base": base, "rotary_interleave": interleaved}
    shape = _shape(specs, common, config) | more
    spec = specs.TransformerDecoderModelSpec.from_config(config.depth, common.heads, **shape)
    spec.config.layer_norm_epsilon = common.eps
    decoder = spec.decoder
    decoder.embeddings.weight = model.words.weight.detach()
    if model.widen is not None and model.narrow is not None:
        _set_linear(decoder.project_in, model.widen)
        _set_linear(decoder.project_out, model.narrow)
    _set_inputs(decoder, model.words.scale, model.place, common, config)
    _set_stack(decoder, model.decoder, common)
    _set_output(decoder, model.output, config)
    return spec


def _shape(specs: Any, common: Common, config: Any) -> dict[str, Any]:
    """What both kinds of stacks are made with."""
    activation = getattr(specs.Activation, ACTIVATIONS[common.activation])
    return {
        "pre_norm": config.order == "pre",
        "activation": activation,
        "ffn_glu": common.gated,
        "rms_norm": common.rms,
    }


def _set_inputs(spec: Any, scale: float, place: AddPosition, common: Common, config: Any) -> None:
    """Set what is done with words before the first layer."""
    spec.scale_embeddings = scale != 1.0
    position, width = place.position, _width(spec)
    if common.rotary is None:
        plain = position is None or isinstance(position, Learned | Sinusoidal)
        need(NAME, "the position", plain, config.position)
        table = torch.zeros(config.length, width) if position is None else position(torch.arange(config.length))
        spec.position_encodings.encodings = table.detach().float()
    if place.norm is not None:
        _set_norm(spec.layernorm_embedding, place.norm)


def _width(spec: Any) -> int:
    """Numbers in a vector of the blocks."""
    project = getattr(spec, "project_in", None)
    words = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    return int(words.weight.shape[1] if project is None else project.weight.shape[0])


def _set_stack(spec: Any, stack: Encoder | Decoder, common: Common) -> None:
    """Set the weights of all layers, and the norm behind them."""
    layers: Any = stack.layers
    for there, layer in zip(spec.layer, layers, strict=True):
        heads = layer.self_attention.heads
        _set_attention(there.self_attention, layer.self_attention, layer.around_self)
        _set_joined(there.self_attention.linear[0], [heads.query, heads.key, heads.value])
        if isinstance(layer, DecoderLayer):
            heads = layer.cross.heads
            _set_attention(there.attention, layer.cross, layer.around_cross)
            _set_joined(there.attention.linear[0], [heads.query])
            _set_joined(there.attention.linear[1], [heads.key, heads.value])
        feed = layer.feed
        _set_linear(there.ffn.linear_0, feed.gate if isinstance(feed, Gated) else feed.widen)
        if isinstance(feed, Gated):
            _set_linear(there.ffn.linear_0_noact, feed.widen)
        _set_linear(there.ffn.linear_1, feed.narrow)
        _set_norm(there.ffn.layer_norm, layer.around_feed.norm)
    if stack.norm is not None:
        _set_norm(spec.layer_norm, stack.norm)


def _set_attention(spec: Any, attention: Attention, around: Residual) -> None:
    """Set the norm, the last projection and the scale of an attention."""
    score = attention.score
    assert isinstance(score, Dot)
    if not score.by_default:
        spec.queries_scale = float(score.factor(attention.heads.dim))
    _set_norm(spec.layer_norm, around.norm)
    _set_linear(spec.linear[-1], attention.heads.out)  # type: ignore[arg-type]


def _set_output(spec: Any, output: Output, config: Any) -> None:
    need(NAME, "output_scale", output.scale == 1.0, output.scale)
    spec.projection.weight = output.weight.detach()
    if output.bias is not None:
        spec.projection.bias = output.bias.detach()


def _set_norm(spec: Any, norm: Norm) -> None:
    spec.gamma = norm.weight.detach()
    if isinstance(norm, LayerNorm):
        spec.beta = torch.zeros_like(norm.weight) if norm.bias is None else norm.bias.detach()


def _set_linear(spec: Any, layer: nn.Linear) -> None:
    _set_joined(spec, [layer])


def _set_joined(spec: Any, layers: Sequence[Any]) -> None:
    """Set a product that does what several do beside each other."""
    spec.weight = (
        torch.cat([layer.weight.detach() for layer in layers]) if len(layers) > 1 else layers[0].weight.detach()
    )
    biases: list[Tensor | None] = [layer.bias for layer in layers]
    if any(bias is not None for bias in biases):
        filled = [
            layer.weight.new_zeros(len(layer.weight)) if bias is None else bias.detach()
            for layer, bias in zip(layers, biases, strict=True)
        ]
        spec.bias = torch.cat(filled)


# What it can express.


def _common(layers: Sequence[EncoderLayer | DecoderLayer], config: Any) -> Common:
    """What all layers have in common; ValueError names a part that CTranslate2 has not, or not in one layer only."""
    found = list(dict.fromkeys(_parts_of(layer, config) for layer in layers))
    words = f"{config.where}, {config.position}"
    need(NAME, "where and position by layers", len(found) == 1, words)
    return found[0]


def _parts_of(layer: EncoderLayer | DecoderLayer, config: Any) -> Common:
    """What a layer is made of."""
    attention, feed = layer.self_attention, layer.feed
    attentions = [attention, layer.cross] if isinstance(layer, DecoderLayer) else [attention]
    for each in attentions:
        heads, score = each.heads, each.score
        plain = type(heads) in (MultiHead, Grouped) and heads.query_norm is None and heads.dim == heads.value_dim
        need(NAME, "the projection", plain and heads.heads * heads.dim == config.width, config.projection)
        need(NAME, "the score", type(score) is Dot and not isinstance(score.scale, Tensor), config.score)
        need(NAME, "the normalizer", type(each.normalizer) is Softmax, config.normalizer)
        need(NAME, "where", all(type(part) in (Causal, Complete) for part in each.where.conjuncts()), config.where)
    arounds = [around for around in layer.children() if isinstance(around, Residual)]
    norms = [around.norm for around in arounds]
    need(NAME, "the norm", all(type(norm) in (LayerNorm, RMSNorm) for norm in norms), config.norm)
    need(NAME, "the scale of a layer", all(around.scale is None for around in arounds), config)
    position = attention.position
    plain = type(position) is Position or isinstance(position, Rotary | InputPosition)
    need(NAME, "the position", plain, config.position)
    need(NAME, "the activation", type(feed) in (FeedForward, Gated), config.activation)
    return Common(
        attention.heads.heads,
        attention.heads.key_heads,
        attention.heads.dim,
        feed.activation,
        isinstance(feed, Gated),
        type(norms[0]) is RMSNorm,
        norms[0].eps,
        _rotary(position, config) if isinstance(position, Rotary) else None,
    )


def _rotary(position: Rotary, config: Any) -> tuple[int, float, bool]:
    """The rotations: plain ones, of all coordinates or of the first."""
    rates = position.rates
    need(NAME, "the position", rates.factor == 1 and not rates.original, config.position)
    return rates.dim, float(rates.base), position.layout == "interleaved"
