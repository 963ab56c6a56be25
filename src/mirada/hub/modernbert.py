"""ModernBERT: most layers attend to a window, every third to all; both rotate, each kind with a base of its own."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from torch import Tensor

from mirada.errors import require
from mirada.hub.checkpoint import Checkpoint, architecture
from mirada.hub.encoders import (
    class_of,
    classes_of,
    head_of,
    of_weights,
    understood,
    unused_heads,
    written,
)
from mirada.hub.mapping import (
    NORM,
    Row,
    WeightTable,
    activation,
    expect,
    setting,
    settings,
    softmax,
    their_activation,
    their_dropout,
    their_eps,
)
from mirada.layers.block import LIST
from mirada.layers.model import Model
from mirada.models.encoder import TextEncoder, TextEncoderConfig

CLASSES = classes_of("ModernBert")
TRANSFORM = [Row("transform.dense.*", "head.dense.*"), Row("transform.norm.*", "head.norm.*")]
HEADS = {
    "none": [],
    "mask": [*TRANSFORM, Row("output.*", "decoder.*")],
    **{kind: [*TRANSFORM, Row("output.*", "classifier.*")] for kind in ("classes", "tags", "span")},
}
FULL, SLIDING = "full_attention", "sliding_attention"
POOLS = {"cls": "first", "mean": "mean"}
BASES = {FULL: ("global_rope_theta", 160_000.0), SLIDING: ("local_rope_theta", 10_000.0)}


def checkpoint(theirs: Mapping[str, Any], names: Collection[str]) -> Checkpoint:
    """What a config.json and the names of tensors describe.

    >>> sizes = {"vocab_size": 33, "hidden_size": 8, "num_hidden_layers": 4, "num_attention_heads": 2}
    >>> sizes |= {"intermediate_size": 16, "max_position_embeddings": 64, "local_attention": 8}
    >>> checkpoint(sizes, []).config.where
    'complete / window:4,4 / window:4,4'
    """
    expect(theirs, decoder_bias=True)
    head = head_of(theirs, CLASSES, names, "decoder.bias")
    kinds = _turns(_layer_types(theirs))
    window = setting(theirs, "local_attention") // 2 if SLIDING in kinds else 0
    words = {FULL: "complete", SLIDING: f"window:{window},{window}"}
    norm = _yes(theirs, "norm_bias")
    classifier = activation(theirs, "classifier_activation", absent="gelu")
    pool = theirs.get("classifier_pooling", "cls")
    require(pool in POOLS, f"classifier_pooling must be cls or mean: got {str(pool)[:80]!r}")
    act = activation(theirs, "hidden_activation", absent="gelu")
    config = TextEncoderConfig(
        **settings(theirs, vocab="vocab_size", width="hidden_size", depth="num_hidden_layers"),
        **settings(theirs, heads="num_attention_heads", hidden="intermediate_size", length="max_position_embeddings"),
        **head.fields,
        segments=0,
        order="pre",
        input_norm="first",
        activation=f"gated:{act}{',bias=yes' if _yes(theirs, 'mlp_bias') else ''}",
        projection="multihead" if _yes(theirs, "attention_bias") else "multihead:bias=no",
        norm=f"layer:{float(theirs.get('norm_eps', 1e-5))!r}{'' if norm else ',bias=no'}",
        where=LIST.join(words[kind] for kind in kinds),
        position=LIST.join(f"rotary:base={_base(theirs, kind)!r}" for kind in kinds),
        transform="none"
        if head.kind == "none"
        else f"{classifier}:norm=yes{'' if _yes(theirs, 'classifier_bias') else ',bias=no'}",
        pool=POOLS[pool] if head.kind == "classes" else "first",
        dropout=theirs.get("mlp_dropout", 0.0),
        normalizer=softmax(theirs.get("attention_dropout", 0.0)),
        tied=head.kind != "mask" or theirs.get("tie_word_embeddings", True),
    )
    return understood(theirs, config, _table(head.kind, architecture(theirs)), head)


def _yes(theirs: Mapping[str, Any], key: str) -> bool:
    """Whether something is there that a ModernBERT lacks unless it says so."""
    value = theirs.get(key, False)
    require(isinstance(value, bool), f"{key} must be true or false: got {str(value)[:80]!r}")
    return bool(value)


def _layer_types(theirs: Mapping[str, Any]) -> list[str]:
    """The kind of attention of every layer."""
    depth = setting(theirs, "num_hidden_layers")
    listed = theirs.get("layer_types")
    if listed is None:
        every = theirs.get("global_attn_every_n_layers", 3)
        whole = type(every) is int and every >= 1 and type(depth) is int and 1 <= depth <= 1000
        require(
            whole,
            f"global_attn_every_n_layers must be a number from 1: got {str(every)[:80]}, {str(depth)[:80]} layers",
        )
        return [SLIDING if layer % every else FULL for layer in range(depth)]
    fits = isinstance(listed, list) and len(listed) == depth and all(kind in BASES for kind in listed)
    require(fits, f"layer_types must be {FULL} or {SLIDING} for each of {depth} layers: got {str(listed)[:80]}")
    return listed


def _turns(kinds: Sequence[str]) -> Sequence[str]:
    """The kinds after which those of all layers repeat.

    >>> _turns(["a", "b", "b", "a", "b"])
    ['a', 'b', 'b']
    """
    sizes = range(1, len(kinds) + 1)
    size = next(n for n in sizes if all(kind == kinds[layer % n] for layer, kind in enumerate(kinds)))
    return kinds[:size]


def _base(theirs: Mapping[str, Any], kind: str) -> float:
    """The base of the rotations of one kind of layer; transformers 5 keeps it elsewhere than 4."""
    old, usual = BASES[kind]
    require(not theirs.get("rope_scaling"), f"rope_scaling must be empty: got {str(theirs.get('rope_scaling'))[:80]}")
    new = (theirs.get("rope_parameters") or {}).get(kind) or {}
    require(new.get("rope_type", "default") == "default", f"rope_type must be 'default': got {new.get('rope_type')!r}")
    return float(new.get("rope_theta", theirs.get(old) or usual))


def _table(kind: str, source: str) -> WeightTable:
    """The rows of a checkpoint with a kind of head."""
    prefix = "" if kind == "none" else "model."
    layer, ours = "layers.{n}", "encoder.layers.{n}"
    heads = [f"{ours}.self.heads.{part}" for part in ("query", "key", "value")]
    body = [
        Row("words.weight", "embeddings.tok_embeddings.weight"),
        Row("norm.*", "embeddings.norm.*"),
        Row(f"{ours}.around_self.norm.*", f"{layer}.attn_norm.*"),
        Row(tuple(f"{part}.weight" for part in heads), f"{layer}.attn.Wqkv.weight", "(parts o) i -> parts o i"),
        Row(tuple(f"{part}.bias" for part in heads), f"{layer}.attn.Wqkv.bias", "(parts o) -> parts o"),
        Row(f"{ours}.self.heads.out.*", f"{layer}.attn.Wo.*"),
        Row(f"{ours}.around_feed.norm.*", f"{layer}.mlp_norm.*"),
        Row(
            tuple(f"{ours}.feed.{part}.weight" for part in ("gate", "widen")),
            f"{layer}.mlp.Wi.weight",
            "(parts o) i -> parts o i",
        ),
        Row(
            tuple(f"{ours}.feed.{part}.bias" for part in ("gate", "widen")),
            f"{layer}.mlp.Wi.bias",
            "(parts o) -> parts o",
        ),
        Row(f"{ours}.feed.narrow.*", f"{layer}.mlp.Wo.*"),
        Row("encoder.norm.*", "final_norm.*"),
    ]
    return WeightTable(
        source=source or class_of("ModernBert", kind),
        prefix="model.",
        rows=(*(row._replace(theirs=prefix + row.theirs) for row in body), *HEADS[kind]),
        ignored=tuple(unused_heads(HEADS, kind)) if kind == "none" else (),
    )


def config_json(model: Model[Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json of theirs that describes a model of ours.

    >>> config_json(TextEncoder(TextEncoderConfig.tiny()), {})["architectures"]
    Traceback (most recent call last):
    ValueError: ModernBertForSequenceClassification cannot express activation='gelu'...
    """
    ours = model.config
    words = [ours.of_layer(layer) for layer in range(ours.depth)]
    kinds = [FULL if word.where == "complete" else SLIDING for word in words]
    bases = {kind: word.position.removeprefix("rotary:base=") for kind, word in zip(kinds, words, strict=True)}
    windows = [word.where.removeprefix("window:").partition(",")[0] for word in words if word.where != "complete"]
    norm = NORM.fullmatch(ours.norm)
    theirs = {
        "architectures": [class_of("ModernBert", ours.head)], "model_type": "modernbert", "vocab_size": ours.vocab,
        "hidden_size": ours.width, "num_hidden_layers": ours.depth, "num_attention_heads": ours.heads,
        "intermediate_size": ours.hidden, "hidden_activation": their_activation(ours.activation), "mlp_dropout": ours.dropout,
        "attention_dropout": their_dropout(ours.normalizer), "norm_eps": their_eps(ours.norm),
        "max_position_embeddings": ours.length,
        "norm_bias": not (norm and norm["bias"]), "mlp_bias": "bias=yes" in ours.activation,
        "attention_bias": "bias=no" not in ours.projection, "layer_types": kinds,
        "classifier_activation": "gelu" if ours.transform == "none" else their_activation(ours.transform),
        "classifier_bias": "bias=no" not in ours.transform and ours.head != "none", "tie_word_embeddings": ours.tied,
        "classifier_pooling": "mean" if ours.pool == "mean" else "cls", "decoder_bias": True,
        "rope_parameters": {kind: _rotations(bases.get(kind, ""), usual) for kind, (_, usual) in BASES.items()},
        "local_attention": 2 * int(_number(windows[0] if windows else "", 64)),
    }  # fmt: skip
    return written(theirs, ours, checkpoint, facts)


def _rotations(base: str, usual: float) -> dict[str, Any]:
    """The rotations of one kind of layer, as transformers 5 writes them."""
    return {"rope_type": "default", "rope_theta": _number(base, usual)}


def _number(text: str, usual: float) -> float:
    """A number of a word; the usual one, where the word has none."""
    try:
        return float(text)
    except ValueError:
        return usual


def load(theirs: Mapping[str, Any], weights: Mapping[str, Tensor]) -> TextEncoder:
    """Our model of their configuration and weights, in evaluation mode.

    Warner et al. (2024), arXiv:2412.13663.
    """
    return of_weights(checkpoint(theirs, weights), weights)
