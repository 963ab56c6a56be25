"""What the families of decoder-only models share: reading rotations and windows, and describing a `GPT` of ours to them."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from mirada.attention.heads import Grouped, MultiHead
from mirada.attention.neighborhoods import Causal, Complete, Window
from mirada.attention.normalizers import Softmax
from mirada.attention.positions import InputPosition, Learned, Position, Rotary
from mirada.attention.scores import Dot
from mirada.errors import require
from mirada.hub.checkpoint import architecture
from mirada.hub.mapping import ACTIVATIONS
from mirada.layers.block import LIST, EncoderLayer, input_position
from mirada.layers.feedforward import FeedForward, Gated
from mirada.layers.norm import LayerNorm, RMSNorm
from mirada.models.gpt import GPT, GPTConfig

NO_BIAS, ALL_BIASES = "", "qkvo"
SCALINGS = ("default", "linear", "llama3")


def number(value: float) -> str:
    """A number as a word of a configuration.

    >>> number(500000.0), number(1e-6), number(0.5)
    ('500000', '1e-06', '0.5')
    """
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def in_turn(words: Sequence[str]) -> str:
    """The words of all layers as the shortest list that layers take in turn.

    >>> in_turn(["rotary", "none", "rotary", "none"]), in_turn(["complete"] * 3), in_turn(["none", "rotary", "none"])
    ('rotary / none', 'complete', 'none / rotary')
    """
    turn = next(n for n in range(1, len(words) + 1) if all(word == words[i % n] for i, word in enumerate(words)))
    return LIST.join(words[:turn])


def windows(theirs: Mapping[str, Any], sliding: Sequence[bool], absent: int | None = None) -> str:
    """The neighborhoods of layers of which some see a window only: `sliding_window` counts the query itself.

    >>> windows({"sliding_window": 4}, [False, True])
    'complete / window:3'
    """
    reach = theirs.get("sliding_window", absent)
    if reach is None or not any(sliding):
        return "complete"
    require(type(reach) is int and reach >= 1, f"sliding_window must be a number of keys from 1 on: got {reach!r}")
    return in_turn([f"window:{reach - 1}" if slides else "complete" for slides in sliding])


def layer_types(theirs: Mapping[str, Any], depth: int) -> list[bool] | None:
    """Whether each layer sees a window only, where a config.json says it layer by layer."""
    kinds = theirs.get("layer_types")
    if kinds is None:
        return None
    known = {"full_attention": False, "sliding_attention": True}
    fits = isinstance(kinds, list) and len(kinds) == depth and all(str(kind) in known for kind in kinds)
    message = f"layer_types must name {', '.join(known)} for each of {depth} layers: got {str(kinds)[:80]}"
    require(fits, message)
    return [known[kind] for kind in kinds]


def rotary(theirs: Mapping[str, Any], base: float, parts: bool = False) -> str:
    """The word of their rotations: `rope_theta` and `rope_scaling`, which newer files keep in `rope_parameters`.

    Args:
        theirs: their config.json.
        base: the base where none is named.
        parts: whether the family rotates a part of the coordinates only, as `partial_rotary_factor` says.

    >>> rotary({"rope_theta": 500000.0, "rope_scaling": {"type": "linear", "factor": 4.0}}, base=10000.0)
    'rotary:base=500000,factor=4'
    """
    scaling = theirs.get("rope_scaling") or theirs.get("rope_parameters") or {}
    flat = isinstance(scaling, Mapping) and not any(isinstance(value, Mapping) for value in scaling.values())
    require(flat, f"rope_scaling must be one for all layers: got {str(scaling)[:80]}")
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    require(
        kind in SCALINGS,
        f"rope_scaling {kind!r} is not represented: its rotations depend on more than the position. Known: "
        f"{', '.join(SCALINGS)}.",
    )
    part = scaling.get("partial_rotary_factor", theirs.get("partial_rotary_factor", 1.0))
    require(parts or part == 1.0, f"partial_rotary_factor must be 1.0: got {part!r}. This family rotates all.")
    words = {"base": scaling.get("rope_theta", theirs.get("rope_theta", base))}
    if kind != "default":
        words["factor"] = _wanted(scaling, "factor")
    if kind == "llama3":
        words |= {"low": _wanted(scaling, "low_freq_factor"), "high": _wanted(scaling, "high_freq_factor")}
        original = theirs.get("original_max_position_embeddings", scaling.get("original_max_position_embeddings"))
        words["original"] = theirs.get("max_position_embeddings") if original is None else original
    words["part"] = part
    usual = {"base": 10000, "factor": 1, "part": 1}
    for name, value in words.items():
        require(type(value) in (int, float), f"{name} of the rotations must be a number: got {value!r}")
    said = ",".join(f"{name}={number(value)}" for name, value in words.items() if usual.get(name) != value)
    return f"rotary:{said}" if said else "rotary"


def _wanted(scaling: Mapping[str, Any], key: str) -> Any:
    """A number that a kind of scaling needs."""
    require(key in scaling, f"rope_scaling must have {key!r}: got only {', '.join(sorted(scaling))}")
    return scaling[key]


def heads(count: int, groups: int, width: int, dim: int, biases: str, qk_norm: float = 0.0) -> str:
    """The word of heads that share keys and values in groups, or do not.

    >>> heads(4, 2, 32, 16, "qkv", 1e-6), heads(4, 4, 32, 8, "")
    ('grouped:2,dim=16,bias=qkv,qk_norm=1e-06', 'multihead:bias=no')
    """
    shown = {NO_BIAS: "no", ALL_BIASES: "yes"}.get(biases, biases)
    words = [str(groups)] if groups != count else []
    words += [f"dim={dim}"] if dim * count != width else []
    words += [f"bias={shown}"] if biases != ALL_BIASES else []
    words += [f"qk_norm={number(qk_norm)}"] if qk_norm else []
    kind = "grouped" if groups != count else "multihead"
    return f"{kind}:{','.join(words)}" if words else kind


def token_facts(theirs: Mapping[str, Any]) -> dict[str, Any]:
    """The tokens that their config.json names: the start of a text, the ends of one (there may be several), padding.

    >>> token_facts({"bos_token_id": 1, "eos_token_id": [2, 7]})
    {'start_token': 1, 'end_tokens': [2, 7]}
    """
    ends = theirs.get("eos_token_id")
    named = {"start_token": theirs.get("bos_token_id"), "pad_token": theirs.get("pad_token_id")}
    named["end_tokens"] = ends if ends is None or isinstance(ends, list) else [ends]
    for name, value in named.items():
        whole = all(type(one) is int for one in (value if isinstance(value, list) else [value]))
        require(value is None or whole, f"config.json must name tokens by number: got {name} {str(value)[:80]}")
    return {name: value for name, value in named.items() if value is not None}


GENERATION: dict[
    str, Callable[[Any], bool]
] = {  # settings of a generation_config.json that are represented, and what their values must be
    "do_sample": lambda value: isinstance(value, bool),
    "temperature": lambda value: type(value) in (int, float) and 0 <= value < math.inf,
    "top_k": lambda value: type(value) is int and value >= 0,
    "top_p": lambda value: type(value) in (int, float) and 0 < value <= 1,
    "repetition_penalty": lambda value: type(value) in (int, float) and 0 < value < math.inf,
    "max_new_tokens": lambda value: type(value) is int and value >= 1,
}
NEUTRAL: dict[str, tuple[Any, ...]] = {  # settings that are not: values that change nothing
    "num_beams": (1,), "num_beam_groups": (1,), "penalty_alpha": (), "min_p": (0, 0.0), "typical_p": (1, 1.0), "top_h": (),
    "epsilon_cutoff": (0, 0.0), "eta_cutoff": (0, 0.0), "no_repeat_ngram_size": (0,), "bad_words_ids": ([],),
    "sequence_bias": ({}, []), "suppress_tokens": ([],), "begin_suppress_tokens": ([],), "forced_bos_token_id": (),
    "forced_eos_token_id": (), "min_length": (0,), "min_new_tokens": (0,), "guidance_scale": (1, 1.0),
    "exponential_decay_length_penalty": (), "stop_strings": ([],), "watermarking_config": (), "dola_layers": (),
}  # fmt: skip


def require_causal(theirs: Mapping[str, Any]) -> None:
    """Require a decoder that scores the next token, not one with another head.

    >>> require_causal({"architectures": ["LlamaForSequenceClassification"]})
    Traceback (most recent call last):
    ValueError: a LlamaForSequenceClassification is not represented: of decoders only those that continue texts are
    """
    named = architecture(theirs)
    causal = named.endswith(("ForCausalLM", "LMHeadModel", "Model")) and "DoubleHeads" not in named
    message = f"a {named} is not represented: of decoders only those that continue texts are"
    require(not named or causal, message)


def facts_of(theirs: Mapping[str, Any]) -> dict[str, Any]:
    """What a run that continues texts must know: the special tokens of `token_facts`, and how the folder wants texts to be
    drawn, as its generation_config.json says (in old folders its config.json).

    >>> facts_of({"eos_token_id": 2, "generation_config": {"eos_token_id": [2, 7], "do_sample": True, "top_p": 0.9}})
    {'end_tokens': [2, 7], 'generation': {'do_sample': True, 'top_p': 0.9}}
    """
    said = theirs.get("generation_config")
    source, how = ("config.json", theirs) if said is None else ("generation_config.json", said)
    require(isinstance(how, Mapping), "generation_config.json must hold settings by name")
    for name, values in NEUTRAL.items():
        value = how.get(name)
        message = f"{source} asks for {name}={str(value)[:80]}, which is not represented: take it out of the file"
        require(value is None or value in values, message)
    kept = {name: how[name] for name in GENERATION if how.get(name) is not None}
    for name, value in kept.items():
        require(GENERATION[name](value), f"{source} has {name}={str(value)[:80]}, which is no such setting")
    tokens = {name: how.get(name, theirs.get(name)) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    return token_facts(tokens) | {"generation": kept}


def token_ids(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The tokens as a config.json names them: the way back from `token_facts`.

    >>> token_ids({"start_token": 1, "end_tokens": [2]})
    {'bos_token_id': 1, 'eos_token_id': 2, 'pad_token_id': None}
    """
    ends = facts.get("end_tokens") or [None]
    return {
        "bos_token_id": facts.get("start_token"),
        "eos_token_id": ends[0] if len(ends) == 1 else ends,
        "pad_token_id": facts.get("pad_token"),
    }


# The way back: what the configuration of a GPT of ours makes, as the words of the field.


class LayerParts(NamedTuple):
    """One layer of a `GPT`, as a config.json can describe it."""

    heads: int
    groups: int
    dim: int
    biases: str
    qk_norm: float
    rotary: Rotary | None
    window: int  # keys that a query sees, itself included; 0 for all before it
    activation: str
    gated: bool
    feed_bias: bool
    layer_norm: bool  # with a bias
    rms: bool
    eps: float
    raw_score: bool  # not divided by the root of dim


class Described(NamedTuple):
    """A `GPT`: all its layers, the table of positions where it has one, and the dropout of the weights."""

    config: GPTConfig
    layers: list[LayerParts]
    table: Learned | None
    attention_dropout: float

    @property
    def first(self) -> LayerParts:
        """What all layers have, apart from rotations and windows."""
        return self.layers[0]

    def activation(self) -> str:
        """The name of the field for the activation, the plainest where there are several."""
        return next(theirs for theirs, ours in ACTIVATIONS.items() if ours == self.first.activation)


def described(model: nn.Module, of: str, raw_score: bool = False) -> Described:
    """The layers of a `GPT` for a family; ValueError if it has a part that no family of decoders has.

    Args:
        model: the model.
        of: the family, for the error.
        raw_score: whether the family has dot products that are not scaled.
    """
    require(isinstance(model, GPT), f"{of} is a decoder: got a {type(model).__name__}")
    config: GPTConfig = model.config  # type: ignore[assignment]
    with torch.device("meta"):
        turn = [EncoderLayer(config.of_layer(n)) for n in range(min(config.turn, config.depth))]
        table = input_position(config)
    need(of, "the position", table is None or isinstance(table, Learned), config.position)
    layers = [_parts_of(of, config, layer) for layer in turn]
    need(of, "the score", raw_score or not layers[0].raw_score, config.score)
    dropout = turn[0].self_attention.normalizer.dropout  # type: ignore[union-attr]
    every = [layers[n % len(layers)] for n in range(config.depth)]
    return Described(config, every, table, float(dropout))  # type: ignore[arg-type]


def need(of: str, name: str, holds: bool, got: object) -> None:
    """Require a part that a family has."""
    require(holds, f"{of} cannot express this model: {name} is {str(got)!r}")


def _parts_of(of: str, config: GPTConfig, layer: EncoderLayer) -> LayerParts:
    """What one layer is made of."""
    attention, feed, norm = layer.self_attention, layer.feed, layer.around_self.norm
    projection, score, position = attention.heads, attention.score, attention.position
    need(of, "the projection", type(projection) in (MultiHead, Grouped), config.projection)
    assert isinstance(projection, MultiHead)
    need(of, "the projection", projection.dim == projection.value_dim, config.projection)
    need(of, "the score", type(score) is Dot, config.score)
    assert isinstance(score, Dot)
    need(of, "the normalizer", type(attention.normalizer) is Softmax, config.normalizer)
    scaled = score.by_default or (isinstance(score.scale, float) and score.scale == 1.0)
    need(of, "the score", scaled, config.score)
    plain = type(position) is Position or isinstance(position, Rotary | InputPosition)
    need(of, "the position", plain, config.position)
    need(of, "the norm", type(norm) in (LayerNorm, RMSNorm), config.norm)
    named = {"q": projection.query, "k": projection.key, "v": projection.value, "o": projection.out}
    biases = "".join(letter for letter, part in named.items() if part.bias is not None)
    return LayerParts(
        heads=projection.heads,
        groups=projection.key_heads,
        dim=projection.dim,
        biases=biases,
        qk_norm=0.0 if projection.query_norm is None else projection.query_norm.eps,
        rotary=position if isinstance(position, Rotary) else None,
        window=_window(of, attention.where.conjuncts()),
        activation=feed.activation,
        gated=isinstance(feed, Gated),
        feed_bias=_has_bias(feed),
        layer_norm=isinstance(norm, LayerNorm) and norm.bias is not None,
        rms=type(norm) is RMSNorm,
        eps=norm.eps,
        raw_score=not score.by_default,
    )


def _has_bias(feed: FeedForward | Gated) -> bool:
    """Whether the products of a feed-forward layer have biases."""
    return feed.narrow.bias is not None


def _window(of: str, parts: Sequence[Any]) -> int:
    """How many keys a query sees, of a causal neighborhood with a window or without; 0 for all."""
    reach = 0
    for part in parts:
        need(of, "the neighborhood", type(part) in (Causal, Complete, Window), part)
        if isinstance(part, Window):
            reach = min(reach or part.left + 1, part.left + 1)
    return reach


def rope(of: str, position: Rotary, length: int) -> dict[str, Any]:
    """A rotation as `rope_parameters`, with its older names `rope_theta` and `rope_scaling` beside it.

    Args:
        of: the family, for the error.
        position: the rotation.
        length: places of the longest text.
    """
    _, base, factor, low, high, original = position.rates
    need(of, "the layout of rotary positions", position.layout == "half", position.layout)
    scaling: dict[str, Any] | None = None
    if original:
        bounds = {"low_freq_factor": float(low), "high_freq_factor": float(high)}
        scaling = {
            "rope_type": "llama3",
            "factor": float(factor),
            **bounds,
            "original_max_position_embeddings": original,
        }
    elif factor != 1:
        scaling = {"rope_type": "linear", "factor": float(factor)}
    parameters = {"rope_theta": float(base), **(scaling or {"rope_type": "default"})}
    return {"rope_theta": float(base), "rope_scaling": scaling, "rope_parameters": parameters}
